"""The shapes stage as tables, one row for a model of cards and a size: who trains on them chooses by it."""

from collections.abc import Iterator

from rigproof.criteria.criterion import Criterion
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.shapes.candidates import HEADS, LAYER, VOCABULARIES, alignment, attention, vocabulary
from rigproof.stages.shapes.rates import ModelRates, advice, rates_by_model
from rigproof.stages.tables import StageTable

SECTION = "Best shapes"
UNMEASURED = "not measured"


def tables(recording: Recording) -> Iterator[StageTable]:
    """Rates by hidden size; then by vocabulary, attention head and number of tokens."""
    models = rates_by_model(recording)
    yield StageTable(
        SECTION,
        "Products of a transformer's layer by hidden size, TFLOP/s",
        ("Device", "Hidden size", "Multiple of", *LAYER, "Together", "Of the best"),
        tuple(row for one in models for row in _by_size(one)),
        note=" ".join(filter(None, map(advice, models))),
    )
    yield StageTable(
        SECTION,
        "Vocabulary, attention heads and tokens, at one hidden size, TFLOP/s",
        ("Device", "What", "Hidden size", "Rate", "Of the best"),
        tuple(row for one in models for row in _variants(one)),
        labels=2,
        note="Attention: forward, without the masked half, which fused kernels skip.",
    )


def _by_size(one: ModelRates) -> Iterator[tuple[str, ...]]:
    name = one.model if one.cards == 1 else f"{one.model} (median of {one.cards})"
    layers = one.layers()
    best = max(layers.values(), default=0.0)
    for size in one.sizes:
        together = layers.get(size)
        shown = (_rate(one.rate(product, size)) for product in LAYER)
        share = "" if together is None else f"{100 * together / best:.0f} %"
        yield name, str(size), str(alignment(size)), *shown, _rate(together), share
    if not one.sizes:
        yield name, "", "", *("" for _ in LAYER), UNMEASURED, ""


def _variants(one: ModelRates) -> Iterator[tuple[str, ...]]:
    groups: list[dict[str, float]] = [
        one.of_variants([vocabulary(words) for words in VOCABULARIES]),
        one.of_variants([attention(head) for head in HEADS]),
        {f"{tokens:,} tokens": rate for tokens, rate in one.by_tokens().items()},
    ]
    for rates in groups:
        best = max(rates.values(), default=0.0)
        for what, rate in rates.items():
            yield one.model, what, str(one.best_size), _rate(rate), f"{100 * rate / best:.0f} %"


def _rate(rate: float | None) -> str:
    return UNMEASURED if rate is None else figure(rate)


CRITERIA: tuple[Criterion, ...] = ()
