from dataclasses import replace
from pathlib import Path

import pytest

from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LeftOut
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.terminal import terminal
from rigproof.report.terminal.terminal import (
    criteria_page,
    header_lines,
    print_summary,
    summary_lines,
)
from rigproof.stages.registry import KINDS
from support.results import result_with


def test_the_header_says_what_is_about_to_happen(loaded, plan):
    lines = header_lines(loaded, plan, driver_version="580.65.06")
    assert lines[0].startswith("rig: lab (hwprofiles/rigs/lab.toml), driver 580.65.06, torch ")
    assert lines[1] == "devices: pc1/gpu0 rtx-3090, pc1/gpu1 rtx-3070"
    assert lines[2] == "plan: level quick: gemm 20 s, sustained 35 s with 2 workers; about 75 s in all"


def test_the_header_has_a_range_for_cards_that_are_alike(tmp_path, plan):
    profile = tmp_path / "lab.toml"
    h200 = '{ sku = "h200-sxm" }'
    profile.write_text(
        f'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 64\ngpus = [{", ".join([h200] * 4)}]\n'
        f'[[nodes]]\nname = "b"\ncpus = 64\ngpus = [{{ sku = "h100-sxm" }}, {h200}]\n'
    )
    lines = header_lines(load_rig(str(profile), KINDS), plan)
    assert lines[1] == "devices: a/gpu0…gpu3 h200-sxm, b/gpu0 h100-sxm, b/gpu1 h200-sxm"


def test_the_header_says_what_is_left_out(loaded, plan):
    lines = header_lines(replace(loaded, left_out=(LeftOut("pc3", "no GPU"),)), plan)
    assert lines[2] == "not tested: pc3 (no GPU)"


def test_the_header_says_why_no_gpu_was_looked_for_and_that_a_run_is_simulated(loaded, plan):
    lines = header_lines(loaded, plan, nvml_error="library missing", simulated=True)
    assert lines[0].startswith("rigproof: SIMULATED")
    assert "NVML does not answer: library missing" in lines


DEVICES = ("pc1/gpu0", "pc1/gpu1")


def printed(decision, verdicts, *, devices=DEVICES, **more):
    lines = []
    print_summary(result_with(decision, verdicts, devices=devices), Path("r"), lines.append, **more)
    return lines


def test_colour_is_only_there_when_it_is_asked_for(verdicts):
    colored = "\n".join(printed(Decision.REJECTED, verdicts, color=True))
    assert "\x1b[1;31mFAIL" in colored
    assert "\x1b[31;1mREJECTED\x1b[0m" in colored
    assert "\x1b" not in "\n".join(printed(Decision.REJECTED, verdicts))


def test_the_summary_ends_with_the_decision_and_what_it_means(verdicts, tmp_path):
    (tmp_path / "report.html").touch()
    lines = summary_lines(result_with(Decision.REJECTED, verdicts), tmp_path)
    assert lines == [
        "pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s long). "
        "Clean the heatsink or raise the fan curve.",
        "pc1 host.cpu_band: 91 %, limit ≤ 90 %. Stop other programs on this host.",
        "pc1/gpu1 power.draw: not measured: no power samples. Look at nvidia-smi -q -d POWER.",
        "what a criterion measures, and where its limit comes from: docs/criteria.md",
        "",
        "3 pass, 1 warn, 1 fail, 1 not measured, 1 not applicable, 1 no limit",
        f"report: {tmp_path}/report.html",
        "REJECTED: 1 criterion failed; do not train on this rig until that is fixed",
    ]


def test_with_v_the_tags_of_failures_and_warnings_are_explained_below_them(verdicts):
    tagged = [replace(one, severity="reset") if one.outcome is Outcome.FAIL else one for one in verdicts]
    lines = summary_lines(result_with(Decision.REJECTED, tagged), None, everything=True)
    (failure,) = (place for place, line in enumerate(lines) if line.endswith(" [reset]"))
    meaning = "[reset] reset the GPU, or restart the machine or a service of its driver"
    assert lines.index(meaning) == failure + 2  # below the warning, which has no tag here
    assert "[reset]" not in "".join(summary_lines(result_with(Decision.REJECTED, tagged), None))


@pytest.mark.parametrize(
    ("decision", "options", "last"),
    [
        (Decision.ACCEPTED, {}, "ACCEPTED: this rig is fit for training"),
        (Decision.ACCEPTED, {"simulated": True}, "SIMULATED ACCEPTED: nothing failed on the simulated rig"),
        (Decision.INCOMPLETE, {"interrupted": True}, "INCOMPLETE: the run was interrupted"),
    ],
)
def test_the_last_line_is_the_answer(decision, options, last):
    lines = summary_lines(result_with(decision, [Verdict("c.x", "n", Outcome.PASS)], **options), Path("r"))
    assert lines[-1].startswith(last)


def test_problems_of_the_files_are_reported(verdicts):
    problems = ("report.html: not written",)
    lines = summary_lines(result_with(Decision.REJECTED, verdicts, problems=problems), Path("r"))
    assert "problem: report.html: not written" in lines
    assert not any(line.startswith("report:") for line in lines)
    incomplete = summary_lines(result_with(Decision.INCOMPLETE, [], problems=problems), Path("r"))
    assert incomplete[-1] == "INCOMPLETE: report.html: not written; the rig is not proven fit"


def test_a_notice_stands_between_the_sentences_and_the_verdict(verdicts):
    lines = printed(Decision.REJECTED, verdicts, notices=["notify: `false` ended with exit status 1"])
    place = lines.index("notify: `false` ended with exit status 1")
    assert lines[place - 1].startswith("what a criterion measures")
    assert lines[place + 1] == ""
    assert lines[-1].startswith("REJECTED")


def test_why_a_criterion_does_not_apply_is_said_when_everything_is(verdicts):
    reason = "pc1/gpu0 memory.ecc: not applicable: no ECC here"
    assert reason not in printed(Decision.REJECTED, verdicts)
    assert reason in printed(Decision.REJECTED, verdicts, everything=True)


def test_printing_goes_line_by_line_and_no_line_is_longer_than_the_terminal(verdicts):
    lines = printed(Decision.REJECTED, verdicts, on_terminal=True)
    assert lines[0] == "lab REJECTED  1 of 7 failed"
    assert lines[-1] == "REJECTED: 1 criterion failed; do not train on this rig until that is fixed"
    assert not any("\n" in line for line in lines)
    assert max(map(len, lines)) <= 80
    sentence = "pc1/gpu1 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=41 s, 15 s"
    assert sentence in lines
    assert max(map(len, printed(Decision.REJECTED, verdicts))) > 120  # a sentence that grep finds


def test_what_one_cause_kept_from_measuring_is_reported_once():
    names = ["power.draw", "clock.ratio", "health.xid", "memory.ecc"]
    absent = [
        Verdict(name, "pc2/gpu0", Outcome.NOT_MEASURED, detail="pc2/gpu0 was not found") for name in names
    ]
    failed = Verdict("inventory.gpus_present", "pc2/gpu0", Outcome.FAIL)
    other = Verdict("inventory.gpus_present", "pc1/gpu0", Outcome.PASS)
    alone = Verdict("host.cpu_band", "pc1", Outcome.NOT_MEASURED, detail="no samples")
    verdicts = [failed, other, *absent, alone]
    lines = printed(Decision.REJECTED, verdicts, devices=["pc1/gpu0", "pc2/gpu0"])
    assert lines[2:7] == [
        "FAIL GPU present             ok     [no]",
        "?    time in CPU band  ? on pc1",
        "?    power                             ?",
        "[ ] failed, ? not measured",
        "3 more not measured on any: clock ratio, Xid errors, uncorrected ECC",
    ]
    lines = summary_lines(result_with(Decision.REJECTED, verdicts), Path("r"))
    assert "pc2/gpu0: 4 criteria not measured: pc2/gpu0 was not found" in lines


def test_what_a_failure_kept_from_measuring_leads_there_in_one_sentence():
    lost = "follows from cluster.nodes_present of pc2, see there first"
    several = [
        Verdict("power.draw", "pc2/gpu0", Outcome.NOT_MEASURED, detail="no power was read", remedy=lost),
        Verdict("clock.ratio", "pc2/gpu0", Outcome.NOT_MEASURED, detail="no SM clock was read", remedy=lost),
    ]
    failed = Verdict("cluster.nodes_present", "pc2", Outcome.FAIL)
    lines = printed(Decision.REJECTED, [failed, *several], devices=["pc2/gpu0"])
    assert f"pc2/gpu0: 2 criteria not measured: {lost}" in lines
    assert "1 more not measured on any: clock ratio" in lines
    (alone,) = [line for line in printed(Decision.REJECTED, [failed, several[0]]) if "not measured:" in line]
    assert alone == f"pc2/gpu0 power.draw: not measured: no power was read. {lost.capitalize()}."


def test_the_cpu_as_the_device_is_never_called_fit_for_training():
    verdicts = [
        Verdict("memory.no_oom", "pc1/cpu0", Outcome.PASS),
        Verdict("host.cpu_band", "pc1", Outcome.PASS),
    ]
    last = summary_lines(result_with(Decision.ACCEPTED, verdicts), Path("r"))[-1]
    assert "says nothing about a GPU" in last
    assert "fit for training" not in last
    gpu = Verdict("memory.no_oom", "pc1/gpu0", Outcome.PASS)
    fit = summary_lines(result_with(Decision.ACCEPTED, [*verdicts, gpu]), Path("r"))[-1]
    assert "fit for training" in fit


def test_of_a_rig_without_any_of_its_gpus_only_that_is_shown():
    absent = [
        Verdict(name, "pc2/gpu0", Outcome.NOT_MEASURED, detail="pc2/gpu0 was not found")
        for name in ("power.draw", "clock.ratio", "health.xid", "memory.ecc")
    ]
    alone = Verdict("host.cpu_band", "pc2", Outcome.NOT_MEASURED, detail="no samples")
    failed = Verdict("inventory.gpus_present", "pc2/gpu0", Outcome.FAIL)
    verdicts = [failed, *absent, alone]
    lines = printed(Decision.REJECTED, verdicts, devices=["pc2/gpu0"])
    assert lines[2:5] == ["FAIL GPU present      [no]", "[ ] failed", ""]
    assert "5 criteria were not measured: no device of the rig is there" in lines
    assert any("power" in line for line in printed(Decision.REJECTED, verdicts, everything=True))


def test_in_a_checkout_the_page_of_criteria_is_the_one_there(monkeypatch):
    monkeypatch.chdir(terminal.ROOT)
    assert criteria_page() == "docs/criteria.md"
    assert Path(criteria_page()).is_file()


def test_where_only_the_wheel_is_installed_the_page_of_criteria_is_in_it(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "rigproof"
    (package / "docs").mkdir(parents=True)
    (package / "docs" / "criteria.md").write_text("# Criteria\n")
    monkeypatch.setattr(terminal, "PACKAGE", package)
    monkeypatch.setattr(terminal, "ROOT", package.parent)
    assert Path(criteria_page()) == package / "docs" / "criteria.md"


def test_the_wheel_has_the_page_of_criteria():
    project = (terminal.ROOT / "pyproject.toml").read_text()
    assert '"docs/criteria.md" = "rigproof/docs/criteria.md"' in project
