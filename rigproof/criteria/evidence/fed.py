"""How well the host kept a device supplied with work, in a stage that feeds it."""

from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import SHORTEST_LOAD_S
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.standstills import NONE, Spans, within
from rigproof.criteria.evidence.windows import Window

WAITED = "see feeding.idle_gaps: a card that waits for rewards lowers its clock and its link"  # a remedy


@dataclass(frozen=True, slots=True)
class Fed:
    """How a device was fed, from the start of its first measured round of generation to the end of its last.

    Before and after that, rewards are compared while the device waits.
    """

    window: Window
    idle_share: float  # the share of the window without a verified round
    gap_s: float  # the longest gap between verified rounds, and when it began
    gap_from_s: float


def fed_by(rounds: Rounds, uncounted: Spans = NONE) -> Fed:
    """From one device's rounds of a stage that feeds it. NotMeasured if it generated for too short a time.

    `uncounted`: when its host stood still.
    """
    generation = rounds.measured
    if not len(generation):
        raise NotMeasured("no round of generation was measured")
    window = Window(float(generation.begins_s.min()), float(generation.t_s.max()))
    length_s = window.length_s - within(uncounted, *window[:2])
    if length_s < SHORTEST_LOAD_S:
        raise NotMeasured(f"{length_s:.1f} s of generation are too short to measure")
    verified = generation.verified
    order = np.argsort(verified.t_s, kind="stable")
    ends_s = np.append(window.from_s, verified.t_s[order])
    gaps_s = np.append(verified.begins_s[order], window.to_s) - ends_s
    for place in (gaps_s > 0).nonzero()[0].tolist() if len(uncounted) else ():
        gaps_s[place] -= within(uncounted, ends_s[place], ends_s[place] + gaps_s[place])
    last = len(gaps_s) - 1 - int(gaps_s[::-1].argmax())  # of the longest ones
    idle_share = 1 - float(verified.seconds.sum()) / length_s
    return Fed(window, max(0.0, idle_share), max(0.0, float(gaps_s[last])), float(ends_s[last]))


def fed(device: DeviceEvidence) -> Fed:
    """How it was fed; NotMeasured if it was not."""
    stages = device.evidence.stages_with("fed")
    if not stages:
        raise NotMeasured("no stage of this run feeds the device")
    device.evidence.stage(stages[0])
    rounds = device.rounds(stages[0])
    cause = "" if len(rounds) else device.cause()
    if cause:
        raise NotMeasured(f"no round of generation: {cause}")
    return fed_by(rounds, device.uncounted)


def remedy_if_waited(device: DeviceEvidence) -> str:
    """The remedy for a fed card that waited too long; empty for one that did not."""
    most = device.optional_limit("idle_share")
    if most is None or fed(device).idle_share <= most.value:
        return ""
    return WAITED
