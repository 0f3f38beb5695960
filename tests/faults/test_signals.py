"""SIGINT, SIGTERM and SIGHUP at every moment of a real run: it ends by itself, with what it has.

While its files are written, by SIGHUP: test_two_runs.py.
"""

import signal
import time

import pytest

from support.real_runs import EVERY_SIGNAL
from support.small_rigs import small_rig

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Of a worker with processes of its own, beside another one on its device; the others differ in nothing else.
STAGES = ("feeding",)
STAGES += ("sharing", "gemm", "sustained", "training") if EVERY_SIGNAL else ()
LONG_S = 60  # of the stage that is hurt; it is broken off, or the test fails


def cases(moments):
    """Every signal at every moment, or one at each."""
    return [
        pytest.param(moment, number, id=f"{moment}-{number.name}")
        for place, moment in enumerate(moments)
        for number in (SIGNALS if EVERY_SIGNAL else [SIGNALS[place % 3]])
    ]


def wait_for_ray(run):
    """Ray is about to come up, or just did."""
    run.wait_for(lambda run: run.records("run"))
    time.sleep(0.5)


@pytest.mark.parametrize(("moment", "number"), cases(("starting", *STAGES)))
def test_a_run_that_is_stopped_is_incomplete_and_leaves_nothing(start_run, tmp_path, moment, number):
    lengths = {"feeding": {"sharing_s": 1}}.get(moment, {})  # which has two workers
    lengths |= {f"{moment}_s": LONG_S} if moment in STAGES else {}
    run = start_run(small_rig(tmp_path, **lengths))
    if moment == "starting":
        wait_for_ray(run)
    else:
        run.wait_for_stage(moment)
    run.hurt(None, number)

    assert run.finish() == 2, run.text()

    assert run.verdict()["verdict"] == "INCOMPLETE"
    assert run.verdict()["interrupted"] is True
    assert [event["data"] for event in run.events("interrupted")] == [{"signal": number.name}]
    assert run.not_well() == set()
    if moment == "starting":
        assert set(run.outcomes().values()) == {"not_measured"}
    else:
        assert run.records("stage")[-1]["status"] == "interrupted"
        assert run.outcomes()["cluster.nodes_present", "here"] == "pass"
    run.check_recording()
    run.check_nothing_is_left()
    where = f"{moment} stage" if moment in STAGES else "Ray starting"
    run.record(f"driver, {number.name}", where, deadline_s=0, outcome="INCOMPLETE, exit 2")
