"""Rates that show how fast the host launches products, not how fast the card does them."""

import numpy as np

from rigproof.criteria.criterion import Disturbed, Finding
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.profiles.tables.limits import LIMITS

LAUNCH_MS = LIMITS.key(lambda limits: limits.launch_ms)
REMEDY = "state a larger `gemm_size` in the profile, so that a product lasts longer than its launch"


def launched_in_ms(device: DeviceEvidence, rounds: Rounds) -> float | None:
    """How long the host took to launch a product of these rounds, ms, if that alone set their pace.

    None if the card set it, or if the host took `limits.launch_ms` or longer, and so is too slow itself.
    """
    most = device.optional_limit(LAUNCH_MS)
    if most is None or not rounds.host_paced:
        return None
    waited = rounds.only(rounds.same("host_paced", True))
    with np.errstate(all="ignore"):
        launch_ms = float(np.median(2e-9 * waited.label_numbers("size") ** 3 / waited.rates))
    return launch_ms if launch_ms < most.value else None


def disturbed(device: DeviceEvidence, rounds: Rounds, finding: Finding) -> Disturbed | None:
    """What a rate too low over these rounds is, if its host set their pace."""
    launch_ms = launched_in_ms(device, rounds)
    if launch_ms is None or finding.measured is None or finding.limit is None:
        return None
    sizes = ", ".join(sorted(map(str, rounds.distinct_labels("size"))))
    figures = f"{finding.measured:.3g}, limit {finding.limit.value:.3g}"
    waited = f"while {device.subject} waited for its host to launch products of size {sizes}"
    pace = f"which took {launch_ms:.2g} ms each: the host's pace, not the card's"
    return Disturbed(f"{figures}, {waited}, {pace}", REMEDY, finding.from_s)
