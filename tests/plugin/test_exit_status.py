"""What a run ends with, and what it says: only a rig that was measured and is well is accepted."""

import re

NO_HISTORY = 2  # verdicts: of a first run no card has earlier ones to be held against
SLOW = "pc1/gpu0 throughput.gemm_bf16: 220 TFLOP/s, limit ≥ 554 TFLOP/s"


def test_a_rig_that_is_well_is_accepted(acceptance):
    run = acceptance("healthy")
    assert run.status == 0, run.output
    assert run.output.count("\nACCEPTED, nodes not tested together: ") == 1
    assert run.result["verdict"] == "ACCEPTED"
    assert run.result["exit_status"] == 0
    counted = {name: count for name, count in run.result["counts"].items() if count}
    assert counted == {"pass": len(run.criteria) - NO_HISTORY, "no_limit": NO_HISTORY}


def test_a_failed_criterion_rejects_the_rig_by_its_sentence(acceptance):
    run = acceptance("slow")
    assert run.status == 1, run.output
    assert "\nREJECTED: 5 criteria failed" in run.output
    assert f"\n{SLOW}. Close other programs" in run.output
    assert run.output.count(SLOW) == 1
    assert "\nFAILED " not in run.output
    assert run.result["verdict"] == "REJECTED"
    assert run.result["exit_status"] == 1
    assert run.result["counts"]["fail"] == 5  # each precision
    failure = run.junit["test_gemm_bf16[pc1/gpu0]"].find("failure")
    assert failure is not None
    assert SLOW in failure.attrib["message"]
    assert run.junit["test_gemm_bf16[pc2/gpu0]"].find("failure") is None


def test_pytests_own_list_of_failures_is_there_for_whom_asks_for_it(acceptance):
    run = acceptance("slow", "-rf", "--tb=line")
    assert run.output.count(SLOW) > 1
    assert "\nFAILED tests/hardware/test_throughput.py::test_gemm_bf16[pc1/gpu0] - " in run.output


def test_what_could_not_be_measured_is_no_pass(acceptance):
    run = acceptance("without-sensor")
    assert run.status == 6, run.output
    assert "\nINCOMPLETE: nothing failed, but 1 criterion was not measured" in run.output
    assert run.result["verdict"] == "INCOMPLETE"
    assert run.result["exit_status"] == 6
    assert run.outcome("thermal.core_temperature", "pc2/gpu0") == "not_measured"
    assert run.outcome("thermal.core_temperature", "pc1/gpu0") == "pass"


def test_not_measured_is_shown_as_that_and_not_as_a_pass_or_a_skip(acceptance):
    run = acceptance("without-sensor")
    others = len(acceptance("healthy").criteria) - 1 - NO_HISTORY
    assert re.search(
        rf" {others} passed, \d+ deselected, {NO_HISTORY} no limit, 1 not measured in ", run.output
    )
    assert "skipped" not in run.output
    assert "\n?    core temperature " in run.output
    (skip,) = run.junit["test_core_temperature[pc2/gpu0]"].iter("skipped")
    assert "pc2/gpu0 thermal.core_temperature: not measured: no core temperature" in skip.attrib["message"]


def test_a_criterion_that_is_deselected_is_not_measured(acceptance):
    run = acceptance("healthy", "-k", "not core_temperature")
    assert run.status == 6, run.output
    assert "\nINCOMPLETE: nothing failed, but 2 criteria were not measured" in run.output
    for subject in ("pc1/gpu0", "pc2/gpu0"):
        left_out = run.criteria["thermal.core_temperature", subject]
        assert (left_out["outcome"], left_out["measured"]) == ("not_measured", None)
        assert left_out["detail"] == "deselected on the command line"
    assert run.result["counts"]["pass"] == len(acceptance("healthy").criteria) - 2 - NO_HISTORY


def test_an_exception_in_a_stage_is_shown_and_never_green(acceptance):
    run = acceptance("broken")
    assert run.status == 3, run.output
    assert "RuntimeError: the driver fell off the bus" in run.output
    assert "\nINCOMPLETE: " in run.output
    assert run.result["verdict"] == "INCOMPLETE"
    assert run.outcome("throughput.gemm_bf16", "pc1/gpu0") == "pass"
    assert run.outcome("throughput.sustained", "pc1/gpu0") == "not_measured"
    assert run.outcome("cluster.no_timeouts", "rig") == "not_measured"
    error = run.junit["test_gpu_active[pc1/gpu0]"].find("error")
    assert error is not None
    assert "the driver fell off the bus" in error.attrib["message"]


def test_an_exception_on_entering_leaves_everything_unmeasured(acceptance):
    run = acceptance("broken-on-entering")
    assert run.status == 3, run.output
    assert "RuntimeError: the driver fell off the bus" in run.output
    assert {one["outcome"] for one in run.result["criteria"]} == {"not_measured"}


def test_a_cluster_that_does_not_come_up_ends_the_run_with_its_message(acceptance):
    run = acceptance("not-started")
    assert run.status == 4, run.output
    assert "ERROR: Ray did not start within 60 s; look at /tmp/ray/session_latest/logs" in run.output
    assert "Traceback" not in run.output
    assert "INTERNALERROR" not in run.output
    assert not run.history


def test_what_is_found_wrong_while_the_rig_is_taken_down_still_rejects(acceptance):
    run = acceptance("process-left")
    assert run.status == 1, run.output
    assert run.result["verdict"] == "REJECTED"
    assert run.outcome("cluster.no_timeouts", "rig") == "fail"
    assert "processes [4242] did not end" in run.output


def test_the_first_error_is_reported_once(acceptance):
    run = acceptance("broken")
    assert run.output.count("RuntimeError: the driver fell off the bus\n") <= 2  # the trace and its end
    assert run.output.count("Traceback (most recent call last)") <= 1


def test_a_criterion_outside_the_chosen_files_is_not_selected(acceptance):
    run = acceptance("healthy", "tests/hardware/test_thermal.py")
    assert run.status == 6, run.output
    assert run.outcome("thermal.core_temperature", "pc1/gpu0") == "pass"
    left_out = run.criteria["memory.ecc", "pc1/gpu0"]
    assert (left_out["outcome"], left_out["detail"]) == ("not_measured", "not selected on the command line")


def test_a_selection_of_nothing_leaves_no_run_behind(acceptance):
    run = acceptance("healthy", "-k", "nosuch")
    assert run.status == 5, run.output
    assert not list((run.reports / "runs").iterdir())


def test_a_ray_that_holds_the_process_does_not_change_the_status(acceptance):
    run = acceptance("healthy", "-p", "support.stuck_ray")
    assert run.status == 0, run.output
    assert "\nACCEPTED, nodes not tested together: " in run.output
    assert acceptance("ctrl-c", "-p", "support.stuck_ray").status == 2


def test_pytest_counts_the_tests_that_it_runs(acceptance):
    run = acceptance("healthy")
    found = re.search(r"collected (\d+) items / (\d+) deselected / (\d+) selected", run.output)
    every, dropped, selected = map(int, found.groups())
    assert every - dropped == selected == len(run.junit)
    last = re.search(r"=+ (\d+ passed, .*) in ", run.output)[1]
    counted = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z ]+)", last)}
    assert counted.pop("deselected") == dropped
    assert sum(counted.values()) == selected
