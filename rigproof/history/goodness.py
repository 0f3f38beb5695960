"""What may enter the history: measurements that a criterion accepted, from real devices, undisturbed."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rigproof.profiles.planning.subjects import RIG
from rigproof.records.verdict import Outcome, Verdict

GOOD = frozenset({Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT})


def keep_good(
    output_json: Mapping[str, Any],
    verdicts: Collection[Verdict],
    *,
    stages_of: Callable[[str], Collection[str]],
    simulated: bool = False,
) -> dict[str, Any]:
    """pytest-benchmark's JSON with only the benchmarks whose criterion accepted their subject.

    Each of them gets `rate` in its extra info: the figure's rate as the verdict judged it, such as a median,
    which pytest-benchmark's own statistics need not agree with. A benchmark without such a rate is dropped,
    and so are all benchmarks of a `simulated` run that has no history of its own, and those that others may
    have disturbed: a rate that was good enough all the same would make the next one look like a change.
    `stages_of` a criterion: those that it judges. `output_json` itself is not changed. Where a criterion
    failed or was not measured, each has `accepted: false`: no later run is judged by them.
    """
    lost = (one for one in verdicts if one.outcome is Outcome.NOT_MEASURED and one.remedy and not one.follows)
    disturbed = [(one.subject, {*stages_of(one.criterion)}) for one in lost]

    def concerned(one: Verdict) -> bool:
        """Whether others disturbed its device, its node or the rig in one of its stages."""
        about, own = (one.subject, one.subject.partition("/")[0], RIG), {*stages_of(one.criterion)}
        return any(subject in about and stages & own for subject, stages in disturbed)

    good = [one for one in verdicts if one.outcome in GOOD and not concerned(one)]
    judged = {(one.criterion, one.subject, rate.figure): rate.value for one in good for rate in one.rates}
    bad = any(one.outcome in (Outcome.FAIL, Outcome.NOT_MEASURED) for one in verdicts)
    of_run, kept = {"accepted": False} if bad else {}, []
    for one in () if simulated else output_json["benchmarks"]:
        extra = one.get("extra_info") or {}
        rate = judged.get((extra.get("criterion", ""), extra.get("subject", ""), extra.get("figure", "")))
        if rate is not None:
            kept.append({**one, "extra_info": {**extra, "rate": rate, **of_run}})
    return {**output_json, "benchmarks": kept}
