"""A simulated disk: chunks written and read back."""

from rigproof.criteria.evidence.nodes import no_floor
from rigproof.records.measurements import MB, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import Records, SimulatedForm
from rigproof.simulation.timetable import at_rest
from rigproof.simulation.work.task import Task
from rigproof.stages.disk.criteria import READ_FLOOR_MBPS, WRITE_FLOOR_MBPS
from rigproof.stages.disk.stage import READ, STAGE, WRITE, DiskSpec, DiskTest
from rigproof.stages.disk.workload import wrong_text

FAULTS = (
    FaultKind(
        "disk-slow",
        "the disk for checkpoints is slower than that of equal hosts",
        ("host.disk",),
        scope="node",
        keys=("stage", "by"),
        defaults={"by": "60%"},
        stage=STAGE,
        host_lacks=no_floor(WRITE_FLOOR_MBPS, READ_FLOOR_MBPS),
    ),
    FaultKind(
        "disk-full",
        "the disk for checkpoints is nearly full",
        ("host.disk",),
        scope="node",
        ends="not measured",
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "disk-corrupts",
        "the disk for checkpoints returns other data than were written",
        ("host.disk",),
        scope="node",
        keys=("stage",),
        stage=STAGE,
    ),
)


RATES_MBPS = {WRITE: 2500.0, READ: 5000.0}  # lead: NVMe disks of PCIe 4
TOTAL_GIB, USED_SHARE, FULL_SHARE = 1800.0, 0.40, 0.97
CHUNKS, WARM_UP = 10, 1  # of each operation
NOISE = 0.03
WRONG_CHUNK = 5


def records(task: Task, spec: DiskSpec) -> Records:
    """Rounds of writing, rounds of reading, and the test's own record."""
    slow, full, corrupt = (task.host_fault(f"disk-{name}") for name in ("slow", "full", "corrupts"))
    speed = 1.0 if slow is None else 1 - (slow.by or 0.0)
    t_s, seconds, written_mib = task.start_s, 0.45 * spec.duration_s / CHUNKS, 0.0
    for operation, rate_mbps in RATES_MBPS.items():
        for number in range(CHUNKS):
            t_s += seconds
            mb = speed * rate_mbps * (1 + task.noise.gauss(0, NOISE)) * seconds
            phase: Phase = "warmup" if number < WARM_UP else "measure"
            yield task.round(t_s, phase, seconds, mb, unit=MB, labels={"operation": operation})
            written_mib += mb * 1e6 / 2**20 if operation == WRITE else 0.0
            if corrupt is not None and operation == READ and number == WRONG_CHUNK:
                offset = WRONG_CHUNK * 2**24 + 0x3A1
                yield task.event(t_s, "disk_error", wrong_text(offset), {"offset": offset})
    used_share = USED_SHARE if full is None else FULL_SHARE
    yield DiskTest(
        t_s=t_s,
        stage=spec.stage,
        worker=task.plan.worker,
        subject=task.subject,
        path="/home/simulated",
        filesystem="ext4",
        device="/dev/nvme0n1p2",
        how="direct",
        total_gib=TOTAL_GIB,
        free_gib=(1 - used_share) * TOTAL_GIB,
        used_share=used_share,
        written_mib=written_mib,
        verified_mib=written_mib,
        wrong=0 if corrupt is None else 1,
        trouble="",
        error="",
    )


SIMULATED = SimulatedForm(at_rest, records)
