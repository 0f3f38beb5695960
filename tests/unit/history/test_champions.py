import json
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.history import champion_keeping
from rigproof.history.champion_keeping import champion_run, gpu_figures, keep, profile_file, rig_figures
from rigproof.history.champions import ChampionError, GpuFigure, champions_folder, gpu_file, read_champions
from rigproof.history.listing import champions_listing
from rigproof.profiles.loading.load import load_rig
from rigproof.records.champions import lowest_power, team_key
from rigproof.records.measurements import FigureRate
from rigproof.records.verdict import Outcome, Verdict
from rigproof.stages.registry import KINDS
from support.bench import Bench
from support.recordings import healthy_recording
from support.rig_profile import RIG, SHIPPED_SKU, profile_text

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
BF16, SUSTAINED = "throughput.gemm_bf16", "throughput.sustained"
COMBINED, ALL_REDUCE = "throughput.combined", "collective.all_reduce"
BF16_RATE, SUSTAINED_RATE, STEP_RATE = "gemm_bf16_tflops", "sustained_tflops", "training_tflops"
UUID = f"GPU-{GPU}"


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def folder(tmp_path):
    return champions_folder(tmp_path, "two-nodes")


def kept(folder, bench, run_id="run-1"):
    """Keep what an accepted run of the bench's recording is worth."""
    recording, verdicts = bench.recording, bench.verdicts()
    recording.run = replace(recording.run, run_id=run_id)
    run = champion_run(recording, f"pytest -m hardware # {run_id}")
    return keep(folder, recording, run, gpu_figures(recording, verdicts), rig_figures(recording, verdicts))


def rates(folder, uuid=UUID, figure=BF16_RATE):
    return {
        (round(rate.value, 6), rate.power_limit_w, rate.run_id)
        for rate in read_champions(folder).rates()[uuid][figure]
    }


def test_an_accepted_run_becomes_the_champion_of_each_gpu_and_of_the_rig(folder, bench):
    lines = kept(folder, bench)
    assert "champion: pc1/gpu0 throughput.gemm_bf16: 660 TFLOP/s (the first)" in lines
    assert "champion: rig throughput.combined: 1320 TFLOP/s (the first)" in lines
    champions = read_champions(folder)
    assert set(champions.gpus) == {UUID, f"GPU-{OTHER}"}
    gpu = champions.gpus[UUID]
    assert {one.criterion: one.value for one in gpu.figures} == {
        "throughput.gemm_fp32": 50,
        "throughput.gemm_tf32": 350,
        "throughput.gemm_fp16": 680,
        BF16: 660,
        "throughput.gemm_fp8": 1250,
        SUSTAINED: pytest.approx(660),
        "training.step": 400,
    }
    step = next(one for one in gpu.figures if one.criterion == "training.step")
    assert (step.labels, step.workers) == ({"precision": "fp16", "size": 2496, "batch": 16}, 1)
    assert read_champions(folder).rates()[UUID][STEP_RATE][0].labels["batch"] == 16
    (combined,) = champions.rig.figures
    assert combined.value == pytest.approx(1320)
    assert combined.cards[GPU].uuid == UUID


def test_a_figure_says_everything_that_it_takes_to_do_it_again(folder, bench):
    kept(folder, bench)
    gpu = read_champions(folder).gpus[UUID]
    figure = next(one for one in gpu.figures if one.criterion == SUSTAINED)
    assert (figure.power_limit_w, figure.workers) == (700, 2)
    assert figure.labels == {"precision": "bf16", "size": 1024}
    assert figure.sm_clock_mean_mhz == pytest.approx(1915, abs=2)
    assert figure.core_temperature_mean_c == pytest.approx(64, abs=1)
    run = gpu.runs[figure.run_id]
    assert (run.level, run.folder, run.started_at) == ("standard", "runs/run-1", "2026-01-01T00:00:00Z")
    assert run.command == "pytest -m hardware # run-1"
    assert run.profile == bench.recording.run.rig
    assert run.software["pc2"].model_dump() == {
        "driver": "580.65.06",
        "torch": "2.13",
        "cuda": "13.0",
        "ray": "2.60",
        "python": "3.11",
    }


def test_the_profile_of_a_champion_is_a_file_that_loads_to_the_same_rig(folder, bench, tmp_path):
    (tmp_path / "lab.toml").write_text(profile_text())
    loaded = load_rig(str(tmp_path / "lab.toml"), KINDS)
    bench.loaded, bench.recording = loaded, healthy_recording(loaded.dump(), SHIPPED_SKU)
    kept(folder, bench)
    assert load_rig(str(profile_file(folder, "run-1")), KINDS).rig == loaded.rig


def test_a_worse_or_equal_run_changes_nothing(folder, bench):
    kept(folder, bench)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert kept(folder, bench, "run-2") == []
    for stage in ("gemm", "sustained"):
        bench.slow(GPU, 0.98, stage)
    assert kept(folder, bench, "run-3") == []
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_only_the_better_figures_take_the_place_of_those_kept(folder, bench):
    kept(folder, bench)
    bench.slow(GPU, 1.1, "gemm")
    bench.slow(GPU, 0.99)
    lines = kept(folder, bench, "run-2")
    assert len(lines) == 5  # one for each precision
    assert "champion: pc1/gpu0 throughput.gemm_bf16: 726 TFLOP/s (660 TFLOP/s before)" in lines
    assert rates(folder) == {(726, 700, "run-2")}
    assert rates(folder, figure=SUSTAINED_RATE) == {(660, 700, "run-1")}
    assert rates(folder, f"GPU-{OTHER}") == {(660, 700, "run-1")}
    assert set(read_champions(folder).gpus[UUID].runs) == {"run-1", "run-2"}


def test_a_run_that_holds_no_figure_any_more_is_dropped(folder, bench):
    kept(folder, bench)
    for subject in (GPU, OTHER):
        for stage in ("gemm", "sustained", "training"):
            bench.slow(subject, 1.1, stage)
    kept(folder, bench, "run-2")
    champions = read_champions(folder)
    assert set(champions.gpus[UUID].runs) == set(champions.rig.runs) == {"run-2"}


def test_figures_under_another_power_limit_stand_beside_each_other(folder, bench):
    kept(folder, bench)
    bench.gpu(GPU, power_limit_w=500)
    bench.slow(GPU, 0.8, "gemm")
    kept(folder, bench, "run-2")
    bench.gpu(GPU, power_limit_w=504)  # within 1 %
    bench.slow(GPU, 0.99, "gemm")
    kept(folder, bench, "run-3")
    assert rates(folder) == {(660, 700, "run-1"), (528, 500, "run-2")}
    powers = [one.cards[GPU].power_limit_w for one in read_champions(folder).rig.figures]
    assert powers == [700, 500]


def test_figures_of_other_work_stand_beside_each_other(folder, bench):
    kept(folder, bench)
    bench.rig(gpu_defaults=RIG["gpu_defaults"] | {"gemm_size": 2048})
    bench.rounds(GPU, "gemm", size=2048, work=lambda one: one.work / 2)
    kept(folder, bench, "run-2")
    assert rates(folder) == {(660, 700, "run-1")}  # half the rate: its criterion failed
    bench.rounds(GPU, "gemm", work=lambda one: one.work * 1.8)
    kept(folder, bench, "run-3")
    assert rates(folder) == {(660, 700, "run-1"), (594, 700, "run-3")}


def test_champions_follow_a_gpu_to_another_slot(folder, bench):
    kept(folder, bench)
    bench.gpu(GPU, uuid=f"GPU-{OTHER}")
    bench.gpu(OTHER, uuid=UUID)
    bench.slow(OTHER, 1.1, "gemm")
    kept(folder, bench, "run-2")
    assert rates(folder) == {(726, 700, "run-2")}
    assert rates(folder, f"GPU-{OTHER}") == {(660, 700, "run-1")}
    gpu = read_champions(folder).gpus[UUID]
    assert next(one for one in gpu.figures if one.criterion == BF16).subject == OTHER
    assert len(read_champions(folder).rig.figures) == 1


def test_work_that_changed_on_the_way_is_not_kept(bench):
    bench.rounds(GPU, "sustained", 50, size=512)
    figures = gpu_figures(bench.recording, bench.verdicts())[UUID]
    assert SUSTAINED not in {one.criterion for one in figures}


def test_the_cpu_is_no_champion(bench):
    bench.gpu(GPU, device="cpu")
    figures = gpu_figures(bench.recording, bench.verdicts())
    assert set(figures) == {f"GPU-{OTHER}"}
    assert rig_figures(bench.recording, bench.verdicts()) == []


def a_rate(value, figure="gemm_bf16_tflops", workers=1, **labels):
    return FigureRate(figure, value, "TFLOP/s", {"precision": "bf16", "size": 1024} | labels, workers)


def verdict(outcome=Outcome.PASS, measured=660.0, criterion=BF16, subject=GPU, rates=None):
    unit = "TFLOP/s"
    if rates is None:
        rates = (a_rate(measured),) if measured is not None else ()
    return Verdict(criterion, subject, outcome, unit=unit, measured=measured, rates=rates)


@pytest.mark.parametrize(
    ("one", "values"),
    [
        (verdict(), True),
        (verdict(Outcome.WARN), True),
        (verdict(Outcome.FAIL), False),
        (verdict(measured=None), False),
        (verdict(measured=0.0), False),
        (verdict(subject="pc9/gpu0"), False),
        (verdict(rates=()), False),
        (verdict(rates=(a_rate(660.0, size=2048),)), False),
        (verdict(rates=(a_rate(660.0, workers=2),)), False),
        (verdict(rates=(a_rate(660.0, batch=8),)), False),
    ],
)
def test_a_rate_that_was_accepted_of_a_gpu_that_was_found_may_be_kept(bench, one, values):
    figures = gpu_figures(bench.recording, [one])
    assert [figure.value for own in figures.values() for figure in own] == ([660.0] if values else [])


@pytest.mark.parametrize(
    ("one", "values"),
    [
        (verdict(criterion=COMBINED, subject="rig", measured=1320.0), [1320.0]),
        (verdict(Outcome.FAIL, criterion=COMBINED, subject="rig"), []),
        (verdict(criterion=COMBINED, subject="rig", measured=None), []),
        (verdict(), []),
    ],
)
def test_the_rigs_figure_is_its_accepted_combined_rate(bench, one, values):
    assert [found.value for found in rig_figures(bench.recording, [one])] == values


def of_team(gbps=11.0, outcome=Outcome.PASS, subject="rig", **labels):
    """What a team did in an all-reduce, at one size."""
    rate = FigureRate(ALL_REDUCE, gbps, "GB/s", {"mib": 16, "elements": "odd numbers"} | labels, 2)
    return Verdict(ALL_REDUCE, subject, outcome, unit="GB/s", measured=gbps, rates=(rate,))


def keep_team(folder, bench, *verdicts, run_id="run-1"):
    bench.recording.run = replace(bench.recording.run, run_id=run_id)
    run = champion_run(bench.recording, "pytest -m hardware")
    return keep(folder, bench.recording, run, {}, rig_figures(bench.recording, verdicts))


def test_what_a_team_did_is_kept_by_its_cards_and_the_best_of_each_work_stays(folder, bench):
    said = keep_team(folder, bench, of_team(11.0), of_team(12.0, mib=1024))
    assert said[0] == "champion: rig collective.all_reduce mib 16, odd numbers: 11 GB/s (the first)"
    assert keep_team(folder, bench, of_team(10.0), of_team(13.0, mib=1024), run_id="run-2") == [
        "champion: rig collective.all_reduce mib 1024, odd numbers: 13 GB/s (12 GB/s before)"
    ]
    (rates,) = read_champions(folder).rates().values()
    best = {(one.labels["mib"], one.value, one.run_id, one.workers) for one in rates[ALL_REDUCE]}
    assert best == {(16, 11.0, "run-1", 2), (1024, 13.0, "run-2", 2)}
    assert {one.power_limit_w for one in rates[ALL_REDUCE]} == {700.0}
    lines = list(champions_listing(folder.parent))
    assert lines[1:3] == [
        "    collective.all_reduce mib 1024, odd numbers  13.00 GB/s  standard, runs/run-2",
        "    collective.all_reduce mib 16, odd numbers  11.00 GB/s  standard, runs/run-1",
    ]
    assert [one.split()[0] for one in lines[3:]] == [GPU, OTHER]


def test_a_team_with_another_card_is_another_team(folder, bench):
    keep_team(folder, bench, of_team(11.0))
    bench.gpu(OTHER, uuid="GPU-new")
    keep_team(folder, bench, of_team(5.0), run_id="run-2")
    assert {key: rates[ALL_REDUCE][0].value for key, rates in read_champions(folder).rates().items()} == {
        team_key([UUID, f"GPU-{OTHER}"]): 11.0,
        team_key([UUID, "GPU-new"]): 5.0,
    }


def test_a_team_at_other_power_limits_stands_beside(folder, bench):
    keep_team(folder, bench, of_team(11.0))
    bench.gpu(OTHER, power_limit_w=500.0)
    keep_team(folder, bench, of_team(9.0), run_id="run-2")
    (rates,) = read_champions(folder).rates().values()
    assert {(one.power_limit_w, one.value) for one in rates[ALL_REDUCE]} == {(700.0, 11.0), (500.0, 9.0)}


@pytest.mark.parametrize(
    "one", [of_team(outcome=Outcome.FAIL), of_team(outcome=Outcome.NOT_MEASURED), of_team(subject="pc9")]
)
def test_what_was_not_accepted_of_a_team_is_not_kept(bench, one):
    assert rig_figures(bench.recording, [one]) == []


@pytest.mark.parametrize(
    ("limits_w", "expected_w"), [((700.0, 500.0), 500.0), ((700.0, None), None), ((), None)]
)
def test_a_team_s_power_limit_is_the_lowest_that_is_known_of_all(limits_w, expected_w):
    assert lowest_power(limits_w) == expected_w


def test_one_cpu_among_the_cards_keeps_the_rigs_figure_away(bench):
    combined = verdict(criterion=COMBINED, subject="rig")
    bench.gpu(OTHER, device="cpu")
    assert rig_figures(bench.recording, [combined, of_team()]) == []
    bench.recording.gpus.clear()
    assert rig_figures(bench.recording, [combined, of_team()]) == []


def test_what_it_takes_to_do_a_run_again_is_kept_by_node(bench):
    bench.recording.workers = [one for one in bench.recording.workers if one.node == "pc1"]
    run = champion_run(bench.recording, "again")
    assert (run.folder, run.command, run.level) == ("runs/run", "again", "standard")
    assert {node: one.cuda for node, one in run.software.items()} == {"pc1": "13.0", "pc2": None}
    assert run.software["pc1"].driver == "580.65.06"


def test_another_set_of_cards_has_a_figure_of_its_own(bench, tmp_path):
    folder = champions_folder(tmp_path, "two-nodes")
    kept(folder, bench)
    bench.gpu(OTHER, uuid="GPU-new")
    assert [one for one in kept(folder, bench, "run-2") if "rig" in one] == [
        f"champion: rig {COMBINED}: 1320 TFLOP/s (the first)"
    ]
    assert len(read_champions(folder).rig.figures) == 2


def test_a_file_that_nobody_would_read_again_is_not_written(bench, tmp_path, monkeypatch):
    folder = champions_folder(tmp_path, "two-nodes")
    monkeypatch.setattr(champion_keeping, "CHAMPIONS_BYTES_MAX", 100)
    with pytest.raises(ChampionError, match="more than 100"):
        kept(folder, bench)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def a_figure(value, power_limit_w):
    return GpuFigure(
        criterion=BF16,
        figure=BF16_RATE,
        value=value,
        unit="TFLOP/s",
        power_limit_w=power_limit_w,
        subject=GPU,
        labels={"precision": "bf16", "size": 1024},
        workers=1,
        sm_clock_mean_mhz=None,
        memory_clock_mean_mhz=None,
        core_temperature_mean_c=None,
        power_mean_w=None,
        run_id="run-1",
    )


@pytest.fixture(scope="module")
def healthy():
    return Bench().recording


@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.integers(1, 1000), st.sampled_from([300.0, 400.0, None])), min_size=1, max_size=6
    )
)
def test_the_best_of_each_power_limit_is_what_is_kept(tmp_path_factory, healthy, runs):
    folder = tmp_path_factory.mktemp("champions") / "lab"
    for value, power_limit_w in runs:
        run = champion_run(replace_run(healthy, "run-1"), "command")
        keep(folder, healthy, run, {UUID: [a_figure(float(value), power_limit_w)]}, [])
    best = {}
    for value, power_limit_w in runs:
        best[power_limit_w] = max(value, best.get(power_limit_w, 0.0))
    assert {(power, value) for value, power, _ in rates(folder)} == set(best.items())
    shutil.rmtree(folder)


def replace_run(recording, run_id):
    recording.run = replace(recording.run, run_id=run_id)
    return recording


# What is there and cannot be used


def test_without_a_folder_there_are_no_champions(tmp_path):
    assert read_champions(tmp_path / "champions" / "lab").rates() == {}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with champions, to be copied."""
    folder = champions_folder(tmp_path_factory.mktemp("whole"), "lab")
    kept(folder, Bench())
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    folder = champions_folder(tmp_path, "lab")
    shutil.copytree(whole, folder)
    return folder


def refused(folder, path, *parts):
    with pytest.raises(ChampionError) as raised:
        read_champions(folder)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert text.endswith("without it floors come from the SKU files until an accepted run keeps its rates")
    for part in parts:
        assert part in text


@pytest.mark.parametrize("name", ["gpu", "rig"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name_and_never_overwritten(copy, name, share):
    path = gpu_file(copy, UUID) if name == "gpu" else copy / "rig.json"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(copy, path)
    before = path.read_bytes()
    bench = Bench()
    bench.slow(GPU, 1.2, "gemm")
    with pytest.raises(ChampionError):
        kept(copy, bench, "run-2")
    assert path.read_bytes() == before


def changed(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["figures"][0].update(value=-1.0), "figures.0.value"),
        (lambda c: c["figures"][0].update(value="680"), "figures.0.value"),
        (lambda c: c["figures"][0].update(value=float("nan")), "figures.0.value"),
        (lambda c: c["figures"][0].update(value=None), "figures.0.value"),
        (lambda c: c["figures"][0].update(power_limit_w=0), "figures.0.power_limit_w"),
        (lambda c: c["figures"][0].update(unit="GFLOP/s"), "figures.0.unit"),
        (lambda c: c["figures"][0].update(run_id="run-9"), "runs has no run-9"),
        (lambda c: c["figures"][0].update(figure="gemm_bf61_tflops"), "figures.0.figure"),
        (lambda c: c["figures"][0].pop("labels"), "figures.0.labels"),
        (lambda c: c["figures"][0]["labels"].update(size=1.5), "figures.0.labels.size"),
        (lambda c: c.update(note="mine"), "note"),
        (lambda c: c.update(schema_version=2), "schema_version"),
        (lambda c: c.update(gpu_uuid="GPU-other"), "gpu_uuid = GPU-other"),
    ],
)
def test_a_changed_file_is_refused_with_the_key(copy, change, expected):
    path = gpu_file(copy, UUID)
    changed(path, change)
    refused(copy, path, expected)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"a":' * 50_000])
def test_a_file_that_is_something_else_is_refused(copy, content):
    path = gpu_file(copy, UUID)
    path.write_bytes(content)
    refused(copy, path)


def test_a_file_too_large_to_be_ours_is_refused(copy, monkeypatch):
    monkeypatch.setattr("rigproof.history.champions.CHAMPIONS_BYTES_MAX", 100)
    refused(copy, gpu_file(copy, UUID), "bytes are more than the 100 it can have")


def test_a_folder_in_place_of_a_file_is_refused(copy):
    path = gpu_file(copy, UUID)
    path.unlink()
    path.mkdir()
    refused(copy, path, "is a folder, not a file")


def test_symbolic_links_out_of_the_folder_are_refused(copy, tmp_path):
    path = gpu_file(copy, UUID)
    outside = tmp_path / "outside.json"
    path.rename(outside)
    path.symlink_to(outside)
    refused(copy, path, "a symbolic link leads out of")
    path.unlink()
    path.symlink_to(tmp_path / "nowhere.json")
    refused(copy, path, "a symbolic link leads out of")


def test_folders_that_lead_elsewhere_are_refused_and_nothing_is_written_there(copy, tmp_path):
    outside = tmp_path / "outside"
    (copy / "gpus").rename(outside)
    (copy / "gpus").symlink_to(outside)
    refused(copy, gpu_file(copy, UUID), "a symbolic link leads out of")
    shutil.rmtree(outside)
    outside.mkdir()
    with pytest.raises(ChampionError, match="a symbolic link leads out of"):
        kept(copy, Bench(), "run-2")
    assert list(outside.iterdir()) == []


def test_a_rig_s_folder_that_leads_elsewhere_is_refused(copy, tmp_path):
    copy.rename(tmp_path / "outside")
    copy.symlink_to(tmp_path / "outside")
    with pytest.raises(ChampionError, match="a symbolic link leads out of"):
        read_champions(copy)


def test_a_uuid_cannot_name_a_file_elsewhere(tmp_path):
    assert gpu_file(tmp_path, "../../rig").parent == tmp_path / "gpus"
    assert gpu_file(tmp_path, "GPU-1a-2b").name == "GPU-1a-2b.json"


# Shown


def test_the_listing_names_each_figure_with_its_conditions(copy):
    lines = list(champions_listing(copy.parent))
    assert lines[:3] == [
        "champions of lab",
        "    throughput.combined  1320.00 TFLOP/s  standard, runs/run-1",
        "      pc1/gpu0 NVIDIA H200 GPU-pc1/gpu0 at 700 W",
    ]
    assert (
        "    throughput.sustained  660.00 TFLOP/s at 700 W, bf16, size 1024, 2 processes"
        "  standard, runs/run-1"
    ) in lines
    assert list(champions_listing(copy.parent, "another")) == []


def test_the_listing_names_a_damaged_file(copy):
    (copy / "rig.json").write_text("{")
    (line,) = champions_listing(copy.parent)
    assert line.startswith(f"champions of lab: {copy / 'rig.json'}: ")
