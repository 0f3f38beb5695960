"""The state of a run, updated record by record from its recording. Pure."""

from collections import deque
from datetime import datetime

from rigproof.criteria.checks.cluster import LOSSES
from rigproof.monitor.snapshot import RunDevice, RunNow, RunStage, RunWorker, WorkerState
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.identity import GpuIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import Event, Round, Stage
from rigproof.records.rates import rate_of
from rigproof.records.recording import Record
from rigproof.stages.registry import KINDS

ROUNDS_KEPT_S = 20.0  # files are some seconds behind
ENDINGS: dict[str, WorkerState] = {"worker_died": "died", "worker_hung": "hung", "worker_failed": "failed"}
NOT_LOADED = frozenset({"node_missing", "gpu_missing", "gpu_taken", "gpu_skipped", "gpu_lost"})
WAITS = ("timeout", "worker_hung")
MESSAGES_KEPT = 50


class RunState:
    """A run, from its first record on."""

    def __init__(self, run: RunInfo) -> None:
        self.run = run
        self.ooms = 0
        self._began = _moment(run.started_at)
        self._promised = _promised(run)
        self._limit = _ooms_limit(run)
        self._stages: dict[str, Stage] = {}
        self._workers: dict[str, WorkerIdentity] = {}
        self._endings: dict[str, Event] = {}  # by worker
        self._uuids: dict[str, str] = {}
        self._rounds: dict[str, deque[Round]] = {}
        self._worked_in: dict[str, str] = {}  # worker to the stage of its last round
        self._not_loaded: set[str] = set()
        self._device_ooms: dict[str, int] = {}
        self._messages: dict[str, list[str]] = {"timeouts": [], "losses": []}

    def add(self, record: Record) -> None:
        """Add the next record."""
        match record:
            case Round(device=None):  # on the promised device, not on the CPU as its substitute
                rounds = self._rounds.setdefault(record.subject, deque())
                rounds.append(record)
                while rounds[0].t_s < record.t_s - ROUNDS_KEPT_S:
                    rounds.popleft()
                self._worked_in[record.worker] = record.stage
            case Stage():
                self._stages.pop(record.name, None)  # keeps the order in which stages began
                self._stages[record.name] = record
            case WorkerIdentity():
                self._workers[record.worker] = record
                self._uuids.setdefault(record.subject, record.uuid)
            case GpuIdentity():
                self._uuids[record.subject] = record.uuid
            case Event():
                self._happened(record)
            case _:
                pass

    def now(self, wall_s: float, silent_s: float) -> RunNow:
        """The run at `wall_s`, seconds since the epoch. Nothing has been written for `silent_s`."""
        now_s = None if self._began is None else wall_s - self._began
        running = [stage for stage in self._stages.values() if stage.status == "running"]
        stage = running[-1] if running else None
        return RunNow(
            run_id=self.run.run_id,
            level=self.run.level,
            simulated=self.run.simulated,
            elapsed_s=None if now_s is None else max(0.0, now_s),
            silent_s=silent_s,
            stage=None if stage is None or now_s is None else _stage_now(stage, now_s),
            devices=tuple(self._device(subject, stage, now_s) for subject in self._promised),
            ooms=self.ooms,
            ooms_limit=self._limit,
            timeouts=tuple(self._messages["timeouts"]),
            losses=tuple(self._messages["losses"]),
        )

    def _happened(self, event: Event) -> None:
        if event.kind == "oom":
            self.ooms += 1
            self._device_ooms[event.subject] = self._device_ooms.get(event.subject, 0) + 1
        if event.kind in ENDINGS and event.worker is not None:
            self._endings[event.worker] = event
        if event.kind in NOT_LOADED:
            self._not_loaded.add(event.subject)
        if event.kind in LOSSES:
            messages = self._messages["timeouts" if event.kind in WAITS else "losses"]
            messages.append(f"{event.worker or event.subject}: {event.message}")
            del messages[:-MESSAGES_KEPT]

    def _device(self, subject: str, stage: Stage | None, now_s: float | None) -> RunDevice:
        kept = self._rounds.get(subject, ())
        of_stage = [one for one in kept if stage is not None and one.stage == stage.name]
        age_s = None if not of_stage or now_s is None else max(0.0, now_s - of_stage[-1].t_s)
        current = age_s is not None and age_s <= ROUNDS_KEPT_S
        kind, planned = self._promised[subject]
        return RunDevice(
            subject=subject,
            device="cuda" if kind == "cuda" else "cpu",
            uuid=self._uuids.get(subject),
            rate=rate_of(of_stage) if current else None,
            round_age_s=age_s,
            ooms=self._device_ooms.get(subject, 0),
            workers=tuple(
                RunWorker(name, self._worker(name, subject, stage))
                for name in (f"{subject}#{number}" for number in range(planned))
            ),
        )

    def _worker(self, name: str, subject: str, stage: Stage | None) -> WorkerState:
        started, ended = self._workers.get(name), self._endings.get(name)
        if ended is not None and (started is None or ended.t_s >= started.t_s):
            return ENDINGS[ended.kind]
        if started is None:
            gone = {subject, subject.partition("/")[0]} & self._not_loaded
            return "not loaded" if gone else "starting"
        working = stage is not None and self._worked_in.get(name) == stage.name
        return "working" if working else "ready"


def _stage_now(stage: Stage, now_s: float) -> RunStage:
    expected_s = stage.settings.get("expected_s")
    known_s = float(expected_s) if isinstance(expected_s, int | float) and expected_s > 0 else None
    name = stage.name if stage.lap == 1 else f"{stage.name} (lap {stage.lap})"
    return RunStage(name, max(0.0, now_s - stage.start_s), known_s)


def _moment(started_at: str) -> float | None:
    """Seconds since the epoch."""
    try:
        return datetime.fromisoformat(started_at).timestamp()
    except (ValueError, OverflowError, OSError):  # no time, or an impossible one
        return None


def _promised(run: RunInfo) -> dict[str, tuple[str, int]]:
    """Each promised device's kind and number of workers; none if the recorded profile is damaged."""
    try:
        devices = LoadedRig.restore(run.rig, KINDS).devices()
    except ProfileError:
        return {}
    return {device.subject: (device.gpu.device, device.gpu.workers) for device in devices}


def _ooms_limit(run: RunInfo) -> int | None:
    limits = run.rig.get("limits")
    limit = limits.get("ooms") if isinstance(limits, dict) else None
    return limit if isinstance(limit, int) else None
