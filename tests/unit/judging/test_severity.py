"""What kind of action a failure or warning asks for."""

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.document import criteria_page
from rigproof.records.verdict import SEVERITIES, Outcome, sentence, sentence_and_severity
from support.recordings import HEALTH

GPU = "pc1/gpu0"


def test_every_criterion_states_one_and_the_page_explains_each():
    assert {one.severity for one in CATALOGUE.values()} <= set(SEVERITIES)
    page = criteria_page()
    assert all(f"| `{name}` | {what} |" in page for name, what in SEVERITIES.items())
    assert page.count("- **Severity:** `") == len(CATALOGUE)


def test_a_failure_has_its_criterions_severity(bench):
    bench.samples(GPU, 50, 60, core_temperature_c=95)
    verdict = bench.verdict("thermal.core_temperature", GPU)
    assert verdict.severity == CATALOGUE["thermal.core_temperature"].severity == "reseat"
    assert sentence_and_severity(verdict) == f"{sentence(verdict)} [reseat]"


def test_a_finding_may_need_another_action(bench):
    bench.counters(GPU, "after", remap_pending=True)
    assert bench.verdict("memory.row_remap", GPU).severity == "reset"
    bench.counters(GPU, "after", remap_failed=True)
    assert bench.verdict("memory.row_remap", GPU).severity == "rma"
    bench.counters(GPU, "after", **HEALTH, ecc_corrected=900)
    assert bench.verdict("memory.ecc", GPU).severity == "warn"


def test_what_neither_fails_nor_warns_asks_for_nothing(bench):
    verdicts = bench.verdicts()
    assert {one.severity for one in verdicts if one.outcome not in (Outcome.FAIL, Outcome.WARN)} == {None}
    assert sentence_and_severity(verdicts[0]) == sentence(verdicts[0])


def test_a_failure_that_follows_from_another_asks_for_no_action_of_its_own(bench):
    bench.samples(GPU, 5, sm_clock_mhz=lambda s: 930 + s.t_s % 3)
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, 0.48, stage)
    verdicts = {(one.criterion, one.subject): one for one in bench.verdicts()}
    follower = verdicts["throughput.sustained", GPU]
    assert follower.follows
    assert follower.severity is None
    assert verdicts["clock.ratio", GPU].severity == "reset"
