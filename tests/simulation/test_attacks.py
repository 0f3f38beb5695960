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
GPU = "pc2/gpu0"


@dataclass(frozen=True)
class Attack:
    """A fault of a simulated rig, and the verdict that has to follow.

    `expected`: criterion, subject and outcome that are among the verdicts.
    """

    about: str
    fault: str
    verdict: str
    expected: tuple[str, str, str] | None = None
    rig: str = TWO_PCS
    level: str = "standard"


ATTACKS = (
    Attack(
        "throttling behind the sustained stage",
        "thermal-throttle@pc2/gpu0:after=75",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "throttling in training",
        "thermal-throttle@pc2/gpu0:stage=training,after=20%",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "a power brake in gemm",
        "power-brake@pc2/gpu0:stage=gemm,after=30%,for=30%",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "a stuck clock while fed",
        "clock-stuck@pc2/gpu0:stage=feeding",
        "REJECTED",
        ("clock.ratio", GPU, "fail"),
    ),
    Attack(
        "a training step that takes more than twice as long",
        "throughput-sag@localhost/gpu1:stage=training,after=10%,by=60%",
        "REJECTED",
        ("training.step", "localhost/gpu1", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a draw over the limit in training",
        "power-over-limit@pc2/gpu0:stage=training,after=10%",
        "REJECTED",
        ("power.draw", GPU, "fail"),
    ),
    Attack(
        "the same in its second half, whatever was measured there",
        "power-over-limit@pc2/gpu0:stage=training",
        "REJECTED",
        ("power.draw", GPU, "fail"),
    ),
    Attack(
        "a link that goes down for the last part of training",
        "pcie-degraded@pc2/gpu0:stage=training,after=60%,to=1",
        "REJECTED",
        ("transfer.link", GPU, "fail"),
    ),
    Attack(
        "throttling while the link is measured",
        "thermal-throttle@pc2/gpu0:stage=transfer",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "a rate that sags in the last 3 s of the sustained stage",
        "throughput-sag@localhost/gpu1:stage=sustained,after=96%,by=80%",
        "REJECTED",
        ("throughput.stability", "localhost/gpu1", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a card that is slow throughout the sharing stage",
        "throughput-sag@localhost/gpu0:stage=sharing,after=0%,by=60%",
        "REJECTED",
        ("scaling.sharing", "localhost/gpu0", "fail"),
        rig=TWO_H200,
        level="extended",
    ),
    Attack(
        "a card that is slow in training behind the comparison of precisions",
        "throughput-sag@localhost/gpu0:stage=training,after=50%,by=80%",
        "REJECTED",
        ("training.step", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "one short slowdown",
        "thermal-throttle@pc2/gpu0:after=50%,for=0.5,by=1%",
        "ACCEPTED",
        ("thermal.throttle", GPU, "warn"),
    ),
    Attack(
        "one late wake-up",
        "host-frozen@pc2:after=50%,for=0.5",
        "ACCEPTED",
        ("host.responsiveness", "pc2", "warn"),
        level="quick",
    ),
    Attack(
        "a 3070 capped at 60 of 220 W",
        "power-capped@pc2/gpu0:to=60",
        "REJECTED",
        ("power.limit", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "power that stands still under load",
        "sensor-frozen@pc2/gpu0:field=power,after=30%",
        "INCOMPLETE",
        ("power.draw", GPU, "not_measured"),
    ),
    Attack(
        "a core temperature that stands still from the sustained stage on",
        "sensor-frozen@pc2/gpu0:field=core_temperature,after=10%",
        "INCOMPLETE",
        ("thermal.core_temperature", GPU, "not_measured"),
    ),
    Attack(
        "a clock that falls in the last third of feeding",
        "clock-stuck@localhost/gpu0:stage=feeding,after=65%,to=600",
        "REJECTED",
        ("clock.ratio", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a draw over the limit in the last part of feeding",
        "power-over-limit@localhost/gpu0:stage=feeding,after=55%,by=8%",
        "REJECTED",
        ("power.draw", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "telemetry that ends before the load",
        "telemetry-gap@pc2/gpu0:after=81%",
        "INCOMPLETE",
        ("thermal.core_temperature", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "an Xid of the newer ones",
        "xid@pc2/gpu0:code=171",
        "REJECTED",
        ("health.xid", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "Xid 92, which NVIDIA says to ignore",
        "xid@pc2/gpu0:code=92",
        "ACCEPTED",
        ("health.xid", GPU, "warn"),
        level="quick",
    ),
    Attack(
        "a reset that the driver wants, without an Xid",
        "recovery-wanted@pc2/gpu0",
        "REJECTED",
        ("health.xid", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "1.1 GiB of others' memory beside a plan that fits",
        "foreign-memory@pc2/gpu0:to=1126",
        "ACCEPTED",
        ("memory.headroom", GPU, "warn"),
        level="quick",
    ),
    Attack(
        "a card that computes the same wrong result each time",
        "wrong-arithmetic@localhost/gpu1",
        "REJECTED",
        ("compute.exact", "localhost/gpu1", "fail"),
        rig=TWO_H200,
        level="quick",
    ),
    Attack(
        "half of the memory filled, without a word",
        "half-filled@pc2/gpu0",
        "INCOMPLETE",
        ("memory.no_oom", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "rewards that all crash",
        "rewards-crash@pc2/gpu0",
        "REJECTED",
        ("feeding.parallel_rewards", GPU, "fail"),
    ),
    Attack(
        "a PC that resets under load",
        "reset@pc2:after=4",
        "REJECTED",
        ("health.reset", "pc2", "fail"),
        level="quick",
    ),
    Attack(
        "the start after a reset",
        "reset-before@pc2",
        "ACCEPTED",
        ("health.reset", "pc2", "warn"),
        level="quick",
    ),
    Attack(
        "a card that Ray cannot see",
        "gpu-hidden@pc2/gpu0",
        "INCOMPLETE",
        ("inventory.gpus_present", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "memory that is 14 % slower than its twin's",
        "vram-slow@localhost/gpu0:by=14%",
        "REJECTED",
        ("memory.bandwidth", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "the last card to join that is slow in all of its waves",
        "throughput-sag@localhost/gpu1:stage=transient,after=0,by=60%",
        "REJECTED",
        ("power.transient", "localhost", "fail"),
        rig=TWO_H200,
        level="extended",
    ),
    Attack(
        "a rate that falls by half inside training, on a card whose model nobody measured",
        "throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%",
        "REJECTED",
        ("training.step", GPU, "fail"),
    ),
    Attack(
        "the same in an extended run: its best quarter is the reference",
        "throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%",
        "REJECTED",
        ("throughput.stability", GPU, "fail"),
        level="extended",
    ),
    Attack("a healthy rig", "", "ACCEPTED"),
)
NEVER_ACTING = (
    (TWO_H200, "standard", "clock-stuck@localhost/gpu0:stage=training,after=99%"),
    (TWO_PCS, "quick", "sensor-frozen@pc2/gpu0:field=core_temperature,after=10%"),
    (TWO_PCS, "standard", "throughput-sag@pc2/gpu0:stage=training,after=0%,by=50%"),
    (TWO_PCS, "standard", "bit-flip@pc2/gpu0:after=75"),
    (TWO_PCS, "standard", "hung-kernel@pc2/gpu0:after=75"),
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.about)
def test_an_attack_is_seen_through(attack):
    faults = [attack.fault] if attack.fault else []
    verdicts = judge_all(simulated_recording(load_rig(attack.rig, KINDS), attack.level, faults))
    outcomes = {(one.criterion, one.subject, one.outcome.value) for one in verdicts}
    assert attack.expected is None or attack.expected in outcomes
    assert decide(verdicts).value == attack.verdict


@pytest.mark.parametrize(("rig", "level", "fault"), NEVER_ACTING)
def test_a_fault_that_would_never_act_is_refused(rig, level, fault):
    with pytest.raises(FaultError):
        simulated_recording(load_rig(rig, KINDS), level, [fault])
