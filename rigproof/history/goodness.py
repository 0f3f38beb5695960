"""What may enter the history: measurements that a criterion accepted, from real devices."""

from collections.abc import Iterable, Mapping
from typing import Any

from rigproof.records.verdict import Outcome, Verdict

GOOD = frozenset({Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT})


def keep_good(
    output_json: Mapping[str, Any], verdicts: Iterable[Verdict], *, simulated: bool = False
) -> dict[str, Any]:
    """pytest-benchmark's JSON with only the benchmarks whose criterion accepted their subject.

    Each of them gets `rate` in its extra info: the figure's rate as the verdict judged it, such as a median,
    which pytest-benchmark's own statistics need not agree with. A benchmark without such a rate is dropped,
    and so are all benchmarks of a simulated run. `output_json` itself is not changed.
    """
    judged: dict[tuple[Any, Any, Any], float] = {
        (verdict.criterion, verdict.subject, rate.figure): rate.value
        for verdict in verdicts
        if verdict.outcome in GOOD
        for rate in verdict.rates
    }
    kept = []
    for one in () if simulated else output_json["benchmarks"]:
        extra = one.get("extra_info") or {}
        rate = judged.get((extra.get("criterion"), extra.get("subject"), extra.get("figure")))
        if rate is not None:
            kept.append({**one, "extra_info": {**extra, "rate": rate}})
    return {**output_json, "benchmarks": kept}
