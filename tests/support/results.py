"""A run's result of given verdicts alone, for tests of how it is shown."""

from rigproof.records.identity import RunInfo
from rigproof.records.recording import Recording
from rigproof.report.content.facts import DeviceFacts, NodeFacts, RunFacts
from rigproof.report.content.result import RunResult


def result_with(decision, verdicts, *, devices=(), simulated=False, **more):
    run = RunInfo("run", "2026-01-02T03:04:05Z", "quick", "0.1.0", "3.11.7", {}, (), simulated)
    node = NodeFacts("pc1", None, tuple(DeviceFacts(subject, None, None) for subject in devices))
    return RunResult(Recording(run), RunFacts(run, "lab", (node,)), verdicts, decision, 1.0, **more)
