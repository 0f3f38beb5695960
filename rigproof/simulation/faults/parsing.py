"""`--inject FAULT[@SUBJECT][:key=value,…]` as data; the unknown is refused with the nearest right word."""

import difflib
import itertools
import math
import re
from collections.abc import Iterable, Sequence

from rigproof.profiles.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.plan import StagePlan
from rigproof.simulation.faults.catalogue import ARRIVES_WITH, BY_NAME, FIELDS, FaultKind, lacks, unseen_field
from rigproof.simulation.faults.injected import InjectedFault, Span

SHAPE = re.compile(r"(?P<name>[^@:]*)(@(?P<subject>[^:]*))?(:(?P<keys>.*))?", re.DOTALL)
LONGEST_TEXT = 500
HIGHEST = 1e9  # of any figure: more is a slip of the finger


class FaultError(ValueError):
    """A fault that cannot be injected; the message says what to write in its place."""


def parse_faults(
    texts: Iterable[str], loaded: LoadedRig, stages: Sequence[StagePlan]
) -> tuple[InjectedFault, ...]:
    """The faults that these texts name, on subjects of this rig, at a level with these stages.

    Raises:
        FaultError: naming the first text that is wrong, and the way out.
    """
    return tuple(_parse(text, loaded, tuple(stages)) for text in texts)


def _parse(text: str, loaded: LoadedRig, plans: tuple[StagePlan, ...]) -> InjectedFault:
    if len(text) > LONGEST_TEXT:
        raise FaultError(f"--inject: {len(text)} characters; write FAULT[@SUBJECT][:key=value,…]")
    shape = SHAPE.fullmatch(text)
    assert shape is not None, "every text has this shape"
    kind = _kind(text, shape["name"].strip())
    device, subject = _subject(text, kind, shape["subject"], loaded)
    stages = tuple(plan.name for plan in plans)
    why = lacks(kind, loaded, device, stages)
    if why:
        raise FaultError(f"--inject {text}: nothing could notice {kind.name} on {subject}: {why}")
    given = _keys(text, kind, shape["keys"])
    values = {**kind.defaults, **given}
    if "after" in given and "for" not in given and not kind.brief:
        values.pop("for", None)  # whoever says when it begins, and not for how long, means to the end
    sensor = _field(text, values.get("field"))
    why = unseen_field(kind, sensor, device, stages) if sensor is not None else ""
    if why:
        raise FaultError(f"--inject {text}: nothing could notice field={sensor} on {subject}: {why}")
    after, length = (_span(text, key, values.get(key)) for key in ("after", "for"))
    _check_that_it_acts(text, kind, after, length, plans)
    return InjectedFault(
        name=kind.name,
        subject=subject,
        stage=kind.stage,
        after=after,
        length=length,
        by=_share(text, values.get("by")),
        to=_number(text, "to", values.get("to")),
        code=_code(text, values.get("code")),
        field=sensor,
    )


def _kind(text: str, name: str) -> FaultKind:
    if name in BY_NAME:
        return BY_NAME[name]
    if name in ARRIVES_WITH:
        raise FaultError(f"--inject {text}: {name} arrives with its criterion {ARRIVES_WITH[name]}")
    raise FaultError(
        f"--inject {text}: there is no fault {name!r}; "
        f"{_nearest(name, BY_NAME)}`rigproof lint --faults` lists all of them"
    )


def _subject(
    text: str, kind: FaultKind, written: str | None, loaded: LoadedRig
) -> tuple[PromisedDevice | None, str]:
    """The device, where the fault hits one, and the subject's name; the first one where nobody says which."""
    devices = {one.subject: one for one in loaded.devices() if one.gpu.device == "cuda"}
    nodes = [node.name for node in loaded.rig.nodes]
    choices = list(devices) if kind.scope == "gpu" else nodes
    if not choices:
        raise FaultError(f"--inject {text}: {loaded.file} promises no {kind.scope} that it could hit")
    subject = choices[0] if written is None else written.strip()
    if subject not in choices:
        raise FaultError(
            f"--inject {text}: {kind.name} hits a {kind.scope}, and {subject!r} is none of this rig's; "
            f"{_nearest(subject, choices)}write one of {', '.join(choices[:8])}"
        )
    return devices.get(subject), subject


def _keys(text: str, kind: FaultKind, written: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in (written or "").split(",") if written is not None else ():
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not value.strip():
            raise FaultError(f"--inject {text}: {part!r} is no key=value")
        if key in found:
            raise FaultError(f"--inject {text}: {key} is given twice")
        if key not in kind.keys:
            takes = ", ".join(kind.keys) or "none"
            raise FaultError(
                f"--inject {text}: {kind.name} takes no {key!r}; {_nearest(key, kind.keys)}its keys: {takes}"
            )
        found[key] = value.strip()
    return found


def _span(text: str, key: str, value: str | None) -> Span | None:
    if value is None:
        return None
    if value.endswith("%"):
        share = _figure(text, key, value[:-1]) / 100
        if not 0 <= share <= 1:
            raise FaultError(f"--inject {text}: {key}={value}: a share of the stage is 0% to 100%")
        return Span(share, share=True)
    seconds = _figure(text, key, value.removesuffix("s"))
    if seconds < 0:
        raise FaultError(
            f"--inject {text}: {key}={value}: write seconds, such as 20, or a share, such as 80%"
        )
    return Span(seconds)


def _check_that_it_acts(
    text: str, kind: FaultKind, after: Span | None, length: Span | None, plans: tuple[StagePlan, ...]
) -> None:
    """A fault that never begins, or ends as it begins, would show nothing by not being caught."""
    if length is not None and length.value == 0:
        raise FaultError(f"--inject {text}: for={length}: it would never act; write a time over 0")
    left = list(itertools.dropwhile(lambda plan: plan.name != kind.stage, plans))
    left_s = sum(plan.expected_s for plan in left)
    if after is not None and after.seconds(left[0].expected_s if left else 0.0) >= left_s:
        raise FaultError(
            f"--inject {text}: after={after}: it would never begin; from the begin of the {kind.stage} stage "
            f"the load takes {left_s:g} s, write less"
        )


def _share(text: str, value: str | None) -> float | None:
    if value is None:
        return None
    share = _figure(text, "by", value[:-1]) / 100 if value.endswith("%") else _figure(text, "by", value)
    if not 0 < share < 1:
        raise FaultError(f"--inject {text}: by={value}: write a share over 0% and under 100%, such as 15%")
    return share


def _number(text: str, key: str, value: str | None) -> float | None:
    if value is None:
        return None
    number = _figure(text, key, value)
    if number <= 0:
        raise FaultError(f"--inject {text}: {key}={value}: write a figure over 0")
    return number


def _code(text: str, value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,4}", value):
        raise FaultError(f"--inject {text}: code={value}: an Xid is a whole number, such as 79")
    return int(value)


def _field(text: str, value: str | None) -> str | None:
    if value is None or value in FIELDS:
        return value
    raise FaultError(
        f"--inject {text}: field={value}: {_nearest(value, FIELDS)}write one of {', '.join(FIELDS)}"
    )


def _figure(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and abs(number) <= HIGHEST):
        raise FaultError(f"--inject {text}: {key}={value}: that is no figure")
    return number


def _nearest(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
