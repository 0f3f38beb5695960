"""Every reader of files that others may have written, with true samples: hypothesis and atheris feed them.

A reader takes bytes and does with them what the commands do: it reads, judges and shows. What it is allowed
to raise is caught here, and must be a message; anything else that it raises is a defect.
"""

import dataclasses
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rigproof.cli.rejudge import earlier_problems, elapsed_s, interrupted
from rigproof.history.champion_keeping import champion_run, gpu_figures, keep, rig_figures
from rigproof.history.champions import ChampionError, read_champions
from rigproof.history.listing import champions_listing
from rigproof.judging.laps import judge_all
from rigproof.monitor.document import document
from rigproof.monitor.frame import frame
from rigproof.monitor.run_tail import RunTail
from rigproof.monitor.signs import warning_signs
from rigproof.monitor.snapshot import Snapshot
from rigproof.profiles.documents.text import summary_lines
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_doubts, lint_rig
from rigproof.profiles.lint.sku import lint_sku
from rigproof.profiles.loading.files import read_toml
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.structure import structural_problems
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from rigproof.records.disk.store import RecordingError, read_recording
from rigproof.records.recording import Recording
from rigproof.records.verdict import decide
from rigproof.report.content.result import result_of
from rigproof.report.terminal.terminal import print_summary
from rigproof.stages.registry import KINDS
from support.acceptance import CHECKOUT
from support.histories import listed
from support.rig_profile import MODELS

SAMPLES = CHECKOUT / "reports" / "samples"
RUNS = ("h200-quick", "h200-standard")
UUID = "GPU-0f69bd63-d8d9-c0fb-b3c3-4aba389f8f78"  # of the first run
ROUNDS_FILE = "round.parquet"
LONGEST_MESSAGE = 20_000  # a hundred problems of a profile
PRINTED: set[str] = set()  # decisions and verdicts that were printed once


@dataclasses.dataclass(frozen=True)
class Reader:
    """A file of one kind. `kind` says how samples may be changed: "toml", "json", "lines" or "bytes"."""

    kind: str
    place: str  # of the file, below any folder
    samples: Callable[[], list[bytes]]
    look: Callable[[Path], object]  # reads what is below the folder; None where it refused it

    def read(self, folder: Path, data: bytes) -> object:
        """Put the file where it belongs, and read it."""
        path = folder / self.place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self.look(folder)


def shown(*lines: str) -> None:
    """What people are shown: lines that can be printed, and that do not fill their screen."""
    for line in lines:
        assert line.strip(), lines
        assert "Traceback" not in line
        assert "pydantic" not in line, line
    text = "\n".join(lines).encode()
    assert len(text) < LONGEST_MESSAGE, text[:500]


def read_profile(folder: Path) -> object:
    try:
        loaded = load_rig(str(folder / "rig.toml"), KINDS)
        problems = lint_rig(loaded)
    except ProfileError as error:
        return shown(*error.problems)
    assert LoadedRig.restore(json.loads(json.dumps(loaded.dump())), KINDS) == loaded
    for line in (*problems, *lint_doubts(loaded), *summary_lines(loaded)):
        shown(line)
    try:
        return make_plan(loaded, "quick")
    except ProfileError as error:
        return shown(*error.problems)


def read_sku(folder: Path) -> object:
    try:
        tables = read_toml(folder / "sku.toml")
    except ProfileError as error:
        return shown(*error.problems)
    if problems := structural_problems(MODELS.sku, tables, "sku.toml"):
        return shown(*problems)
    return [shown(line) for line in lint_sku("sku.toml", MODELS.sku.model_validate(tables), KINDS)]


def read_history(folder: Path) -> object:
    lines = list(listed(folder / "history"))
    assert lines[0].startswith("lab: ")
    return [shown(line) for line in lines]


def read_kept_champions(folder: Path) -> object:
    shown(*champions_listing(folder / "champions"))
    try:
        return read_champions(folder / "champions" / "lab").rates()
    except ChampionError as error:
        return shown(str(error))


def judged(folder: Path) -> Recording | None:
    """What `rigproof judge` does; None where it refuses the run."""
    lines: list[str] = []
    try:
        recording = read_recording(folder)
        verdicts = judge_all(recording)
        stopped, problems = interrupted(folder, recording), earlier_problems(folder)
        decision = decide(verdicts, interrupted=stopped, problems=problems)
        content = repr((decision, verdicts))
        if content not in PRINTED:  # most changes of a file leave them as they are
            result = result_of(recording, verdicts, decision=decision, elapsed_s=1.0)
            print_summary(result, folder, lines.append, everything=True)
            assert lines
            PRINTED.add(content)
    except (RecordingError, ProfileError) as error:  # which end the command with exit status 4
        shown(*str(error).splitlines())
        return None
    return recording


def read_samples(folder: Path) -> object:
    (folder / RECORDING_FILE).write_bytes(records_of(RUNS[0]))
    return judged(folder)


def read_rewards(folder: Path) -> object:
    (folder / RECORDING_FILE).write_bytes(records_of(RUNS[1]))
    return judged(folder)


def read_verdict(folder: Path) -> object:
    seconds = elapsed_s(folder, _recording())
    assert math.isfinite(seconds)
    return seconds


def read_running(folder: Path) -> object:
    """A recording that goes on: as it is, and once it has grown by as much again."""
    path = folder / "runs" / "a" / RECORDING_FILE
    tail = RunTail(folder)
    for grown in (False, True):
        if grown and path.is_file():
            with path.open("ab") as file:
                file.write(path.read_bytes())
        now = tail.now(time.time() + 1)
        snapshot = Snapshot("2026-01-02T03:04:05Z", "lab", "here", (), now)
        signs = warning_signs(snapshot)
        json.loads(document(snapshot, signs))
        frame(snapshot, signs, 100, 10)
    return now


def read_running_rounds(folder: Path) -> object:
    """The rounds of a recording that goes on."""
    (folder / "runs" / "a" / RECORDING_FILE).write_bytes(records_of(RUNS[0]))
    return read_running(folder)


@cache
def _recording() -> Recording:
    return read_recording(SAMPLES / RUNS[0])


@cache
def records_of(run: str) -> bytes:
    """A sample's recording.jsonl: ten records of each kind at most."""
    kept: Counter[object] = Counter()
    lines = []
    for line in (SAMPLES / run / RECORDING_FILE).read_bytes().splitlines(keepends=True):
        record = json.loads(line)
        key = (record["type"], record.get("stage"), record.get("kind"))
        kept[key] += 1
        if kept[key] <= 10:
            lines.append(line)
    return b"".join(lines)


@cache
def _table(run: str) -> pa.Table:
    return pq.read_table(SAMPLES / run / PARQUET_FILE)


@cache
def table_of(run: str) -> bytes:
    """A sample's first readings, as the table that a run ends with."""
    sink = pa.BufferOutputStream()
    pq.write_table(_table(run).slice(0, 60), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


@cache
def rounds_of(run: str) -> bytes:
    """A sample's first rounds, as a part of their table or as the file that a run ends with."""
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(SAMPLES / run / ROUNDS_FILE).slice(0, 60), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


@cache
def _champions() -> tuple[bytes, bytes]:
    """What the first sample would keep: its GPU's file and the rig's."""
    recording = _recording()
    verdicts = judge_all(recording)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "champions" / "lab"
        run = champion_run(recording, "pytest -m hardware")
        keep(folder, recording, run, gpu_figures(recording, verdicts), rig_figures(recording, verdicts))
        return (folder / "gpus" / f"{UUID}.json").read_bytes(), (folder / "rig.json").read_bytes()


@cache
def _history() -> bytes:
    """The first sample's benchmarks as the history keeps them: with the judged rate, without each round."""
    content = json.loads((SAMPLES / RUNS[0] / "benchmark.json").read_bytes())
    for one in content["benchmarks"]:
        one["stats"].pop("data", None)
        one["extra_info"]["rate"] = one["stats"]["ops"]
    return json.dumps(content).encode()


def _files(*paths: str) -> Callable[[], list[bytes]]:
    return lambda: [(CHECKOUT / path).read_bytes() for path in paths]


READERS = {
    "profile": Reader(
        "toml",
        "rig.toml",
        _files("hwprofiles/rigs/dual-3090-3070-ultimate.toml", "hwprofiles/rigs/h200-x2.toml"),
        read_profile,
    ),
    "sku": Reader(
        "toml",
        "sku.toml",
        _files("hwprofiles/gpus/rtx-3070.toml", "hwprofiles/gpus/h200-sxm.toml"),
        read_sku,
    ),
    "history": Reader("json", "history/lab/0001_run.json", lambda: [_history()], read_history),
    "gpu-champions": Reader(
        "json", f"champions/lab/gpus/{UUID}.json", lambda: [_champions()[0]], read_kept_champions
    ),
    "rig-champions": Reader("json", "champions/lab/rig.json", lambda: [_champions()[1]], read_kept_champions),
    "recording": Reader("lines", RECORDING_FILE, lambda: [records_of(run) for run in RUNS], judged),
    "table": Reader("bytes", PARQUET_FILE, lambda: [table_of(RUNS[0])], read_samples),
    "rounds": Reader("bytes", ROUNDS_FILE, lambda: [rounds_of(RUNS[0])], read_samples),
    "rounds-part": Reader("bytes", "round/000000.parquet", lambda: [rounds_of(RUNS[0])], read_samples),
    "rewards": Reader(
        "bytes",
        "reward_batch.parquet",
        _files(f"reports/samples/{RUNS[1]}/reward_batch.parquet"),
        read_rewards,
    ),
    "running-rounds": Reader(
        "bytes", "runs/a/round/000000.parquet", lambda: [rounds_of(RUNS[0])], read_running_rounds
    ),
    "verdict": Reader(
        "json", "verdict.json", _files(f"reports/samples/{RUNS[0]}/verdict.json"), read_verdict
    ),
    "running": Reader(
        "lines", f"runs/a/{RECORDING_FILE}", lambda: [records_of(run) for run in RUNS], read_running
    ),
}
