from dataclasses import replace

import pytest

from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.order import (
    count_line,
    instead,
    meaning,
    not_applicable_sentences,
    not_measured_groups,
    not_measured_sentence,
    not_measured_sentences,
    reading_order,
    with_more,
    word,
)


def of(*outcomes):
    return [Verdict("c.x", f"n{place}", outcome) for place, outcome in enumerate(outcomes)]


def test_failures_are_read_first_and_what_does_not_apply_last(verdicts):
    assert [word(verdict) for verdict in reading_order(verdicts)] == [
        "FAIL", "WARN", "NOT MEASURED", "no limit", "pass", "pass", "pass", "not applicable",
    ]  # fmt: skip


def test_what_kept_the_run_from_measuring_is_named_before_what_it_left_unmeasured():
    left = [Verdict("c.x", "n1", Outcome.NOT_MEASURED, detail="no samples")]
    held = [
        Verdict(f"c.{name}", "n2", Outcome.NOT_MEASURED, detail="pid 7 was there", remedy="end pid 7")
        for name in "abcd"
    ]
    assert [not_measured_sentence(group) for group in not_measured_groups([*left, *held])] == [
        "n2: 4 criteria not measured: pid 7 was there. End pid 7.",
        "n1 c.x: not measured: no samples",
    ]


def test_where_no_gpu_is_there_what_was_not_measured_is_one_sentence():
    missing = [Verdict("inventory.gpus_present", one, Outcome.FAIL) for one in ("n/gpu0", "n/gpu1")]
    left = [Verdict(f"c.{name}", "n/gpu0", Outcome.NOT_MEASURED, detail=name) for name in "abcd"]
    assert not_measured_sentences([*missing, *left]) == [
        "4 criteria were not measured: no device of the rig is there"
    ]
    assert len(not_measured_sentences([*missing, *left], everything=True)) == 4
    lost = Verdict("throughput.gemm_bf16", "n/gpu0", Outcome.PASS)  # it was there before
    assert len(not_measured_sentences([*missing, *left, lost])) == 4
    present = Verdict("inventory.gpus_present", "n/gpu1", Outcome.PASS)
    assert len(not_measured_sentences([missing[0], present, *left])) == 4


def test_counts_are_shown_in_one_line(verdicts):
    assert count_line(verdicts) == "3 pass, 1 warn, 1 fail, 1 not measured, 1 not applicable, 1 no limit"
    assert count_line([]) == "nothing was judged"


@pytest.mark.parametrize(
    ("decision", "verdicts", "words"),
    [
        (Decision.ACCEPTED, of(Outcome.PASS), "this rig is fit for training"),
        (Decision.ACCEPTED, of(Outcome.WARN), "this rig is fit for training; look at 1 warning"),
        (
            Decision.REJECTED,
            of(Outcome.FAIL),
            "1 criterion failed; do not train on this rig until that is fixed",
        ),
        (Decision.REJECTED, of(Outcome.FAIL, Outcome.FAIL), "2 criteria failed; do not train"),
        (
            Decision.INCOMPLETE,
            of(Outcome.NOT_MEASURED),
            "nothing failed, but 1 criterion was not measured",
        ),
        (Decision.INCOMPLETE, of(Outcome.NOT_APPLICABLE), "nothing proves the rig fit either"),
        (Decision.INCOMPLETE, [], "nothing proves the rig fit either"),
    ],
)
def test_a_decision_says_what_it_means(decision, verdicts, words):
    assert words in meaning(decision, verdicts, simulated=False)


@pytest.mark.parametrize("short", ["", "for 6 s of load, not a soak"])
@pytest.mark.parametrize(
    ("decision", "verdicts", "start"),
    [
        (Decision.ACCEPTED, of(Outcome.PASS, Outcome.WARN), "nothing failed"),
        (Decision.REJECTED, of(Outcome.FAIL), "1 criterion failed on the simulated rig"),
        (Decision.INCOMPLETE, of(Outcome.NOT_MEASURED), "nothing failed, but 1 criterion was not measured"),
    ],
)
def test_of_a_simulated_rig_nobody_is_told_to_train_on_it_or_not_to(decision, verdicts, start, short):
    said = meaning(decision, verdicts, simulated=True, short=short)
    assert said.startswith(start)
    assert "fit for training" not in said
    assert "do not train" not in said


def test_what_is_worth_a_headline_is_said_of_a_rig_that_is_accepted():
    fit = meaning(Decision.ACCEPTED, of(Outcome.PASS), simulated=False)
    said = with_more(fit, Decision.ACCEPTED, ["together 1.3 × n1/gpu0 alone"])
    assert said == "this rig is fit for training; together 1.3 × n1/gpu0 alone"
    for decision in (Decision.REJECTED, Decision.INCOMPLETE):
        assert "1.3" not in with_more("", decision, ["together 1.3 ×"])


def test_one_reason_why_something_does_not_apply_is_reported_once():
    cards = [Verdict("memory.ecc", f"pc1/gpu{n}", Outcome.NOT_APPLICABLE, detail="no ECC") for n in range(3)]
    other = Verdict("health.xid", "pc1/gpu0", Outcome.NOT_APPLICABLE, detail="no Xids here")
    assert not_applicable_sentences([*cards, other, *of(Outcome.NOT_MEASURED)]) == [
        "memory.ecc: not applicable to 3 subjects: no ECC",
        "pc1/gpu0 health.xid: not applicable: no Xids here",
    ]


APART = "GPUs not tested together"


@pytest.mark.parametrize(
    ("short", "apart", "added"),
    [
        ("", "", ""),
        ("", APART, f", {APART}"),
        ("for 6 s of load, not a soak", APART, f" for 6 s of load, not a soak, {APART}"),
    ],
)
def test_only_accepted_has_additions(short, apart, added):
    assert instead(Decision.ACCEPTED, short, apart) == added
    assert instead(Decision.REJECTED, short, apart) == instead(Decision.INCOMPLETE, short, apart) == ""


def test_a_rig_whose_gpus_were_not_tested_together_is_not_called_fit():
    said = meaning(Decision.ACCEPTED, of(Outcome.WARN), apart=APART, simulated=False)
    assert said == (
        "each is fit for training by itself; that they can train together is not proven; look at 1 warning"
    )
    assert APART not in meaning(Decision.ACCEPTED, of(Outcome.PASS), apart=APART, simulated=True)


@pytest.mark.parametrize("decision", list(Decision))
def test_what_was_not_tested_ends_every_verdict_line(decision):
    sense = meaning(decision, of(Outcome.PASS), simulated=False)
    assert with_more(sense, decision, not_tested="pc2 (no GPU)") == f"{sense}; not tested: pc2 (no GPU)"


def test_an_interrupted_run_says_so():
    said = meaning(Decision.INCOMPLETE, of(Outcome.NOT_MEASURED), interrupted=True, simulated=False)
    assert said.startswith("the run was interrupted")
    said = meaning(Decision.REJECTED, of(Outcome.FAIL), interrupted=True, simulated=False)
    assert said == (
        "1 criterion failed before the run was interrupted; do not train on this rig until that is fixed"
    )


def test_what_an_interrupted_run_left_unmeasured_is_one_sentence():
    left = [
        Verdict("c.x", f"n{number}", Outcome.NOT_MEASURED, detail=detail)
        for number, detail in enumerate(
            ("the sustained stage was aborted", "the training stage did not run", "no counters", "no samples")
        )
    ]
    held = Verdict("c.y", "n2", Outcome.NOT_MEASURED, detail="pid 7 was there", remedy="end pid 7")
    assert not_measured_sentences([*left, held], interrupted=True) == [
        "n2 c.y: not measured: pid 7 was there. End pid 7.",
        "the run was interrupted before the stages sustained, training ended: 4 criteria are not measured",
    ]
    alone = [replace(one, detail=left[0].detail) for one in left]
    assert not_measured_sentences(alone, interrupted=True) == [
        "the run was interrupted before the stage sustained ended: 4 criteria are not measured"
    ]
    assert len(not_measured_sentences([*left, held])) == 5
    assert len(not_measured_sentences(left[:3], interrupted=True)) == 3
