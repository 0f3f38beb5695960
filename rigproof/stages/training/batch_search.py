"""The largest batch that fits, by bisection over measured peaks, without a try at what does not fit.

A step's peak memory grows by the same for each example, so two measured batches foretell all others. Only
what is foretold to fit is tried; each try is measured and makes the next foretelling better.
"""

from bisect import bisect_right

MOST_BATCH = 2**16
NEAR_SHARE = 1 / 16  # a result this near to what does not fit is good enough


class PeakLine:
    """Peak memory by batch size, MiB: what was measured, and what it foretells.

    One batch foretells too much rather than too little: all of its peak but `held_mib` (what the model holds
    without any example) is taken to grow with the batch. From two on a line goes through the two largest.
    """

    def __init__(self, held_mib: float = 0.0) -> None:
        self._held_mib = held_mib
        self.peaks: dict[int, float] = {}

    def add(self, batch: int, peak_mib: float) -> None:
        """A measured batch."""
        self.peaks[batch] = max(peak_mib, self.peaks.get(batch, 0.0))

    def at(self, batch: int) -> float:
        """The peak of a batch as foretold. ValueError where nothing was measured."""
        if not self.peaks:
            raise ValueError("no batch was measured yet")
        *_, large = ordered = sorted(self.peaks)
        peak_mib = self.peaks[large]
        slope = (peak_mib - self._held_mib if peak_mib > self._held_mib else peak_mib) / large
        if len(ordered) > 1:
            less = ordered[-2]
            measured = (peak_mib - self.peaks[less]) / (large - less)
            slope = measured if measured > 0 else slope
        return peak_mib + slope * (batch - large)

    def largest_within(self, limit_mib: float, most: int = MOST_BATCH) -> int:
        """The largest batch that is foretold to need at most `limit_mib`; 0 where none is."""
        return bisect_right(range(1, most + 1), limit_mib, key=self.at)


class BatchSearch:
    """Says which batch to try next. Tell each outcome by `measured` or `failed` before asking again.

    `line` may already hold measured batches. The search ends when the largest batch that fits is next to one
    that does not (measured or foretold), or nearer to it than 1/16 of itself.
    """

    def __init__(self, line: PeakLine, limit_mib: float, most: int = MOST_BATCH) -> None:
        self.line = line
        self.limit_mib = limit_mib
        self._most = most
        self._failed: int | None = None

    @property
    def largest(self) -> int | None:
        """The largest batch that was measured to fit."""
        below = self._most + 1 if self._failed is None else self._failed
        peaks = self.line.peaks.items()
        return max(
            (one for one, peak_mib in peaks if one < below and peak_mib <= self.limit_mib), default=None
        )

    @property
    def too_large(self) -> int:
        """The smallest batch that does not fit: it failed, or takes more than the limit, also as foretold."""
        over = [batch for batch, peak_mib in self.line.peaks.items() if peak_mib > self.limit_mib]
        least = min([*over, self._most + 1 if self._failed is None else self._failed])
        if self.line.peaks:
            least = min(least, self.line.largest_within(self.limit_mib, self._most) + 1)
        return least

    def next(self) -> int | None:
        """The batch to try; None once the search is over."""
        low, high = self.largest or 0, self.too_large
        if not self.line.peaks:
            return 1 if high > 1 else None
        if high - low <= max(1.0, low * NEAR_SHARE if high <= self._most else 1.0):
            return None
        return (low + high) // 2  # also safe where a small batch has foretold too much

    def measured(self, batch: int, peak_mib: float) -> None:
        """What was tried fitted the device, and this was its peak."""
        self.line.add(batch, peak_mib)

    def failed(self, batch: int) -> None:
        """What was tried did not fit the device."""
        self._failed = batch if self._failed is None else min(self._failed, batch)
