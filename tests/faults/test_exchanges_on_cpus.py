"""CPUs that exchange data by gloo: one that gives wrong answers, or is stopped by a signal, is named."""

import signal

from rigproof.devices.rank import HELD_S
from rigproof.host import processes

PROFILE = """
name = "cpus"
[cpu]
enabled = false
[stages.collective]
length_s.standard = 0.3
least_s = 10
[[nodes]]
name = "here"
"""
CPU = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
vram_gib_per_worker = 0.25
cpus_per_worker = 0.5
"""
TRAINED_S = 12  # its first round is on the disk some seconds after it was done
TRAINING = f"""
[stages.ddp]
length_s.quick = {TRAINED_S}
[timeouts]
task_s = 300 # of a rank that is busy; of one that a signal holds HELD_S is enough
"""


def cpus(folder, number, more=""):
    """The option that names a profile of so many of them."""
    path = folder / "cpus.toml"
    path.write_text(PROFILE + number * CPU + more)
    return f"--hwprofile={path}"


def test_a_device_whose_all_to_all_alone_is_wrong_is_found_by_groups_that_do_it(start_run, tmp_path):
    options = ("--hw-level=standard", "-k", "test_all_to_all or test_all_reduce")
    run = start_run(cpus(tmp_path, 3), *options, variables={"RIGPROOF_HURT_RANK": "here/cpu1=all_to_all"})
    run.finish()
    found = {one["criterion"]: one for one in run.verdict()["criteria"]}
    assert found["collective.all_to_all"]["outcome"] == "fail", run.text()
    assert "here/cpu1 is to blame: it fails alone" in found["collective.all_to_all"]["detail"]
    assert found["collective.all_reduce"]["outcome"] in ("pass", "no_limit")
    groups = [one["data"] for one in run.events("groups_tested")]
    assert groups
    assert all([one for one, _ in data["done"]["here"]] == ["all_to_all"] for data in groups)
    assert run.verdict()["verdict"] == "REJECTED"
    run.check_nothing_is_left()


def test_a_rank_that_is_stopped_while_all_train_together_is_named(start_run, tmp_path):
    run = start_run(cpus(tmp_path, 2, TRAINING), "-k", "test_training")
    run.wait_for(lambda run: "here/cpu1#0" in {one["worker"] for one in run.in_stage("ddp")})
    # Nothing in its name tells a rank's process, which had loaded torch before: it is its worker's oldest.
    rank = min(processes.descendants({run.worker("here/cpu1").pid}), key=lambda one: one.start_ticks)
    run.hurt(rank, signal.SIGSTOP)
    assert run.finish() == 6, run.text()
    (found,) = (one for one in run.verdict()["criteria"] if one["criterion"] == "collective.training")
    assert found["outcome"] == "not_measured", run.text()
    assert found["detail"].startswith("the process of rank 1 (here/cpu1) was stopped by a signal")
    assert [one["worker"] for one in run.events("rank_stuck") if one["data"]["held"]] == ["here/cpu1#0"]
    run.check_nothing_is_left()
    outcome = "INCOMPLETE: the signal is named"
    run.record("rank, SIGSTOP", "training together", deadline_s=HELD_S, outcome=outcome)
