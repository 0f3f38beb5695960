"""One run in progress: its recording, its rig, its live view, and the judging of what is recorded so far."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from platform import python_version
from typing import TextIO

from rigproof import __version__
from rigproof.cluster.driver.ground import Ground
from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.history.earlier import earlier_events
from rigproof.history.rejections import rejected_cards
from rigproof.history.storage import history_folder
from rigproof.host.run_lock import Claim
from rigproof.judging.attempts import another_attempt
from rigproof.judging.lap import Key
from rigproof.judging.laps import judge_all
from rigproof.plugin.preparation import Prepared
from rigproof.profiles.loading.files import digest, full_path
from rigproof.profiles.planning.plan import recorded
from rigproof.records.champions import champions_event
from rigproof.records.disk.store import RecordingWriter
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Verdict
from rigproof.report.terminal.live import LiveView
from rigproof.run.acceptance import AcceptanceRun, Sink
from rigproof.run.simulated.ground import simulated_ground
from rigproof.run.simulated.stages import heard_by
from rigproof.run.start_up import StartUp
from rigproof.simulation.faults.injected import SimulatedClock


class Run:
    """An acceptance run, from its first record to its last. `close` may be called again, in any state."""

    def __init__(
        self,
        prepared: Prepared,
        folder: Path,
        terminal: TextIO | None,
        command: tuple[str, ...],
        column: Callable[[], int],
        *,
        start_up: StartUp,
    ) -> None:
        self._start_up = start_up
        self._prepared = prepared
        self._origin_s = time.monotonic()
        self._clock = SimulatedClock() if prepared.simulated is not None else None
        self._judged: tuple[int, dict[Key, Verdict]] | None = None  # by how many records
        self._resources = ExitStack()
        self.writer = RecordingWriter(folder, _run_info(prepared, folder.name, command))
        self.writer.add(recorded(prepared.plan))
        self._resources.callback(self.writer.close)
        if terminal is not None:
            self._resources.callback(_close, terminal)
        self._view = LiveView(self.recording, prepared.plan, terminal, self.now_s, column)
        self._resources.callback(self._view.close)

    def now_s(self) -> float:
        """Run time, simulated if the rig is."""
        if self._clock is not None:
            return self._clock.now_s()
        return time.monotonic() - self._origin_s

    @property
    def recording(self) -> Recording:
        return self.writer.recording

    def open(self, needed: Collection[str]) -> AcceptanceRun:
        """Start the rig for these stages. Raises ClusterError if it does not start."""
        request, run_id, sink = self._prepared.request, self.recording.run.run_id, self._sink()
        loaded, plan = self._prepared.loaded, self._prepared.plan
        cluster = RigCluster(
            loaded,
            plan,
            ray_address=request.ray_address,
            allow_open=request.allow_open,
            sink=sink,
            now_s=self.now_s,
            run_id=run_id,
            ground=self._ground(),
            say=self._view.say,
            ended=self._start_up.ended,
            here=self._prepared.inventory,
            claim=None if self._clock else Claim.of(run_id, self.writer.folder),
            wait_s=request.wait_s,
        )
        rig = AcceptanceRun(
            loaded,
            plan,
            self.recording,
            sink,
            cluster,
            needed=needed,
            now_s=self.now_s,
            on_tick=self._view.tick,
            another_attempt=lambda stage: another_attempt(self.recording, loaded, stage),
        )
        opened = self._resources.enter_context(rig)
        if self._clock is None:
            self.writer.add(self._start_up.event(self._origin_s))
        self._record_champions()
        self._record_earlier()
        self._record_rejections()
        return opened

    def _sink(self) -> Sink:
        """The sink of the records; it also informs a simulated rig's clock of the stages."""
        if self._clock is None:
            return self.writer.add
        return heard_by(self._clock, self._prepared.plan, self.writer.add)

    def _ground(self) -> Ground | None:
        """The ground of a simulated rig; None for a real one."""
        if self._prepared.simulated is None or self._clock is None:
            return None
        inline = self._prepared.request.simulate == "inline"
        return simulated_ground(self._prepared.simulated, self._clock, inline=inline)

    def _record_champions(self) -> None:
        """Record the champions of the GPUs found, so that judging the recording again uses the same floors.

        Not for simulated GPUs: what a real GPU of the same UUID once did says nothing about them.
        """
        if self._prepared.simulated is not None:
            return
        found = {gpu.uuid for gpu in self.recording.gpus.values()}
        every = self._prepared.champions.rates()
        rates = {key: own for key, own in every.items() if found.issuperset(key.split())}
        if rates:
            self.writer.add(champions_event(rates, self.now_s()))

    def _record_earlier(self) -> None:
        """Record what each card did in earlier runs under the same conditions, which it is compared with."""
        request, simulated, now_s = self._prepared.request, self._prepared.simulated, self.now_s()
        if simulated is None or request.keep_history:
            rig, own = self._prepared.loaded.rig.name, simulated is not None
            folder = history_folder(request.report_dir, rig, simulated=own)
            self.writer.extend(earlier_events(folder, request.report_dir, self.recording, now_s))
        if simulated is not None:
            self.writer.extend(simulated.earlier_events(now_s))

    def _record_rejections(self) -> None:
        """Record what earlier runs rejected the GPUs for that were found; every output says so."""
        if self._prepared.simulated is not None:
            return
        before = rejected_cards(self._prepared.request.report_dir)
        for gpu in self.recording.gpus.values():
            if (card := before.get(gpu.uuid)) is not None:
                message = f"{gpu.subject} ({gpu.name} {gpu.uuid}) was {card.sentence}"
                self.writer.add(Event(self.now_s(), "rejected_before", gpu.subject, message))

    def yield_terminal(self) -> None:
        """Leave the terminal to pytest, which is about to write."""
        self._view.hide()

    def close(self) -> None:
        """Take the rig down, and flush the recording to the disk."""
        self._resources.close()

    def leave_out(self, reasons: Mapping[tuple[str, str], str]) -> None:
        """Record which criteria are deselected, so that judging the recording again gives the same."""
        for (criterion, subject), reason in reasons.items():
            data = {"criterion": criterion}
            self.writer.add(Event(self.now_s(), "left_out", subject, reason, data=data))

    def interrupted(self, signal_name: str) -> None:
        """Record that the run was stopped from outside."""
        message = f"stopped by {signal_name}"
        self.writer.add(Event(self.now_s(), "interrupted", "rig", message, data={"signal": signal_name}))

    def judge(self, criterion: str, subject: str) -> Verdict:
        """The verdict of one criterion on one subject, from what was recorded so far."""
        return self.verdicts()[criterion, subject]

    def verdicts(self) -> dict[Key, Verdict]:
        """All promised verdicts, from what was recorded so far; kept until there is more."""
        count = self.recording.count()
        if self._judged is None or self._judged[0] != count:
            found = judge_all(self.recording, self._prepared.loaded)
            self._judged = (count, {(one.criterion, one.subject): one for one in found})
        return self._judged[1]


def _close(terminal: TextIO) -> None:
    with suppress(OSError):  # its reader has gone, or the disk is full: what is left to write is lost
        terminal.close()


def _run_info(prepared: Prepared, run_id: str, command: tuple[str, ...]) -> RunInfo:
    return RunInfo(
        run_id=run_id,
        started_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        level=prepared.level,
        rigproof_version=__version__,
        python_version=python_version(),
        rig=prepared.loaded.dump(),
        stages=tuple(stage.name for stage in prepared.plan.stages),
        simulated=prepared.simulated is not None,
        command=command,
        utc_offset_s=round((datetime.now().astimezone().utcoffset() or timedelta()).total_seconds()),
        profile={
            str(path): digest(tables)
            for shown, tables in prepared.loaded.layers
            if (path := full_path(shown)).is_file()
        },
        tags=prepared.request.tags,
    )
