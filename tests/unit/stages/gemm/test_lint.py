import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.stages.registry import KINDS

RIG = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 16\nram_gib = 64\n[[nodes.gpus]]\n'


def problems(folder, device: str, measure_s: float, level: str) -> list[str]:
    path = folder / "lab.toml"
    path.write_text(f"{RIG}{device}[stages.gemm]\nmeasure_s.quick = {measure_s}\n")
    return [line.removeprefix(f"{folder}/") for line in lint_rig(load_rig(str(path), KINDS), level)]


@pytest.mark.parametrize("measure_s", [1.0, 30.0])
def test_a_second_or_more_of_each_precision_is_enough(tmp_path, measure_s):
    assert problems(tmp_path, 'sku = "rtx-3090"\n', measure_s, "quick") == []


def test_less_than_a_second_of_each_precision_judges_no_gpu(tmp_path):
    [line] = problems(tmp_path, 'sku = "rtx-3090"\n', 0.9, "quick")
    assert line == (
        "lab.toml: stages.gemm.measure_s.quick = 0.9: clock, power and activity of a GPU are judged over 1 s "
        "of work or more; write 1 or more"
    )


def test_it_holds_for_the_level_that_runs_and_for_gpus(tmp_path):
    assert problems(tmp_path, 'sku = "rtx-3090"\n', 0.9, "standard") == []
    assert problems(tmp_path, 'sku = "unknown"\ndevice = "cpu"\n', 0.9, "quick") == []


@pytest.mark.parametrize(("round_s", "found"), [(0.25, []), (0.26, ["0.26"])])
def test_each_precision_needs_some_rounds(tmp_path, round_s, found):
    lines = problems(tmp_path, f'sku = "rtx-3090"\n[levels]\nround_s.quick = {round_s}\n', 1.0, "quick")
    assert lines == [
        f"lab.toml: levels.round_s.quick = {one}: leaves fewer than 4 rounds in the 1 s of each precision; "
        "write 0.25 or less"
        for one in found
    ]
