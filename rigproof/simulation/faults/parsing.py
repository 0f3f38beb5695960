"""Parses `--hw-inject FAULT[@SUBJECT][:key=value,…]`; errors suggest the nearest valid word."""

import difflib
import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.simulation.faults.injected import InjectedFault, Span
from rigproof.simulation.faults.kinds import SENSORS, SHORTEST_S, FaultKind, Faults, Stages
from rigproof.simulation.stage import CardWork, Forms, timetable
from rigproof.simulation.timetable import Segment

SHAPE = re.compile(r"(?P<name>[^@:]*)(@(?P<subject>[^:]*))?(:(?P<keys>.*))?", re.DOTALL)
LONGEST_TEXT = 500
HIGHEST = 1e9  # of any figure: more must be a typo
LONGEST_DELAY_S = 600.0
MET_S = 0.05  # of a card's work: a burst that ends a moment later than the timetable says is no matter
CHANGES_FOR_S = 15.0  # a temperature that stands still for less after a change of power may be a healthy one


class FaultError(ValueError):
    """A fault that cannot be injected; the message says what to write instead."""


def parse_faults(
    texts: Iterable[str],
    faults: Faults,
    loaded: LoadedRig,
    stages: Sequence[StagePlan],
    forms: Forms,
    *,
    laps: int = 1,
) -> tuple[InjectedFault, ...]:
    """The injected faults for these texts, on subjects of this rig, at a level with these stages and laps.

    Raises:
        FaultError: naming the first wrong text, and the way out.
    """
    found = []
    for text in texts:
        if len(text) > LONGEST_TEXT:
            raise FaultError(f"--hw-inject: {len(text)} characters; write FAULT[@SUBJECT][:key=value,…]")
        try:
            found.append(_parse(text, faults, loaded, tuple(stages), forms, laps=laps))
        except FaultError as error:
            raise FaultError(f"--hw-inject {text}: {error}") from None
    return tuple(found)


def _parse(
    text: str, faults: Faults, loaded: LoadedRig, plans: tuple[StagePlan, ...], forms: Forms, *, laps: int
) -> InjectedFault:
    shape = SHAPE.fullmatch(text)
    assert shape is not None, "every text has this shape"
    kind = _kind(shape["name"].strip(), faults)
    device, subject = _subject(kind, shape["subject"], loaded)
    all_stages = {stage_kind.name: stage_kind.duty for stage_kind in loaded.kinds}
    stages = {plan.name: all_stages[plan.name] for plan in plans}
    given = _keys(kind, shape["keys"])
    stage = _stage(kind, given.get("stage"), all_stages, stages)
    within = "stage" in given or not kind.anywhere
    why = _lacks(kind, loaded, device, subject)
    if why:
        raise FaultError(f"nothing could notice {kind.name} on {subject}: {why}")
    values = {**kind.defaults, **given}
    if "after" in given and "for" not in given and not kind.brief:
        values.pop("for", None)  # with a given beginning but no length, it lasts to the end
    field = _field(values.get("field"), kind.fields or SENSORS)
    sensor = None if kind.fields else field
    lasting = {plan.name: stages[plan.name] for plan in plans if plan.expected_s >= CHANGES_FOR_S}
    why = unseen_field(kind, sensor, device, stages, stage, within=within, lasting=lasting) if sensor else ""
    if why:
        raise FaultError(f"nothing could notice field={sensor} on {subject}: {why}")
    after, length = (_span(key, values.get(key)) for key in ("after", "for"))
    by, late_s = _by(kind, values.get("by"))
    fault = InjectedFault(
        name=kind.name,
        subject=subject,
        stage=stage,
        after=after,
        length=length,
        by=by,
        to=_number("to", values.get("to")),
        code=_code(values.get("code")),
        field=field,
        within=within,
        late_s=late_s,
        lap=_lap(given.get("lap", "1"), laps) if "stage" in kind.keys else None,
    )
    work_s = _work_s(loaded, device, plans, forms)
    begins_in = _check_that_it_acts(kind, fault, plans, stages, work_s=work_s)
    if device is not None and begins_in in stages:
        why = _idle(loaded, device) if stages[begins_in] == "idle" else ""
        why = why or forms[begins_in].misses(kind, fault, CardWork(loaded, device))
        if kind.of_task and fault.length is not None and not why:
            plan = next(plan for plan in plans if plan.name == begins_in)
            why = _in_a_rest(fault, plan, forms[begins_in].segments(plan, CardWork(loaded, device)))
        least_by = forms[begins_in].least_by.get(kind.name, 0.0)
        if by is not None and by < least_by:
            why = f"its limits leave room for less than by={100 * least_by:g}%"
        if why:
            raise FaultError(f"nothing could notice it in the {begins_in} stage: {why}")
    return fault


def _lacks(kind: FaultKind, loaded: LoadedRig, device: PromisedDevice | None, subject: str) -> str:
    """Why nothing could notice it on this subject; empty if something can."""
    if device is not None:
        return kind.lacks(loaded, device) if kind.lacks is not None else ""
    return kind.host_lacks(loaded, subject) if kind.host_lacks is not None else ""


def _idle(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Why nothing notices a fault of this card's workers while their host is measured; empty if it does."""
    first = next(one.subject for one in loaded.devices() if one.node == device.node)
    return "" if first == device.subject else f"a worker of {first} measures the host"


def _in_a_rest(fault: InjectedFault, plan: StagePlan, work: Iterable[Segment]) -> str:
    """Why a fault of a task hits nothing: the card rests until it is over; empty if it works meanwhile."""
    from_s = 0.0 if fault.after is None else fault.after.seconds(plan.expected_s)
    to_s = from_s + (0.0 if fault.length is None else fault.length.seconds(plan.expected_s))
    segments = list(work)
    if sum(max(0.0, min(to_s, one.to_s) - max(from_s, one.from_s)) for one in segments) >= MET_S:
        return ""
    then = min((one.from_s for one in segments if one.from_s >= from_s), default=None)
    way_out = "let it begin earlier" if then is None else f"let it begin at {then:.1f} s"
    return f"the card rests from {from_s:.1f} to {to_s:.1f} s of it; {way_out}, or last longer"


def _stage(kind: FaultKind, written: str | None, all_stages: Stages, stages: Stages) -> str:
    """The stage in which it acts, or from whose beginning `after` counts. `stages`: the level's."""
    stage = written or kind.home(all_stages)
    if stage not in all_stages:
        raise FaultError(
            f"there is no stage {stage!r}; {_nearest(stage, all_stages)}write one of {', '.join(all_stages)}"
        )
    if stage not in kind.acts_in(all_stages) and written is not None:
        raise FaultError(
            f"it would never act, or nothing would notice it, in the {stage} stage; "
            f"{kind.name} can act in: {', '.join(kind.acts_in(all_stages))}"
        )
    if stage not in stages and (written is not None or not kind.anywhere):
        raise FaultError(f"the level has no {stage} stage; choose another --hw-level")
    return stage


def _kind(name: str, faults: Faults) -> FaultKind:
    if name in faults:
        return faults[name]
    raise FaultError(
        f"there is no fault {name!r}; {_nearest(name, faults)}`rigproof lint --faults` lists all of them"
    )


def _subject(kind: FaultKind, written: str | None, loaded: LoadedRig) -> tuple[PromisedDevice | None, str]:
    """The device, if the fault hits one, and the subject's name; the first possible one by default."""
    devices = {device.subject: device for device in loaded.devices() if device.gpu.device == "cuda"}
    nodes = [node.name for node in loaded.rig.nodes]
    choices = list(devices) if kind.scope == "gpu" else nodes
    if not choices:
        raise FaultError(f"{loaded.file} promises no {kind.scope} that it could hit")
    subject = choices[0] if written is None else written.strip()
    if subject not in choices:
        raise FaultError(
            f"{kind.name} hits a {kind.scope}, and this rig has no {subject!r}; "
            f"{_nearest(subject, choices)}write one of {', '.join(choices[:8])}"
        )
    return devices.get(subject), subject


def _keys(kind: FaultKind, written: str | None) -> dict[str, str]:
    given: dict[str, str] = {}
    keys = (*kind.keys, "lap") if "stage" in kind.keys else kind.keys
    for part in (written or "").split(",") if written is not None else ():
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not value.strip():
            raise FaultError(f"{part!r} is not key=value")
        if key in given:
            raise FaultError(f"{key} is given twice")
        if key not in keys:
            raise FaultError(
                f"{kind.name} takes no {key!r}; {_nearest(key, keys)}its keys: {', '.join(keys) or 'none'}"
            )
        given[key] = value.strip()
    return given


def unseen_field(
    kind: FaultKind,
    sensor: str,
    device: PromisedDevice | None,
    stages: Stages,
    stage: str,
    *,
    within: bool,
    lasting: Stages | None = None,
) -> str:
    """Why nothing could notice this fault of this sensor; empty if something can.

    `stages` are the level's, `stage` the one in which it begins; `within`: it only acts in that one.
    `lasting` are those in which a frozen sensor would show as one that does not follow; None: all.
    """
    why = ""
    if kind.unseen is not None:
        shown = (
            stages
            if lasting is None
            else {name: duty for name, duty in stages.items() if name == stage or name in lasting}
        )
        why = kind.unseen(sensor, stage, shown)
    if why:
        return why
    if device is not None and device.sku is not None and sensor in device.sku.unsupported_sensors:
        return "its driver reports no such sensor"
    acts = {stages[stage]} if within else set(stages.values())
    if acts.isdisjoint(SENSORS[sensor].duties):
        return f"no stage in which it acts is judged by {sensor}; choose another --hw-level or stage"
    return ""


def _span(key: str, value: str | None) -> Span | None:
    if value is None:
        return None
    if value.endswith("%"):
        share = _figure(key, value[:-1]) / 100
        if not 0 <= share <= 1:
            raise FaultError(f"{key}={value}: a share of the stage is 0% to 100%")
        return Span(share, share=True)
    seconds = _figure(key, value.removesuffix("s"))
    if seconds < 0:
        raise FaultError(f"{key}={value}: write seconds, such as 20, or a share, such as 80%")
    return Span(seconds)


def _check_that_it_acts(
    kind: FaultKind,
    fault: InjectedFault,
    plans: tuple[StagePlan, ...],
    stages: Stages,
    *,
    work_s: Mapping[str, float],
) -> str:
    """The stage in which it begins. `work_s`: when the simulated work of each stage ends.

    A fault that never begins, or is too short to act, is refused: that it is not caught would prove nothing.
    """
    left = list(itertools.dropwhile(lambda plan: plan.name != fault.stage, plans))
    stage_s = left[0].expected_s if left else 0.0
    after_s, end_s = (fault.after.seconds(stage_s) if fault.after is not None else 0.0), 0.0
    length_s = math.inf if fault.length is None else fault.length.seconds(stage_s)
    if length_s < kind.least_s:
        raise FaultError(f"for={fault.length}: too short to act reliably; write {kind.least_s:g} s or more")
    acts_s = min(length_s, work_s.get(fault.stage, math.inf) - after_s)
    later = any(plan.name in kind.acts_in(stages) for plan in left[1:])
    if (fault.within or not later) and SHORTEST_S <= acts_s < kind.least_s:
        raise FaultError(
            f"it would act for {acts_s:.1f} s of the {fault.stage} stage, where nothing "
            f"notices less than {kind.least_s:g} s; let it begin earlier, or choose another --hw-level"
        )
    if fault.after is None:
        return fault.stage
    alone = fault.within or kind.of_task
    for plan in left[:1] if alone else left:
        end_s += work_s[plan.name] if alone else plan.expected_s
        if after_s > end_s - SHORTEST_S:
            continue
        if fault.within or not kind.duties or plan.name in kind.acts_in(stages):
            return plan.name
        raise FaultError(
            f"after={fault.after}: it would begin in the {plan.name} stage, where it "
            f"would never act, or nothing would notice it; the {fault.stage} stage "
            f"takes {stage_s:g} s, write less"
        )
    stage = f"the {fault.stage} stage"
    what = f"the simulated work of {stage}" if alone else f"from the beginning of {stage} the load"
    other = "; stage= selects another one" if alone and "stage" in kind.keys and not fault.within else ""
    raise FaultError(
        f"after={fault.after}: it would never begin; {what} takes {end_s:g} s, write less{other}"
    )


def _work_s(
    loaded: LoadedRig, device: PromisedDevice | None, plans: tuple[StagePlan, ...], forms: Forms
) -> dict[str, float]:
    """When the simulated work of each stage ends, s, for the device, or else for the slowest GPU."""
    ends_s = dict.fromkeys((plan.name for plan in plans), 0.0)
    for each in loaded.devices() if device is None else [device]:
        if each.sku is None:
            continue
        for name, segments in timetable(plans, forms, CardWork(loaded, each)).items():
            ends_s[name] = max([ends_s[name], *(segment.to_s for segment in segments)])
    return {plan.name: ends_s[plan.name] or plan.expected_s for plan in plans}


def _by(kind: FaultKind, value: str | None) -> tuple[float | None, float | None]:
    """A fraction, or a delay in seconds if the fault can be one."""
    if value is None or not kind.delays or not value.endswith("s"):
        return _share(value), None
    late_s = _figure("by", value[:-1])
    if not 0 < late_s <= LONGEST_DELAY_S:
        raise FaultError(f"by={value}: write over 0s and up to {LONGEST_DELAY_S:g}s, such as 5s")
    return None, late_s


def _share(value: str | None) -> float | None:
    if value is None:
        return None
    share = _figure("by", value[:-1]) / 100 if value.endswith("%") else _figure("by", value)
    if not 0 < share < 1:
        raise FaultError(f"by={value}: write a share over 0% and under 100%, such as 15%")
    return share


def _number(key: str, value: str | None) -> float | None:
    if value is None:
        return None
    number = _figure(key, value)
    if number <= 0:
        raise FaultError(f"{key}={value}: write a figure over 0")
    return number


def _code(value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,4}", value):
        raise FaultError(f"code={value}: an Xid is a whole number, such as 79")
    return int(value)


def _lap(value: str, laps: int) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", value) or not 1 <= int(value) <= laps:
        way_out = f"write 1 to {laps}" if laps > 1 else "only a soak goes round its stages several times"
        raise FaultError(f"lap={value}: {way_out}")
    return int(value)


def _field(value: str | None, choices: Collection[str]) -> str | None:
    if value is None or value in choices:
        return value
    raise FaultError(f"field={value}: {_nearest(value, choices)}write one of {', '.join(choices)}")


def _figure(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and abs(number) <= HIGHEST):
        raise FaultError(f"{key}={value}: that is not a number")
    return number


def _nearest(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
