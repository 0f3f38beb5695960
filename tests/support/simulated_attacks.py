"""Attacks on the verdict by one fault of a simulated rig."""

from dataclasses import dataclass

TWO_PCS, TWO_H200 = "dual-3090-3070", "h200-x2"


@dataclass(frozen=True)
class Attack:
    """A fault of a simulated rig, and the verdict that has to follow.

    `verdict`: ACCEPTED, REJECTED, INCOMPLETE, or `usage` where the fault is refused. `expected`: criterion,
    subject and outcome that are among the verdicts.
    """

    about: str
    fault: str
    before: str
    verdict: str
    expected: tuple[str, str, str] | None = None
    rig: str = TWO_PCS
    level: str = "standard"

    @property
    def command(self) -> str:
        """As it is typed."""
        inject = f" --hw-inject {self.fault}" if self.fault else ""
        return f"--hw-simulate-inline --hwprofile {self.rig} --hw-level {self.level}{inject}"


GPU = "pc2/gpu0"
ATTACKS = (
    Attack(
        "throttling behind the sustained stage",
        "thermal-throttle@pc2/gpu0:after=75",
        "ACCEPTED",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "throttling in training",
        "thermal-throttle@pc2/gpu0:stage=training,after=20%",
        "ACCEPTED",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "a power brake in gemm",
        "power-brake@pc2/gpu0:stage=gemm,after=30%,for=30%",
        "ACCEPTED",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "a stuck clock while fed",
        "clock-stuck@pc2/gpu0:stage=feeding",
        "ACCEPTED",
        "REJECTED",
        ("clock.ratio", GPU, "fail"),
    ),
    Attack(
        "a training step that takes more than twice as long",
        "throughput-sag@localhost/gpu1:stage=training,after=10%,by=60%",
        "ACCEPTED",
        "REJECTED",
        ("training.step", "localhost/gpu1", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a draw over the limit in training",
        "power-over-limit@pc2/gpu0:stage=training,after=10%",
        "ACCEPTED",
        "REJECTED",
        ("power.draw", GPU, "fail"),
    ),
    Attack(
        "the same in its second half, whatever was measured there",
        "power-over-limit@pc2/gpu0:stage=training",
        "ACCEPTED",
        "REJECTED",
        ("power.draw", GPU, "fail"),
    ),
    Attack(
        "a link that goes down for the last part of training",
        "pcie-degraded@pc2/gpu0:stage=training,after=60%,to=1",
        "ACCEPTED",
        "REJECTED",
        ("transfer.link", GPU, "fail"),
    ),
    Attack(
        "throttling while the link is measured",
        "thermal-throttle@pc2/gpu0:stage=transfer",
        "refused: it could not act there",
        "REJECTED",
        ("thermal.throttle", GPU, "fail"),
    ),
    Attack(
        "a rate that sags in the last 3 s of the sustained stage",
        "throughput-sag@localhost/gpu1:stage=sustained,after=96%,by=80%",
        "ACCEPTED",
        "REJECTED",
        ("throughput.stability", "localhost/gpu1", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a card that is slow throughout the sharing stage",
        "throughput-sag@localhost/gpu0:stage=sharing,after=0%,by=60%",
        "ACCEPTED",
        "REJECTED",
        ("scaling.sharing", "localhost/gpu0", "fail"),
        rig=TWO_H200,
        level="extended",
    ),
    Attack(
        "a card that is slow in training behind the comparison of precisions",
        "throughput-sag@localhost/gpu0:stage=training,after=50%,by=80%",
        "ACCEPTED",
        "REJECTED",
        ("training.step", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a fault behind the simulated work of its stage",
        "clock-stuck@localhost/gpu0:stage=training,after=99%",
        "ACCEPTED: it never acted",
        "usage",
        rig=TWO_H200,
    ),
    Attack(
        "one short slowdown",
        "thermal-throttle@pc2/gpu0:after=50%,for=0.5,by=1%",
        "REJECTED",
        "ACCEPTED",
        ("thermal.throttle", GPU, "warn"),
    ),
    Attack(
        "one late wake-up",
        "host-frozen@pc2:after=50%,for=0.5",
        "REJECTED",
        "ACCEPTED",
        ("host.responsiveness", "pc2", "warn"),
        level="quick",
    ),
    Attack(
        "a 3070 capped at 60 of 220 W",
        "power-capped@pc2/gpu0:to=60",
        "a warning",
        "REJECTED",
        ("power.limit", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "power that stands still under load",
        "sensor-frozen@pc2/gpu0:field=power,after=30%",
        "ACCEPTED",
        "INCOMPLETE",
        ("power.draw", GPU, "not_measured"),
    ),
    Attack(
        "a core temperature that stands still from the sustained stage on",
        "sensor-frozen@pc2/gpu0:field=core_temperature,after=10%",
        "ACCEPTED",
        "INCOMPLETE",
        ("thermal.core_temperature", GPU, "not_measured"),
    ),
    Attack(
        "the same where no change of power follows",
        "sensor-frozen@pc2/gpu0:field=core_temperature,after=10%",
        "ACCEPTED",
        "usage",
        level="quick",
    ),
    Attack(
        "a clock that falls in the last third of feeding",
        "clock-stuck@localhost/gpu0:stage=feeding,after=65%,to=600",
        "ACCEPTED",
        "REJECTED",
        ("clock.ratio", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "a draw over the limit in the last part of feeding",
        "power-over-limit@localhost/gpu0:stage=feeding,after=55%,by=8%",
        "ACCEPTED",
        "REJECTED",
        ("power.draw", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "telemetry that ends before the load",
        "telemetry-gap@pc2/gpu0:after=81%",
        "ACCEPTED",
        "INCOMPLETE",
        ("thermal.core_temperature", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "an Xid of the newer ones",
        "xid@pc2/gpu0:code=171",
        "a warning",
        "REJECTED",
        ("health.xid", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "Xid 92, which NVIDIA says to ignore",
        "xid@pc2/gpu0:code=92",
        "REJECTED",
        "ACCEPTED",
        ("health.xid", GPU, "warn"),
        level="quick",
    ),
    Attack(
        "a reset that the driver wants, without an Xid",
        "recovery-wanted@pc2/gpu0",
        "ACCEPTED",
        "REJECTED",
        ("health.xid", GPU, "fail"),
        level="quick",
    ),
    Attack(
        "1.1 GiB of others' memory beside a plan that fits",
        "foreign-memory@pc2/gpu0:to=1126",
        "REJECTED",
        "ACCEPTED",
        ("memory.headroom", GPU, "warn"),
        level="quick",
    ),
    Attack(
        "a card that computes the same wrong result each time",
        "wrong-arithmetic@localhost/gpu1",
        "ACCEPTED",
        "REJECTED",
        ("compute.exact", "localhost/gpu1", "fail"),
        rig=TWO_H200,
        level="quick",
    ),
    Attack(
        "half of the memory filled, without a word",
        "half-filled@pc2/gpu0",
        "ACCEPTED",
        "INCOMPLETE",
        ("memory.no_oom", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "rewards that all crash",
        "rewards-crash@pc2/gpu0",
        "ACCEPTED",
        "REJECTED",
        ("feeding.parallel_rewards", GPU, "fail"),
    ),
    Attack(
        "a PC that resets under load",
        "reset@pc2:after=4",
        "“check its network cable”",
        "REJECTED",
        ("health.reset", "pc2", "fail"),
        level="quick",
    ),
    Attack(
        "the start after a reset",
        "reset-before@pc2",
        "nothing",
        "ACCEPTED",
        ("health.reset", "pc2", "warn"),
        level="quick",
    ),
    Attack(
        "a card that Ray cannot see",
        "gpu-hidden@pc2/gpu0",
        "“check the card's seat”",
        "INCOMPLETE",
        ("inventory.gpus_present", GPU, "not_measured"),
        level="quick",
    ),
    Attack(
        "memory that is 14 % slower than its twin's",
        "vram-slow@localhost/gpu0:by=14%",
        "ACCEPTED",
        "REJECTED",
        ("memory.bandwidth", "localhost/gpu0", "fail"),
        rig=TWO_H200,
    ),
    Attack(
        "the last card to join that is slow in all of its waves",
        "throughput-sag@localhost/gpu1:stage=transient,after=0,by=60%",
        "refused",
        "REJECTED",
        ("power.transient", "localhost", "fail"),
        rig=TWO_H200,
        level="extended",
    ),
    Attack(
        "a rate that falls by half inside training, on a card whose model nobody measured",
        "throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%",
        "refused: nothing could notice it",
        "REJECTED",
        ("training.step", GPU, "fail"),
    ),
    Attack(
        "the same in an extended run: its best quarter is the reference",
        "throughput-sag@pc2/gpu0:stage=training,after=40%,by=50%",
        "refused: nothing could notice it",
        "REJECTED",
        ("throughput.stability", GPU, "fail"),
        level="extended",
    ),
    Attack(
        "the same from its beginning, so that the card is no reference for itself",
        "throughput-sag@pc2/gpu0:stage=training,after=0%,by=50%",
        "refused",
        "usage",
    ),
    Attack("a fault that never acts", "bit-flip@pc2/gpu0:after=75", "exit 0", "usage"),
    Attack("another one", "hung-kernel@pc2/gpu0:after=75", "exit 0", "usage"),
    Attack("a healthy rig", "", "ACCEPTED", "ACCEPTED"),
)
