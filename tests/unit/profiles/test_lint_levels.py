"""How much of a level is that level is not for a rig to say."""

import pytest

from rigproof.profiles.lint import lint_rig

KNOWN = 'name = "lab"\n[[nodes]]\nname = "a"\ncpus = 8\nram_gib = 32\n[[nodes.gpus]]\nsku = "rtx-3090"\n'


@pytest.mark.parametrize("key", ["least_share", "least_work_share"])
def test_a_rig_that_calls_less_of_a_level_that_level_is_refused(desk, key):
    (line,) = lint_rig(desk.load(f"{KNOWN}[levels]\n{key} = 0.01\n"))
    assert line.startswith(f"lab.toml: levels.{key} = 0.01: not for a rig to say")


def test_a_rig_may_have_lengths_of_its_own(desk):
    assert lint_rig(desk.load(f"{KNOWN}[levels.soak]\nsustained_s = 60\n")) == []
