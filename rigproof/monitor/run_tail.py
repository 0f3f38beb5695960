"""The current run, followed in its recording, which is only read."""

import math
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from rigproof.criteria.checks.cluster import LOSSES
from rigproof.monitor.snapshot import RunDevice, RunNow, RunStage, RunWorker, WorkerState
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE, SAMPLES, record_of_line
from rigproof.records.disk.store import FLUSH_S
from rigproof.records.disk.table_files import DamagedError, read_parts
from rigproof.records.disk.tables import part_files
from rigproof.records.fields import table_name
from rigproof.records.identity import GpuIdentity, RunInfo, WorkerIdentity
from rigproof.records.limits import (
    RECORDING_BYTES_MAX,
    RECORDING_LINE_BYTES_MAX,
    FileRefusedError,
    open_plain,
)
from rigproof.records.measurements import Event, Round, Stage, rate_of
from rigproof.records.recording import Record
from rigproof.records.rows import TableError
from rigproof.stages.registry import KINDS

# A run that writes nothing for this long was aborted: it may wait `start_s` (60 s) for its nodes.
SILENT_S = 90.0
NEWEST = 5  # folders that are looked at: two runs at a time are rare
CHUNK = 2**20
ROUNDS = table_name(Round)
ROUNDS_KEPT_S = 20.0  # files are some seconds behind
PARTS_KEPT = math.ceil(ROUNDS_KEPT_S / FLUSH_S) + 1
ENDINGS: dict[str, WorkerState] = {"worker_died": "died", "worker_hung": "hung", "worker_failed": "failed"}
NOT_LOADED = frozenset({"node_missing", "gpu_missing", "gpu_taken", "gpu_skipped", "gpu_lost"})
WAITS = ("timeout", "worker_hung")
MESSAGES_KEPT = 50


class RunTail:
    """The newest run of a report folder that has not ended; `now` returns None if there is none."""

    def __init__(self, report_dir: Path) -> None:
        self._runs = Path(report_dir) / "runs"
        self._folder: Path | None = None
        self._state: RunState | None = None
        self._offset = 0
        self._rest = b""
        self._rounds_seen = (0, 0)  # the number of the last part, and its length

    def now(self, wall_s: float) -> RunNow | None:
        """The run's state at `wall_s`, seconds since the epoch, after reading what is new."""
        try:
            found = self._running(wall_s)
            if found is None:
                self._folder = self._state = None
                return None
            folder, silent_s = found
            if folder != self._folder or (folder / RECORDING_FILE).stat().st_size < self._offset:
                self._folder, self._state, self._offset, self._rest = folder, None, 0, b""
                self._rounds_seen = (0, 0)
            self._read_on(folder)
        except (OSError, FileRefusedError):  # removed or unmounted in between, or not written by a run
            return None
        return None if self._state is None else self._state.now(wall_s, silent_s)

    def _running(self, wall_s: float) -> tuple[Path, float] | None:
        """The folder, and the seconds since something was written there.

        A run that ends joins the parts of its samples into a file: a run that has the file has ended.
        """
        names = sorted((path.name for path in self._runs.iterdir()), reverse=True)[:NEWEST]
        for folder in (self._runs / name for name in names):
            if (folder / PARQUET_FILE).exists():
                continue
            written = [_written_s(folder / name) for name in (RECORDING_FILE, *SAMPLES)]
            silent_s = max(0.0, wall_s - max(written))
            if written[0] > 0 and silent_s <= SILENT_S:
                return folder, silent_s
        return None

    def _read_on(self, folder: Path) -> None:
        for line in self._lines(folder / RECORDING_FILE):
            try:
                record = record_of_line(line)
            except ValueError:
                continue  # another version's: the known parts are shown
            if isinstance(record, RunInfo):
                self._state = RunState(record)
            elif self._state is not None:
                self._state.add(record)
        if self._state is not None:
            for one in self._new_rounds(folder / ROUNDS):
                self._state.add(one)

    def _new_rounds(self, folder: Path) -> Iterator[Round]:
        """The rounds that were written since the last call: of the first one those of the last seconds."""
        for number, path in part_files(folder)[-PARTS_KEPT:]:
            last, seen = self._rounds_seen
            if number < last:
                continue
            try:
                part = read_parts([partial(open_plain, path, RECORDING_BYTES_MAX)], ROUNDS)
                rounds = part.rows[ROUNDS].typed(Round)
            except (DamagedError, TableError):
                continue  # another version's, as above
            if (number, len(rounds)) != (last, seen):
                yield from list(rounds)[seen if number == last else 0 :]
                self._rounds_seen = (number, len(rounds))

    def _lines(self, path: Path) -> Iterator[bytes]:
        """The lines that were finished since the last call; a torn last one waits for its rest."""
        with open_plain(path, RECORDING_BYTES_MAX) as file:
            file.seek(self._offset)
            while chunk := file.read(CHUNK):
                self._offset += len(chunk)
                *lines, rest = chunk.split(b"\n")
                if lines:
                    lines[0] = self._rest + lines[0]
                    self._rest = b""
                self._rest = (self._rest + rest)[: RECORDING_LINE_BYTES_MAX + 1]  # more is refused as a line
                yield from lines


def _written_s(path: Path) -> float:
    """When it was last written; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
