"""The verdict as it was attacked: simulated faults that were accepted, rejected or explained wrongly once."""

from dataclasses import dataclass

import pytest

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.records.verdict import decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError
from rigproof.stages.registry import KINDS

TWO_PCS, TWO_H200 = "dual-3090-3070", "h200-x2"


@dataclass(frozen=True)
class Attack:
    """Faults of a simulated rig, each with the criterion and outcome of its subject, and the verdict.

    Several share a run where each is seen by a criterion or on a subject of its own.
    """

    verdict: str
    faults: tuple[tuple[str, str, str], ...]
    rig: str = TWO_PCS
    level: str = "standard"


ATTACKS = {
    "throttling behind the sustained stage, and in training": Attack(
        "REJECTED",
        (
            ("thermal-throttle@pc2/gpu0:after=75", "thermal.throttle", "fail"),
            ("thermal-throttle@pc1/gpu0:stage=training,after=20%", "thermal.throttle", "fail"),
        ),
    ),
    "throttling while the link is measured, a stuck clock while fed, and rewards that all crash": Attack(
        "REJECTED",
        (
            ("thermal-throttle@pc2/gpu0:stage=transfer", "thermal.throttle", "fail"),
            ("clock-stuck@pc1/gpu0:stage=feeding", "clock.ratio", "fail"),
            ("rewards-crash@pc2/gpu0", "feeding.parallel_rewards", "fail"),
        ),
    ),
    "a draw over the limit in training, and in its second half, whatever was measured there": Attack(
        "REJECTED",
        (
            ("power-over-limit@pc2/gpu0:stage=training,after=10%", "power.draw", "fail"),
            ("power-over-limit@pc1/gpu0:stage=training", "power.draw", "fail"),
        ),
    ),
    "a link that goes down late in training, and a rate that falls by half there on an unknown model": Attack(
        "REJECTED",
        (
            ("pcie-degraded@pc1/gpu0:stage=training,after=60%,to=1", "transfer.link", "fail"),
            ("throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%", "training.step", "fail"),
        ),
    ),
    "the same in an extended run: its best quarter is the reference": Attack(
        "REJECTED",
        (("throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%", "throughput.stability", "fail"),),
        level="extended",
    ),
    "one short slowdown": Attack(
        "ACCEPTED", (("thermal-throttle@pc2/gpu0:after=50%,for=0.5,by=1%", "thermal.throttle", "warn"),)
    ),
    "power that stands still under load, and a core temperature from the sustained stage on": Attack(
        "INCOMPLETE",
        (
            ("sensor-frozen@pc2/gpu0:field=power,after=30%", "power.draw", "not_measured"),
            (
                "sensor-frozen@pc1/gpu0:field=core_temperature,after=10%",
                "thermal.core_temperature",
                "not_measured",
            ),
        ),
    ),
    "a power brake in gemm, a reset that is wanted without an Xid, a newer Xid, and a cap of 60 W": Attack(
        "REJECTED",
        (
            ("power-brake@pc1/gpu0:stage=gemm,after=30%,for=30%", "thermal.throttle", "fail"),
            ("recovery-wanted@pc1/gpu0", "health.xid", "fail"),
            ("xid@pc2/gpu0:code=171", "health.xid", "fail"),
            ("power-capped@pc2/gpu0:to=60", "power.limit", "fail"),
        ),
        level="quick",
    ),
    "a late wake-up, the start after a reset, an Xid to ignore, and a little memory of others": Attack(
        "ACCEPTED",
        (
            ("host-frozen@pc2:after=50%,for=0.5", "host.responsiveness", "warn"),
            ("reset-before@pc2", "health.reset", "warn"),
            ("xid@pc2/gpu0:code=92", "health.xid", "warn"),
            ("foreign-memory@pc2/gpu0:to=1126", "memory.headroom", "warn"),
        ),
        level="quick",
    ),
    "telemetry that ends before the load": Attack(
        "INCOMPLETE",
        (("telemetry-gap@pc2/gpu0:after=81%", "thermal.core_temperature", "not_measured"),),
        level="quick",
    ),
    "half of the memory filled without a word, and a card that Ray cannot see": Attack(
        "INCOMPLETE",
        (
            ("half-filled@pc1/gpu0", "memory.no_oom", "not_measured"),
            ("gpu-hidden@pc2/gpu0", "inventory.gpus_present", "not_measured"),
        ),
        level="quick",
    ),
    "a PC that resets under load": Attack(
        "REJECTED", (("reset@pc2:after=4", "health.reset", "fail"),), level="quick"
    ),
    "a card that computes the same wrong result each time": Attack(
        "REJECTED",
        (("wrong-arithmetic@localhost/gpu1", "compute.exact", "fail"),),
        rig=TWO_H200,
        level="quick",
    ),
    "a training step twice as long, memory slower than its twin's, a clock that falls while fed": Attack(
        "REJECTED",
        (
            (
                "throughput-sag@localhost/gpu1:stage=training,after=10%,by=60%",
                "training.step",
                "fail",
            ),
            ("vram-slow@localhost/gpu0:by=14%", "memory.bandwidth", "fail"),
            ("clock-stuck@localhost/gpu0:stage=feeding,after=65%,to=600", "clock.ratio", "fail"),
        ),
        rig=TWO_H200,
    ),
    "slow behind the comparison of precisions, slow for 3 s, and a draw that rises late while fed": Attack(
        "REJECTED",
        (
            (
                "throughput-sag@localhost/gpu0:stage=training,after=50%,by=80%",
                "training.step",
                "fail",
            ),
            (
                "throughput-sag@localhost/gpu1:stage=sustained,after=96%,by=80%",
                "throughput.stability",
                "fail",
            ),
            ("power-over-limit@localhost/gpu0:stage=feeding,after=55%,by=8%", "power.draw", "fail"),
        ),
        rig=TWO_H200,
    ),
    "a card slow throughout the sharing stage, and the last one to join slow in all its waves": Attack(
        "REJECTED",
        (
            ("throughput-sag@localhost/gpu0:stage=sharing,after=0%,by=60%", "scaling.sharing", "fail"),
            ("throughput-sag@localhost/gpu1:stage=transient,after=0,by=60%", "power.transient", "fail"),
        ),
        rig=TWO_H200,
        level="extended",
    ),
}
NEVER_ACTING = (
    (TWO_H200, "standard", "clock-stuck@localhost/gpu0:stage=training,after=99%"),
    (TWO_PCS, "quick", "sensor-frozen@pc2/gpu0:field=core_temperature,after=10%"),
    (TWO_PCS, "standard", "throughput-sag@pc2/gpu0:stage=training,after=0%,by=50%"),
    (TWO_PCS, "standard", "bit-flip@pc2/gpu0:after=75"),
    (TWO_PCS, "standard", "hung-kernel@pc2/gpu0:after=75"),
)


@pytest.mark.parametrize("about", ATTACKS)
def test_an_attack_is_seen_through(about):
    attack = ATTACKS[about]
    texts = [text for text, _, _ in attack.faults]
    verdicts = judge_all(simulated_recording(load_rig(attack.rig, KINDS), attack.level, texts))
    outcomes = {(one.criterion, one.subject): one.outcome.value for one in verdicts}
    for text, criterion, outcome in attack.faults:
        subject = text.partition("@")[2].partition(":")[0]
        if criterion == "power.transient":  # of the whole host
            subject = subject.partition("/")[0]
        assert (text, outcomes[criterion, subject]) == (text, outcome)
    assert decide(verdicts).value == attack.verdict


@pytest.mark.parametrize(("rig", "level", "fault"), NEVER_ACTING)
def test_a_fault_that_would_never_act_is_refused(rig, level, fault):
    with pytest.raises(FaultError):
        simulated_recording(load_rig(rig, KINDS), level, [fault])
