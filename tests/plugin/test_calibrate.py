"""`rigproof calibrate` with runs of its own, on a simulated rig."""

import json

import pytest

from support.acceptance import rigproof

RIG = """\
name = "lab"  # ours

[calibration]
fewest_runs = 3
half_width_share = 0.2

[[nodes]]
name = "pc1"

[[nodes.gpus]]
sku = "rtx-3090"  # the first one
"""


@pytest.fixture
def lab(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(RIG)
    return path


def calibrated(lab, *options):
    done = rigproof(
        "calibrate", "--hwprofile=lab.toml", "--simulate-inline", "--write", *options, cwd=lab.parent
    )
    runs = sorted((lab.parent / "reports" / "runs").glob("*"))
    assert lab.read_text() == RIG
    return done, runs


def test_simulated_runs_show_floors_and_write_none(lab):
    done, runs = calibrated(lab)
    assert done.returncode == 0, done.stderr
    assert len(runs) == 3
    assert json.loads((runs[0] / "verdict.json").read_bytes())["level"] == "standard"
    assert "+gemm_bf16_tflops = 7" in done.stdout
    assert done.stdout.rstrip().endswith("SIMULATED: not written")
    later = rigproof("calibrate", "--hwprofile=lab.toml", "--write", *runs, cwd=lab.parent)
    assert later.returncode == 4
    assert f"{runs[0]}: simulated" in later.stderr
    assert lab.read_text() == RIG


def test_a_rig_that_throttles_ends_it_with_its_verdict(lab):
    done, runs = calibrated(lab, "--inject=overheat@pc1/gpu0")
    assert (done.returncode, len(runs)) == (1, 1)
    assert f"{runs[0].name}: REJECTED: pc1/gpu0 thermal." in done.stderr
    assert "no floor is written" in done.stderr


def test_a_card_that_somebody_else_uses_ends_it_incomplete(lab):
    done, runs = calibrated(lab, "--inject=stranger-computes@pc1/gpu0")
    assert (done.returncode, len(runs)) == (6, 1)
    assert f"{runs[0].name}: INCOMPLETE: pc1/gpu0 " in done.stderr
