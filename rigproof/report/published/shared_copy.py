"""A copy of a run's report that can be published: `--hw-share`.

The copy holds the recording, its samples and the reports made from them, with pseudonyms for hosts,
addresses, UUIDs, users and folders. The files of pytest and pytest-benchmark (junit.xml, benchmark.json) are
left out, since the recording has all their content.
"""

import os
import pwd
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.disk.store import disk_problem, write_recording
from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision, Verdict, decide
from rigproof.report.content.remarks import left_out
from rigproof.report.files.files import result_of, write_reports
from rigproof.report.files.folders import require_inside
from rigproof.report.published.pseudonyms import Pseudonyms, ShareError, read_key
from rigproof.report.published.scrubbing import HOME, Scrubber
from rigproof.stages.registry import KINDS

FOLDER = "shared"
# In place of a run's problems, which name folders and other people's tests.
NOT_THE_RIG = "the run was ended early, or not all of it could be written; its own verdict.json says why"
# Words of rigproof itself, and names that are common on many machines: they identify nobody.
COMMON = frozenset(
    [
        *("accepted", "rejected", "incomplete", "simulated", "quick", "standard", "extended", "soak"),
        *("cluster", "head", "host", "local", "localhost", "node", "report", "reports", "rig", "rigproof"),
        *("cpu", "cpu0", "cuda", "gpu", "gpu0", "hardware", "nvidia", "nvlink", "pcie", "worker", "workers"),
        *("auto", "linux", "measure", "pytest", "python", "ray", "test", "torch", "warmup"),
        *("bf16", "fp16", "fp32", "fp8", "tf32"),
        *KINDS.names,
        *("admin", "nobody", "root", "runner", "ubuntu", "user"),
    ]
)
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Shared:
    """The written copy: its folder, what went wrong, and what the user must know about the key."""

    folder: Path
    problems: tuple[str, ...] = ()
    remark: str | None = None


def write_shared(
    run: Path,
    recording: Recording,
    verdicts: Sequence[Verdict],
    *,
    decision: Decision,
    elapsed_s: float,
    interrupted: bool = False,
    exit_status: int | None = None,
    output: Path | None = None,
) -> Shared:
    """Write the copy to `<run>/shared`, replacing an earlier one, or to `output`, a new folder.

    It appears complete or not at all. The key is in the report folder that `run` belongs to.

    Raises:
        ShareError: if the key or the folder cannot be used.
        ReportFolderError: if a symbolic link leads out of the run's folder.
        OSError: if the disk fails.
    """
    target = run / FOLDER if output is None else output
    if output is None:
        require_inside(run, target)
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ShareError(f"--output {output}: is not an empty folder; name one that does not exist yet")
    key = read_key(run.parent.parent if run.parent.name == "runs" else run)
    scrubber = scrubber_of(recording, Pseudonyms(key), os.environ)
    target.parent.mkdir(parents=True, exist_ok=True)
    by_verdicts = decide(verdicts, interrupted=interrupted)
    part = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    part.mkdir()
    try:
        shared = shared_recording(recording, scrubber)
        problems = _write_recording(part, shared)
        result = result_of(
            shared,
            [_scrubbed(verdict, scrubber) for verdict in verdicts],
            decision=decision,
            elapsed_s=elapsed_s,
            interrupted=interrupted,
            exit_status=exit_status,
            problems=() if decision is by_verdicts else (NOT_THE_RIG,),
        )
        problems += write_reports(part, result)
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return Shared(target, tuple(problem.replace(str(part), str(target)) for problem in problems), key.remark)


def scrubber_of(recording: Recording, pseudonyms: Pseudonyms, environment: Mapping[str, str]) -> Scrubber:
    """A scrubber of whatever identifies the rig of this recording, this machine and its user."""
    run = recording.run
    texts = [*run.command, *_texts(run.rig), *(event.message for event in recording.events)]
    texts += [text for event in recording.events for text in _texts(event.data)]
    uuids = {gpu.uuid for gpu in recording.gpus.values()} | {worker.uuid for worker in recording.workers}
    uuids |= {
        str(gpu["uuid"]) for node in _nodes(run.rig) for gpu in _tables(node.get("gpus")) if gpu.get("uuid")
    }
    return Scrubber(
        pseudonyms,
        hosts=_hosts(recording),
        uuids=uuids,
        users={
            *_users(environment),
            *(name for text in texts for name in HOME.findall(text)),
            *(process.user for process in recording.processes if process.user is not None),
        },
        environment=environment,
        own_words={*COMMON, *_own_words(recording)},
    )


def shared_recording(recording: Recording, scrubber: Scrubber) -> Recording:
    """The same measurements with pseudonyms."""
    shared = Recording(_scrubbed(recording.run, scrubber))
    for node in recording.nodes.values():
        shared.add(replace(_scrubbed(node, scrubber), hostname=scrubber.host(node.hostname)))
    for process in recording.processes:
        name = None if process.name is None else scrubber.program(process.name)
        user = None if process.user is None else scrubber.user(process.user)
        shared.add(replace(_scrubbed(process, scrubber), user=user, name=name))
    for records in (recording.gpus, recording.foreign_memory, recording.process_watches):
        shared.extend(_scrubbed(record, scrubber) for record in records.values())
    shared.extend(_scrubbed(stage, scrubber) for stage in recording.attempts)
    lists: tuple[Sequence[Any], ...] = (
        recording.workers,
        recording.counters,
        recording.boots,
        recording.events,
    )
    for records_of_type in lists:
        shared.extend(_scrubbed(record, scrubber) for record in records_of_type)
    if recording.plan is not None:
        shared.add(_scrubbed(recording.plan, scrubber))
    shared.tables = {name: rows.mapped(scrubber.value) for name, rows in recording.tables.items()}
    return shared


def _write_recording(folder: Path, recording: Recording) -> list[str]:
    try:
        write_recording(folder, recording)
    except OSError as error:
        return [disk_problem(folder, error)]
    return []


def _scrubbed(record: _Record, scrubber: Scrubber) -> _Record:
    """A record with pseudonyms in all its texts; the record itself if nothing changes."""
    changed = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, (str, tuple, dict)) and not isinstance(value, Decision):
            scrubbed = scrubber.value(value)
            if scrubbed != value:
                changed[field.name] = scrubbed
    return replace(record, **changed) if changed else record  # type: ignore[type-var]


def _hosts(recording: Recording) -> set[str]:
    """Names of hosts in the recording, the profile and the command, and of this machine."""
    hosts = {node.hostname for node in recording.nodes.values()}
    hosts |= {str(node.get("address") or "") for node in _nodes(recording.run.rig)}
    hosts |= {one.node for one in left_out(recording)} | {socket.gethostname()}
    arguments = recording.run.command
    for argument, following in pairwise((*arguments, "")):
        option, _, value = argument.partition("=")
        if option == "--hw-ray-address":
            hosts.add((value or following).rpartition(":")[0])
    names = {name.strip("[]") for name in hosts}
    names |= {name.partition(".")[0] for name in names if not name.replace(".", "").isdigit()}
    return {name for name in names if name and not name.replace(".", "").isdigit()}


def _users(environment: Mapping[str, str]) -> Iterator[str]:
    yield from (environment[key] for key in ("USER", "LOGNAME", "SUDO_USER") if environment.get(key))
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:  # a container's user without an entry
        return
    yield user.pw_name
    yield Path(user.pw_dir).name


def _own_words(recording: Recording) -> Iterator[str]:
    """Names that must stay readable in a verdict: of criteria, stages, cards, versions, a profile's keys."""
    for name in CATALOGUE:
        yield from (name, *name.split("."))
    yield from (*KINDS.events, recording.run.level, recording.run.python_version)
    yield from (key for key in _keys(recording.run.rig) if key.isidentifier())
    for gpu in recording.gpus.values():
        yield from filter(None, (gpu.name, gpu.sku))
    for node in recording.nodes.values():
        versions = (node.python_version, node.ray_version, node.torch_version, node.driver_version, node.os)
        yield from filter(None, versions)


def _nodes(rig: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return _tables(rig.get("nodes"))


def _tables(value: Any) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, (list, tuple)) else ()
    return [item for item in items if isinstance(item, Mapping)]


def _texts(value: Any) -> Iterator[str]:
    """Every text inside, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _keys(item)
