"""How much of each stage is judged: what docs/judged.md says, with a reason for the rest."""

from pathlib import Path

import pytest

from rigproof.profiles.kinds.stages import DUTIES
from rigproof.stages.registry import KINDS
from support.judged import LEVELS, markdown, simulated

PAGE = Path(__file__).parents[2] / "docs" / "judged.md"
# At least so much; of the others the reasons are in the page.
LEAST = {"gemm": 0.9, "sustained": 0.95, "training": 0.7, "feeding": 0.8}


def test_the_committed_page_is_what_the_runs_say():
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_each_stage_without_a_figure_is_held_against_own_work_or_judges_itself():
    own = {kind.name for kind in KINDS if kind.duty in DUTIES and not kind.figures and kind.by_device}
    assert own == {kind.name for kind in KINDS if kind.held_against} | {"sharing"}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_judged_of_a_stage_has_a_reason(level):
    for one in simulated(level):
        assert one.judged + one.begins + one.idle + one.short == pytest.approx(1.0)
        assert one.judged >= LEAST.get(one.stage, 0.3)
