"""Did every GPU really work?"""

from collections.abc import Sequence

from rigproof.criteria.criterion import Finding, Limit, compared, criterion
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.series import values
from rigproof.criteria.strangers import slowed_by
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.criteria.windows import Window, work_by_slice
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome

WINDOW_S = 1.0  # what "a second with work" means


@criterion(
    "activity.gpu_active",
    scope="device",
    unit="%",
    limit="`limits.active_work_share` of 1 s windows with verified work, and a mean power of at least "
    "`limits.active_power_share` of the enforced limit; no wrong result",
    remedy="see what that worker waited for: a lost process, another job on the card, a blocked queue",
    unmeasured="the stage broke off, or power was not read often enough; utilisation alone never suffices",
    faults=("gpu-idle", "bit-flip"),
    stages=("sustained",),
    explained=slowed_by,
)
def gpu_active(device: DeviceEvidence) -> Finding:
    """The device did verified work in nearly every second of the sustained stage, and drew power for it.

    For the CPU as the device the verified work alone counts.
    """
    wrong = device.events("wrong_result")
    if wrong:
        return _by_results(device, wrong)
    window = device.evidence.complete_window("sustained")
    finding = _by_work(device, window)
    if finding.outcome is Outcome.FAIL or device.is_cpu:
        return finding
    return _by_power(device, window, finding)


def _by_results(device: DeviceEvidence, wrong: Sequence[Event]) -> Finding:
    """Any wrong result fails: the share of rounds without one is told."""
    count = sum(_results(event) for event in wrong)
    share = 100 * (1 - count / max(len(device.all_rounds), count))
    number = "1 wrong result" if count == 1 else f"{count} wrong results"
    return Finding(
        Outcome.FAIL,
        share,
        Limit(100, "every result equals its reference"),
        f"{number}, the first: {wrong[0].message}",
        remedy="do not train on this card: silently wrong results ruin a run; test its memory and power",
        from_s=wrong[0].t_s,
    )


def _results(event: Event) -> int:
    """Workers tell a wrong result at most every few seconds; `data.untold` counts those in between."""
    untold = event.data.get("untold", 0)
    return 1 + (untold if isinstance(untold, int) and untold > 0 else 0)


def _by_work(device: DeviceEvidence, window: Window) -> Finding:
    slices = window.slices(WINDOW_S)
    work = work_by_slice(device.rounds("sustained").verified(), slices)
    idle = [piece for piece, done in zip(slices, work, strict=True) if done <= 0]
    share = 100 * (1 - len(idle) / len(slices))
    limit = device.limit("active_work_share").times(100)
    detail = f"verified work in {len(slices) - len(idle)} of {len(slices)} windows of 1 s"
    if share >= limit.value:
        return compared(share, limit, good=True, detail=detail)
    cause = device.cause()
    detail += f"; {cause}" if cause else ""
    return compared(share, limit, good=False, detail=detail, from_s=idle[0].from_s)


def _by_power(device: DeviceEvidence, window: Window, by_work: Finding) -> Finding:
    field = "power_w" if values(device.loaded_samples(window), "power_w") else "power_average_w"
    power = moving_readings(device, window, field, "power").values
    enforced_w = device.enforced_power_w
    mean_w = sum(power) / len(power)
    limit = device.limit("active_power_share").times(100, f" of the enforced {enforced_w:.0f} W")
    share = 100 * mean_w / enforced_w
    if share >= limit.value:
        return by_work
    detail = f"mean power {mean_w:.0f} W of {enforced_w:.0f} W while its workers reported work"
    return compared(share, limit, good=False, detail=detail, from_s=window.from_s, length_s=window.length_s)
