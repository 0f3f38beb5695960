"""A host's last words are read as far as they are whole, and say what the host did when it went down."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.records.black_box import (
    FINISHED,
    Box,
    CardWords,
    End,
    Head,
    Moment,
    Reported,
    event_of,
    fate,
    read_box,
    sentence,
    step_of,
    text_of,
    together,
)

BOOT, OTHER_BOOT = "b48742fe-0af8-4210-958a-a15aa6f8fa70", "0e0e6ab5-6d8f-4c1a-9f47-2f0f57a0a0de"
HEAD = Head("run-1", "pc2", "box", "m", BOOT)
CARDS = {"pc2/gpu0": CardWords(348.4, 71.0, 1695.0, 100.0), "pc2/gpu1": CardWords(231.2, 64.0, 1725.0, 100.0)}
LAST = Moment(26.2, 1.7e9, "sustained", 22.0, {"pc2/gpu0#0": "bf16", "pc2/gpu1#0": "bf16"}, CARDS)
WHOLE = b"".join(map(text_of, (HEAD, Moment(2.0, 1.7e9), LAST)))


def test_what_was_written_is_read():
    assert read_box(WHOLE) == Box(HEAD, LAST)
    assert read_box(WHOLE + text_of(End(FINISHED))) == Box(HEAD, LAST, FINISHED)
    assert read_box(WHOLE + text_of(Reported("run-2"))) == Box(HEAD, LAST, reported=True)


@given(
    st.integers(0, len(WHOLE)), st.sampled_from([b"", b"\0" * 100, b'{"type":"line","t_s":', b"\xff\n[1]\n7"])
)
def test_a_torn_end_costs_that_line_and_nothing_else(length, rest):
    """Wherever power fails, and whatever the disk then holds there: what was whole before it is read."""
    lines = WHOLE[:length].split(b"\n")[:-1]
    found = read_box(WHOLE[:length] + rest)
    whole = read_box(b"\n".join(lines) + b"\n")
    torn = WHOLE[:length].rpartition(b"\n")[2]
    only_its_end = read_box(torn) is not None or read_box(text_of(HEAD) + torn) != read_box(text_of(HEAD))
    if torn and not rest and only_its_end:
        return  # only the end of the line is missing: all of it is there
    assert found == whole


@given(st.binary(max_size=300))
def test_whatever_a_file_holds_it_is_a_box_or_none(content):
    assert read_box(content) is None
    assert read_box(text_of(HEAD) + content) == Box(HEAD)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"line","t_s":1e999,"wall_s":0}',
        b'{"type":"line","t_s":"x","wall_s":0}',
        b'{"type":"end"}',
        b'{"type":["head"]}',
        b'{"type":"head","run_id":"run-9","node":"pc9","host":"h","machine":null,"boot_id":"x"}',
        b"[]",
        b"null",
    ],
)
def test_a_line_that_is_none_changes_nothing(line):
    assert read_box(WHOLE + line + b"\n") == Box(HEAD, LAST)


@pytest.mark.parametrize(
    ("end", "now", "shut_down", "found"),
    [
        (None, OTHER_BOOT, None, "restarted"),
        (None, OTHER_BOOT, False, "restarted"),
        (None, OTHER_BOOT, True, "shut_down"),
        ("SIGTERM", OTHER_BOOT, None, "shut_down"),
        (None, BOOT, None, "killed"),
        (None, BOOT, True, "killed"),
        ("SIGTERM", BOOT, None, "killed"),
        (FINISHED, OTHER_BOOT, None, "finished"),
        (FINISHED, BOOT, None, "finished"),
    ],
)
def test_how_a_run_ended(end, now, shut_down, found):
    assert fate(Box(HEAD, LAST, end), now, shut_down) == found


def test_the_words_of_agents_that_took_each_others_place_are_one():
    early, late = Box(HEAD, Moment(2.0, 1.0)), Box(HEAD, LAST)
    assert together([late, early]) == late
    assert together([early, late, Box(HEAD, None, FINISHED)]) == Box(HEAD, LAST, FINISHED)
    assert together([Box(HEAD, Moment(2.0, 1.0), reported=True), late]) == Box(HEAD, LAST, reported=True)
    assert together([]) is None


def test_an_agent_that_was_ended_and_replaced_is_no_orderly_end():
    assert together([Box(HEAD, Moment(2.0, 1.0), "SIGTERM"), Box(HEAD, LAST)]) == Box(HEAD, LAST)
    assert together([Box(HEAD, Moment(2.0, 1.0)), Box(HEAD, LAST, "SIGTERM")]) == Box(HEAD, LAST, "SIGTERM")


def test_the_sentence_is_the_one_that_people_look_for():
    assert sentence(Box(HEAD, LAST), "restarted") == (
        "pc2 restarted 4 s into sustained (bf16), both cards at 100 %, last 348 + 231 W, 71 °C"
    )


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ({}, "pc2 restarted 4 s into gemm"),
        ({"a": CardWords()}, "pc2 restarted 4 s into gemm"),
        ({"a": CardWords(348.0, None, None, 97.0)}, "…, its card at 97 %, last 348 W"),
        (
            {"a": CardWords(utilization_percent=97.0), "b": CardWords(9.0, 40.0)},
            "…, both cards at 97 %, last 9 W, 40 °C",
        ),
        (
            {str(n): CardWords(700.0, 60.0 + n, None, 90.0 + n) for n in range(8)},
            "…, all 8 cards at 90 to 97 %, last 5600 W, 67 °C",
        ),
    ],
)
def test_only_what_was_read_is_reported(gpus, expected):
    box = Box(HEAD, Moment(26.0, 0.0, "gemm", 22.0, {}, gpus))
    assert sentence(box, "restarted") == expected.replace("…", "pc2 restarted 4 s into gemm")


def test_other_ends_say_what_they_are():
    assert sentence(Box(HEAD), "restarted") == "pc2 restarted before any load"
    between = Box(HEAD, Moment(12.0, 0.0), "SIGTERM")
    assert sentence(between, "killed") == (
        "the run was ended from outside by SIGTERM, on pc2 outside any stage, 12 s into the run; the host "
        "did not restart"
    )
    assert sentence(Box(HEAD, LAST), "shut_down") == (
        "pc2 was shut down in an orderly way after its last words 4 s into sustained (bf16)"
    )


def test_the_event_is_of_the_last_words_or_of_the_run_that_reports_it():
    box = Box(HEAD, LAST)
    own = event_of(box, "restarted", "host_reset", "pc2")
    assert (own.t_s, own.subject, own.data["run_id"], own.data["restarted"]) == (26.2, "pc2", "run-1", True)
    assert own.data["gpus"]["pc2/gpu0"]["power_w"] == 348.4
    assert event_of(box, "killed", "unfinished_run", "here", t_s=1.0).t_s == 1.0
    assert event_of(box, "killed", "unfinished_run", "here", t_s=1.0).data["restarted"] is False


@pytest.mark.parametrize(
    ("work", "step"),
    [
        ([("precision", "bf16")], "bf16"),
        ([("precision", "fp16"), ("part", "sweep")], "fp16 sweep"),
        ([("precision", "bf16"), ("processes", 2)], "bf16 processes=2"),
        ([], ""),
    ],
)
def test_a_step_is_what_distinguishes_its_work_from_other_work(work, step):
    assert step_of(work) == step
