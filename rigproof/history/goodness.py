"""What may enter the history: measurements that a criterion accepted, from real devices."""

from collections.abc import Iterable, Mapping
from typing import Any

from rigproof.records.verdict import Outcome, Verdict

GOOD = frozenset({Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT})


def keep_good(
    output_json: Mapping[str, Any], verdicts: Iterable[Verdict], *, simulated: bool = False
) -> dict[str, Any]:
    """pytest-benchmark's JSON with only the benchmarks whose criterion accepted their subject.

    A benchmark without a verdict is dropped too, and so are all benchmarks of a simulated run. `output_json`
    itself is not changed.
    """
    good = {(verdict.criterion, verdict.subject) for verdict in verdicts if verdict.outcome in GOOD}
    kept = [] if simulated else [one for one in output_json["benchmarks"] if _key(one) in good]
    return {**output_json, "benchmarks": kept}


def _key(benchmark: Mapping[str, Any]) -> tuple[Any, Any]:
    extra = benchmark.get("extra_info") or {}
    return extra.get("criterion"), extra.get("subject")
