from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
PRESENT, DRIVER, FOREIGN = "inventory.gpus_present", "inventory.driver", "inventory.foreign_memory"


def test_a_gpu_that_is_there_is_named(bench):
    assert bench.said(PRESENT, GPU) == (Outcome.PASS, "NVIDIA H200, GPU-pc1/gpu0")


@pytest.mark.parametrize("kind", ["gpu_lost", "gpu_missing", "gpu_taken", "gpu_skipped"])
def test_a_lost_card_that_is_not_there_is_not_ignored(bench, kind):
    bench.event(kind, "pc1/gpu9", "it no longer answers")
    verdict = bench.verdict(PRESENT, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "it no longer answers: of pc1/gpu9, which is no device of the rig or of the run"
    assert bench.verdict(PRESENT, OTHER).outcome is Outcome.PASS


def test_a_card_that_is_missing_and_was_found_contradicts_itself(bench):
    bench.event("gpu_missing", GPU, "it is not on pc1")
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.NOT_MEASURED
    del bench.recording.gpus[GPU]
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("promised", "found", "detail", "step"),
    [
        (
            {"sku": "h200"},
            {"sku": "rtx-3070", "name": "NVIDIA GeForce RTX 3070"},
            "promised h200, found NVIDIA GeForce RTX 3070 (rtx-3070)",
            'write sku = "rtx-3070" at nodes.pc1.gpus.0 if',
        ),
        (
            {"sku": "h200"},
            {"sku": None},
            "promised h200, found NVIDIA H200 (of no known SKU)",
            'write sku = "unknown" at nodes.pc1.gpus.0 if',
        ),
        (
            {"sku": "h200", "uuid": "GPU-mine"},
            {},
            "promised the card GPU-mine, found GPU-pc1/gpu0",
            'write uuid = "GPU-pc1/gpu0" at nodes.pc1.gpus.0 if',
        ),
    ],
)
def test_another_card_than_promised_fails_and_names_the_key_to_change(bench, promised, found, detail, step):
    bench.rig(nodes=[{"name": "pc1", "gpus": [promised]}])
    bench.gpu(GPU, **found)
    assert bench.said(PRESENT, GPU) == (Outcome.FAIL, detail)
    assert step in bench.verdict(PRESENT, GPU).remedy


def test_any_model_will_do_where_the_profile_says_unknown(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "memory_gib": 141}]}])
    bench.gpu(GPU, sku=None, name="NVIDIA Something New")
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("subject", "found", "outcome", "detail"),
    [
        (GPU, {"device": "cpu"}, Outcome.FAIL, "promised a cuda device, found NVIDIA H200 (cpu)"),
        (OTHER, {"uuid": f"GPU-{GPU}"}, Outcome.FAIL, "the same card is also pc2/gpu0"),
        (
            GPU,
            {"name": "NVIDIA GeForce RTX 4090"},
            Outcome.NOT_MEASURED,
            "it was taken for a h200, and NVML calls it NVIDIA GeForce RTX 4090",
        ),
    ],
)
def test_a_cpu_is_no_gpu_a_card_is_not_two_and_has_its_models_name(bench, subject, found, outcome, detail):
    bench.gpu(subject, **found)
    assert bench.said(PRESENT, GPU) == (outcome, detail)


def test_a_gpu_that_another_job_holds_is_not_measured(bench):
    bench.event("gpu_taken", GPU, "job 17 holds it")
    verdict = bench.verdict(PRESENT, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.NOT_MEASURED, "job 17 holds it")
    assert verdict.remedy.startswith("end the other job that holds it")
    bench.event("gpu_lost", GPU, "GPU-pc1/gpu0 is lost", 68.0, query="sample")  # by no job
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.FAIL


def test_a_gpu_that_does_not_answer_any_more_fails_although_it_was_there(bench):
    bench.event("gpu_lost", GPU, "GPU-pc1/gpu0 is lost", 68.0, query="sample")
    verdict = bench.verdict(PRESENT, GPU)
    assert (verdict.outcome, verdict.detail, verdict.from_s) == (Outcome.FAIL, "GPU-pc1/gpu0 is lost", 68.0)
    assert "Xid" in verdict.remedy
    assert bench.verdict(PRESENT, OTHER).outcome is Outcome.PASS


def test_a_gpu_that_the_run_reports_and_that_is_not_there_fails(bench):
    bench.event("worker_failed", GPU, "no such device", 3.0)
    del bench.recording.gpus[GPU]
    assert bench.verdict(PRESENT, GPU).detail == "pc1 answered without it"
    del bench.recording.nodes["pc1"]
    verdict = bench.verdict(PRESENT, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "its node pc1 is not in the cluster")
    assert verdict.remedy == "bring its node back first: see cluster.nodes_present of pc1"


def test_a_gpu_of_another_profile_than_the_runs_was_never_looked_for(bench):
    bench.recording.events.clear()
    del bench.recording.gpus[GPU]
    verdict = bench.verdict(PRESENT, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.startswith(
        "this run did not look for pc1/gpu0: it was of another rig and found pc1, pc2, pc2/gpu0; judge it "
        "by a profile with these names"
    )
    del bench.recording.nodes["pc1"]
    assert "did not look for pc1:" in bench.verdict(PRESENT, GPU).detail


def test_a_missing_gpu_says_what_to_do_about_its_own_cause(bench):
    step = "look at its driver"
    del bench.recording.gpus[GPU]
    bench.event("gpu_missing", GPU, "h200 cannot be seen on pc1", next_step=step)
    verdict = bench.verdict(PRESENT, GPU)
    assert (verdict.outcome, verdict.remedy) == (Outcome.FAIL, step)
    bench.recording.events.clear()
    step = "unset CUDA_VISIBLE_DEVICES"
    bench.event("gpu_missing", GPU, "h200 is hidden on pc1", next_step=step, disturbed=step)
    verdict = bench.verdict(PRESENT, GPU)
    assert (verdict.outcome, verdict.remedy) == (Outcome.NOT_MEASURED, step)
    bench.recording.events.clear()
    bench.event("gpu_missing", GPU, "h200 is not on pc1", next_step="")
    assert bench.verdict(PRESENT, GPU).remedy.startswith("check the card's seat")


@pytest.fixture
def without_cpu(bench):
    """A rig of one CPU whose worker has not reported it."""
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "device": "cpu"}]}])
    bench.recording.gpus.clear()
    return bench


def test_a_cpu_whose_worker_never_came_up_needs_no_screwdriver(without_cpu):
    without_cpu.event("worker_hung", "pc1/cpu0", "did not come up in 60 s", 66.0, setting="timeouts.start_s")
    verdict = without_cpu.verdict(PRESENT, "pc1/cpu0")
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, "did not come up in 60 s (at t=66 s)")
    assert verdict.remedy == "see cluster.no_timeouts"


def test_a_cpu_whose_workers_were_ended_by_others_as_they_started_rejects_nothing(without_cpu):
    assert without_cpu.verdict(PRESENT, "pc1/cpu0").outcome is Outcome.NOT_MEASURED  # without any loss, too
    without_cpu.event("agent_died", "pc1", "the monitor killed it", 6.0, disturbed="free memory")
    without_cpu.event("worker_failed", "pc1/cpu0", "the monitor killed it", 9.0, disturbed="free memory")
    verdicts = {one.criterion: one for one in without_cpu.verdicts() if one.subject in ("pc1/cpu0", "rig")}
    assert verdicts[PRESENT].outcome is Outcome.NOT_MEASURED
    assert (verdicts[PRESENT].remedy, verdicts[PRESENT].from_s) == ("free memory", 9.0)
    assert Outcome.FAIL not in {one.outcome for one in verdicts.values()}
    without_cpu.event("worker_failed", "pc1/cpu0", "its device did not open", 12.0)
    assert without_cpu.verdict(PRESENT, "pc1/cpu0").outcome is Outcome.FAIL


def test_gpus_of_a_run_that_was_stopped_before_they_were_looked_for_are_not_measured(bench):
    bench.recording.gpus.clear()
    bench.recording.stages.clear()
    bench.event("interrupted", "rig", "Ctrl-C")
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("error", "detail", "remedy"),
    [
        (
            "driver/library version mismatch",
            "NVML does not answer: driver/library version mismatch",
            "run `nvidia-smi` there",
        ),
        (
            "NVML does not answer (code 12): no NVIDIA driver is installed here; install one",
            "NVML does not answer (code 12): no NVIDIA driver is installed here",
            "install one",
        ),
        (
            "NVML did not answer within 30 s: the driver hangs; see dmesg for Xid, then reboot",
            "NVML did not answer within 30 s: the driver hangs",
            "see dmesg for Xid, then reboot",
        ),
        (None, "no NVIDIA driver is installed", "install the NVIDIA driver there"),
    ],
)
def test_without_a_driver_that_answers_its_cause_and_the_next_step_are_named(bench, error, detail, remedy):
    bench.node("pc1", nvml_error=error, driver_version=None)
    assert bench.said(DRIVER, "pc1") == (Outcome.FAIL, detail)
    assert bench.verdict(DRIVER, "pc1").remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("minimum", "outcome"),
    [
        ("580.65.06", Outcome.PASS),
        ("580.7", Outcome.PASS),
        ("580.65.07", Outcome.FAIL),
        ("590", Outcome.FAIL),
        ("new", Outcome.NOT_MEASURED),
    ],
)
def test_versions_are_compared_by_number(bench, minimum, outcome):
    bench.limits(driver_minimum=minimum)
    for node in ("pc1", "pc2"):
        bench.node(node, driver_version="580.65.06" if minimum != "580.7" else "580.10")
    assert bench.verdict(DRIVER, "pc1").outcome is outcome


def test_a_driver_that_is_too_old_names_where_the_minimum_comes_from(bench):
    bench.limits(driver_minimum="590.1")
    bench.loaded.sources["limits.driver_minimum"] = "hwprofiles/rigs/two-nodes.toml"
    verdict = bench.verdict(DRIVER, "pc1")
    assert verdict.limit_source == "hwprofiles/rigs/two-nodes.toml"
    assert verdict.detail == "driver 580.65.06 is older than the 590.1 of hwprofiles/rigs/two-nodes.toml"
    assert "or lower `limits.driver_minimum`" in verdict.remedy


def test_two_nodes_with_different_drivers_both_fail_and_of_three_the_odd_one_out(bench):
    bench.node("pc2", driver_version="570.10")
    assert bench.said(DRIVER, "pc1") == (Outcome.FAIL, "driver 580.65.06 here, but pc2 has 570.10")
    assert bench.said(DRIVER, "pc2") == (Outcome.FAIL, "driver 570.10 here, but pc1 has 580.65.06")
    bench.recording.add(replace(bench.recording.nodes["pc1"], subject="pc3"))
    assert bench.verdict(DRIVER, "pc1").outcome is Outcome.PASS
    assert bench.verdict(DRIVER, "pc2").outcome is Outcome.FAIL


def test_different_drivers_on_purpose_pass_if_they_are_new_enough(bench):
    bench.node("pc2", driver_version="570.10")
    assert "limits.driver_mixed = true" in bench.verdict(DRIVER, "pc1").remedy
    bench.limits(driver_mixed=True)
    for node, version in (("pc1", "580.65.06"), ("pc2", "570.10")):
        assert bench.said(DRIVER, node) == (Outcome.PASS, f"driver {version}; the profile lets nodes differ")
    bench.limits(driver_mixed=True, driver_minimum="575")
    assert bench.verdict(DRIVER, "pc1").outcome is Outcome.PASS
    assert bench.verdict(DRIVER, "pc2").outcome is Outcome.FAIL
    bench.limits(driver_mixed=False)
    assert bench.verdict(DRIVER, "pc1").outcome is Outcome.FAIL


def hold(bench, used_mib, pids=()):
    was = bench.recording.foreign_memory[GPU]
    bench.recording.foreign_memory[GPU] = replace(was, used_mib=used_mib, pids=pids)


@pytest.mark.parametrize(
    ("used_mib", "display", "outcome"),
    [
        (15, False, Outcome.PASS),
        (16, False, Outcome.WARN),
        (16, None, Outcome.WARN),
        (900, True, Outcome.PASS),
        (60_000, True, Outcome.NOT_MEASURED),
        (float("nan"), True, Outcome.NOT_MEASURED),
        (None, False, Outcome.NOT_MEASURED),
    ],
)
def test_memory_that_others_hold(bench, used_mib, display, outcome):
    bench.gpu(GPU, display_active=display)
    hold(bench, used_mib)
    assert bench.verdict(FOREIGN, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("pids", "detail"),
    [
        ((31, 4711), "held by pid 31, 4711"),
        ((), "held by no process that the driver names"),
        (None, "held by processes that this user may not list"),
    ],
)
def test_who_holds_it_is_named(bench, pids, detail):
    hold(bench, 2000, pids)
    verdict = bench.verdict(FOREIGN, GPU)
    assert (verdict.outcome, verdict.detail) == (Outcome.WARN, detail)
    assert verdict.remedy.endswith("if it is to stay, raise `limits.foreign_memory_warn_mib`")
    bench.stranger(0.5, used_mib=[60_000])  # one that was listed before the run
    assert bench.verdict(FOREIGN, GPU).detail == "pid 5263 (python3, user ml) holds 58.6 GiB"


def test_the_limit_is_what_the_planned_workers_leave_free(bench):
    hold(bench, 60_000)
    filled_mib = sum(w.vram_mib for w in bench.plan().workers_of(GPU))
    free_mib = 141 * 1024 - filled_mib - 2 * (0.4 * 1024 + 64)  # two contexts with their workspaces
    verdict = bench.verdict(FOREIGN, GPU)
    assert verdict.detail.startswith("60000 MiB: held by")
    assert f"the plan needs {filled_mib + 947:.0f} and the driver 0" in verdict.detail
    hold(bench, free_mib)
    assert bench.verdict(FOREIGN, GPU).outcome is Outcome.WARN
    hold(bench, free_mib + 1)
    assert bench.verdict(FOREIGN, GPU).outcome is Outcome.NOT_MEASURED


def test_what_the_driver_keeps_for_itself_is_nobody_elses(bench):
    hold(bench, 60_000)
    before = bench.recording.foreign_memory[GPU]
    bench.recording.foreign_memory[GPU] = replace(before, reserved_mib=600.0)
    assert "and the driver 600" in bench.verdict(FOREIGN, GPU).detail
    bench.recording.foreign_memory.clear()
    assert bench.verdict(FOREIGN, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("driver_cuda", "torch_cuda", "fails"),
    [
        ("12.8", "13.0", True),
        ("13.0", "13.1", False),  # minor versions work together
        ("13.0", "12.6", False),
        (None, "13.0", False),
        ("12.8", None, False),
    ],
)
def test_a_torch_for_a_newer_cuda_than_the_driver_has_fails(bench, driver_cuda, torch_cuda, fails):
    bench.node("pc1", driver_cuda=driver_cuda, torch_cuda=torch_cuda)
    assert bench.verdict(DRIVER, "pc1").outcome is Outcome.PASS  # a worker that started shows that it works
    bench.recording.workers = []
    verdict = bench.verdict(DRIVER, "pc1")
    assert (verdict.outcome is Outcome.FAIL) is fails
    if fails:
        assert verdict.detail == "driver 580.65.06 supports CUDA up to 12.8, torch was built for 13.0"


@pytest.mark.parametrize("error", [None, "the kernel module is not loaded; try `sudo modprobe nvidia`"])
def test_nouveau_in_the_place_of_the_driver_is_named(bench, error):
    bench.node("pc1", nouveau=True)
    assert bench.verdict(DRIVER, "pc1").outcome is Outcome.PASS  # beside a driver that answers
    bench.node("pc1", driver_version=None, nvml_error=error)
    verdict = bench.verdict(DRIVER, "pc1")
    assert (verdict.outcome, "nouveau" in verdict.detail) == (Outcome.FAIL, True)
    assert "blacklist nouveau" in verdict.remedy


@pytest.mark.parametrize(
    ("versions", "brand", "expected"),
    [
        (("96.A", "96.A"), "nvidia", Outcome.PASS),
        (("96.A", "96.B"), "nvidia", Outcome.WARN),
        (("94.A", "94.B"), "geforce_rtx", Outcome.PASS),  # each maker has its own
        (("96.A", None), "nvidia", Outcome.PASS),
        (("96.A", "96.B", "96.B"), "nvidia", Outcome.WARN),  # the odd one of three
        (("96.B", "96.A", "96.B"), "nvidia", Outcome.PASS),
    ],
)
def test_equal_server_cards_have_the_same_vbios(bench, versions, brand, expected):
    bench.recording.gpus["pc3/gpu0"] = replace(bench.recording.gpus[GPU], subject="pc3/gpu0", uuid="GPU-3")
    for subject, version in zip((GPU, OTHER, "pc3/gpu0"), (*versions, None), strict=False):
        bench.gpu(subject, vbios_version=version, brand=brand)
    verdict = bench.verdict(PRESENT, GPU)
    assert verdict.outcome is expected
    if expected is Outcome.WARN:
        assert (verdict.detail, verdict.severity) == ("VBIOS 96.A, while equal cards have 96.B", "config")


def test_two_cards_at_one_place_on_the_bus_contradict_each_other(bench):
    nodes = [
        {"name": "pc1", "gpus": [{"sku": "h200"}, {"sku": "h200"}]},
        {"name": "pc2", "gpus": [{"sku": "h200"}]},
    ]
    bench.rig(nodes=nodes)
    for subject in ("pc1/gpu1", OTHER):
        bench.recording.gpus[subject] = replace(
            bench.recording.gpus[GPU], subject=subject, uuid=f"GPU-{subject}"
        )
    for subject, bus in (
        (GPU, "00000000:01:00.0"),
        ("pc1/gpu1", "00000000:02:00.0"),
        (OTHER, "00000000:01:00.0"),
    ):
        bench.gpu(subject, pci_bus_id=bus)
    assert bench.verdict(PRESENT, GPU).outcome is Outcome.PASS  # that of another node is its own
    bench.gpu("pc1/gpu1", pci_bus_id="00000000:01:00.0")
    for subject, other in ((GPU, "pc1/gpu1"), ("pc1/gpu1", GPU)):
        verdict = bench.verdict(PRESENT, subject)
        assert verdict.outcome is Outcome.NOT_MEASURED
        assert verdict.detail.startswith(f"{other} has its PCI bus id, 00000000:01:00.0: ")
