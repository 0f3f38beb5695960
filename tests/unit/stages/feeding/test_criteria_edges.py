"""Which of several losses is reported."""

from rigproof.records.verdict import Outcome

GPU, GAPS = "pc1/gpu0", "feeding.idle_gaps"


def test_of_two_losses_the_first_is_reported(bench):
    for t_s, message in ((105.0, "the process is gone"), (109.0, "its task failed")):
        bench.event("worker_died", GPU, message, t_s, stage="feeding")
    verdict = bench.verdict(GAPS, GPU)
    assert (verdict.outcome, verdict.detail) == (
        Outcome.NOT_MEASURED,
        "its worker was lost at t=105 s: the process is gone",
    )
