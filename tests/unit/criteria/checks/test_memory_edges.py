"""Which readings of free memory count."""

from dataclasses import replace

import pytest

GPU, HEADROOM = "pc1/gpu0", "memory.headroom"


@pytest.mark.parametrize(("t_s", "counts"), [(29.9, False), (30.0, True), (70.0, True), (70.1, False)])
def test_free_memory_counts_from_the_loads_begin_to_its_end(bench, t_s, counts):
    least = replace(
        next(one for one in bench.recording.memory if one.subject == GPU), t_s=t_s, device_free_mib=1024.0
    )
    bench.recording.add(least)
    assert (bench.verdict(HEADROOM, GPU).measured == 1.0) is counts
