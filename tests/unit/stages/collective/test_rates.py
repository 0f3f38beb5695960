"""The rate of a collective at a size: which of a team's rounds count, and how much."""

from collections import Counter
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome
from rigproof.stages.collective.criteria import tables
from rigproof.stages.collective.rates import speeds, speeds_of
from rigproof.stages.collective.stage import ALL_GATHER, ALL_REDUCE, STAGE
from support.collective_bench import RANKS, TEAM, CollectiveBench

EVEN, ODD = 0, 1


class RoundsBench(CollectiveBench):
    """All-reduces and all-gathers of 16 MiB, each of three rounds of odd and of even numbers."""

    def speeds(self, operation=ALL_REDUCE):
        (every,) = subjects(self.loaded, "team")
        team = SharedEvidence(Evidence(self.recording, self.loaded), every)
        return {one.elements: one for one in speeds(operation, team) if one.mib == 16}

    def by_rank(self):
        """The rounds of the all-reduces, whatever the plan asks for."""
        own = Evidence(self.recording, self.loaded).rounds(TEAM).measured
        own = own.having(operation=ALL_REDUCE, mib=16, group="", arm="as it is")
        return [own.only(own.same("worker", one)) for one in own.distinct("worker")]

    def rounds(self, operation, parity, change):
        """`change` gets each of these rounds, with its number on its rank, and returns those in its place."""
        numbers, found = Counter(), []
        for one in self.recording.rounds:
            own = (one.stage, one.phase, one.label("operation"), one.label("mib"))
            if own == (STAGE, "measure", operation, 16) and one.label("elements") % 2 == parity:
                found += change(one, numbers[one.worker])
                numbers[one.worker] += 1
            else:
                found.append(one)
        self.recording.put(Round, sorted(found, key=lambda one: one.t_s))

    def part(self, parts, operation=ALL_REDUCE, parities=(EVEN, ODD), work=1.0):
        """Each round becomes so many shorter ones that do this much."""

        def parted(one, _number):
            s = one.seconds / parts
            shorter = replace(one, seconds=s, work=work * one.work / parts)
            return [replace(shorter, t_s=one.t_s - place * s) for place in reversed(range(parts))]

        for parity in parities:
            self.rounds(operation, parity, parted)

    def late(self, parity, share, *, but=0):
        """The host was late in all but the first all-reduces, and they did that share."""

        def change(one, number):
            return [one if number < but else replace(one, work=share * one.work, host_paced=True)]

        self.rounds(ALL_REDUCE, parity, change)


@pytest.fixture
def bench(simulated):
    return RoundsBench(*simulated, STAGE)


def test_odd_and_even_numbers_are_rated_each_by_itself(bench):
    before = bench.speeds(ALL_GATHER)
    bench.part(4, ALL_GATHER, (EVEN,), work=1.6)
    many = bench.speeds(ALL_GATHER)
    assert list(before) == list(many) == ["odd", "even"]
    assert many["odd"] == before["odd"]
    assert many["even"].gbps == pytest.approx(1.6 * before["even"].gbps, rel=0.01)


@pytest.mark.parametrize("parity", [EVEN, ODD])
def test_one_half_that_is_slow_fails(bench, parity):
    bench.rounds(ALL_REDUCE, parity, lambda one, _number: [replace(one, work=0.8 * one.work)])
    assert bench.found().outcome is Outcome.FAIL


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize(("hiccups", "outcome"), [(1, Outcome.PASS), (4, Outcome.FAIL)])
def test_one_round_of_a_half_may_stand_still(bench, parts, hiccups, outcome):
    """Of six and of twelve."""
    bench.part(parts)
    sound = bench.speeds()["odd"].gbps
    bench.rounds(ALL_REDUCE, ODD, lambda one, at: [replace(one, work=one.work / (6 if at < hiccups else 1))])
    assert bench.found().outcome is outcome
    assert (bench.speeds()["odd"].gbps == pytest.approx(sound, rel=0.01)) == (hiccups == 1)


@pytest.mark.parametrize(
    ("own_pace", "share", "outcome"),
    [(3, 0.3, Outcome.PASS), (2, 0.3, Outcome.NOT_MEASURED), (2, 0.95, Outcome.PASS)],
)
@pytest.mark.parametrize("parity", [EVEN, ODD])
def test_rounds_in_which_a_host_was_late_count_only_if_there_are_too_few_others(
    bench, parity, own_pace, share, outcome
):
    """Of a half, whatever the other one did: nothing of it would have been measured."""
    bench.part(2)
    bench.late(parity, share, but=own_pace)
    found = bench.found()
    assert found.outcome is outcome
    paced = {name: one.host_paced for name, one in bench.speeds().items()}
    assert paced == {"odd": False, "even": False} | {("odd", "even")[parity == EVEN]: own_pace < 3}
    if outcome is Outcome.NOT_MEASURED:
        assert "its pace, not the GPUs'" in found.detail


@pytest.mark.parametrize(("late", "outcome"), [(True, Outcome.NOT_MEASURED), (None, Outcome.FAIL)])
def test_where_a_rank_lacks_a_round_nothing_tells_which_ones_hosts_were_late_for(bench, late, outcome):
    bench.part(2)

    def change(one, number):
        if number == 0:
            return [one] if one.worker == RANKS[0] else []
        return [replace(one, work=0.3 * one.work, host_paced=late) if number < 3 else one]

    bench.rounds(ALL_REDUCE, ODD, change)
    assert bench.found().outcome is outcome


def test_with_too_few_rounds_of_either_all_count_together(bench):
    for parity in (EVEN, ODD):
        bench.rounds(ALL_REDUCE, parity, lambda one, number: [one] if number < 2 else [])
    assert [one.elements for one in speeds_of(16, bench.by_rank())] == ["odd and even"]


def test_fewer_than_ten_rounds_have_no_hiccup(bench):
    """Of six of odd numbers alone, as in a quick run."""
    bench.part(2)
    bench.rounds(ALL_REDUCE, EVEN, lambda _one, _number: [])
    (sound,) = speeds_of(16, bench.by_rank())
    bench.rounds(ALL_REDUCE, ODD, lambda one, at: [one if at else replace(one, work=one.work / 6)])
    (now,) = speeds_of(16, bench.by_rank())
    assert now.gbps == pytest.approx(sound.gbps * (5 + 1 / 6) / 6, rel=0.01)


def test_the_reports_table_has_the_rates_that_are_judged(bench):
    bench.part(4, ALL_GATHER, (EVEN,), work=1.6)
    (table,) = tables(bench.recording)
    rows = [one for one in table.rows if one[:3] == (TEAM, "all-gather", "16 MiB")]
    rated = bench.speeds(ALL_GATHER)
    assert {one[3]: float(one[5]) for one in rows} == {
        name: pytest.approx(one.gbps, rel=0.01) for name, one in rated.items()
    }
