"""The output of `--hw-plan`: what would be done, for how long, and by which limits it would be judged."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rigproof.criteria.criterion import Criterion
from rigproof.judging.together import alone, not_together, remark, who
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.floor_basis import planned_basis
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.node import Node
from rigproof.records.grouping import grouped
from rigproof.records.identity import GpuIdentity
from rigproof.records.message_text import some
from rigproof.records.verdict import SIGNS, Outcome, figure, limit_text
from rigproof.report.content.clock_times import duration
from rigproof.report.terminal.terminal import header_lines
from rigproof.stages.registry import KINDS

Promised = Callable[[Criterion, LoadedRig, Collection[str]], tuple[str, ...]]
AT_LEAST = f"{SIGNS['at_least']} "
CLAUSE = re.compile(r"[;:.] ")


def plan_lines(
    loaded: LoadedRig,
    plan: Plan,
    catalogue: Mapping[str, Criterion],
    promised: Promised,
    *,
    found: Mapping[str, GpuIdentity] | None = None,
    nvml_error: str | None = None,
    simulated: bool = False,
    verbose: bool = False,
    width: int = 80,
) -> Iterator[str]:
    """All lines of the plan. `catalogue` holds the criteria in the order to print; see `Promised`.

    `found`: the promised GPUs that are on this machine, by subject.
    `verbose`: each criterion's rule in full, with the file of each value; else a line of at most `width` for
    each.
    """
    yield from header_lines(loaded, plan, nvml_error=nvml_error, simulated=simulated)
    yield from _stages(plan, loaded, found or {})
    share = loaded.rig.limits.marginal_share
    if share:
        then = "its stage is repeated, in extra time" if plan.laps == 1 else "in one lap alone, a warning"
        yield (
            f"  a rate that misses its limit by less than {share * 100:g} % "
            f"({loaded.source_of('limits.marginal_share')}): {then}"
        )
    yield from _workers(plan)
    yield ""
    yield f"criteria: what is judged, for which subjects, by which limit{'' if verbose else '; more with -v'}"
    judged = {each: promised(each, loaded, plan.stage_names) for each in catalogue.values()}
    judged = {each: subjects for each, subjects in judged.items() if subjects}
    yield from _in_full(judged, loaded) if verbose else _briefly(judged, loaded, width)
    criteria = catalogue.values()
    unpromised = [each.name for each in criteria if not promised(each, loaded, loaded.kinds.names)]
    of_other_levels: dict[str, list[str]] = {}  # by the stages that they lack
    for each in criteria:
        if each.name not in unpromised and not promised(each, loaded, plan.stage_names):
            lacking = ", ".join(name for name in each.stages if name not in plan.stage_names)
            of_other_levels.setdefault(lacking, []).append(each.name)
    if of_other_levels:
        yield f"not at level {plan.level}, for lack of a stage:"
        yield from (f"  {stages}: {', '.join(names)}" for stages, names in of_other_levels.items())
    yield from _together(loaded, plan, judged)
    if unpromised:
        yield f"not promised by this rig, so not judged: {', '.join(unpromised)}"


def _together(loaded: LoadedRig, plan: Plan, judged: Mapping[Criterion, Sequence[str]]) -> Iterator[str]:
    """What an accepted run of this plan will not say about devices that train together."""
    outcomes = {(each.name, one): Outcome.PASS for each, subjects in judged.items() for one in subjects}
    if apart := not_together(loaded, KINDS, plan.stage_names, outcomes):
        without = f"without a stage in which all {who(apart)} exchange data"
        yield f'{without}: an accepted run is "ACCEPTED, {remark(apart)}"'
    if single := alone(loaded, KINDS):
        yield single


def _in_full(judged: Mapping[Criterion, Sequence[str]], loaded: LoadedRig) -> Iterator[str]:
    rule = ""
    for criterion, subjects in judged.items():
        short = _short(criterion, subjects, loaded)
        said = short in f"{criterion.limit} ".replace("`", "")
        yield f"  {criterion.name} ({some(subjects)}){'' if said else f': {short}'}"
        if criterion.limit == rule:
            yield "    the same rule"
        elif _says_more_than_keys(criterion):
            yield f"    {criterion.limit.replace('`', '')}"
        rule = criterion.limit
        for limit, having in _limits(criterion, subjects, loaded).items():
            yield f"    {some(having)}: {limit.full}"
        if criterion.name == "compute.exact":
            yield from _alone(subjects, loaded)


def _briefly(judged: Mapping[Criterion, Sequence[str]], loaded: LoadedRig, width: int) -> Iterator[str]:
    rows = [
        (each.name, _whom(subjects, loaded), _short(each, subjects, loaded))
        for each, subjects in judged.items()
    ]
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(2)]
    for name, whom, limit in rows:
        line = f"  {name:{widths[0]}}  {whom:{widths[1]}}  {limit}"
        yield line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


def _short(criterion: Criterion, subjects: Sequence[str], loaded: LoadedRig) -> str:
    """The limit in a few words."""
    alike = grouped(subjects, lambda subject: short_limit(criterion, subject, loaded))
    if len(alike) < 2:
        return next(iter(alike), "")
    unit = f" {criterion.unit}"
    shared = unit if all(limit.endswith(unit) for limit in alike) else ""
    sign = AT_LEAST if all(limit.startswith(AT_LEAST) for limit in alike) else ""
    values = (
        f"{_whom(having, loaded)} {limit.removeprefix(sign).removesuffix(shared)}"
        for limit, having in alike.items()
    )
    return sign + ", ".join(values) + shared


def short_limit(criterion: Criterion, subject: str, loaded: LoadedRig) -> str:
    """A subject's limit as its verdict will word it, such as `≥ 90 % of 1 s windows with verified work`.

    Where the profile alone does not give it, the clause of the rule that says where it comes from.
    """
    own = _promised(subject, loaded)
    if isinstance(own, PromisedDevice) and criterion.floored:
        return ", ".join(limit.short for limit in _floors(criterion, own, loaded))
    if isinstance(own, PromisedDevice) and (planned := criterion.planned(loaded, own)) is not None:
        return _limit(planned.value, criterion)
    values = {key: loaded.stated(key, own)[0] for key in criterion.limits}
    first, *others = (clause.removeprefix("else ") for clause in CLAUSE.split(criterion.limit))

    def worded(clause: str) -> str:
        for key, value in values.items():
            clause = clause.replace(f"`{key}`", _in_words(value, key))
        return clause.replace("`", "")

    main = criterion.main_limit
    if main is None or criterion.direction is None:
        return worded(first)
    value, sign = values[main], SIGNS[criterion.direction]
    if value is None:
        free = next((one for one in others if not any(f"`{key}`" in one for key in values)), first)
        return free if free.startswith("none") else f"{sign} {free}".replace("`", "")
    rest = first.removeprefix(f"`{main}`")
    if isinstance(value, tuple):  # a range
        return _in_words(value, main)
    as_share = main.name.endswith("_share") and criterion.unit != "×"
    limit = f"{sign} {_in_words(value, main)}" if as_share else _limit(value, criterion)
    return limit + (worded(rest) if rest.startswith(" of ") else "")


def _limit(value: float, criterion: Criterion) -> str:
    """A limit with its unit and direction; `0 errors` where none is allowed."""
    text = limit_text(value, criterion.unit, criterion.direction)
    return figure(value, criterion.unit) if text == "0" else text


UNITS = {
    "c": "°C",
    "gib": "GiB",
    "mib": "MiB",
    "s": "s",
    "ms": "ms",
    "w": "W",
    "mhz": "MHz",
    "percent": "%",
    "tflops": "TFLOP/s",
    "gbps": "GB/s",
    "mbps": "MB/s",
}


def _promised(subject: str, loaded: LoadedRig) -> PromisedDevice | Node | None:
    """The device or node of that name; None for the rig, a pair or a group."""
    devices = (device for device in loaded.devices() if device.subject == subject)
    return next(devices, None) or next((node for node in loaded.rig.nodes if node.name == subject), None)


def _in_words(value: object, key: LimitKey[Any]) -> str:
    """A limit's value with the unit that its name ends in, a share in %; its key where it has no value."""
    if value is None:
        return str(key)
    unit = UNITS.get(key.name.rpartition("_")[2], "")
    if isinstance(value, tuple):
        return f"{'–'.join(map(_plain, value))} {unit}".rstrip()
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    return figure(100 * value, "%") if key.name.endswith("_share") else figure(value, unit)


def _whom(subjects: Sequence[str], loaded: LoadedRig) -> str:
    """The subjects in a few words: their names, or that all of their kind are meant."""
    if set(subjects) == {device.subject for device in loaded.devices()}:
        return "each GPU" if any(device.gpu.device == "cuda" for device in loaded.devices()) else "the CPU"
    if set(subjects) == {node.name for node in loaded.rig.nodes}:
        return "each node"
    return ", ".join(subjects) if len(subjects) <= 2 else f"{len(subjects)} of them"


def _files(plan: Plan, loaded: LoadedRig) -> str:
    """The files that state the stages' lengths at the plan's level."""
    length = re.compile(rf"stages\.({'|'.join(plan.stage_names)})\.\w+_s\.{plan.level}")
    files = {file for key, file in loaded.sources.items() if length.fullmatch(key)}
    return " and ".join(sorted(files or {loaded.file}))


def _stages(plan: Plan, loaded: LoadedRig, found: Mapping[str, GpuIdentity]) -> Iterator[str]:
    yield ""
    yield "stages: each loads all devices at once, unless it says otherwise"
    if plan.laps > 1:
        lap_s = sum(stage.expected_s for stage in plan.stages)
        yield f"  {plan.laps} laps of {duration(lap_s)}: all stages, again and again"
    levels = loaded.rig.levels
    if plan.level == "soak" and plan.expected_s < levels.least_share * levels.soak_s:
        so = 'an accepted run is "ACCEPTED for … of load, not a soak"'
        yield f"  shorter than a soak ({duration(levels.soak_s)}): {so}"
        steady = [stage for stage in plan.stages if loaded.kinds[stage.name].duty == "continuous"]
        if plan.laps == 1 and all(one.measure_s <= loaded.kinds[one.name].shortest_s for one in steady):
            shortest = f"a lap of a soak cannot be shorter than {duration(plan.expected_s)}"
            yield f"  {shortest}; for one continuous load as long as `--duration`, use `--level extended`"
    for stage in plan.stages:
        settles = f" settles for at most {figure(stage.settle_s, 's')}," if stage.settle_s else ""
        kind = loaded.kinds[stage.name]
        arms = kind.arms if stage.measure_s < stage.expected_s else ""
        each = f" for each {arms}" if arms else ""
        rest = "the hosts alone, while all devices rest; " if kind.duty == "idle" else ""
        turns = f", in {stage.turns} turns" if stage.turns > 1 else ""
        if stage.shifts:
            pairs = "after the start of its process, {} for each pair of GPUs of a host"
            shifts = pairs if kind.crew == "neighbours" else "after {} for each GPU of a host alone"
            turns += f", {shifts.format(f'{stage.shift_s:g} s')}"
        yield (
            f"  {stage.name}: {rest}about {duration(stage.expected_s)};{settles} "
            f"measures {figure(stage.measure_s, 's')}{each}, rounds of {stage.round_s:g} s{turns}"
        )
        yield from (f"    {line}" for line in kind.remarks(loaded, plan.level, found))
    yield f"  expected in all: {duration(plan.expected_s)}; lengths from {_files(plan, loaded)}"


def _workers(plan: Plan) -> Iterator[str]:
    yield ""
    yield "workers: one process each"
    alike: dict[str, list[str]] = {}
    for worker in plan.workers:
        share = f"{worker.gpu_share:g} GPU" if worker.device == "cuda" else "the CPU as the device"
        memory = "VRAM" if worker.device == "cuda" else "RAM"
        has = (
            f"{share}, {figure(worker.cpus)} CPU{'' if worker.cpus == 1 else 's'}, "
            f"{figure(worker.vram_mib / 1024, 'GiB')} {memory}, GEMM {worker.gemm_size}"
        )
        alike.setdefault(has, []).append(worker.worker)
    for has, workers in alike.items():
        yield f"  {some(workers)}: {has}{' each' if len(workers) > 1 else ''}"


def _alone(subjects: Iterable[str], loaded: LoadedRig) -> Iterator[str]:
    """Cards whose products no other card can be compared with, as far as the profile says."""
    devices = {device.subject: device for device in loaded.devices()}
    models = Counter(device.gpu.sku for device in devices.values() if device.gpu.device == "cuda")
    del models["unknown"]
    alone = [subject for subject in subjects if models[devices[subject].gpu.sku] == 1]
    if alone:
        yield f"    {some(alone)}: the only card of its model, so no other card to compare its products with"


def _says_more_than_keys(criterion: Criterion) -> bool:
    """Whether the rule says more than the keys of its limits, whose values follow."""
    return criterion.limit != " and ".join(f"`{key}`" for key in criterion.limits)


class Limit(NamedTuple):
    """A value of a limit with its key and file, and in short; `short` is empty if there is no value."""

    full: str
    short: str


def _limits(criterion: Criterion, subjects: Iterable[str], loaded: LoadedRig) -> dict[Limit, list[str]]:
    """Each value that the profile has for the limit, and the subjects that it is for."""
    subjects_of: dict[Limit, list[str]] = {}
    for subject in subjects:
        own = _promised(subject, loaded)
        if criterion.floored and isinstance(own, PromisedDevice):
            values = _floors(criterion, own, loaded)
        else:
            values = [_value(key, own, loaded) for key in criterion.limits]
            stated = [value for value in values if value.short]
            values = stated or values  # all but one of several limits are optional
        for value in values:
            subjects_of.setdefault(value, []).append(subject)
    return subjects_of


def _value(key: LimitKey[Any], own: PromisedDevice | Node | None, loaded: LoadedRig) -> Limit:
    """A limit with its value for a device, a node or the rig."""
    value, file = loaded.stated(key, own)
    if value is None:
        return Limit(f"{key} is not stated", "")
    return Limit(f"{key} = {_plain(value)} ({file})", _plain(value))


def _floors(criterion: Criterion, device: PromisedDevice, loaded: LoadedRig) -> list[Limit]:
    """The floor of each of its figures, which are named if there are several."""
    if len(criterion.figures) == 1:
        return [_floor(criterion.figures[0], device, loaded)]
    floors = {kind: _floor(kind, device, loaded) for kind in criterion.figures}
    return [
        Limit(f"{kind.name}: {floor.full}", f"{' '.join(map(str, kind.labels.values()))} {floor.short}")
        for kind, floor in floors.items()
    ]


def _floor(kind: FigureKind, device: PromisedDevice, loaded: LoadedRig) -> Limit:
    """The floor from the files; champion, peers, power limit, torch and model can still change it."""
    own = getattr(device.gpu.floors, kind.name)
    if own is not None:
        source = loaded.source_of(f"{device.key}.floors.{kind.name}")
        return Limit(f"{kind.name} = {own:g} {kind.unit} ({source})", AT_LEAST + figure(own, kind.unit))
    basis = planned_basis(kind, device, loaded)
    share = None if basis is None else loaded.stated(basis.share, device)[0]
    if basis is None or share is None:
        if device.gpu.device == "cpu":
            return Limit("no floor is known: the measured figure becomes the baseline", "no floor yet")
        if kind.otherwise:
            return Limit(f"no figure is known: a floor {kind.otherwise}", f"a floor {kind.otherwise}")
        if not kind.architecture:
            return Limit(
                "no figure is known: what else the rule names; else the measured figure becomes the baseline",
                "no floor yet",
            )
        return Limit(
            "no figure is known: a share of what its architecture does at the measured clock",
            "a share of what its architecture does",
        )
    shared = (device.limits.floor_sharing_share or 1.0) if basis.shares_device and kind.scaled else 1.0
    floor = figure(basis.figure.value * share * shared, kind.unit)
    at = " at the default power limit" if kind.scaled else ""
    source = f"{share:g} of {figure(basis.figure.value, kind.unit)}, {basis.reason}"
    return Limit(f"{floor}{at} ({source}; hwprofiles/gpus/{device.sku_stem}.toml)", AT_LEAST + floor)


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_plain(item) for item in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
