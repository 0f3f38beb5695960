"""A simulated LAN: two ends of 1 GbE."""

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.measurements import MB, Event, Labels, Phase
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import Records, SimulatedForm
from rigproof.simulation.timetable import at_rest
from rigproof.simulation.work.task import Task
from rigproof.stages.lan.stage import (
    ALL_GATHER,
    ALL_REDUCE,
    ALONE,
    BACK,
    BOTH,
    BROADCAST,
    GLOO,
    LATENCY_BYTES,
    NCCL,
    OUT,
    RAY,
    SEND,
    STAGE,
    TCP,
    TOGETHER,
    LanEnd,
    LanLatency,
    LanSpec,
    LanTraffic,
)


def _alone(loaded: LoadedRig, _node: str) -> str:
    several = len({device.node for device in loaded.devices()}) > 1
    return "" if several else "the rig has no other node with a device"


OBJECT_PORT = "lan-object-port"
FAULTS = (
    FaultKind(
        "slow-link",
        "the node's link carries less than its card reports",
        ("lan.bandwidth",),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "60%"},
        stage=STAGE,
        host_lacks=_alone,
    ),
    FaultKind(
        "lan-loss",
        "packets are lost on the node's link, as by a bad cable",
        ("lan.bandwidth",),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "2%"},
        stage=STAGE,
        host_lacks=_alone,
    ),
    FaultKind(
        OBJECT_PORT,
        "a firewall eats the port of Ray's object manager on the node, and no other",
        ("lan.bandwidth",),
        scope="node",
        keys=("stage",),
        stage=STAGE,
        host_lacks=_alone,
    ),
)

LINK_MBIT, MTU = 1000.0, 1500
# 1 GbE: its payload is 117.7 MB/s; gloo 111 with 20 MB (gloo#21); the others are leads
# Ray: 100 to 112 between two hosts whose cable carries 1 Gbit/s (tbf), objects of 8 to 32 MB
RATES_MBPS = {TCP: 117.0, GLOO: 111.0, NCCL: 112.0, RAY: 105.0}
GATHERED_SHARE, TOGETHER_SHARE = 0.4, 0.95
LATENCIES_MS = {TCP: 0.1, GLOO: 0.35, NCCL: 1.9}  # gloo#158
SEGMENT_MB = 1448e-6
LOST_RATE_SHARE = 8.0  # of the rate for each share that is lost, as the sender slows down
ROUNDS, WARM_UP = 8, 1
NOISE = 0.004
WORK = ((SEND, OUT, ALONE), (SEND, BACK, ALONE), (SEND, OUT, TOGETHER), (SEND, BACK, TOGETHER))
LIBRARY_WORK = (
    *WORK[:2],
    (BROADCAST, OUT, ALONE),
    (ALL_REDUCE, BOTH, ALONE),
    (ALL_GATHER, BOTH, ALONE),
)


def records(task: Task, spec: LanSpec) -> Records:
    """This end's part: what it is, what it receives, and what it counts."""
    rig, names = task.node.rig, task.crew.subject.split("+")
    slow, lost = (_worst(task, name, names) for name in ("slow-link", "lan-loss"))
    speed = (1 - slow) * max(0.1, 1 - LOST_RATE_SHARE * lost)
    first, gpus = task.crew.rank == 0, {one.node for one in rig.loaded.devices() if one.gpu.device == "cuda"}
    yield LanEnd(
        t_s=task.start_s,
        stage=STAGE,
        worker=task.plan.worker,
        subject=task.crew.subject,
        node=task.plan.node,
        address="192.0.2.1" if first else "192.0.2.2",
        interface="eth0",
        kind="ethernet",
        link_mbit=LINK_MBIT,
        full_duplex=True,
        mtu=MTU,
    )
    libraries = ((GLOO, NCCL) if gpus.issuperset(names) else (GLOO,)) if spec.library_s else ()
    t_s = task.start_s
    lengths_s = {TCP: spec.tcp_s, **dict.fromkeys(libraries, spec.library_s)}
    lengths_s |= {RAY: spec.ray_s} if spec.ray_s else {}
    for traffic, length_s in lengths_s.items():
        if traffic == RAY and _faults(task, OBJECT_PORT, names):
            if not first:
                message = f"nothing came from the store of {names[0]} for 12 s"
                yield _silent(task, t_s + 12.0, message)
            return
        work = {TCP: WORK, RAY: WORK}.get(traffic, LIBRARY_WORK)
        each_s = length_s / len(work)
        if first:
            for size in LATENCY_BYTES if traffic in LATENCIES_MS else ():
                yield _latency(task, traffic, size, t_s + each_s / 2)
        for operation, direction, company in work:
            rate = speed * RATES_MBPS[traffic]
            rate *= TOGETHER_SHARE if company == TOGETHER else 1.0
            rate *= GATHERED_SHARE if operation == ALL_GATHER else 1.0
            receives = first if direction in (BACK, BOTH) else not first
            labels: Labels = {
                "traffic": traffic, "operation": operation, "direction": direction, "company": company,
            }  # fmt: skip
            for number in range(ROUNDS if receives else 0):
                phase: Phase = "warmup" if number < WARM_UP else "measure"
                seconds = each_s / ROUNDS
                mb = rate * (1 + task.noise.gauss(0, NOISE)) * seconds
                yield task.round(t_s + (number + 1) * seconds, phase, seconds, mb, unit=MB, labels=labels)
            t_s += each_s
            yield _traffic(task, labels, t_s, each_s, rate * each_s, sends=not receives, lost=lost)


def _worst(task: Task, fault: str, nodes: list[str]) -> float:
    """The share by which a fault of one of these nodes changes what is between them; 0 without one."""
    return max((one.by or 0.0 for one in _faults(task, fault, nodes)), default=0.0)


def _faults(task: Task, fault: str, nodes: list[str]) -> list[InjectedFault]:
    """The faults of this kind of the two nodes, where they act now."""
    found = (task.node.rig.fault(fault, name) for name in nodes)
    return [one for one in found if one and one.hits_task(task.node.stages)]


def _silent(task: Task, t_s: float, message: str) -> Event:
    subject, worker = task.crew.subject, task.plan.worker
    return Event(t_s, "lan_silent", subject, f"{RAY}: {message}", STAGE, worker, {"traffic": RAY})


def _latency(task: Task, traffic: str, size: int, t_s: float) -> LanLatency:
    ms = LATENCIES_MS[traffic]
    return LanLatency(t_s, STAGE, task.plan.worker, task.crew.subject, traffic, size, 100, ms, 1.5 * ms)


def _traffic(
    task: Task, labels: Labels, t_s: float, seconds: float, mb: float, *, sends: bool, lost: float
) -> LanTraffic:
    sent = int(mb / SEGMENT_MB) if sends and labels["traffic"] == TCP else None
    return LanTraffic(
        t_s=t_s,
        stage=STAGE,
        worker=task.plan.worker,
        subject=task.crew.subject,
        node=task.plan.node,
        **{name: str(value) for name, value in labels.items()},
        role="sender" if sends else "receiver",
        seconds=seconds,
        mb=mb,
        card_mb=mb * (MTU + 14) / (MTU - 52),
        sent=sent,
        resent=None if sent is None else int(lost * sent),
        errors=0,
        drops=0,
        cpu_share=0.2,
        waiting_share=0.0,
    )


def _left_out(fault: InjectedFault, spec: LanSpec) -> str:
    """Ray's objects, which a short run does not send."""
    return f"the {STAGE} stage sends no objects" if fault.name == OBJECT_PORT and not spec.ray_s else ""


SIMULATED = SimulatedForm(at_rest, records, left_out=_left_out)
