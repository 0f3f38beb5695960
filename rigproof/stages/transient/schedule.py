"""When each GPU of a host begins its bursts. Pure; workers, judgement and simulation share it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it imports this module
    from rigproof.stages.transient.stage import TransientSettings

# Until the first wave: each GPU makes its operands and their references, and learns how long a product takes.
PREPARE_S, PREPARE_SHARE = 6.0, 0.15  # at most that share of the stage
REST_S = 0.3  # without load, before each frequency
HALF = 0.5  # of a period a wave is on
EDGE = 1e-6
# Of the shortest burst: with fewer products a burst could not be half a period long. Smaller matrices then.
LEAST_PRODUCTS = 4


@dataclass(frozen=True, slots=True)
class Arm:
    """Waves of one frequency over the host's first `gpus` GPUs. `from_s`: seconds into the stage."""

    gpus: int
    hz: int
    from_s: float
    waves: int

    def due_s(self, wave: int) -> float:
        """When a wave begins, seconds into the stage."""
        return self.from_s + wave / self.hz

    @property
    def to_s(self) -> float:
        """When the last wave is over, seconds into the stage."""
        return self.due_s(self.waves)


def arms_of(gpus: int, settings: "TransientSettings", length_s: float) -> tuple[Arm, ...]:
    """All arms of a host with so many GPUs: one GPU more at each step, each step with every frequency.

    Every frequency gets its fewest waves, and an equal part of the time that is left. If the time does not
    suffice, the fewest waves take longer than `length_s` (`least_length_s`).
    """
    steps, frequencies = steps_of(gpus, settings.most_steps), sorted(set(settings.frequencies_hz))
    if not steps or not frequencies:
        return ()
    prepare_s = _prepare_s(length_s)
    least_s = _least_step_s(settings, frequencies)
    spare_s = max(0.0, (length_s - prepare_s) / len(steps) - least_s) / len(frequencies)
    found = []
    from_s = prepare_s
    for step in steps:
        for hz in frequencies:
            waves = settings.least_waves + math.floor(spare_s * hz + EDGE)
            found.append(Arm(step, hz, from_s + REST_S, waves))
            from_s += REST_S + settings.least_waves / hz + spare_s
    return tuple(found)


def steps_of(gpus: int, most: int) -> tuple[int, ...]:
    """How many GPUs take part at each step: 1, 2, 3, …; fewer, even steps if there are more than `most`."""
    number = min(gpus, most)
    return tuple(math.ceil(gpus * (step + 1) / number) for step in range(number))


def least_length_s(gpus: int, settings: "TransientSettings") -> float:
    """The shortest stage, s, in which a host with so many GPUs makes the fewest waves of each frequency."""
    steps = len(steps_of(gpus, settings.most_steps))
    waves_s = steps * _least_step_s(settings, sorted(set(settings.frequencies_hz)))
    return waves_s + min(PREPARE_S, waves_s * PREPARE_SHARE / (1 - PREPARE_SHARE))


def _prepare_s(length_s: float) -> float:
    return min(PREPARE_S, PREPARE_SHARE * length_s)


def _least_step_s(settings: "TransientSettings", frequencies: Sequence[int]) -> float:
    return sum(REST_S + settings.least_waves / hz for hz in frequencies)
