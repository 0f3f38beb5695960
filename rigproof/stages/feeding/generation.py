"""Autoregressive generation: a decoder that writes completions token by token, all rows of a batch at once.

The decoder is recurrent: a row's state holds what it has written so far. A pass adds the last token's
embedding, goes through LAYERS layers

    x ← x + relu(norm(x) · Wᵀ)

and samples the next token from softmax(norm(x) · headᵀ). As in the generation of a real model, each pass
reads all weights for a few rows of work. The weights are random; most completions are strategies because of a
bias towards the words that are valid at their place, which a trained model would have learned.
"""

import math
from collections.abc import Iterator

import torch
from torch.nn import functional

from rigproof.devices.device import Checksums, Device, Matrix, Product
from rigproof.devices.torch_device import DTYPES, integer_view
from rigproof.profiles.planning.operands import matrix_mib
from rigproof.stages.feeding.strategies import ANSWER, WORDS

LAYERS = 4
WEIGHTS_SHARE = 0.5  # of the memory; the rest is for the device's libraries and random data
WIDTHS = range(64, 16384 + 1, 64)  # a wider one would only make a pass longer
# Added to the logits of valid words, and of an unknown move: three of four completions are then strategies.
VALID, UNKNOWN_MOVE = 6.0, 3.0
CHECKED_BLOCK = 16


def width_for(vram_mib: float, precision: str) -> int:
    """The width of the widest decoder whose weights fit. Raises ValueError if none does."""
    each_mib = WEIGHTS_SHARE * vram_mib / LAYERS
    fitting = [width for width in WIDTHS if matrix_mib(width, precision) <= each_mib]
    if not fitting:
        needed_mib = LAYERS * matrix_mib(WIDTHS[0], precision) / WEIGHTS_SHARE
        raise ValueError(
            f"vram_mib = {vram_mib:g} is too little for a decoder in {precision}: "
            f"give at least {needed_mib:g} MiB"
        )
    return fitting[-1]


def pass_tflop(rows: int, width: int) -> float:
    """Work of one pass: the products of the layers and of the head, 2 operations per multiplication."""
    return 2 * rows * width * (LAYERS * width + len(WORDS)) / 1e12


class Decoder:
    """`rows` completions at a time, the same ones for the same prompt and length."""

    def __init__(self, device: Device, rows: int, vram_mib: float) -> None:
        self._device = device
        self.precision = device.half
        self.rows = rows
        self.width = width_for(vram_mib, self.precision)
        device.use(self.precision)
        scale = 1 / math.sqrt(self.width)  # preserves the variance
        self._weights = [
            device.normal(self.width, self.precision, seed).mul_(scale) for seed in range(LAYERS)
        ]
        device.empty_cache()
        where = self._weights[0].device
        drawn = torch.Generator().manual_seed(LAYERS)
        dtype = DTYPES[self.precision]
        words = len(WORDS)
        self._embedding = torch.randn(words, self.width, generator=drawn).to(where, dtype)
        self._head = (torch.randn(words, self.width, generator=drawn) * scale).to(where, dtype)
        self._bias = torch.tensor(_bias(), device=where)
        self._state = torch.zeros(rows, self.width, dtype=dtype, device=where)
        # All products of a pass are in one tensor, so that one checksum covers them.
        self._products = torch.empty(rows * (LAYERS * self.width + words), dtype=dtype, device=where)
        *outs, logits = self._products.split([*[rows * self.width] * LAYERS, rows * words])
        self._outs = [out.view(rows, self.width) for out in outs]
        self._logits = logits.view(rows, words)
        self._noise = torch.empty(rows, words, device=where)
        self._tokens = torch.zeros(rows, dtype=torch.int64, device=where)
        self._answers = torch.zeros(len(ANSWER), rows, dtype=torch.int64, device=where)
        self._random = torch.Generator(where)
        self._prompts: dict[int, Matrix] = {}
        self._left = 0
        self._sum, self._sums = device.words(1), device.words(1)  # of a pass, and of the passes so far
        # Launched one by one, the kernels of a pass take a busy host longer than they take the device.
        self._at_once = device.launched_at_once(self._next, self._random)

    def begin(self, prompt: int, length: int) -> None:
        """Queue the start of completions of `length` tokens; the last ones are the answer."""
        if prompt not in self._prompts:
            drawn = torch.Generator().manual_seed(prompt)
            start = torch.randn(self._state.shape, generator=drawn)
            self._prompts[prompt] = start.to(self._state.device, self._state.dtype)
        self._state.copy_(self._prompts[prompt])
        self._tokens.zero_()
        self._random.manual_seed(prompt)
        self._left = length

    def write(self, passes: int, sums: Checksums) -> None:
        """Queue passes, each the next token of every row, and one checksum of all their products."""
        self._sums.zero_()
        for _ in range(passes):
            place = len(ANSWER) - self._left
            if place >= 0:
                self._next(self._bias[place])
                self._answers[place].copy_(self._tokens)
            elif self._at_once is None:
                self._next()
            else:
                self._at_once()
            self._left -= 1
        sums.add(self._sums)

    def _next(self, bias: torch.Tensor | None = None) -> None:
        """Queue one pass. What is written to has the same place in every pass."""
        self._state.add_(self._embedding.index_select(0, self._tokens))
        for product in self._pass():
            self._device.multiply(product.a, product.b, product.out)
        torch.sum(integer_view(self._products), dim=0, keepdim=True, dtype=torch.int64, out=self._sum)
        self._sums.add_(self._sum)  # modulo 2^64
        logits = self._logits.float() if bias is None else self._logits.float() + bias
        # The largest of p / e, with exponential e, is a sample of p; multinomial would wait for the host.
        shares = logits.softmax(1) / self._noise.exponential_(generator=self._random)
        torch.argmax(shares, 1, out=self._tokens)

    def checked_error(self) -> float:
        """Largest error of another pass's products against 64-bit arithmetic, in sampled elements.

        Waits for the device, and restores the state.
        """
        saved = self._state.clone()
        errors = [self._error_of(product) for product in self._pass()]
        self._state.copy_(saved)
        return math.nan if any(map(math.isnan, errors)) else max(errors)

    def answers(self) -> Matrix:
        """Queue the copy of the answers to the host, (rows, places); there once a later mark is done."""
        pinned = self._answers.is_cuda
        host = torch.empty(self._answers.shape, dtype=torch.int64, pin_memory=pinned)
        return host.copy_(self._answers, non_blocking=True).t()

    def release(self) -> None:
        """Free everything."""
        self._at_once = None
        self._weights.clear()
        self._prompts.clear()
        self._device.empty_cache()

    def _pass(self) -> Iterator[Product]:
        """The products of a pass; each must be computed before the next one is taken."""
        for weights, out in zip(self._weights, self._outs, strict=True):
            yield Product(self._normed(), weights, out, self.precision)
            self._state.add_(out.relu())
        self._state.copy_(self._normed())
        yield Product(self._state, self._head, self._logits, self.precision)

    def _error_of(self, product: Product) -> float:
        """Multiply, and compare some columns of the first rows."""
        rows, columns = product.out.shape
        self._device.multiply(product.a, product.b, product.out)
        step = max(1, columns // CHECKED_BLOCK)
        return self._device.block_error(product, range(min(CHECKED_BLOCK, rows)), range(0, columns, step))

    def _normed(self) -> Matrix:
        return functional.layer_norm(self._state, (self.width,))


def _bias() -> list[list[float]]:
    """What is added to each word's logit, for each place of the answer."""

    def added(word: str, place: int) -> float:
        if word not in ANSWER[place]:
            return 0.0
        return UNKNOWN_MOVE if word == "jump" else VALID

    return [[added(word, place) for word in WORDS] for place in range(len(ANSWER))]
