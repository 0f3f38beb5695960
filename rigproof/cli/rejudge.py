"""Judge a recorded run again: the same criteria on the same data, perhaps with other limits."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from rigproof.criteria.judge import judge_all
from rigproof.history.champions import ChampionError, read_champions
from rigproof.profiles.auto import completed
from rigproof.profiles.load import load_rig
from rigproof.profiles.loaded import LoadedRig
from rigproof.records.inventory import HostInventory
from rigproof.records.recording import Recording
from rigproof.records.store import RecordingError, read_recording
from rigproof.records.verdict import EXIT_STATUS, decide
from rigproof.report.files import write_reports
from rigproof.report.terminal import print_summary

EXIT_NOT_WRITTEN = 6  # as a run whose files could not be written


def _interrupted(recording: Recording) -> bool:
    return any(event.kind == "interrupted" for event in recording.events)


def rejudge(
    run: Path, hwprofile: str | None, echo: Callable[[str], None], champions: Path | None = None
) -> int:
    """Print the verdicts of `run` by its own or another profile; returns the exit status. Writes nothing.

    `champions`: a rig's folder of them, in place of those that the run recorded.
    """
    recording = read_recording(run)
    if hwprofile is not None:
        recording.run = dataclasses.replace(recording.run, rig=_rig(hwprofile, recording).dump())
    rates = None if champions is None else read_champions(_folder(champions)).rates()
    verdicts = judge_all(recording, champions=rates)
    decision = decide(verdicts, interrupted=_interrupted(recording))
    print_summary(decision, verdicts, run, problems=[], write_line=echo)
    return EXIT_STATUS[decision]


def _folder(champions: Path) -> Path:
    """The folder; ChampionError where it is none: a typo must not mean that there are no champions."""
    if not champions.is_dir():
        raise ChampionError(f"--champions {champions}: no such folder; give one like reports/champions/NAME")
    return champions


def _rig(hwprofile: str, recording: Recording) -> LoadedRig:
    """The profile; what it leaves to be found on the machine of the run is what the run found there."""
    loaded = load_rig(hwprofile)
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


def rewrite(run: Path, echo: Callable[[str], None]) -> int:
    """Write the files of `run` again from what it recorded; the exit status, 6 where one was not written."""
    recording = read_recording(run)
    verdicts = judge_all(recording)
    interrupted = _interrupted(recording)
    problems = write_reports(
        run,
        recording,
        verdicts,
        decision=decide(verdicts, interrupted=interrupted),
        elapsed_s=_elapsed_s(run, recording),
        interrupted=interrupted,
    )
    for problem in problems:
        echo(problem)
    if not problems:
        echo(f"written: {run}")
    return EXIT_NOT_WRITTEN if problems else 0


def _elapsed_s(run: Path, recording: Recording) -> float:
    """What the first report said; else up to the last thing recorded."""
    try:
        return float(json.loads((run / "verdict.json").read_text())["elapsed_s"])
    except (OSError, ValueError, KeyError, TypeError):
        last_s = recording.last_s()
        if last_s is None:
            raise RecordingError(f"{run}: nothing was recorded; there is nothing to report") from None
        return last_s
