import pytest

from rigproof.profiles.lint.rig import lint_doubts, lint_rig
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


@pytest.mark.parametrize(
    ("sku", "size", "short"),
    [
        ("h200-sxm", 4096, "fp8"),  # 0.118 ms of products of size 4096, 0.210 in bf16
        ("h200-sxm", 4440, None),  # 0.1503
        ("h200-sxm", 2048, "tf32, fp16, bf16, fp8"),
        ("h200-sxm", 8192, None),
        ("rtx-3090", 4096, None),
    ],
)
def test_products_that_are_over_before_a_busy_host_launches_the_next_are_pointed_out(
    tmp_path, sku, size, short
):
    path = tmp_path / "lab.toml"
    path.write_text(f'{RIG}sku = "{sku}"\ngemm_size = {size}\n')
    found = [line for line in lint_doubts(load_rig(str(path), KINDS)) if "gemm_size" in line]
    assert found == [
        f"{path}: nodes[0].gpus[0].gemm_size = {size}: a product in {one} lasts less than 0.15 ms, in which "
        "a busy host may not launch the next one: a low rate is then not measured; write a larger gemm_size"
        for one in [short]
        if one
    ]


def test_a_floor_that_is_stated_is_for_products_of_that_size(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(f'{RIG}sku = "h200-sxm"\ngemm_size = 4096\nfloors = {{ gemm_fp8_tflops = 600 }}\n')
    assert not [line for line in lint_doubts(load_rig(str(path), KINDS)) if "gemm_size" in line]
