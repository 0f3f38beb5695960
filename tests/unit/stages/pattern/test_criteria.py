"""What makes the memory of a card fail, and what does not suffice to pass it."""

from copy import copy
from dataclasses import replace

import pytest

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.judge import judge
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event, Round
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.pattern.criteria import hot, pattern, tables
from rigproof.stages.pattern.stage import MEANINGS, OPERATIONS, VramError
from rigproof.stages.registry import KINDS

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
GEFORCE = "pc1/gpu0"
LEVEL = "extended"
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
def loaded():
    return rig_with("localhost", "h200-sxm", 2)


@pytest.fixture(scope="module")
def simulated(loaded):
    return simulated_recording(loaded, LEVEL)


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    found = copy(simulated)
    found.events = list(found.events)
    return found


@pytest.fixture(scope="module")
def geforce():
    return rig_with("pc1", "rtx-3090", 1)


@pytest.fixture(scope="module")
def of_geforce(geforce):
    return simulated_recording(geforce, LEVEL)


def verdict(recording, loaded, criterion=pattern, subject=GPU):
    return judge(criterion, subject, Evidence(recording, loaded))


def with_faults(loaded, *faults):
    return simulated_recording(loaded, LEVEL, faults)


def changed_event(recording, kind, **data):
    recording.events = [
        replace(one, data=one.data | data) if (one.kind, one.stage) == (kind, "pattern") else one
        for one in recording.events
    ]
    return recording


def changed_rounds(recording, which, **changes):
    """Those of the first card's rounds of the stage that `which` selects."""
    recording.put(
        Round,
        [
            replace(one, **changes) if (one.stage, one.subject) == ("pattern", GPU) and which(one) else one
            for one in recording.rounds
        ],
    )
    return recording


def without_rounds(recording, which):
    recording.put(
        Round,
        [one for one in recording.rounds if one.stage != "pattern" or one.subject != GPU or not which(one)],
    )
    return recording


def error(recording, offset, bit=17, kind="hard", mended=False, t_s=30.0):
    read = f"{1 << bit:016x}"
    again = read if kind == "hard" else f"{0:016x}"
    words = (f"{0:016x}", read, again)
    worker = f"{GPU}#0"
    place = (0, offset // 8, offset, f"{offset:x}", *words, str(bit))
    return VramError(t_s, "pattern", worker, GPU, "random", "check", *place, kind, mended)


# memory.pattern


def test_a_healthy_card_passes_and_the_detail_says_how_much_was_tested(recording, loaded):
    found = verdict(recording, loaded)
    assert (found.outcome, found.measured, found.limit, found.direction) == (Outcome.PASS, 0, 0, "at_most")
    assert found.detail.startswith("131 GiB, 95 % of what was free, ")


def test_passes_that_only_the_count_says_were_wrong_are_no_measurement(recording, loaded):
    found = verdict(changed_event(recording, "pattern_result", bad_passes=3, most=9), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    counted = "3 passes were counted as wrong"
    assert found.detail == f"{counted}, and neither a wrong word nor a wrong result was recorded"


@pytest.mark.parametrize("data", [{"passes": 2}, {"compared_gib": 1.0}, {"passes": None}])
def test_a_count_of_fewer_passes_than_were_recorded_is_no_measurement(recording, loaded, data):
    found = verdict(changed_event(recording, "pattern_result", **data), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "were reported, and" in found.detail


def test_passes_that_state_less_memory_than_was_compared_are_no_measurement(recording, loaded):
    recording.rounds = [
        replace(one, labels=one.labels | {"size": 512}) if one.stage == "pattern" else one
        for one in recording.rounds
    ]
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "were reported, and" in found.detail


def test_passes_whose_result_was_not_reported_are_no_measurement(recording, loaded):
    recording.events = [one for one in recording.events if one.kind != "pattern_result"]
    found = verdict(recording, loaded)
    assert (found.outcome, found.detail) == (
        Outcome.NOT_MEASURED,
        "what the passes found was not reported",
    )


def test_a_wrong_word_of_a_card_that_is_not_there_is_not_ignored(recording, loaded):
    recording.put(VramError, [replace(error(recording, 8), subject="localhost/gpu7")])
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.endswith("of localhost/gpu7, which is no device of the rig or of the run")


@pytest.mark.parametrize(("fault", "kind"), [("vram-stuck-bit", "hard"), ("vram-soft-error", "soft")])
def test_a_wrong_word_fails_with_its_place_its_bits_and_its_kind(loaded, fault, kind):
    recording = with_faults(loaded, f"{fault}@{GPU}:stage=pattern")
    found = verdict(recording, loaded)
    assert (found.outcome, found.measured) == (Outcome.FAIL, 1)
    first = next(one for one in recording.of(VramError) if one.subject == GPU)
    assert (
        f"0x{first.address} ({first.pattern}): expected {first.expected}, read {first.read}" in found.detail
    )
    assert f"bit {first.bits}, {kind}" in found.detail
    assert first.again == (first.read if kind == "hard" else first.expected)
    assert ("replaced" in found.remedy) is (kind == "hard")
    assert len(sentence(found)) <= 255
    assert verdict(recording, loaded, subject=OTHER).outcome is Outcome.PASS


def test_what_many_wrong_words_have_in_common_is_said(recording, loaded):
    recording.put(VramError, [error(recording, 4096 * n) for n in range(1, 5)])
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.FAIL
    assert found.detail.endswith("bit 17, hard; all in bit 17, every 4096 bytes")


@pytest.mark.parametrize(
    ("kinds", "remedy"),
    [
        ([("soft", True)], "run again"),
        ([("hard", True), ("soft", True)], "have the card checked: its memory loses"),
        ([("hard", True), ("hard", False)], "have the card replaced"),
    ],
)
def test_the_remedy_is_by_the_worst_kind(recording, loaded, kinds, remedy):
    recording.put(VramError, [error(recording, 8, kind=kind, mended=mended) for kind, mended in kinds])
    assert verdict(recording, loaded).remedy.startswith(remedy)


def test_wrong_words_that_were_not_recorded_one_by_one_fail_too(recording, loaded):
    event = Event(40.0, "wrong_result", GPU, "random: 70 of 99 words", "pattern", f"{GPU}#0", {"words": 70})
    recording.events.append(event)
    found = verdict(recording, loaded)
    assert (found.outcome, found.measured, found.detail) == (Outcome.FAIL, 70, event.message)


def test_the_most_words_that_were_wrong_at_once_are_reported_since_the_first(recording, loaded):
    for t_s, words in ((41.0, 70), (40.0, 50)):
        event = Event(t_s, "wrong_result", GPU, "random: wrong", "pattern", f"{GPU}#0", {"words": words})
        recording.events.append(event)
    found = verdict(recording, loaded)
    assert (found.measured, found.from_s) == (70, 40.0)
    found = verdict(changed_event(recording, "pattern_result", most=90), loaded)
    assert found.measured == 90
    recording.put(VramError, [error(recording, 8, t_s=t_s) for t_s in (32.0, 31.0)])
    found = verdict(recording, loaded)
    assert (found.measured, found.from_s) == (90, 31.0)


def test_a_wrong_result_of_another_stage_is_not_the_patterns(recording, loaded):
    recording.events.append(Event(10.0, "wrong_result", GPU, "wrong", "sustained", f"{GPU}#0", {}))
    assert verdict(recording, loaded).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
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
def test_less_than_promised_is_not_measured(recording, loaded, data, reason):
    found = verdict(changed_event(recording, "allocation", **data), loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert reason in found.detail


def test_a_fill_that_was_not_reported_is_not_measured(recording, loaded):
    recording.events = [one for one in recording.events if one.kind != "allocation"]
    found = verdict(recording, loaded)
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, "no memory was reported as filled")


@pytest.mark.parametrize("name", MEANINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_pass_of_each_pattern_must_have_been_done(recording, loaded, name, operation):
    def which(one):
        return (one.label("pattern"), one.label("operation")) == (name, operation)

    found = verdict(without_rounds(recording, which), loaded)
    assert (found.outcome, found.detail) == (Outcome.NOT_MEASURED, f"no {operation} of {name}")


def test_a_pass_that_proves_nothing_is_not_measured(recording, loaded):
    recording.events.append(
        Event(
            40.0, "pattern_unchecked", GPU, "walking: 5 of 9 words were compared", "pattern", f"{GPU}#0", {}
        )
    )
    changed_rounds(recording, lambda one: one.label("pattern") == "walking", verified=False)
    found = verdict(recording, loaded)
    assert found.outcome is Outcome.NOT_MEASURED
    assert "not verified: walking: 5 of 9 words were compared" in found.detail


def test_the_first_pass_that_was_not_verified_is_told(recording, loaded):
    own = [one.t_s for one in recording.rounds if (one.subject, one.stage) == (GPU, "pattern")]
    first, last = own[0], own[-1]
    assert last > first + 2
    changed_rounds(recording, lambda one: one.t_s in (first, last), verified=False)
    found = verdict(recording, loaded)
    assert found.detail == f"2 of {len(own)} passes were not verified: at t={first:.0f} s"


# memory.hot


def test_a_card_with_a_sensor_is_judged_by_it(recording, loaded):
    assert verdict(recording, loaded, hot).outcome is Outcome.NOT_APPLICABLE


def test_memory_that_is_as_fast_when_hot_passes(of_geforce, geforce):
    found = verdict(of_geforce, geforce, hot, GEFORCE)
    assert found.outcome is Outcome.PASS
    assert found.limit == 95


def test_memory_that_slows_down_when_hot_fails(geforce):
    found = verdict(with_faults(geforce, f"vram-hot@{GEFORCE}:by=8%"), geforce, hot, GEFORCE)
    assert found.outcome is Outcome.FAIL
    assert found.measured == pytest.approx(92, abs=1)
    assert "GB/s after the passes" in found.detail


def test_words_that_are_wrong_only_when_hot_fail(geforce):
    late = with_faults(geforce, f"vram-soft-error@{GEFORCE}:after=50%")
    found = verdict(late, geforce, hot, GEFORCE)
    assert (found.outcome, found.measured) == (Outcome.FAIL, None)
    assert "none before" in found.detail


def test_words_that_are_wrong_from_the_beginning_on_are_not_heat(geforce):
    recording = with_faults(geforce, f"vram-stuck-bit@{GEFORCE}:stage=pattern")
    assert verdict(recording, geforce, hot, GEFORCE).outcome is Outcome.NOT_MEASURED  # no verified passes
    assert verdict(recording, geforce, pattern, GEFORCE).outcome is Outcome.FAIL


@pytest.mark.parametrize("heat", ["cold", "hot"])
@pytest.mark.parametrize("number", [0, 2])
def test_too_few_passes_of_reading_are_not_measured(of_geforce, geforce, heat, number):
    recording = copy(of_geforce)
    kept = [one for one in recording.rounds if one.label("heat") != heat]
    few = [one for one in recording.rounds if one.label("heat") == heat][:number]
    recording.put(Round, kept + few)
    found = verdict(recording, geforce, hot, GEFORCE)
    assert (found.outcome, found.detail) == (
        Outcome.NOT_MEASURED,
        f"{number} verified passes of reading {heat}",
    )


def test_words_are_wrong_only_when_hot_if_the_first_of_them_is_after_all_cold_passes(of_geforce, geforce):
    ends_s = [one.t_s for one in of_geforce.rounds if one.label("heat") == "cold"]
    first, last = min(ends_s), max(ends_s)

    def found(*moments):
        recording = copy(of_geforce)
        errors = [replace(error(recording, 8, t_s=t_s), subject=GEFORCE) for t_s in moments]
        recording.put(VramError, errors)
        return verdict(recording, geforce, hot, GEFORCE)

    assert found(last + 5.0, last + 0.1).from_s == pytest.approx(last + 0.1)
    assert found(last + 0.1).outcome is Outcome.FAIL
    begun = min(one.t_s - one.seconds for one in of_geforce.rounds if one.label("heat") == "cold")
    assert found(last + 5.0).detail.startswith(f"words are wrong since {last + 5.0 - begun:.0f} s into the ")
    for early in (last, first + 0.001):
        assert found(early, last + 5.0).outcome is Outcome.PASS  # memory.pattern fails it


def test_an_unknown_card_without_samples_may_have_a_sensor(of_geforce, geforce):
    recording = copy(of_geforce)
    recording.put(GpuSample, [])
    unknown = replace(geforce, skus={})
    found = judge(hot, GEFORCE, Evidence(recording, unknown, None, geforce))
    assert found.outcome is Outcome.NOT_MEASURED
    assert "sensor" in found.detail


# Tables and lint


def test_the_tables_show_each_pattern_and_each_wrong_word(loaded):
    recording = with_faults(loaded, f"vram-soft-error@{GPU}")
    rates, wrong = tables(recording)
    assert [row[:2] for row in rates.rows] == [(one, name) for one in (GPU, OTHER) for name in MEANINGS]
    assert float(rates.rows[0][3]) == pytest.approx(0.98 * 4800, rel=0.02)
    ((subject, *_, kind, _at),) = wrong.rows
    assert (subject, kind) == (GPU, "soft")
    assert all(len(row) == len(wrong.columns) for row in wrong.rows)


def test_a_recording_without_the_stage_has_no_table(recording):
    recording.put(Round, [one for one in recording.rounds if one.stage != "pattern"])
    assert not any(one.rows for one in tables(recording))


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


@pytest.mark.parametrize(
    ("tested_mib", "outcome"), [(134_999.0, Outcome.PASS), (134_998.9, Outcome.NOT_MEASURED)]
)
def test_nine_tenths_of_the_memory_but_for_a_rounded_block_are_enough(recording, loaded, tested_mib, outcome):
    """150,000 MiB are more than the plan promises, and nine tenths of them 135,000."""
    changed_event(recording, "allocation", allocated_mib=tested_mib, available_mib=150_000.0)
    assert verdict(recording, loaded).outcome is outcome


def test_the_last_report_of_what_was_filled_counts(recording, loaded):
    (own,) = (
        one
        for one in recording.events
        if (one.kind, one.stage, one.subject) == ("allocation", "pattern", GPU)
    )
    short = replace(own, t_s=own.t_s + 1, data=own.data | {"allocated_mib": 1024})
    recording.events.append(short)
    assert verdict(recording, loaded).detail.startswith("1 GiB were tested")


def test_a_known_card_without_samples_is_known_to_have_no_sensor(of_geforce, geforce):
    recording = copy(of_geforce)
    recording.put(GpuSample, [])
    assert verdict(recording, geforce, hot, GEFORCE).outcome is Outcome.PASS


def test_memory_may_be_as_slow_as_its_limit(of_geforce, geforce):
    """The passes after the others are those before them once more, so that the share is 100 %."""
    recording = copy(of_geforce)
    kept = [one for one in recording.rounds if one.label("heat") != "hot"]
    cold = [one for one in kept if one.label("heat") == "cold"]
    later_s = max(one.t_s for one in of_geforce.rounds if one.label("heat") == "hot") - cold[-1].t_s
    again = [replace(one, t_s=one.t_s + later_s, labels=dict(one.labels) | {"heat": "hot"}) for one in cold]
    recording.put(Round, kept + again)
    for share, outcome in ((1.0, Outcome.PASS), (1.001, Outcome.FAIL)):
        stages = geforce.rig.stages
        table = stages.pattern.model_copy(update={"hot_share": share})
        rig = geforce.rig.model_copy(update={"stages": stages.model_copy(update={"pattern": table})})
        found = judge(hot, GEFORCE, Evidence(recording, replace(geforce, rig=rig), None, geforce))
        assert (found.measured, found.outcome) == (pytest.approx(100), outcome)
