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
from rigproof.stages.collective.rates import speeds
from rigproof.stages.collective.stage import ALL_GATHER, ALL_REDUCE, STAGE
from support.collective_bench import TEAM, CollectiveBench

EVEN, ODD = 0, 1
BOTH = "as many odd as even"


class RoundsBench(CollectiveBench):
    """All-reduces and all-gathers of 16 MiB, each of three rounds of odd and of even numbers."""

    def speed(self, operation=ALL_REDUCE):
        (every,) = subjects(self.loaded, "team")
        team = SharedEvidence(Evidence(self.recording, self.loaded), every)
        return next(one for one in speeds(operation, team) if one.mib == 16)

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


def test_it_does_not_depend_on_how_many_rounds_there_are_of_faster_numbers(bench):
    before = bench.speed(ALL_GATHER)
    bench.part(4, ALL_GATHER, (EVEN,), work=1.6)
    many = bench.speed(ALL_GATHER)
    bench.rounds(ALL_GATHER, EVEN, lambda one, number: [] if number % 4 else [one])
    few = bench.speed(ALL_GATHER)
    assert [one.elements for one in (before, many, few)] == [BOTH] * 3
    assert many.gbps == pytest.approx(before.gbps * 2 / (1 + 1 / 1.6), rel=0.01)
    assert few.gbps == pytest.approx(many.gbps, rel=0.01)


def test_even_numbers_alone_that_are_slow_fail(bench):
    bench.rounds(ALL_REDUCE, EVEN, lambda one, _number: [replace(one, work=0.6 * one.work)])
    assert bench.found().outcome is Outcome.FAIL


@pytest.mark.parametrize(("hiccups", "outcome"), [(1, Outcome.PASS), (4, Outcome.FAIL)])
def test_one_round_of_ten_may_stand_still_whichever_numbers_it_has(bench, hiccups, outcome):
    """Of six and six, as where each half alone has too few for that."""
    bench.part(2)
    sound = bench.speed().gbps
    bench.rounds(ALL_REDUCE, ODD, lambda one, at: [replace(one, work=one.work / (6 if at < hiccups else 1))])
    assert bench.found().outcome is outcome
    assert (bench.speed().gbps == pytest.approx(sound, rel=0.01)) == (hiccups == 1)


def test_rounds_at_the_gpus_own_pace_count_together_if_there_are_too_few_of_either(bench):
    bench.part(2)
    sound = bench.speed().gbps
    for parity in (EVEN, ODD):
        bench.late(parity, 0.6, but=2)
    found = bench.speed()
    assert (found.gbps, found.elements, found.host_paced) == (
        pytest.approx(sound, rel=0.01),
        "odd and even",
        False,
    )
    assert bench.found().outcome is Outcome.PASS


@pytest.mark.parametrize(("parity", "name"), [(EVEN, "even"), (ODD, "odd")])
def test_numbers_that_do_not_count_because_hosts_were_late_are_said(bench, parity, name):
    assert "late" not in bench.found().detail
    bench.late(parity, 0.4, but=2)
    found = bench.found()
    assert found.outcome is Outcome.PASS
    assert f"hosts were late with {name} numbers of 16 MiB, which do not count" in found.detail


def test_where_hosts_were_late_in_all_of_them_all_count_and_the_rate_is_the_hosts(bench):
    for parity in (EVEN, ODD):
        bench.late(parity, 0.9)
    found = bench.speed()
    assert (found.elements, found.host_paced, found.late) == (BOTH, True, "")


def test_the_reports_table_has_the_rate_that_is_judged(bench):
    bench.part(4, ALL_GATHER, (EVEN,), work=1.6)
    (table,) = tables(bench.recording)
    (row,) = (one for one in table.rows if one[:3] == (TEAM, "all-gather", "16 MiB"))
    assert float(row[4]) == pytest.approx(bench.found(ALL_GATHER).measured, rel=0.01)
