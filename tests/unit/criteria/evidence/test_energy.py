"""Power against the energy counter."""

import math

import numpy as np
import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.energy import _blocks, against_energy, mean_by_energy
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.loads import measured_stretches

ONE, OTHER = "pc1/gpu0", "pc2/gpu0"


def with_energy(bench, subject, scale=1.0, from_s=0.0):
    """An energy counter that integrates the instant power, times `scale` from a moment on."""
    samples = [one for one in bench.recording.gpu_samples if one.subject == subject]
    steps_j = [0.1 * (one.power_w or 0.0) * (scale if one.t_s >= from_s else 1.0) for one in samples]
    totals_j = dict(zip((one.t_s for one in samples), np.cumsum(steps_j).tolist(), strict=True))
    bench.samples(subject, energy_j=lambda one: totals_j[one.t_s])


def devices(bench):
    evidence = Evidence(bench.recording, bench.loaded)
    return evidence.device(ONE), evidence.device(OTHER)


def test_only_the_card_whose_power_differs_is_found(bench):
    with_energy(bench, ONE)
    with_energy(bench, OTHER, 1.5, from_s=58)
    one, other = devices(bench)
    assert against_energy(one, "power_w") is None
    apart = against_energy(other, "power_w")
    assert apart is not None
    begun_s, read_w, by_energy_w = apart
    assert 48 < begun_s < 68
    assert by_energy_w / read_w == pytest.approx(1.5, rel=0.2)
    assert mean_by_energy(other, 60.0, 68.0) / mean_by_energy(one, 60.0, 68.0) == pytest.approx(1.5, rel=0.1)


def test_a_counter_that_never_counted_or_is_infinite_says_nothing_about_the_card_beside_it(bench):
    with_energy(bench, ONE, 1.3)
    bench.samples(OTHER, energy_j=7.0)
    one, other = devices(bench)
    assert (against_energy(one, "power_w") is None, against_energy(other, "power_w")) == (False, None)
    assert math.isnan(mean_by_energy(other, 60.0, 68.0))
    bench.samples(OTHER, 60, 61, energy_j=math.inf)
    one, other = devices(bench)
    assert against_energy(one, "power_w") is not None
    with pytest.raises(NotMeasured, match="a reading of energy_j is not a finite number"):
        against_energy(other, "power_w")


def test_the_blocks_cover_each_stretch_of_work_from_end_to_end(bench):
    """Of 10 s and more each: a longer stretch has blocks of equal length, a shorter one has none."""
    bench.only("sustained")
    one, _ = devices(bench)
    (stretch,) = measured_stretches(one)
    assert 38 < stretch.length_s < 40
    blocks = _blocks(one)
    edges_s = [stretch.from_s + number * stretch.length_s / 3 for number in range(4)]
    assert [one.from_s for one in blocks] == pytest.approx(edges_s[:3])
    assert [one.to_s for one in blocks] == pytest.approx(edges_s[1:])
