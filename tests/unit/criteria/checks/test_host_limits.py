import pytest

from rigproof.records.verdict import Outcome

NODE, LIMITS = "pc1", "host.limits"
# Of pc1, which states 8 CPUs and 192 GiB, and has one H200 of 141 GiB.


def found(bench, **identity):
    bench.node(NODE, **identity)
    verdict = bench.verdict(LIMITS, NODE)
    return verdict.outcome, verdict.detail


def test_a_host_with_enough_of_everything_passes(bench):
    assert found(bench) == (Outcome.PASS, "8 CPUs, 192 GiB of RAM")


@pytest.mark.parametrize(
    ("identity", "detail"),
    [
        ({"cpus": 7.1, "host_cpus": 7}, "7.1 CPUs can be used; the profile states 8"),
        (
            {"ram_gib": 172.5, "host_ram_gib": 172.5},
            "172 GiB of RAM can be used; the profile states 192",
        ),
        ({"cpus": 7.1, "host_cpus": None}, "7.1 CPUs can be used; the profile states 8"),
    ],
)
def test_less_than_the_profile_states_fails(bench, identity, detail):
    assert found(bench, **identity) == (Outcome.FAIL, detail)


@pytest.mark.parametrize(
    ("identity", "detail", "step"),
    [
        (
            {"cpus": 4, "host_cpus": 8},
            "a container or cgroup leaves 4 of the host's 8 CPUs; the profile states 8",
            "raise the CPU quota",
        ),
        (
            {"ram_gib": 8.0, "host_ram_gib": 192.0},
            "a container or cgroup leaves 8 of the host's 192 GiB of RAM; the profile states 192",
            "raise the memory limit",
        ),
    ],
)
def test_what_a_container_leaves_of_a_host_that_has_enough_is_no_fault_of_the_rig(
    bench, identity, detail, step
):
    assert found(bench, **identity) == (Outcome.NOT_MEASURED, detail)
    assert bench.verdict(LIMITS, NODE).remedy.startswith(step)


@pytest.mark.parametrize(
    "identity", [{"cpus": 7.2}, {"ram_gib": 172.8}, {"ram_gib": 188.0, "host_ram_gib": 188.0}]
)
def test_what_firmware_and_kernel_keep_is_not_missing(bench, identity):
    assert found(bench, **identity)[0] is not Outcome.FAIL


def unstated(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "workers": 2}]}])


@pytest.mark.parametrize(
    ("identity", "outcome", "flag"),
    [
        ({"cpus": 1.5}, Outcome.WARN, "--cpus"),
        ({"cpus": 2.0}, Outcome.PASS, ""),
        ({"cpus": 1.0, "host_cpus": 1}, Outcome.WARN, "more CPUs"),  # the host has no more
        ({"ram_gib": 100.0, "host_ram_gib": 500.0}, Outcome.WARN, "--memory"),
        ({"ram_gib": 134.0, "host_ram_gib": 500.0}, Outcome.PASS, ""),
        ({"ram_gib": 100.0, "host_ram_gib": 100.0}, Outcome.WARN, "add memory"),
        ({"shm_gib": 0.0625}, Outcome.WARN, "--shm-size"),
        ({"shm_gib": 1.0}, Outcome.PASS, ""),
        ({"shm_gib": None}, Outcome.PASS, ""),
    ],
)
def test_what_is_scarce_warns_with_the_flag_to_change(bench, identity, outcome, flag):
    unstated(bench)
    assert found(bench, **identity)[0] is outcome
    assert flag in bench.verdict(LIMITS, NODE).remedy


def test_a_host_that_was_not_asked_does_not_apply(bench):
    assert found(bench, host_cpus=None, shm_gib=None)[0] is Outcome.NOT_APPLICABLE


def test_a_profile_without_the_limits_measures_nothing(bench):
    bench.limits(host_share=None)
    assert found(bench)[0] is Outcome.NOT_MEASURED
