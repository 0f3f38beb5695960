"""What makes the memory of a card fail, and what does not suffice to pass it."""

from dataclasses import replace

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Round
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.pattern.criteria import tables
from rigproof.stages.pattern.stage import MEANINGS, OPERATIONS, VramError
from rigproof.stages.registry import KINDS
from support.simulated_bench import SimulatedBench

PATTERN, HOT = "memory.pattern", "memory.hot"
GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
GEFORCE = "pc1/gpu0"
LEVEL = "extended"
PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED
RIG = {
    "name": "short",
    "sampling": {"rate_hz": 3},
    "stages": {
        "gemm": {"settle_s": {LEVEL: 4}, "measure_s": {LEVEL: 2}},
        "sustained": {"settle_s": {LEVEL: 4}, "length_s": {LEVEL: 8}},
        "pattern": {"length_s": {LEVEL: 8}, "fade_s": {LEVEL: 1}},
        **{name: {"length_s": {LEVEL: 0}} for name in ("training", "feeding", "sharing", "bandwidth")},
    },
}


def rig_with(node, sku, number):
    nodes = [{"name": node, "cpus": 32, "ram_gib": 128, "gpus": [{"sku": sku}] * number}]
    return over_defaults(RIG | {"nodes": nodes}, "short.toml", KINDS)


@pytest.fixture(scope="module")
def simulated():
    loaded = rig_with("localhost", "h200-sxm", 2)
    return simulated_recording(loaded, LEVEL), loaded


@pytest.fixture
def bench(simulated):
    return PatternBench(*simulated, "pattern")


@pytest.fixture(scope="module")
def simulated_geforce():
    loaded = rig_with("pc1", "rtx-3090", 1)
    return simulated_recording(loaded, LEVEL), loaded


@pytest.fixture
def geforce(simulated_geforce):
    """Without a sensor of its memory's temperature."""
    return PatternBench(*simulated_geforce, "pattern")


class PatternBench(SimulatedBench):
    def report(self, kind, **data):
        """Other data of the stage's events of a kind; without any the events are gone."""
        events = []
        for one in self.recording.events:
            if (one.kind, one.stage) != (kind, "pattern"):
                events.append(one)
            elif data:
                events.append(replace(one, data=one.data | data))
        self.recording.events = events

    def wrong(self, *moments_s, subject=GPU, offset=8, kind="hard", mended=False):
        """Words with a wrong bit 17, each a further `offset` on."""
        read = f"{1 << 17:016x}"
        words = (f"{0:016x}", read, read if kind == "hard" else f"{0:016x}")
        errors = []
        for number, t_s in enumerate(moments_s or (30.0,), 1):
            byte = number * offset
            where = (0, byte // 8, byte, f"{byte:x}", *words, "17")
            who = ("pattern", f"{subject}#0", subject)
            errors.append(VramError(t_s, *who, "random", "check", *where, kind, mended))
        self.recording.put(VramError, [*self.recording.of(VramError), *errors])


def with_fault(loaded, fault):
    return PatternBench(simulated_recording(loaded, LEVEL, [fault]), loaded, "pattern")


# memory.pattern


def test_a_healthy_card_passes_and_the_detail_says_how_much_was_tested(bench):
    found = bench.verdict(PATTERN, GPU)
    assert (found.outcome, found.measured, found.limit, found.direction) == (PASS, 0, 0, "at_most")
    assert found.detail.startswith("131 GiB, 95 % of what was free, ")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "what the passes found was not reported"),
        (
            {"bad_passes": 3, "most": 9},
            "3 passes were counted as wrong, and neither a wrong word nor a wrong result was recorded",
        ),
        ({"passes": 2}, "were reported, and"),
        ({"compared_gib": 1.0}, "were reported, and"),
        ({"passes": None}, "were reported, and"),
    ],
)
def test_a_result_that_is_missing_or_says_otherwise_than_the_rounds_is_no_measurement(bench, data, said):
    bench.report("pattern_result", **data)
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is NOT_MEASURED
    assert said in found.detail


def test_passes_that_state_less_memory_than_was_compared_are_no_measurement(bench):
    bench.give(GPU, size=512)
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is NOT_MEASURED
    assert "were reported, and" in found.detail


def test_a_wrong_word_of_a_card_that_is_not_there_is_not_ignored(bench):
    bench.wrong(subject="localhost/gpu7")
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is NOT_MEASURED
    assert found.detail.endswith("of localhost/gpu7, which is no device of the rig or of the run")


@pytest.mark.parametrize(("fault", "kind"), [("vram-stuck-bit", "hard"), ("vram-soft-error", "soft")])
def test_a_wrong_word_fails_with_its_place_its_bits_and_its_kind(bench, fault, kind):
    bench = with_fault(bench.loaded, f"{fault}@{GPU}:stage=pattern")
    found = bench.verdict(PATTERN, GPU)
    assert (found.outcome, found.measured) == (FAIL, 1)
    first = next(one for one in bench.recording.of(VramError) if one.subject == GPU)
    place = f"0x{first.address} ({first.pattern}): expected {first.expected}, read {first.read}"
    assert place in found.detail
    assert f"bit {first.bits}, {kind}" in found.detail
    assert first.again == (first.read if kind == "hard" else first.expected)
    assert ("replaced" in found.remedy) is (kind == "hard")
    assert len(sentence(found)) <= 255
    assert bench.verdict(PATTERN, OTHER).outcome is PASS


def test_what_many_wrong_words_have_in_common_is_said(bench):
    bench.wrong(30.0, 30.0, 30.0, 30.0, offset=4096)
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is FAIL
    assert found.detail.endswith("bit 17, hard; all in bit 17, every 4096 bytes")


@pytest.mark.parametrize(
    ("kinds", "remedy"),
    [
        ([("soft", True)], "run again"),
        ([("hard", True), ("soft", True)], "have the card checked: its memory loses"),
        ([("hard", True), ("hard", False)], "have the card replaced"),
    ],
)
def test_the_remedy_is_by_the_worst_kind(bench, kinds, remedy):
    for kind, mended in kinds:
        bench.wrong(kind=kind, mended=mended)
    assert bench.verdict(PATTERN, GPU).remedy.startswith(remedy)


def test_wrong_words_that_were_not_recorded_one_by_one_fail_too_since_the_first(bench):
    bench.happened("wrong_result", GPU, "random: 70 of 99 words", 41.0, words=70)
    found = bench.verdict(PATTERN, GPU)
    assert (found.outcome, found.measured, found.detail) == (FAIL, 70, "random: 70 of 99 words")
    bench.happened("wrong_result", GPU, "random: wrong", 40.0, words=50)
    found = bench.verdict(PATTERN, GPU)
    assert (found.measured, found.from_s) == (70, 40.0)
    bench.report("pattern_result", most=90)
    bench.wrong(32.0, 31.0)
    found = bench.verdict(PATTERN, GPU)
    assert (found.measured, found.from_s) == (90, 31.0)


def test_a_wrong_result_of_another_stage_is_not_the_patterns(bench):
    bench.event("wrong_result", GPU, "wrong", 10.0, stage="sustained")
    assert bench.verdict(PATTERN, GPU).outcome is PASS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "no memory was reported as filled"),
        ({"allocated_mib": 100_000}, "97.7 GiB were tested, less than 0.9 of 138 GiB"),
        (
            {"allocated_mib": 50_000, "available_mib": 51_000},
            "48.8 GiB were tested, less than 0.9 of 97.3 GiB",
        ),
        ({"allocated_mib": None}, "how much memory was filled was not reported"),
        ({"available_mib": 0.0}, "how much memory was filled was not reported"),
        ({"allocated_mib": float("nan")}, "nan"),
    ],
)
def test_less_than_promised_is_not_measured(bench, data, reason):
    bench.report("allocation", **data)
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is NOT_MEASURED
    assert reason in found.detail


@pytest.mark.parametrize(("tested_mib", "outcome"), [(134_999.0, PASS), (134_998.9, NOT_MEASURED)])
def test_nine_tenths_of_the_memory_but_for_a_rounded_block_are_enough(bench, tested_mib, outcome):
    """150,000 MiB are more than the plan promises, and nine tenths of them 135,000."""
    bench.report("allocation", allocated_mib=tested_mib, available_mib=150_000.0)
    assert bench.verdict(PATTERN, GPU).outcome is outcome


def test_the_last_report_of_what_was_filled_counts(bench):
    (own,) = (
        one
        for one in bench.recording.events
        if (one.kind, one.stage, one.subject) == ("allocation", "pattern", GPU)
    )
    bench.recording.add(replace(own, t_s=own.t_s + 1, data=own.data | {"allocated_mib": 1024}))
    assert bench.verdict(PATTERN, GPU).detail.startswith("1 GiB were tested")


@pytest.mark.parametrize("name", MEANINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_pass_of_each_pattern_must_have_been_done(bench, name, operation):
    bench.without(GPU, pattern=name, operation=operation)
    found = bench.verdict(PATTERN, GPU)
    assert (found.outcome, found.detail) == (NOT_MEASURED, f"no {operation} of {name}")


def test_a_pass_that_proves_nothing_is_not_measured(bench):
    bench.happened("pattern_unchecked", GPU, "walking: 5 of 9 words were compared")
    bench.give(GPU, {"pattern": "walking"}, verified=False)
    found = bench.verdict(PATTERN, GPU)
    assert found.outcome is NOT_MEASURED
    assert "not verified: walking: 5 of 9 words were compared" in found.detail


def test_the_first_pass_that_was_not_verified_is_told(bench):
    own = [one.t_s for one in bench.recording.rounds.of(GPU) if one.stage == "pattern"]
    first, last = own[0], own[-1]
    assert last > first + 2
    bench.give(GPU, verified=lambda one: one.t_s not in (first, last))
    found = bench.verdict(PATTERN, GPU)
    assert found.detail == f"2 of {len(own)} passes were not verified: at t={first:.0f} s"


# memory.hot


def test_a_card_with_a_sensor_is_judged_by_it(bench):
    assert bench.verdict(HOT, GPU).outcome is Outcome.NOT_APPLICABLE


def test_memory_that_is_as_fast_when_hot_passes(geforce):
    found = geforce.verdict(HOT, GEFORCE)
    assert (found.outcome, found.limit) == (PASS, 95)


def test_memory_that_slows_down_when_hot_fails(geforce):
    found = with_fault(geforce.loaded, f"vram-hot@{GEFORCE}:by=8%").verdict(HOT, GEFORCE)
    assert (found.outcome, found.measured) == (FAIL, pytest.approx(92, abs=1))
    assert "GB/s after the passes" in found.detail


def test_words_that_are_wrong_from_the_beginning_on_are_not_heat(geforce):
    bench = with_fault(geforce.loaded, f"vram-stuck-bit@{GEFORCE}:stage=pattern")
    assert bench.verdict(HOT, GEFORCE).outcome is NOT_MEASURED  # no verified passes
    assert bench.verdict(PATTERN, GEFORCE).outcome is FAIL


@pytest.mark.parametrize("heat", ["cold", "hot"])
@pytest.mark.parametrize("number", [0, 2])
def test_too_few_passes_of_reading_are_not_measured(geforce, heat, number):
    places = iter(range(1000))
    geforce.change(lambda one: one if next(places) < number else None, GEFORCE, heat=heat)
    found = geforce.verdict(HOT, GEFORCE)
    assert (found.outcome, found.detail) == (NOT_MEASURED, f"{number} verified passes of reading {heat}")


def test_words_are_wrong_only_when_hot_if_the_first_of_them_is_after_all_cold_passes(geforce):
    cold = [one for one in geforce.recording.rounds if one.label("heat") == "cold"]
    first_s, last_s = cold[0].t_s, cold[-1].t_s

    def found(*moments_s):
        geforce.recording.put(VramError, [])
        geforce.wrong(*moments_s, subject=GEFORCE)
        return geforce.verdict(HOT, GEFORCE)

    late = found(last_s + 5.0, last_s + 0.1)
    assert (late.outcome, late.measured, late.from_s) == (FAIL, None, pytest.approx(last_s + 0.1))
    since_s = last_s + 5.0 - (first_s - cold[0].seconds)
    assert found(last_s + 5.0).detail == f"words are wrong since {since_s:.0f} s into the passes, none before"
    for early_s in (last_s, first_s + 0.001):
        assert found(early_s, last_s + 5.0).outcome is PASS  # memory.pattern fails it


def test_an_unknown_card_without_samples_may_have_a_sensor_and_a_known_one_has_none(geforce):
    geforce.recording.put(GpuSample, [])
    assert geforce.verdict(HOT, GEFORCE).outcome is PASS
    geforce.unknown()
    found = geforce.verdict(HOT, GEFORCE)
    assert found.outcome is NOT_MEASURED
    assert "sensor" in found.detail


def test_memory_may_be_as_slow_as_its_limit(geforce):
    """The passes after the others are those before them once more, so that the share is 100 %."""
    rounds = geforce.recording.rounds
    cold, hot = ([one for one in rounds if one.label("heat") == heat] for heat in ("cold", "hot"))
    later_s = hot[-1].t_s - cold[-1].t_s
    again = [replace(one, t_s=one.t_s + later_s, labels=one.labels | {"heat": "hot"}) for one in cold]
    geforce.recording.put(Round, [one for one in rounds if one.label("heat") != "hot"] + again)
    for share, outcome in ((1.0, PASS), (1.001, FAIL)):
        geforce.settings("pattern", hot_share=share)
        found = geforce.verdict(HOT, GEFORCE)
        assert (found.measured, found.outcome) == (pytest.approx(100), outcome)


# Tables and lint


def test_the_tables_show_each_pattern_and_each_wrong_word(bench):
    rates, wrong = tables(with_fault(bench.loaded, f"vram-soft-error@{GPU}").recording)
    assert [row[:2] for row in rates.rows] == [(one, name) for one in (GPU, OTHER) for name in MEANINGS]
    assert float(rates.rows[0][3]) == pytest.approx(0.98 * 4800, rel=0.02)
    ((subject, *_, kind, _at),) = wrong.rows
    assert (subject, kind) == (GPU, "soft")
    assert all(len(row) == len(wrong.columns) for row in wrong.rows)


def test_a_recording_without_the_stage_has_no_table(bench):
    for subject in (GPU, OTHER):
        bench.without(subject)
    assert not any(one.rows for one in tables(bench.recording))


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"tested_share": 0.3}, "tested_share = 0.3"),
        ({"free_share": 0.8}, "free_share = 0.8"),
        ({"hot_share": 0.3}, "hot_share = 0.3"),
        ({"hot_share": 0.99}, "hot_share = 0.99"),
        ({"cpu_mib": 0.5}, "cpu_mib = 0.5"),
        ({"cpu_mib": 5000}, "cpu_mib = 5000"),
    ],
)
def test_settings_that_test_nothing_are_refused(table, key):
    tables = {"name": "lab", "stages": {"pattern": table}, "nodes": [{"name": "a"}]}
    problems = lint_rig(over_defaults(tables, "lab.toml", KINDS))
    assert any(one.startswith(f"lab.toml: stages.pattern.{key}: ") for one in problems), problems
