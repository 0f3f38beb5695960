"""`--hw-plan` says what would be done and judged, and loads nothing."""

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

ASK = """
import sys, pytest
status = pytest.main(["-m", "hardware", "--hw-plan", "-p", "no:cacheprovider", *sys.argv[1:]])
heavy = [name for name in ("torch", "ray", "pyarrow", "bokeh", "pynvml") if name in sys.modules]
print("HEAVY", heavy)
sys.exit(status)
"""


def plan(*options):
    return subprocess.run(
        [sys.executable, "-c", ASK, *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_plan_of_a_profile_names_stages_devices_time_limits_and_their_sources():
    result = plan("--hwprofile", "dual-3090-3070")
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
    ):
        assert part in result.stdout


def test_plan_loads_neither_torch_nor_ray():
    result = plan()
    assert result.returncode == 0, result.stderr
    assert "HEAVY []" in result.stdout
    assert "would end INCOMPLETE" not in result.stdout  # this machine is the rig


def test_plan_of_a_bad_profile_is_refused():
    result = plan("--hwprofile", "nobody")
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
