from rigproof.cluster.ray.calls import reason_of

DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: GpuWorker
\tactor_id: 0123
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail:
Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes.
(1) The process is killed by SIGKILL by OOM killer due to high memory usage."""


def test_a_process_that_died_is_described_by_its_ending_alone():
    reason = reason_of(RuntimeError(DIED))
    assert reason == "Worker unexpectedly exits with a connection error code 2 (SYSTEM_ERROR)"


def test_any_other_error_keeps_its_words():
    assert (
        reason_of(RuntimeError("The node is gone\n  cause: unplugged")) == "The node is gone cause: unplugged"
    )


def test_an_error_without_words_is_reported_by_its_name():
    assert reason_of(TimeoutError()) == "TimeoutError"


def test_of_a_long_error_the_informative_lines_are_kept():
    lines = ["The task failed", "at line 3", "Error: one", "the node ended", "exit code 1"]
    assert reason_of(RuntimeError("\n".join(lines))) == "The task failed Error: one the node ended"


def test_a_reason_is_at_most_600_characters_long():
    assert reason_of(RuntimeError("x" * 1000)) == "x" * 600
