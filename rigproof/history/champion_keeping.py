"""From an accepted run to its rig's champions: a rate replaces a stored one only if it is better."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import BaseModel

from rigproof.history.champions import (
    RIG_FILE,
    SCHEMA_VERSION,
    Card,
    ChampionRun,
    GpuChampions,
    GpuFigure,
    RigChampions,
    RigFigure,
    Software,
    gpu_file,
    read_champions,
    refusal,
    require_inside,
)
from rigproof.history.goodness import GOOD
from rigproof.history.rounds import figure_rounds, means_of
from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.champions import same_power
from rigproof.records.disk.durable import replacing
from rigproof.records.limits import CHAMPIONS_BYTES_MAX
from rigproof.records.measurements import Labels
from rigproof.records.recording import Recording
from rigproof.records.verdict import Verdict, figure
from rigproof.stages.registry import KINDS

_Figure = GpuFigure | RigFigure
_Kind = Callable[..., GpuChampions | RigChampions]


def champion_run(recording: Recording, command: str) -> ChampionRun:
    """The facts that all rates of a run share; its `command` repeats the run."""
    run = recording.run
    return ChampionRun(
        run_id=run.run_id,
        started_at=run.started_at,
        level=run.level,
        folder=f"runs/{run.run_id}",
        command=command,
        rigproof_version=run.rigproof_version,
        software={
            name: Software(
                driver=node.driver_version,
                torch=node.torch_version,
                cuda=next((one.cuda_version for one in recording.workers if one.node == name), None),
                ray=node.ray_version,
                python=node.python_version,
            )
            for name, node in recording.nodes.items()
        },
        profile=run.rig,
    )


def profile_file(folder: Path, run_id: str) -> Path:
    """The file that the resolved profile of a run is kept in, and that a run can be given."""
    return folder / "profiles" / f"{run_id}.toml"


def gpu_figures(recording: Recording, verdicts: Iterable[Verdict]) -> dict[str, list[GpuFigure]]:
    """The rates that a run may keep, by the UUID of the CUDA GPU that reached them."""
    found: dict[str, list[GpuFigure]] = {}
    for verdict in verdicts:
        gpu = recording.gpus.get(verdict.subject)
        if verdict.outcome not in GOOD or gpu is None or gpu.device != "cuda":
            continue
        where = {"subject": gpu.subject, "power_limit_w": gpu.power_limit_w, "run_id": recording.run.run_id}
        for rate in (one for one in verdict.rates if one.value > 0):
            rounds = figure_rounds(recording, KINDS.figures[rate.figure], gpu.subject)
            same = all(one.label(name) == value for one in rounds for name, value in rate.labels.items())
            if not same or len({one.worker for one in rounds}) != rate.workers:
                continue  # nothing compares with a rate if some of its rounds were other work
            known = {**means_of(recording, gpu.subject, rounds), **where, **rate._asdict()}
            known |= {"criterion": verdict.criterion, "labels": dict(rate.labels)}
            own = GpuFigure(**{name: known[name] for name in GpuFigure.model_fields})
            found.setdefault(gpu.uuid, []).append(own)
    return found


def rig_figures(recording: Recording, verdicts: Iterable[Verdict]) -> list[RigFigure]:
    """The rig's combined rates, and those of its teams; none of those to which a CPU belongs."""
    teams = {one.text: one.members for one in subjects(LoadedRig.restore(recording.run.rig, KINDS), "team")}
    found = []
    for verdict in (one for one in verdicts if one.outcome in GOOD):
        criterion, members = CATALOGUE[verdict.criterion], tuple(recording.gpus)
        rates: list[tuple[float | None, Labels]] = [(verdict.measured, {})] if criterion.sum_of else []
        if criterion.scope == "team":
            members = teams.get(verdict.subject, ())
            rates = [(one.value, one.labels) for one in verdict.rates]
        gpus = [recording.gpus[one] for one in members if one in recording.gpus]
        if len(gpus) < len(members) or any(one.device != "cuda" for one in gpus):
            continue
        cards = {
            one.subject: Card(uuid=one.uuid, name=one.name, power_limit_w=one.power_limit_w) for one in gpus
        }
        found += [
            RigFigure(
                criterion=verdict.criterion,
                value=value,
                unit=verdict.unit,
                subject=verdict.subject,
                labels=dict(labels),
                cards=cards,
                run_id=recording.run.run_id,
            )
            for value, labels in rates
            if value and cards
        ]
    return found


def keep(
    folder: Path,
    recording: Recording,
    run: ChampionRun,
    gpus: Mapping[str, list[GpuFigure]],
    rig: Sequence[RigFigure],
) -> list[str]:
    """Write the rates that are better than those stored. Returns a sentence for each.

    Raises OSError, and ChampionError for a file that cannot be read: it is never overwritten.
    """
    stored = read_champions(folder)
    identities = {gpu.uuid: gpu for gpu in recording.gpus.values()}
    rivals: list[tuple[Path, GpuChampions | RigChampions | None, Sequence[_Figure], _Kind]] = []
    for uuid, figures in gpus.items():
        gpu = identities[uuid]
        of_gpu: _Kind = partial(GpuChampions, gpu_uuid=uuid, gpu_name=gpu.name, sku=gpu.sku)
        rivals.append((gpu_file(folder, uuid), stored.gpus.get(uuid), figures, of_gpu))
    rivals.append((folder / RIG_FILE, stored.rig, rig, RigChampions))
    sentences: list[str] = []
    files: dict[Path, BaseModel] = {}
    for path, before, new, kind in rivals:
        better, lines = _better(before.figures if before else (), new)
        if lines:
            sentences += lines
            runs = {**(before.runs if before else {}), run.run_id: run}
            named = {one.run_id for one in better}
            kept = {run_id: one for run_id, one in runs.items() if run_id in named}
            files[path] = kind(schema_version=SCHEMA_VERSION, figures=better, runs=kept)
    if files:
        _write(folder, profile_file(folder, run.run_id), _profile_text(recording))
    for path, content in files.items():
        _write(folder, path, f"{content.model_dump_json(indent=1)}\n")
    return sentences


def _better(stored: Sequence[_Figure], new: Iterable[_Figure]) -> tuple[tuple[_Figure, ...], list[str]]:
    """All rates, with stored ones replaced by better ones, and a sentence for each replacement."""
    figures, sentences = list(stored), []
    for one in new:
        rivals = [other for other in figures if _same_conditions(one, other)]
        best = max((rival.value for rival in rivals), default=0.0)
        if one.value <= best:
            continue
        figures = [other for other in figures if other not in rivals] + [one]
        before = f"{figure(best, one.unit)} before" if rivals else "the first"
        sentences.append(f"champion: {one.subject} {one.title}: {figure(one.value, one.unit)} ({before})")
    return tuple(sorted(figures, key=lambda one: one.title)), sentences


def _same_conditions(one: _Figure, other: _Figure) -> bool:
    """Whether two rates of one file compete: the same work, or cards, under the same power limits."""
    if isinstance(one, GpuFigure) and isinstance(other, GpuFigure):
        same_work = (one.figure, one.labels, one.workers) == (other.figure, other.labels, other.workers)
        return same_work and same_power(one.power_limit_w, other.power_limit_w)
    if isinstance(one, RigFigure) and isinstance(other, RigFigure):
        if (one.criterion, one.labels) != (other.criterion, other.labels):
            return False
        mine = {card.uuid: card.power_limit_w for card in one.cards.values()}
        theirs = {card.uuid: card.power_limit_w for card in other.cards.values()}
        return mine.keys() == theirs.keys() and all(same_power(mine[uuid], theirs[uuid]) for uuid in mine)
    return False


def _profile_text(recording: Recording) -> str:
    """The whole resolved profile, including defaults, so that later changes of the defaults do not matter."""
    import tomlkit  # noqa: PLC0415 - only if there is something to keep

    rig = LoadedRig.restore(recording.run.rig, KINDS).rig
    head = f"# The profile of run {recording.run.run_id} as it was resolved, defaults included.\n"
    return head + tomlkit.dumps(rig.model_dump(mode="json", exclude_none=True, exclude={"extends"}))


def _write(folder: Path, path: Path, text: str) -> None:
    require_inside(folder, path.parent)
    require_inside(folder, path)
    content = text.encode()
    if len(content) > CHAMPIONS_BYTES_MAX:
        raise refusal(path, f"would take {len(content)} bytes, more than {CHAMPIONS_BYTES_MAX}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
