import pytest

from rigproof.records.message_text import cause_and_step, telling_line, what_it_says


@pytest.mark.parametrize(
    ("text", "cause", "step"),
    [
        ("NVML hangs; reboot", "NVML hangs", "reboot"),
        ("a; b; reboot", "a; b", "reboot"),
        ("NVML hangs", "NVML hangs", ""),
        ("", "", ""),
    ],
)
def test_a_message_has_its_next_step_behind_its_last_semicolon(text, cause, step):
    assert cause_and_step(text) == (cause, step)


OF_CUDA = (
    "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com\n"
)
OF_NCCL = (
    "NCCL error in: c10d/NCCLUtils.cpp:94, unhandled system error, NCCL version 2.28.9\n"
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\n"
    "Last error:\nsocketPollConnect: connect to 10.0.0.2<40001> returned No route to host"
)

NO_ROUTE = "socketPollConnect: connect to 10.0.0.2<40001> returned No route to host"
INTERNAL = "it failed: NCCL error in: a.cpp:1, internal error\nncclInternalError: Internal check failed.\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (OF_CUDA, "CUDA error: device-side assert triggered"),
        (
            f"it failed: {OF_NCCL}",
            "it failed: socketPollConnect: connect to 10.0.0.2<40001> returned No route to host",
        ),
        ("NCCL error in: NCCLUtils.cpp:94", "NCCL error in: NCCLUtils.cpp:94"),
        (
            f"{OF_NCCL}\nException raised from x\nframe #9: clone + 0x44 (libc.so.6)\n[rank1]: warning",
            NO_ROUTE,
        ),
        (f"{INTERNAL}Last error:\n", "it failed: ncclInternalError: Internal check failed."),
        (
            f"{INTERNAL}Last error:\nUnknown NCCL Error\n",
            "it failed: ncclInternalError: Internal check failed.",
        ),
        (f"{INTERNAL}Last error:\nframe #1: abort", "it failed: ncclInternalError: Internal check failed."),
        ("NCCL error in: a.cpp:1\nframe #1: abort", "NCCL error in: a.cpp:1"),
        ("\n", ""),
    ],
)
def test_of_an_error_of_many_lines_one_says_what_is_wrong(text, line):
    assert telling_line(text) == line


def test_an_error_that_says_nothing_has_the_name_of_its_type():
    assert what_it_says(TimeoutError()) == "TimeoutError"
    assert what_it_says(RuntimeError(OF_CUDA), 10) == "CUDA error"
