"""Figures are written into a profile's text, and nothing else of it changes."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.profiles.documents.edited import with_figures
from rigproof.profiles.errors import ProfileError

NEW = {"gemm_bf16_tflops": (64.5, "calibrated today"), "gemm_fp32_tflops": (20, "calibrated today")}
COMMENTS = re.compile(r"\bown \d+")
STATED = (
    "",
    "floors.gemm_bf16_tflops = 60  {}\n",
    "floors.gemm_bf16_tflops = 60\nfloors.memory_copy_gbps = 700  {}\n",
    "floors = {{ gemm_bf16_tflops = 60, memory_copy_gbps = 700 }}  {}\n",
    "[nodes.gpus.floors]  {}\ngemm_bf16_tflops = 60\n",
    "[nodes.gpus.floors]\n{}\nmemory_copy_gbps = 700\n",
    "[nodes.gpus.limits]  {}\ncore_temperature_c = 80\n[nodes.gpus.floors]\ngemm_bf16_tflops = 60  {}\n",
)
AFTER = ("", "\n", "{}\n", "\n{}", "[nodes.cpu]  {}\nenabled = true\n", "\n[[nodes]]\nname = 'b' {}")


@st.composite
def texts(draw):
    """A profile with one to three GPUs, floors stated in any way, comments of its own everywhere."""
    text = draw(st.sampled_from(("", "#:schema x\n", "{}\n\n"))) + 'name = "lab"  {}\n[limits]\nooms = 0 {}\n'
    text += '[[nodes]]\n{}\nname = "a"\n'
    for _ in range(draw(st.integers(1, 3))):
        text += draw(st.sampled_from(("", "\n", "{}\n"))) + '[[nodes.gpus]]  {}\nsku = "rtx-3090"\n'
        text += draw(st.sampled_from(STATED))
    text += draw(st.sampled_from(AFTER))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    parts = text.split("{}")
    return "".join(f"{part}# own {place}" for place, part in enumerate(parts[:-1])) + parts[-1]


@given(texts(), st.data())
def test_comments_and_other_keys_stay(text, data):
    text = text.replace("{{", "{").replace("}}", "}")
    before = tomllib.loads(text)
    place = data.draw(st.integers(0, len(before["nodes"][0]["gpus"]) - 1))
    edited = with_figures(text, "lab.toml", f"nodes[0].gpus[{place}]", "floors", NEW)
    own = before["nodes"][0]["gpus"][place]
    own["floors"] = own.get("floors", {}) | {key: value for key, (value, _) in NEW.items()}
    assert tomllib.loads(edited) == before
    assert sorted(COMMENTS.findall(edited)) == sorted(COMMENTS.findall(text))
    assert edited.count("# calibrated today") >= 1
    again = with_figures(edited, "lab.toml", f"nodes[0].gpus[{place}]", "floors", NEW)
    assert again == edited
    untouched = [line for line in text.splitlines() if "floors" not in line and "tflops" not in line]
    assert [line for line in edited.splitlines() if line in untouched and line] == [
        one for one in untouched if one
    ]


def test_the_newest_comment_replaces_the_one_before_and_keeps_others():
    text = '[[nodes]]\nname = "a"\n[[nodes.gpus]]\nsku = "x"\nfloors.a_tflops = 1  # lead: a guess\n'
    for day in ("monday", "tuesday"):
        text = with_figures(text, "f", "nodes[0].gpus[0]", "floors", {"a_tflops": (2.5, f"calibrated {day}")})
    assert text.splitlines()[-1] == "floors.a_tflops = 2.5 # calibrated tuesday; before: lead: a guess"


@pytest.mark.parametrize(
    "text",
    [
        'name = "lab"\nnodes = [ { name = "a", gpus = [ { sku = "x" } ] } ]\n',
        'name = "lab"\n[[nodes]]\nname = "a"\ngpus = [ { sku = "x" } ]\n',
    ],
)
def test_what_stands_in_one_line_is_refused(text):
    with pytest.raises(ProfileError, match=r"lab.toml: nodes\[0\].* stands in one line") as refused:
        with_figures(text, "lab.toml", "nodes[0].gpus[0]", "floors", {})
    assert "[[nodes.gpus]]" in str(refused.value)


def test_a_sku_file_gets_its_figures_in_one_line_each():
    text = "[steady]\ngemm_bf16_tflops = { value = 78 }  # reached by large GEMMs\n"
    entry = {"value": 75, "range": [74, 76], "cards": 2, "size": 8192, "workers": 1, "torch": "2.13"}
    edited = with_figures(text, "f", "", "steady", {"gemm_bf16_tflops": (entry, "measured in 3 runs")})
    assert tomllib.loads(edited) == {"steady": {"gemm_bf16_tflops": entry}}
    assert edited.endswith("# measured in 3 runs; before: reached by large GEMMs\n")
