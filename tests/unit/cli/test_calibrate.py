"""`rigproof calibrate`: what it refuses, shows and writes."""

import os
import sys
import tomllib
from copy import copy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.cli import calibrate
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.files import digest, read_toml, tables_of
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.structure import checked
from rigproof.records.disk.store import write_recording
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, decide
from rigproof.report.content.result import result_of
from rigproof.stages.registry import KINDS
from support.recordings import healthy_recording
from support.rig_profile import MODELS, loaded_rig, profile_text

SAMPLES = Path(__file__).resolve().parents[3] / "reports" / "samples"
H200 = ("h200-quick", "h200-x2-quick", "h200-x4-quick")


@pytest.fixture
def cli(cli, monkeypatch, tmp_path):
    """Call the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return partial(cli, "calibrate")


@pytest.fixture
def lab(tmp_path):
    """The healthy rig's profile, with a comment."""
    path = tmp_path / "lab.toml"
    path.write_text(f"# of the lab\n{profile_text()}\n[calibration]\nfewest_runs = 3\n")
    return path


@pytest.fixture
def recorded(tmp_path, lab, monkeypatch):
    """Record a run of the lab's rig, with rates of this share of the usual ones."""
    monkeypatch.setattr("rigproof.report.content.result.shortfalls", lambda *_: ())  # canned, and short

    def record(share=1.0, change=lambda _: None):
        recording = healthy_recording(load_rig(str(lab), KINDS).dump(), sku="h200-sxm")
        told = {str(lab): digest(read_toml(lab))}
        recording.run = replace(recording.run, run_id=f"run-{share}", profile=told)
        recording.rounds = [replace(one, work=one.work * share) for one in recording.rounds]
        change(recording)
        folder = tmp_path / "reports" / "runs" / recording.run.run_id
        folder.mkdir(parents=True, exist_ok=True)
        write_recording(folder, recording)
        return folder

    return record


@cache
def healthy_result():
    """The healthy run, judged once for all tests."""
    recording = healthy_recording(loaded_rig().dump())
    verdicts = judge_all(recording)
    return result_of(recording, verdicts, decision=decide(verdicts), elapsed_s=1.0)


@pytest.fixture
def runs(tmp_path, lab, monkeypatch):
    """The same, judged already, for runs in which all is well."""
    known = {}
    monkeypatch.setattr(calibrate, "judged", lambda run: known[run.absolute()])

    def judge(*shares, power_limit_w=700):
        for share in shares:
            one = healthy_result()
            recording = copy(one.recording)
            told = {str(lab): digest(read_toml(lab))}
            recording.run = replace(recording.run, run_id=f"run-{share}", profile=told)
            recording.gpus = {
                subject: replace(gpu, sku="h200-sxm", power_limit_w=power_limit_w)
                for subject, gpu in recording.gpus.items()
            }
            verdicts = [
                replace(each, rates=tuple(rate._replace(value=rate.value * share) for rate in each.rates))
                for each in one.verdicts
            ]
            result = replace(one, recording=recording, verdicts=verdicts, shortfalls=())
            known[tmp_path / f"run-{share}"] = result
        return [tmp_path / f"run-{share}" for share in shares]

    return judge


def floors_of(path):
    nodes = tomllib.loads(path.read_text())["nodes"]
    return {node["name"]: node["gpus"][0].get("floors", {}) for node in nodes}


def test_runs_give_floors_that_are_written_with_what_they_come_from(cli, lab, runs):
    before = lab.read_text()
    status, out, err = cli("--hwprofile", lab, "--write", *runs(1.0, 1.002, 0.999, 1.001))
    assert (status, err) == (0, "")
    assert "written: lab.toml" in out
    assert lab.read_text().startswith("# of the lab\n")
    floors = floors_of(lab)
    assert floors["pc1"].keys() == floors["pc2"].keys() >= {"gemm_bf16_tflops", "sustained_tflops"}
    assert 0.95 * 660 < floors["pc1"]["gemm_bf16_tflops"] <= 0.971 * 660
    (line,) = {line for line in lab.read_text().splitlines() if line.startswith("gemm_bf16_tflops")}
    assert "of 4 runs, spread 0." in line
    assert line.endswith("NVIDIA H200, standard, driver 580.65.06, torch 2.13, 700 W")
    rest = [one for one in lab.read_text().splitlines() if "# calibrated" not in one and "floors]" not in one]
    assert "".join(rest) == "".join(before.splitlines())


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_is_written_without_being_asked(cli, lab, runs, monkeypatch, terminal):
    before = lab.read_text()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(calibrate.typer, "confirm", lambda question: question != "write lab.toml?")
    folders = runs(1.0, 1.002, 0.999)
    status, out, _ = cli("--hwprofile", "./lab.toml", *folders)
    assert status == 0
    assert lab.read_text() == before
    assert "+gemm_bf16_tflops = " in out
    typed = out.splitlines()[-1].partition("to write: rigproof calibrate ")[2].split()
    assert typed[:3] == ["--hwprofile", "./lab.toml", "--write"]
    assert cli(*typed)[0] == 0
    assert floors_of(lab)["pc1"]


def test_a_shipped_rig_is_copied(cli, runs, tmp_path, lab):
    status, out, err = cli("--hwprofile", lab, "--out", "mine.toml", "--write", *runs(1.0, 1.002, 0.999))
    assert (status, err) == (0, ""), out
    assert floors_of(tmp_path / "mine.toml")["pc2"]
    assert not floors_of(lab)["pc2"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "--hwprofile auto: no file can hold floors; `rigproof detect > lab.toml` makes one"),
        (("--hwprofile", "h200-x2"), "hwprofiles/rigs/h200-x2.toml: comes with rigproof; name another file"),
        (("--hwprofile", "./none.toml"), "none.toml: No such file"),
        (("--hwprofile", "lab.toml", "--out", "there.toml"), "--out there.toml: it is there already"),
        (("--hwprofile", "lab.toml", "--out", "no/x.toml"), "x.toml: cannot be written (no such folder)"),
        (("--hwprofile", "lab.toml", "--level", "quick"), "level quick: its cards are not hot yet"),
        (("--hwprofile", "lab.toml", "--levle", "quick"), "unrecognized arguments: --levle"),
        (("--hwprofile", "child.toml"), "pc1/gpu0 is stated in lab.toml; calibrate that file"),
        (("--hwprofile", "line.toml"), "stands in one line, with no room for comments"),
        (("--hwprofile", "sub/far.toml", "--out", "far.toml"), "it would extend ../lab.toml"),
        (("--hwprofile", "fixed.toml"), "fixed.toml: is read-only; change its mode, or add --out"),
        (("--hwprofile", "few.toml"), "calibration.fewest_runs = 2"),
        (("--hwprofile", "many.toml"), "calibration.fewest_runs = 30: more than most_runs = 20"),
        (("--hwprofile", "loose.toml"), "calibration.closest_share = 0.3: lets a card lose half of its rate"),
        (("--sku", "rtx-9090"), "--sku rtx-9090: no such SKU file"),
        (("--sku", "h200-sxm"), "--sku: name the folders of runs with such cards"),
        (("--hwprofile", "lab.toml", "none"), "none/recording.jsonl: No such file"),
    ],
)
def test_it_is_refused_before_any_load(cli, lab, tmp_path, monkeypatch, arguments, why):
    monkeypatch.setattr(calibrate, "_accept", lambda *_: pytest.fail("a run began"))
    own = lab.read_text()
    (tmp_path / "there.toml").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "child.toml").write_text('name = "child"\nextends = "./lab.toml"\n')
    (tmp_path / "sub" / "far.toml").write_text(f'extends = "../lab.toml"\n{own}')
    (tmp_path / "many.toml").write_text(own.replace("fewest_runs = 3", "fewest_runs = 30"))
    (tmp_path / "loose.toml").write_text(f"{own}closest_share = 0.3\n")
    (tmp_path / "few.toml").write_text(own.replace("fewest_runs = 3", "fewest_runs = 2"))
    (tmp_path / "line.toml").write_text(
        'name = "line"\n[[nodes]]\nname = "a"\ngpus = [ { sku = "rtx-3090" } ]\n'
    )
    (tmp_path / "fixed.toml").write_text(own)
    (tmp_path / "fixed.toml").chmod(0o444)
    status, _, err = cli(*arguments)
    assert status == 4, err
    assert why in err
    assert "Traceback" not in err
    assert lab.read_text() == own


def xid(recording):
    recording.events.append(Event(50.0, "xid", "pc1/gpu0", "Xid 79", "sustained", data={"xid": 79}))


def wrong(recording):
    data = {"precision": "bf16"}
    recording.events.append(Event(40.0, "wrong_result", "pc1/gpu0", "wrong", "sustained", "pc1/gpu0#0", data))


def throttled(recording):
    """One short slowdown, which only warns."""
    recording.gpu_samples = [
        replace(one, clock_event_reasons=0x40) if one.subject == "pc1/gpu0" and 40 <= one.t_s < 40.35 else one
        for one in recording.gpu_samples
    ]


def interrupted(recording):
    recording.events.append(Event(60.0, "interrupted", "rig", "stopped", data={"signal": "SIGINT"}))


def ecc(recording):
    recording.counters = [
        replace(one, ecc_uncorrected=3) if one.moment == "after" else one for one in recording.counters
    ]


def simulated(recording):
    recording.run = replace(recording.run, simulated=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (xid, "REJECTED: pc1/gpu0 health.xid"),
        (wrong, "REJECTED: pc1/gpu0 "),
        (ecc, "REJECTED: pc1/gpu0 memory.ecc"),
        (throttled, "a warning: pc1/gpu0 thermal.throttle"),
        (interrupted, "INCOMPLETE: "),
        (simulated, "simulated"),
    ],
)
def test_nothing_of_a_run_with_trouble_becomes_a_floor(cli, lab, recorded, change, why):
    before, bad = lab.read_text(), recorded(change=change)
    status, _, err = cli("--hwprofile", lab, "--write", "--lower", bad)
    assert (status, lab.read_text()) == (4, before)
    assert err.startswith(f"rigproof: {bad}: {why}")


def test_a_shortened_run_tells_nothing(cli, lab, recorded, monkeypatch):
    folder = recorded()
    monkeypatch.undo()
    status, _, err = cli("--hwprofile", lab, folder)
    assert status == 4
    assert f"{folder}: shortened: for 40 s of load" in err


def test_runs_of_another_profile_or_card_or_twice_are_refused(cli, lab, runs):
    folders = runs(1.0, 1.001, 1.002)
    status, _, err = cli("--hwprofile", lab, *folders, folders[0])
    assert (status, "run-1.0: named twice" in err) == (4, True)
    status, _, err = cli("--hwprofile", lab, *folders, *runs(0.998, power_limit_w=650))
    assert status == 4
    assert "run-0.998: pc1/gpu0 gemm_fp32_tflops power: 650 W, in run-1.0 700 W: not alike" in err
    lab.write_text(lab.read_text().replace("fewest_runs = 3", "fewest_runs = 4"))
    status, _, err = cli("--hwprofile", lab, *folders)
    assert (status, "is not of lab.toml as it is now" in err) == (4, True)


def promise(lab, floor):
    head, sku, tail = lab.read_text().partition("sku = ")
    lab.write_text(f"{head}floors.gemm_bf16_tflops = {floor}  # promised\n{sku}{tail}")


def test_a_floor_that_the_rig_lost_is_named_and_only_lowered_if_asked(cli, lab, recorded):
    promise(lab, 700)
    before, folders = lab.read_text(), [recorded(share) for share in (1.0, 1.001, 0.999)]
    status, _, err = cli("--hwprofile", lab, "--write", *folders)
    assert (status, lab.read_text()) == (4, before)
    assert "REJECTED: pc1/gpu0 throughput.gemm_bf16: 660 TFLOP/s, limit ≥ 700 TFLOP/s" in err
    assert err.rstrip().endswith("--lower writes lower floors all the same.")
    status, out, err = cli("--hwprofile", lab, "--write", "--lower", *folders)
    assert (status, err) == (0, "")
    lowered = floors_of(lab)["pc1"]["gemm_bf16_tflops"]
    assert 0.95 * 660 < lowered <= 0.971 * 660
    assert f"lowered {lowered}, 700 so far" in out
    assert "; before: promised" in lab.read_text()


def test_a_higher_floor_that_is_reached_stays(cli, lab, runs, monkeypatch):
    """Whoever stated it, a profile, the SKU file or a champion."""
    healthy = healthy_result()
    higher = [
        replace(one, rates=tuple(rate._replace(floor=rate.value * 0.99) for rate in one.rates))
        for one in healthy.verdicts
    ]
    monkeypatch.setitem(globals(), "healthy_result", lambda: replace(healthy, verdicts=higher))
    status, out, _ = cli("--hwprofile", lab, "--write", *runs(1.0, 1.001, 0.999))
    assert (status, floors_of(lab)["pc1"]) == (0, {})
    assert ": stays " in out
    assert "nothing to write" in out


def test_rates_that_differ_too_much_give_no_floor_and_no_success(cli, lab, runs):
    status, out, _ = cli("--hwprofile", lab, "--write", *runs(1.0, 1.05, 0.97))
    assert (status, floors_of(lab)["pc1"]) == (6, {})
    assert "nothing to write" in out


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(cli, lab, runs, monkeypatch):
    before, folders = lab.read_text(), runs(1.0, 1.001, 0.999)

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    status, _, err = cli("--hwprofile", lab, "--write", *folders)
    assert (status, lab.read_text(), list(lab.parent.glob("*.part"))) == (4, before, [])
    assert "No space left on device; name another: --out" in err


def test_a_model_gets_the_figures_of_several_cards(cli, tmp_path):
    status, out, err = cli("--sku", "h200-sxm", *(SAMPLES / name for name in H200))
    assert status == 0, err
    figure = tomllib.loads(out)["steady"]["gemm_bf16_tflops"]
    assert (figure["cards"], figure["runs"], figure["size"], figure["torch"]) == (7, 3, 8192, "2.11")
    assert figure["range"][0] <= figure["value"] <= figure["range"][1]
    assert 0.004 < figure["spread"] < 0.008
    assert f"3 runs of 7 cards, spread {figure['spread'] * 100:.2g} %; measured with driver 580; " in err
    assert "# measured with driver 580\n" in out
    read = checked(MODELS.sku, tables_of(out, "h200-sxm.toml"), "h200-sxm.toml").steady.figure(
        "gemm_bf16_tflops"
    )
    assert read.model_dump(exclude_none=True) == figure | {"range": tuple(figure["range"])}
    (tmp_path / "h200-sxm.toml").write_text(out)
    again = cli("--sku", "./h200-sxm.toml", "--out", "new.toml", *(SAMPLES / name for name in H200))
    assert again[0] == 0, again[2]
    assert (tmp_path / "new.toml").read_text() == out


def test_a_single_card_has_no_spread_of_a_model(cli):
    status, out, err = cli("--sku", "h200-sxm", SAMPLES / "h200-quick")
    assert status == 0, err
    figure = tomllib.loads(out)["steady"]["gemm_bf16_tflops"]
    assert (figure["cards"], figure["runs"], "spread" in figure) == (1, 1, False)
    assert "1 run of 1 card; measured with driver 580" in err


def test_a_new_file_that_cannot_be_written_is_named(cli):
    status, _, err = cli("--sku", "h200-sxm", "--out", "no/x.toml", SAMPLES / "h200-quick")
    assert status == 4
    assert "--out no/x.toml: not written: No such file or directory; name another" in err


def test_what_a_card_is_called_does_not_get_into_the_file(cli, lab, runs, monkeypatch):
    healthy = healthy_result()
    recording = copy(healthy.recording)
    recording.gpus = {
        subject: replace(gpu, name="H200\n[limits]\nooms = 9 \x1b[31m")
        for subject, gpu in recording.gpus.items()
    }
    monkeypatch.setitem(globals(), "healthy_result", lambda: replace(healthy, recording=recording))
    before = tomllib.loads(lab.read_text())["limits"]
    status, out, _ = cli("--hwprofile", lab, "--write", *runs(1.0, 1.001, 0.999))
    assert (status, "\x1b" in out + lab.read_text()) == (0, False)
    assert tomllib.loads(lab.read_text())["limits"] == before


def test_runs_that_are_not_of_the_model_are_each_named(cli, tmp_path):
    every = [SAMPLES / "h200-quick", SAMPLES / "h100-quick", SAMPLES / "h200-every-stage", tmp_path / "none"]
    status, out, err = cli("--sku", "h200-sxm", *every)
    assert (status, out) == (4, "")
    assert f"{every[1]}: has no H200 SXM 141 GB" in err
    assert f"{every[2]}: shortened: for 19 s of load, not a standard run" in err
    assert f"{every[3]}/recording.jsonl: No such file" in err


def test_a_model_under_another_power_limit_is_refused(cli, runs):
    status, _, err = cli("--sku", "h200-sxm", *runs(1.0, power_limit_w=600))
    assert status == 4
    assert "pc1/gpu0, pc2/gpu0: a power limit that is not the default" in err


@pytest.fixture
def repeated(monkeypatch, lab, runs):
    """Measure with runs that end like this: their exit status, and their share of the usual rates."""

    def measure(cli, *ends, options=()):
        folders = {f"run-{share}": folder for _, share in ends if share for folder in runs(share)}
        begun = []

        def accept(given, how):
            assert given.hw_level == "standard"
            if how == "--plan":
                return 0, b"devices: 2\nplan: level standard: 5 s in all\n"
            begun.append(how)
            status, share = ends[len(begun) - 1]
            return status, f'{{"run_id": "run-{share}"}}'.encode() if share else b""

        usable = calibrate.usable
        monkeypatch.setattr(calibrate, "_accept", accept)
        monkeypatch.setattr(
            calibrate, "usable", lambda folder, **more: usable(folders[folder.name], lower=more["lower"])
        )
        return *cli("--hwprofile", lab, "--write", *options), begun

    return measure


def test_runs_are_repeated_until_they_tell_enough(cli, lab, repeated):
    ends = [(0, share) for share in (1.0, 1.02, 0.99, 1.003, 0.998, 1.001, 1.002, 1.0005)]
    status, out, _, begun = repeated(cli, *ends)
    assert status == 0
    assert 3 < len(begun) < 8  # three would do if they were alike
    assert out.startswith(
        "plan: level standard: 5 s in all\n3 to 20 such runs, for 60 min at most, until each"
    )
    assert "within ±1 %; for lab.toml" in out
    assert floors_of(lab)["pc2"]


def test_a_plan_runs_nothing(cli, repeated, lab):
    before = lab.read_text()
    status, out, _, begun = repeated(cli, options=("--plan",))
    assert (status, begun, lab.read_text()) == (0, [], before)
    assert out.startswith("devices: 2\nplan: ")
    assert "60 min at most" in out


@pytest.mark.parametrize("status", [1, 2, 3, 4, 6])
def test_it_ends_as_a_run_without_a_verdict_does(cli, lab, repeated, status):
    before = lab.read_text()
    ended, _, err, begun = repeated(cli, (0, 1.0), (status, None), (0, 1.001))
    assert (ended, len(begun), lab.read_text()) == (status, 2, before)
    assert f"run 2 ended with {status} and no verdict\nno floor is written" in err


def test_an_accepted_run_that_tells_nothing_ends_incomplete(cli, lab, repeated, monkeypatch):
    healthy = healthy_result()
    warned = [
        replace(one, outcome=Outcome.WARN, severity="reseat") if one.family == "thermal" else one
        for one in healthy.verdicts
    ]
    monkeypatch.setitem(globals(), "healthy_result", lambda: replace(healthy, verdicts=warned))
    status, _, err, begun = repeated(cli, (0, 1.0))
    assert (status, len(begun)) == (6, 1)
    assert "run-1.0: a warning: pc1/gpu0 thermal." in err


def test_no_run_begins_that_would_end_too_late(cli, lab, repeated, monkeypatch):
    lab.write_text(f"{lab.read_text()}most_min = 8\n")
    seconds = iter(range(0, 10**6, 100))
    monkeypatch.setattr(calibrate.time, "monotonic", lambda: next(seconds))
    ends = [(0, 1 + number / 50) for number in range(20)]
    status, _, _, begun = repeated(cli, *ends)
    assert (status, floors_of(lab)["pc1"]) == (6, {})
    assert len(begun) == 3  # 100 s each by this clock: a fourth would end after 533 s
