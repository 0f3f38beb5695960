"""`--hw-plan` says what would be done and judged, and loads nothing."""

from support.acceptance import python, run_pytest

ASK = """
import sys, pytest
status = pytest.main(["-m", "hardware", "--hw-plan", "-p", "no:cacheprovider", *sys.argv[1:]])
heavy = [name for name in ("torch", "ray", "pyarrow", "bokeh", "pynvml") if name in sys.modules]
print("HEAVY", heavy)
sys.exit(status)
"""


def test_plan_of_a_profile_names_stages_devices_time_limits_and_their_sources_and_loads_nothing():
    result = python("-c", ASK, "--hwprofile", "dual-3090-3070")
    assert result.returncode == 0, result.stderr
    for part in (
        "pc1/gpu0",
        "pc2/gpu0",
        "gemm",
        "sustained",
        "thermal.core_temperature",
        "80",
        "hwprofiles/rigs/dual-3090-3070.toml",
        "78.1",
        # This machine alone is not the rig: what the run itself would say.
        "a run of this plan would end INCOMPLETE, for it could not measure all of the rig:",
        "pc2 is not there: the run was given no cluster, only this machine",
        "join the machines with `rigproof cluster up dual-3090-3070`, then add --ray-address ",
        "HEAVY []",
    ):
        assert part in result.stdout


def test_the_plan_of_this_machine_could_measure_all_of_it():
    result = run_pytest("-m", "hardware", "--hw-plan")
    assert result.returncode == 0, result.stderr
    assert "would end INCOMPLETE" not in result.stdout


def test_plan_of_a_bad_profile_is_refused():
    result = run_pytest("-m", "hardware", "--hw-plan", "--hwprofile", "nobody")
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
