"""The steps of a host in words, as the plan says them."""

import pytest

from rigproof.stages.transient.stage import _steps


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((1,), "its GPU"),
        ((8,), "8 GPUs"),
        ((1, 2), "1 to 2 GPUs, one more at each step"),
        ((4, 8, 12, 16), "4, 8, 12, 16 GPUs"),
    ],
)
def test_the_steps_of_a_host_in_words(steps, said):
    assert _steps(steps) == said
