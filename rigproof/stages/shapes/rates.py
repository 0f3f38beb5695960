"""What was measured of each candidate, by the model of the cards, and what follows for who trains on them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.records.recording import Recording
from rigproof.stages.shapes.candidates import (
    HEADS,
    LAYER,
    UP,
    VOCABULARIES,
    alignment,
    attention,
    layer,
    vocabulary,
)
from rigproof.stages.shapes.stage import STAGE

SLOW_SHARE = 0.9  # of the best: less is worth a remark
Key = tuple[str, int, int]  # product, hidden size, tokens


@dataclass(frozen=True)
class ModelRates:
    """The rates of one model of cards, TFLOP/s: the median of its `cards`."""

    model: str
    cards: int
    rates: Mapping[Key, float]
    is_cpu: bool = False

    @property
    def tokens(self) -> int:
        """The largest number of tokens in a step that was measured."""
        return max((tokens for _, _, tokens in self.rates), default=0)

    @property
    def sizes(self) -> list[int]:
        """The hidden sizes of which a product of a layer was measured."""
        return sorted({size for product, size, tokens in self.rates if product in LAYER})

    def rate(self, product: str, size: int, tokens: int | None = None) -> float | None:
        """The rate of one candidate; None if it was not measured."""
        return self.rates.get((product, size, self.tokens if tokens is None else tokens))

    def of_layer(self, size: int) -> float | None:
        """The rate of a layer: each of its products done once. None if one of them was not measured."""
        tflop = seconds = 0.0
        for one in layer(size, self.tokens):
            rate = self.rate(one.product, size)
            if not rate:
                return None
            tflop, seconds = tflop + one.tflop(1), seconds + one.tflop(1) / rate
        return tflop / seconds

    def layers(self) -> dict[int, float]:
        """The rate of a whole layer by its hidden size, for the sizes that were measured."""
        return {size: rate for size in self.sizes if (rate := self.of_layer(size)) is not None}

    @property
    def best_size(self) -> int | None:
        """The hidden size at which vocabularies and heads were measured; None if they were not."""
        others = [size for product, size, _ in self.rates if product not in LAYER]
        return others[0] if others else None

    def by_tokens(self) -> dict[int, float]:
        """The rate of one product by the number of tokens."""
        size = self.best_size
        found = {
            tokens: rate
            for (product, one, tokens), rate in self.rates.items()
            if (product, one) == (UP, size)
        }
        return dict(sorted(found.items()))

    def of_variants(self, names: Sequence[str]) -> dict[str, float]:
        """The rates of these products, as far as they were measured."""
        found = {product: rate for (product, _, _), rate in self.rates.items()}
        return {name: found[name] for name in names if name in found}


def rates_by_model(recording: Recording) -> list[ModelRates]:
    """The rates of each model of cards that the stage ran on; without any if none was measured."""
    stage = recording.stages.get(STAGE)
    if stage is None:
        return []
    began = {worker.rpartition("#")[0] for worker in stage.workers}
    every: dict[tuple[str, bool], list[dict[Key, float]]] = defaultdict(list)
    for subject, gpu in recording.gpus.items():
        if subject in began:
            every[gpu.name, gpu.device == "cpu"].append(_rates(recording, subject))
    return [ModelRates(model, len(those), _medians(those), cpu) for (model, cpu), those in every.items()]


def _rates(recording: Recording, subject: str) -> dict[Key, float]:
    rounds = Rounds.of_subject(recording.rounds, subject)
    counted = rounds.same("stage", STAGE) & rounds.same("phase", "measure") & rounds.same("verified", True)
    start_s = recording.stages[STAGE].start_s
    rounds = rounds.only(counted & (rounds.seconds > 0) & (rounds.t_s >= start_s))
    found: dict[Key, float] = {}
    for (product, size, tokens), own in rounds.by_labels("product", "size", "tokens").items():
        if len(own) >= FEWEST_ROUNDS and isinstance(size, int) and isinstance(tokens, int):
            found[str(product), size, tokens] = own.rate()
    return found


def _medians(those: Sequence[Mapping[Key, float]]) -> dict[Key, float]:
    keys = dict.fromkeys(key for one in those for key in one)
    return {key: median(one[key] for one in those if key in one) for key in keys}


def advice(one: ModelRates) -> str:
    """What the rates of a model mean for who trains on it, in a sentence; empty if too few were measured."""
    if one.is_cpu:
        return f"{one.model}: the CPU gets tiny sizes, which show that the stage works, and no advice."
    parts = [*_of_sizes(one), *_of_vocabularies(one), *_of_heads(one), *_of_tokens(one)]
    return f"{one.model}: {'; '.join(parts)}." if parts else ""


def _of_sizes(one: ModelRates) -> list[str]:
    layers = one.layers()
    if len(layers) < 2:
        return []
    best = max(layers.values())
    shares = {size: rate / best for size, rate in layers.items()}
    good = [size for size in shares if alignment(size) == alignment(max(shares, key=lambda x: shares[x]))]
    among = sorted(round(100 * shares[size]) for size in good)
    reach = f"{among[0]}" if among[0] == among[-1] else f"{among[0]} to {among[-1]}"
    worst = min(shares, key=lambda size: shares[size])
    step = alignment(good[0])
    sizes = f"hidden sizes that are multiples of {step}" if step > 1 else f"a hidden size of {good[0]}"
    return [f"{sizes} reach {reach} % of the best, {worst} reaches {100 * shares[worst]:.0f} %"]


def _of_vocabularies(one: ModelRates) -> list[str]:
    bare, padded = (one.of_variants([vocabulary(words)]).get(vocabulary(words)) for words in VOCABULARIES)
    if not bare or not padded:
        return []
    ratio = padded / bare
    return [f"a vocabulary padded from {VOCABULARIES[0]} to {VOCABULARIES[1]} is {ratio:.2f} × as fast"]


def _of_heads(one: ModelRates) -> list[str]:
    rates = one.of_variants([attention(head) for head in HEADS])
    if len(rates) < 2:
        return []
    best = max(HEADS, key=lambda head: rates.get(attention(head), 0.0))
    return [f"attention is fastest with heads of {best}"]


def _of_tokens(one: ModelRates) -> list[str]:
    rates = one.by_tokens()
    if len(rates) < 2:
        return []
    best = max(rates.values())
    enough = min(tokens for tokens, rate in rates.items() if rate >= SLOW_SHARE * best)
    return [f"{enough:,} tokens in a step are enough for {100 * SLOW_SHARE:.0f} % of the rate"]
