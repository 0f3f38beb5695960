"""How a group fared, for the search of who is to blame."""

import pytest

from rigproof.records.measurements import Event, Round
from rigproof.stages.collective.tested import rates_of, trial_of

MEMBERS = ("n1/gpu0", "n1/gpu1")
PART = " ".join(MEMBERS)
WORK = ("all_reduce", 16)


def rounds(gbps=(200.0, 210.0), group=PART, number=3, **fields):
    labels = {"operation": "all_reduce", "mib": 16, "arm": "as it is", "group": group}
    fields = {"phase": "measure", "verified": True, **fields}
    return [
        Round(
            float(one),
            "collective",
            f"{who}#0",
            "n1",
            seconds=0.5,
            work=0.5 * rate,
            unit="GB",
            labels=labels,
            **fields,
        )
        for one in range(number)
        for who, rate in zip(MEMBERS, gbps, strict=True)
    ]


def event(kind, who, **data):
    told = {"group": PART, "operation": "all_reduce", "sequence": 4, "inside": True, "mib": 16}
    return Event(3.0, kind, "n1", "x: y", "collective", f"{who}#0", {**told, **data})


def result(events=(), done=None, **more):
    rates = rates_of(rounds() if done is None else done, 2, group=PART)
    found = trial_of(MEMBERS, events, rates, group=PART, **{"least": {}, **more})
    return found.result, found.missing


def test_a_group_is_fine_by_its_slowest_rank():
    assert rates_of(rounds(), 2, group=PART) == {WORK: pytest.approx(200.0)}
    assert result() == ("fine", ())
    assert result(least={WORK: 190.0, ("broadcast", 16): 500.0}) == ("fine", ())
    assert result(least={WORK: 201.0}) == ("slow", ())


def test_wrong_before_stuck_before_slow():
    stuck = event("rank_stuck", MEMBERS[0]), event("rank_stuck", MEMBERS[1], sequence=3)
    assert result(stuck, least={WORK: 900.0}) == ("stuck", (MEMBERS[1],))
    assert result([*stuck, event("wrong_result", MEMBERS[0])]) == ("wrong", (MEMBERS[0],))


@pytest.mark.parametrize(
    ("events", "done", "missing"),
    [
        ([event("rank_died", MEMBERS[1], status=-9)], None, (MEMBERS[1],)),
        ([event("rank_stuck", MEMBERS[0], held=True)], None, (MEMBERS[0],)),
        (
            [Event(3.0, "crew_failed", "n1", "x", "collective", data={"workers": ["n1/gpu0#0"]})],
            None,
            ("n1/gpu0",),
        ),
        ([event("rank_stuck", MEMBERS[1], rank=1, unreached="10.0.0.1")], None, ()),
        ([], [], ()),
        ([], rounds(number=2), ()),
        ([], rounds(verified=False), ()),
        ([], rounds(phase="warmup"), ()),
        ([], rounds()[::2], ()),  # of one rank alone
        ([], rounds(group=""), ()),
    ],
)
def test_what_others_did_and_what_was_not_measured_is_unknown(events, done, missing):
    assert result(events, done) == ("unknown", missing)


def test_events_of_another_group_are_not_its_own():
    assert result([event("wrong_result", MEMBERS[0], group="")]) == ("fine", ())
