"""Is a card normal? Its last rates beside what the SKU file says was measured of others of its model."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from scipy.special import stdtrit

from rigproof.criteria.changes import FEWEST_FREEDOM, LEAST_SPREAD, TOGETHER
from rigproof.history.reading import Kept
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.lint.sku import lint_sku
from rigproof.profiles.loading.files import read_toml
from rigproof.profiles.loading.load import all_skus
from rigproof.profiles.loading.matching import match_sku
from rigproof.profiles.loading.structure import checked
from rigproof.profiles.planning.floor_basis import Conditions, differences
from rigproof.profiles.tables.sku import Figure, Sku
from rigproof.records.champions import same_power
from rigproof.records.verdict import count_of, figure
from rigproof.stages.registry import KINDS

FEWEST_CARDS = FEWEST_FREEDOM + 1
OF_MODEL = {one.name: one for one in KINDS.figures.values() if one.peak is not None}  # not of the slot
Answer = Literal["slower", "faster", "normal", "not known"]


@dataclass(frozen=True, slots=True)
class Beside:
    """A rate beside those of `cards` others of its model: `low` to `high`, in its unit, is normal.

    `sku`: the SKU file's stem, or its path; None: there is none. `why` it is not known. `far`: how far the
    rate is from the middle, as a share of the way to the limit there. `usual`: whether its run is one that
    `calibrate --sku` takes, so that a file of such runs would tell.
    """

    sku: str | None
    model: str
    answer: Answer
    why: str = ""
    cards: int | None = None
    runs: int | None = None
    low: float | None = None
    high: float | None = None
    far: float = 0.0
    usual: bool = True


def skus_with(own: Path | None) -> dict[str, Sku]:
    """Every SKU by its file's stem; that of the file `own`, by its path, for all its cards. ProfileError."""
    if own is None:
        return all_skus(KINDS)
    sku = checked(models_of(KINDS).sku, read_toml(own), str(own))
    if problems := lint_sku(str(own), sku, KINDS):
        raise ProfileError(problems)
    others = {stem: one for stem, one in all_skus(KINDS).items() if not {*one.nvml_names} & {*sku.nvml_names}}
    return {**others, str(own): sku}


def half_width(known: Figure, figures: int) -> float | None:
    """How far a run of another card may be from the median, as a logarithm, in any of so many figures.

    The prediction interval that holds as many new observations with the probability TOGETHER (NIST Dataplot,
    PREDICTION BOUNDS, after Hahn and Meeker): cards are the sample, logarithms normal, and the median, in
    place of the mean, has up to π/2 of its variance. None for too few cards, or without their spread.
    """
    if known.cards is None or known.cards < FEWEST_CARDS or known.spread is None:
        return None
    spread = max(known.spread, LEAST_SPREAD) * math.sqrt(1 + math.pi / 2 / known.cards)
    return -float(stdtrit(known.cards - 1, (1 - TOGETHER) / 2 / figures)) * spread


def beside(kept: Kept, skus: Mapping[str, Sku]) -> Beside | None:
    """A rate beside its model's; None for what is no figure of a GPU's model."""
    kind, of_cpu = OF_MODEL.get(kept.figure or ""), (kept.gpu_uuid or "").startswith("CPU-")
    if kind is None or kept.unit != kind.unit or kept.gpu_name is None or of_cpu:
        return None
    stem = match_sku(kept.gpu_name, skus, math.inf)  # None for models that only their memory tells apart
    if stem is None:
        why = f"no SKU file, or more than one, is of {kept.gpu_name}; name one with --sku"
        return Beside(None, kept.gpu_name, "not known", why)
    sku = skus[stem]
    measured = {name: one for name in OF_MODEL if (one := sku.steady.figure(name)) is not None and one.cards}
    if (known := measured.get(kind.name)) is None:
        why = f"the SKU file of {sku.name} has {'no measured one' if measured else 'printed figures alone'}"
        return Beside(stem, sku.name, "not known", why)
    half = half_width(known, len(measured))
    few = "" if half else f"on {known.cards} cards; it takes {FEWEST_CARDS}, and their spread"
    unusual = list(_unusual(kept, sku))
    why = "; ".join(filter(None, (*_otherwise(kept, known), *unusual, few)))
    if why or half is None:
        why = f"{sku.name} was measured {why}"
        return Beside(stem, sku.name, "not known", why, known.cards, known.runs, usual=not unusual)
    low, high = known.value * math.exp(-half), known.value * math.exp(half)
    far = (math.log(kept.rate) - math.log(known.value)) / half
    answer: Answer = "slower" if far < -1 else "faster" if far > 1 else "normal"
    return Beside(stem, sku.name, answer, "", known.cards, known.runs, low, high, far)


def _otherwise(kept: Kept, known: Figure) -> Iterator[str]:
    """In what the model's figure was measured otherwise than the rate."""
    sole = {name: values[0] for name, values in kept.labels.items() if len(values) == 1}
    work = (sole.get("size"), kept.workers, sole.get("batch"))
    size, workers, batch = (one if isinstance(one, int) else 0 for one in work)
    torch = None if kept.simulated else kept.torch or ""
    for text in differences(known, Conditions("", size, workers, torch, batch)):
        yield text.replace("here 0", "here unknown")
    if known.precision not in (None, sole.get("precision")):
        yield f"in {known.precision}, here {sole.get('precision', 'unknown')}"


def _unusual(kept: Kept, sku: Sku) -> Iterator[str]:
    """Why `calibrate --sku` would not take the rate's run."""
    if not same_power(kept.power_limit_w, sku.power_limit_w):
        own = figure(kept.power_limit_w, "W") if kept.power_limit_w else "unknown"
        yield f"only at {sku.power_limit_w:g} W, here {own}"
    if kept.shortened:
        yield "only in full length"


def beside_lines(last: Iterable[tuple[Kept, Beside]]) -> Iterator[tuple[Answer, str]]:
    """A card's answers, the worst first, each as a sentence; of what is normal, with the farthest figure."""
    groups: dict[tuple[Answer, str, str], list[str]] = {}
    for kept, one in sorted(last, key=lambda pair: -abs(pair[1].far)):
        of = f"{count_of(one.runs, 'runs')} of " if one.runs else ""
        span = f"{figure(one.low or 0.0)} to {figure(one.high or 0.0)} by {of}{one.cards} cards"
        text = kept.title if one.why else f"{kept.title} {figure(kept.rate, kept.unit)} ({span})"
        groups.setdefault((one.answer, one.model, one.why), []).append(text)
    for answer, model, why in sorted(groups, key=lambda key: get_args(Answer).index(key[0])):
        first, *others = groups[answer, model, why]
        more = f" and {len(others)} more" if others else ""
        if answer == "not known":
            of = f", of {first}{more}" if len(groups) > 1 else ""
            yield answer, f"not known whether normal{of}: {why}"
        elif answer == "normal":
            several = f"{len(others) + 1} figures; nearest to a limit: " if others else ""
            yield answer, f"normal for {model}: {several}{first}"
        else:
            yield answer, f"{answer} than normal for {model}: {'; '.join([first, *others])}"


def way_out(every: Iterable[Beside]) -> Iterator[str]:
    """What to type to know more, for each model of which something is not known."""
    for stem, model in dict.fromkeys((one.sku, one.model) for one in every if one.why and one.usual):
        if stem is not None and not stem.endswith(".toml"):
            yield f"what is normal for {model}, by runs of {FEWEST_CARDS} such cards, also of others:"
            yield f"  rigproof calibrate --sku {stem} --out ./{stem}.toml reports/runs/*"
            yield f"  rigproof history --sku ./{stem}.toml"
