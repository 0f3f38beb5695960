"""The history of a rig, as `rigproof history` reads it."""

import random
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from rigproof.history.comparison import chosen
from rigproof.history.listing import listing_lines
from rigproof.history.reading import Kept, StoredRate, read_histories

DRIVERS = ("570.86.10", "580.159.04")


def lab(sizes: Sequence[int] = (6, 5), percent: float = -4.0, **changes: object) -> list[StoredRate]:
    """Two cards with two figures: from the second driver on, the first figure of the first card is slower."""
    chance, rates = random.Random(7), []
    for number in range(1, sum(sizes) + 1):
        later = number > sizes[0]
        for card in range(2):
            for title, unit, level in (
                ("throughput.gemm_bf16", "TFLOP/s", 70.0),
                ("memory.bandwidth copy", "GB/s", 900.0),
            ):
                slower = later and card == 0 and unit == "TFLOP/s"
                facts = {
                    "title": title,
                    "rate": level * chance.gauss(1 + (percent / 100 if slower else 0.0), 0.001),
                    "unit": unit,
                    "subject": f"pc{card + 1}/gpu0",
                    "gpu_uuid": f"GPU-{card}",
                    "gpu_name": "NVIDIA GeForce RTX 3090",
                    "driver": DRIVERS[later],
                    "torch": "2.13.0",
                    "power_limit_w": 350.0,
                    "level": "standard",
                    "run_id": f"run-{number}",
                }
                when = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T03:04:05+00:00"
                kept = Kept.model_validate({**facts, **changes})
                rates.append(StoredRate("lab", f"{number:04d}_run-{number}.json", when, kept))
    return rates


def listed(
    folder: Path, rig: str | None = None, numbers: Collection[str] = (), *, of: str | None = None, **how: Any
) -> Iterator[str]:
    """The lines of all rigs, or of one; `of`: of these rates alone."""
    histories = read_histories(folder, rig)
    rates = [rate for one in histories for rate in one.everything]
    return listing_lines(folder, histories, chosen(rates, of) if of else rates, rig, numbers, **how)
