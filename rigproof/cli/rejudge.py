"""Judge a recorded run again: the same criteria on the same data, perhaps with other limits."""

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

from rigproof.cli.refused import Refused
from rigproof.cluster.actors.remembering import shut_down_since
from rigproof.cluster.actors.state_folder import host_folder, runs_of, this_host
from rigproof.history.champions import RIG_FILE, ChampionError, read_champions
from rigproof.host.garbage import without_collections
from rigproof.host.proc import boot_id
from rigproof.judging.laps import judge_all
from rigproof.profiles.auto import completed, named_node
from rigproof.profiles.errors import ProfileError, problem
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.black_box import event_of, fate
from rigproof.records.disk.reading import PARQUET_FILE
from rigproof.records.disk.store import RecordingError, read_recording
from rigproof.records.identity import HostInventory
from rigproof.records.limits import VERDICT_BYTES_MAX, FileRefusedError, open_plain
from rigproof.records.recording import Recording
from rigproof.records.verdict import EXIT_STATUS, Decision, Verdict, decide
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult, result_of
from rigproof.report.files.files import FILES, PAGE, write_reports
from rigproof.report.files.folders import own_folder
from rigproof.report.terminal.matrix_lines import colored, terminal_width
from rigproof.report.terminal.terminal import print_summary
from rigproof.stages.registry import KINDS

# What verdict.json says of the run and the recording does not (how long it took, that it was interrupted, and
# what else than the rig kept it from its end) is in its first lines. The rest grows with the rig: not read.
KEY = r'"%s"\s*:\s*'  # however somebody has formatted it
HEAD_BYTES = 1 << 16
LONGEST_S = 1e9  # more is no length of a run
WRITABLE = re.compile(rf"(^|/)({'|'.join(map(re.escape, FILES))}): not written: ")  # `report` writes it anew
NOTHING_TOLD = "so what else kept the run from being accepted is not known"
EMPTY = f"verdict.json: empty, {NOTHING_TOLD}"
FOREIGN = f"verdict.json: no verdict of a run, {NOTHING_TOLD}"
NEVER_ENDED = (
    "the run %s has not ended: it still runs, or was killed; its recording is not closed, and it left no "
    "verdict. `rigproof report` writes a report of what was recorded"
)
LARGE = 500_000  # records; fewer are judged before a second process has started
PROCESSES_MAX = 8  # with more, what is done before and after takes longer than judging
ENDINGS = {"restarted": "host_reset", "shut_down": "driver_killed", "killed": "driver_killed"}
NO_NAME = re.compile(r"[^A-Za-z0-9._-]")  # not in file names, but perhaps in a foreign run id
NAME_MAX = 100
NAMES_SHOWN = 4  # of a rig's nodes, in a sentence
EXIT_NOT_WRITTEN = 6  # the same as for a run whose files could not be written


def interrupted(run: Path, recording: Recording) -> bool:
    """Whether the run was stopped from outside."""
    try:
        told = _told(run, "interrupted") is True
    except ValueError:
        told = True
    return told or any(event.kind == "interrupted" for event in recording.events)


def earlier_problems(run: Path) -> list[str]:
    """What else than the rig kept the run from being accepted, as its verdict.json says.

    A file that was not written then is no problem now if `rigproof report` writes it. A recording alone is
    judged by what it holds, unless its run never ended.
    """
    file = run / "verdict.json"
    if file.exists() and not file.stat().st_size:
        return [EMPTY]
    if not file.exists() and not (run / PARQUET_FILE).exists():
        return [NEVER_ENDED % run.resolve().name]
    try:
        if file.exists() and str(_told(run, "verdict")) not in set(Decision):
            return [FOREIGN]
        problems = _told(run, "problems")
    except ValueError:
        return ["verdict.json: what kept the run from being accepted cannot be read there any more"]
    told = problems if isinstance(problems, list) else []  # else somebody else wrote it
    return [str(one) for one in told if not WRITABLE.search(str(one))]


def _told(run: Path, key: str) -> Any:
    """What the first lines of the run's verdict.json say under a key; None if they do not have it.

    ValueError: it cannot be read.
    """
    try:
        with open_plain(run / "verdict.json", VERDICT_BYTES_MAX) as file:
            head = file.read(HEAD_BYTES).decode(errors="replace")
    except (FileRefusedError, OSError):
        return None
    found = re.search(KEY % key, head)
    try:
        return None if found is None else json.JSONDecoder().raw_decode(head, found.end())[0]
    except RecursionError as error:
        raise ValueError(str(error)) from error


@without_collections()
def rejudge(
    run: Path,
    hwprofile: str | None,
    echo: Callable[[str], None],
    champions: Path | None = None,
    *,
    everything: bool = False,
) -> int:
    """Print the verdicts of `run` by its own or another profile; returns the exit status. Writes nothing.

    `champions`: a rig's folder of them, instead of those that the run recorded. Another profile is linted as
    before a run: ProfileError with all its problems. `everything`: also list what passed.
    """
    recording = _read(run)
    loaded = None if hwprofile is None else _linted(_rig(hwprofile, recording), recording.run.level)
    rates = None if champions is None else read_champions(_folder(champions)).rates()
    own = None if loaded is None else LoadedRig.restore(recording.run.rig, KINDS)
    verdicts = judge_all(recording, loaded, rates, _processes(recording), planned_by=own)
    result = _result(run, recording, verdicts, recording.last_s() or 0.0)
    for remark in result.remarks:
        echo(remark)
    if loaded is not None:
        echo(f"run {recording.run.run_id} of the rig {result.facts.rig}, judged by {loaded.file}:")
    print_summary(
        replace(result, facts=run_facts(recording, loaded)),
        run if loaded is None and rates is None else None,  # the run's report is not by these limits
        echo,
        width=terminal_width(),
        on_terminal=sys.stdout.isatty(),
        everything=everything,
        color=colored(),
    )
    return EXIT_STATUS[result.decision]


def judged(run: Path, recording: Recording | None = None) -> RunResult:
    """A recorded run, judged again by its own profile. RecordingError if it cannot be read."""
    recording = recording or _read(run)
    verdicts = judge_all(recording, processes=_processes(recording))
    return _result(run, recording, verdicts, elapsed_s(run, recording))


def _read(run: Path) -> Recording:
    """The recording, with what this host's black box says of a run that never ended."""
    recording = read_recording(run)
    add_last_words(run, recording)
    return recording


def _result(run: Path, recording: Recording, verdicts: Sequence[Verdict], elapsed_s: float) -> RunResult:
    stopped, problems = interrupted(run, recording), earlier_problems(run)
    return result_of(
        recording,
        verdicts,
        decision=decide(verdicts, interrupted=stopped, problems=problems),
        elapsed_s=elapsed_s,
        interrupted=stopped,
        problems=problems,
        again=True,
    )


def _processes(recording: Recording) -> int:
    """How many processes are worth starting to judge it: as many as there are CPUs, if it is large."""
    if recording.count() < LARGE or not hasattr(os, "sched_getaffinity"):  # Linux has both this and fork
        return 1
    return min(len(os.sched_getaffinity(0)), PROCESSES_MAX)


def _folder(champions: Path) -> Path:
    """The folder; ChampionError if it is none of champions: a typo must not mean that there are none.

    An empty one says that there are none.
    """
    if not champions.is_dir():
        what = "no such folder"
    elif any(champions.iterdir()) and not any((champions / name).exists() for name in (RIG_FILE, "gpus")):
        what = f"neither {RIG_FILE} nor gpus is in it"
    else:
        return champions
    raise ChampionError(f"--champions {champions}: {what}; give one like reports/champions/NAME")


def _linted(loaded: LoadedRig, level: str) -> LoadedRig:
    """The profile, if a run at this level would accept it; else ProfileError with all its problems."""
    if level not in get_args(LevelName):
        wrong, way_out = "no such level", "read it with the version of rigproof that wrote it"
        raise ProfileError([problem("recording", "level", level, wrong, way_out)])
    problems = lint_rig(loaded, cast(LevelName, level))
    if problems:
        raise ProfileError(problems)
    return loaded


def _rig(hwprofile: str, recording: Recording) -> LoadedRig:
    """The profile of that name or file, completed with what the run found on its machine.

    A profile of "this machine" means the one machine of the run, whatever each of them calls it. Refused if
    the profile and the run have no node in common: nothing of the one could be judged by the other.
    """
    loaded = load_rig(hwprofile, KINDS)
    of_run = [node.name for node in LoadedRig.restore(recording.run.rig, KINDS).rig.nodes]
    if loaded.this_machine() is not None and len(of_run) == 1:
        loaded = named_node(loaded, of_run[0])
    promised = [node.name for node in loaded.rig.nodes]
    if not {*promised} & {*of_run}:
        raise Refused(
            f"{loaded.file}: is of {_some(promised)}, and the run of {_some(of_run)}: nothing of it can be "
            "judged by this profile; name a profile of these nodes, or leave --hwprofile out"
        )
    here = loaded.this_machine()
    if here is None:
        return loaded
    node = recording.nodes.get(here.name)
    gpus = [
        gpu
        for subject, gpu in recording.gpus.items()
        if subject.startswith(f"{here.name}/") and gpu.device == "cuda"
    ]
    found = HostInventory(
        hostname=node.hostname if node else here.name,
        cpus=node.cpus if node else 0.0,
        ram_gib=node.ram_gib if node else 0.0,
        driver_version=node.driver_version if node else None,
        nvml_error=node.nvml_error if node else None,
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
    )
    return completed(loaded, found)


def _some(names: Sequence[str]) -> str:
    """Names in a line, `NAMES_SHOWN` of them at most."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


@without_collections()
def rewrite(run: Path, echo: Callable[[str], None], *, output: Path | None = None) -> int:
    """Write the files of `run` again from its recording. Returns the exit status: 6 if one was not written.

    `output` is another folder to write into.
    """
    source = own_folder(run) if output is None else run.resolve()
    result = judged(source)
    folder = output or source
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problems = write_reports(folder, result)
    except OSError as error:
        problems = [f"{error.filename or run}: not written: {error.strerror or error}"]
    for line in problems:
        echo(line)
    if not problems:
        echo(f"{'SIMULATED run ' if result.simulated else ''}written: {(output or run) / PAGE}")
    return EXIT_NOT_WRITTEN if problems else 0


def write_overlay(run: Path, other: Path, echo: Callable[[str], None], *, output: Path | None = None) -> int:
    """Write the page of `run` with the charts of the run `other` laid over it; returns the exit status."""
    from rigproof.report.page.page import write_page  # noqa: PLC0415 - loads the charts' library

    source = own_folder(run) if output is None else run.resolve()
    recording, second = _read(source), read_recording(other.resolve())
    if second.run.run_id == recording.run.run_id:
        raise Refused(f"--with {other}: that is the same run; name another one")
    if not {*recording.gpus} & {*second.gpus}:
        ours, theirs = (", ".join(sorted(one.gpus)[:4]) or "no GPU" for one in (recording, second))
        raise Refused(f"--with {other}: nothing to lay over: it has {theirs}, the run has {ours}")
    result = judged(source, recording)
    path = (output or source) / f"report-with-{NO_NAME.sub('-', second.run.run_id)[:NAME_MAX]}.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, result, second)
    except OSError as error:
        echo(f"{path}: not written: {error.strerror or error}")
        return EXIT_NOT_WRITTEN
    echo(f"{'SIMULATED run ' if recording.run.simulated else ''}written: {path}")
    return 0


def elapsed_s(run: Path, recording: Recording) -> float:
    """How long the run took, s: as its verdict.json says, else up to the last record.

    Raises RecordingError if nothing was recorded and no verdict.json gives a length.
    """
    with suppress(ValueError):
        told_s = _told(run, "elapsed_s")
        if isinstance(told_s, int | float) and 0 <= told_s < LONGEST_S:
            return float(told_s)
    last_s = recording.last_s()
    if last_s is None:
        raise RecordingError(f"{run}: nothing was recorded; there is nothing to report")
    return last_s


def add_last_words(run: Path, recording: Recording) -> None:
    """Add to a recording without an orderly end an event that says how the run ended on this host.

    Adds nothing if that is not known. What happened on other hosts is never known here: the next run on them
    reports it.
    """
    now = boot_id().value
    if now is None or recording.run.simulated or (run / PARQUET_FILE).exists():
        return
    host = this_host()
    with suppress(OSError):
        for found in runs_of(host, host_folder(host)):
            if found.box.head.run_id == recording.run.run_id and not found.going_on:
                ended = fate(found.box, now, shut_down_since(found.box))
                if ended in ENDINGS:
                    recording.add(event_of(found.box, ended, ENDINGS[ended], found.box.head.node))
