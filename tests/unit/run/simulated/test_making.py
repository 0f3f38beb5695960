"""Which faults a plan can show: one of what its stages leave out is refused."""

import pytest

from rigproof.profiles.planning.planning import make_plan
from rigproof.run.simulated.making import planned_faults
from rigproof.simulation.faults.parsing import FaultError
from support.simulated import DUAL, rig_named

ALL_TO_ALL = "the collective stage does no all_to_all"
AT_MOST_16 = "the collective stage does 16 MiB at most"


@pytest.mark.parametrize(
    ("text", "level", "why"),
    [
        ("collective-wrong:field=all_to_all", "quick", ALL_TO_ALL),
        ("collective-hang:field=all_to_all", "quick", ALL_TO_ALL),
        ("collective-slow:field=all_to_all", "quick", ALL_TO_ALL),
        ("collective-wrong:to=17", "quick", AT_MOST_16),
        ("collective-wrong:field=all_to_all,to=17", "standard", AT_MOST_16),
        (
            "collective-wrong:to=1025",
            "extended",
            "the collective stage does 117 MiB at most",
        ),  # what 8 GiB leave
        ("lan-object-port", "quick", "the lan stage sends no objects"),
    ],
)
def test_a_fault_of_what_the_level_leaves_out_is_refused(text, level, why):
    loaded = rig_named(DUAL)
    with pytest.raises(FaultError) as refused:
        planned_faults([text], loaded, make_plan(loaded, level))
    assert str(refused.value) == (
        f"--hw-inject {text}: nothing could notice it: {why}; choose another --hw-level"
    )


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("collective-wrong:field=all_reduce,to=16", "quick"),
        ("collective-wrong:field=all_to_all", "standard"),
        ("collective-wrong:to=100", "standard"),
        ("lan-object-port", "standard"),
        ("slow-link", "quick"),
        ("overheat", "quick"),
    ],
)
def test_a_fault_of_what_the_level_does_is_not(text, level):
    loaded = rig_named(DUAL)
    (fault,) = planned_faults([text], loaded, make_plan(loaded, level))
    assert fault.name == text.partition(":")[0]
