"""How often does history.regression blame a sound card, and which losses does it find?

    PYTHONPATH=. python3 bench/history_regression.py --out history_regression.json

Simulates runs of 8 cards in the figures of a recorded soak of one H100, whose laps say how far a card's own
rates spread (reports/samples/h100-soak: three laps each). Rates spread normally, with heavier tails
(Student's t of five degrees of freedom, of the same spread), and with a slow drift (a sine of 0.5 % over 40
runs, as by the seasons). Half of the variance is between runs, half between attempts at a stage. With
ruptures installed (`pip install ruptures`; no dependency) the steps are compared with its exact search.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median_high, stdev
from typing import Any

import numpy as np
from scipy.special import stdtrit
from scipy.stats import beta

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.losses import compared
from rigproof.criteria.steps import steps_of
from rigproof.judging.lap import judge_lap
from rigproof.judging.laps import laps_of
from rigproof.profiles.loading.load import default_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.disk.store import read_recording
from rigproof.stages.registry import KINDS

CARDS, FIGURES = 8, 15
SOAK = Path(__file__).parents[1] / "reports" / "samples" / "h100-soak"
SPREADS = (0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.010, 0.015, 0.060)
ATTEMPTS = 4
Draw = Callable[[Any], Any]  # from a shape: numbers of variance 1


def observed() -> dict[str, float]:
    """The standard deviation of each figure's logarithm, over the laps of the soak."""
    recording = read_recording(SOAK)
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    rates: dict[str, list[float]] = {}
    for lap in laps_of(recording, rig):
        for verdict in judge_lap(Evidence(lap, rig)):
            for rate in verdict.rates:
                rates.setdefault(rate.figure, []).append(math.log(rate.value))
    return {name: stdev(values) for name, values in rates.items()}


class Course:
    """The rates of a card in one figure: earlier runs, and the attempts of this one."""

    def __init__(
        self, draw: Draw, number: int, spread: float, drift: float, seed: np.random.Generator
    ) -> None:
        half = spread * math.sqrt(0.5)
        runs = half * draw(number + 1) + drift * np.sin(
            2 * np.pi * (np.arange(number + 1) / 40 + seed.random())
        )
        self.earlier = np.exp(runs[:-1] + half * draw(number)).tolist()
        self.attempts = np.exp(runs[-1] + half * draw(ATTEMPTS)).tolist()

    def fails(self, tests: int, limits: tuple[float, float], loss: float = 0.0) -> bool:
        """Whether the card is blamed if it lost so much: the stage is repeated while most times are low."""
        now = [one * (1 - loss) for one in self.attempts]
        for number in range(1, ATTEMPTS + 1):
            rate = median_high(now[:number])
            if min(*self.earlier, rate) > (1 - limits[1]) * max(*self.earlier, rate):
                return False  # nothing in it differs by the share
            found = compared(self.earlier, rate, tests, *limits)
            if found is None or not found.fell:
                return False
        return True


def draws(seed: np.random.Generator) -> dict[str, tuple[Draw, float]]:
    """How rates spread, and how far they drift."""

    def heavy(shape: Any) -> Any:
        return seed.standard_t(5, shape) / math.sqrt(5 / 3)

    normal = seed.standard_normal
    return {"normal": (normal, 0.0), "heavy tails": (heavy, 0.0), "slow drift": (normal, 0.005)}


def false_alarms(
    spreads: list[float], runs: int, number: int, limits: tuple[float, float], seed: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Of sound rigs with these figures: the share of runs in which any card is blamed."""
    tests = CARDS * len(spreads)
    for name, (draw, drift) in draws(seed).items():
        blamed = sum(
            any(
                Course(draw, number, spread, drift, seed).fails(tests, limits)
                for _ in range(CARDS)
                for spread in spreads
            )
            for _ in range(runs)
        )
        most = float(beta.ppf(0.95, blamed + 1, runs - blamed)) if blamed < runs else 1.0
        yield {
            "tails": name,
            "earlier_runs": number,
            "runs": runs,
            "blamed": blamed,
            "at_most": round(most, 4),
        }


def found_losses(
    spreads: dict[str, float], cases: int, limits: tuple[float, float], seed: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """The share of losses that are found: of 5 % with 10 earlier runs, of 3 % with 50."""
    for figure, spread in spreads.items():
        found = {"figure": figure, "spread_percent": round(100 * spread, 2)}
        for name, (draw, drift) in draws(seed).items():
            for loss, number in ((0.05, 10), (0.03, 50)):
                hits = sum(
                    Course(draw, number, spread, drift, seed).fails(CARDS * FIGURES, limits, loss)
                    for _ in range(cases)
                )
                found[f"{loss:.0%} of {number}, {name}"] = round(hits / cases, 3)
        yield found


def alarms_without_repeats(
    spread: float, limits: tuple[float, float], runs: int, number: int, seed: np.random.Generator
) -> dict[str, Any]:
    """The share of runs of 8 × 15 figures of one spread that suspect one, by the new rate alone."""
    found: dict[str, Any] = {"spread_percent": 100 * spread, "earlier_runs": number}
    tests = CARDS * FIGURES
    critical = -stdtrit(number - 1, limits[0] / 2 / tests)
    for name, (draw, _) in draws(seed).items():
        logs = spread * draw((runs, tests, number + 1))
        before, lost = logs[..., :-1], logs[..., :-1].mean(-1) - logs[..., -1]
        wide = critical * np.sqrt(before.var(-1, ddof=1) * (1 + 1 / number))
        found[name] = round(float((lost > np.maximum(wide, -math.log1p(-limits[1]))).any(-1).mean()), 4)
    del found["slow drift"]
    return found


def against_ruptures(cases: int, seed: np.random.Generator) -> dict[str, Any] | None:
    """How often the steps lie where the exact search of ruptures puts as many; None without ruptures."""
    try:
        import ruptures  # noqa: PLC0415
    except ImportError:
        return None
    same = steps = right = 0
    for _ in range(cases):
        places = sorted(seed.choice(np.arange(6, 30), int(seed.integers(0, 3)), replace=False).tolist())
        levels = np.zeros(36)
        for place in places:
            levels[place:] += seed.choice([-1, 1]) * seed.uniform(0.02, 0.06)
        logs = levels + 0.003 * seed.standard_normal(36)
        found = [one.place for one in steps_of(np.exp(logs).tolist(), CARDS * FIGURES)]
        search = ruptures.Dynp(model="l2", min_size=1, jump=1).fit(logs.reshape(-1, 1))
        exact = search.predict(n_bkps=len(found))[:-1] if found else []
        same, steps, right = same + (found == exact), steps + len(found), right + (found == places)
    return {"ruptures": ruptures.__version__, "series": cases, "same": same, "steps": steps, "as_made": right}


def main() -> None:
    """Print the figures, and write them to `--out`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=1000, help="of each kind with 10 earlier runs")
    parser.add_argument("--cases", type=int, default=200, help="of each loss and spread")
    given = parser.parse_args()
    seed = np.random.default_rng(30)
    rig = default_rig(KINDS, {}).rig.limits
    limits = (rig.regression_error or 0.0, rig.regression_share or 0.0)
    spreads = observed()
    result = {
        "limits": {"error": limits[0], "share": limits[1]},
        "false_alarms": [
            one
            for number, runs in ((10, given.runs), (50, given.runs // 4))
            for one in false_alarms([*spreads.values()], runs, number, limits, seed)
        ],
        "found": [*found_losses(spreads, given.cases, limits, seed)],
        "found_by_spread": [
            *found_losses({f"any of {100 * it:g} %": it for it in SPREADS}, given.cases, limits, seed)
        ],
        "alarms_without_repeats": [
            alarms_without_repeats(one, limits, given.runs, number, seed)
            for number in (10, 50)
            for one in SPREADS[1:8:2]
        ],
        "steps": against_ruptures(given.cases, seed),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
