"""What `--hw-plan` says about the transient stage: which loads it switches, and which cards it leaves out."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.identity import GpuIdentity
from rigproof.stages.transient.schedule import steps_of
from rigproof.stages.transient.settings import TransientSettings
from rigproof.stages.transient.specs import why_left_out


def remarks(loaded: LoadedRig, _level: LevelName, found: Mapping[str, GpuIdentity]) -> Iterator[str]:
    """The steps of each host, and the cards that are, or would be, left out."""
    settings = loaded.settings(TransientSettings)
    gpus = [device for device in loaded.devices() if device.gpu.device == "cuda"]
    left_out = {one.subject: why for one in gpus if (why := why_left_out(one, found.get(one.subject)))}
    frequencies = ", ".join(map(str, sorted(set(settings.frequencies_hz))))
    yield f"the load of all GPUs of a host is switched on and off at once, at {frequencies} Hz;"
    yield "a weak power supply may reset the host"
    hosts = Counter(device.node for device in gpus if device.subject not in left_out)
    alike: dict[int, list[str]] = {}
    for node, count in hosts.items():
        alike.setdefault(count, []).append(node)
    for count, nodes in alike.items():
        yield f"{_some(nodes)}: {_steps(steps_of(count, settings.most_steps))}"
    for subject, why in left_out.items():
        yield f"{subject} is left out: {why}"
    unknown = [one for one in gpus if one.subject not in found]
    if any(not one.settings(TransientSettings).with_display for one in unknown):
        yield "a card with an active display will be left out (stages.transient.with_display)"


def _steps(steps: tuple[int, ...]) -> str:
    if len(steps) < 2:
        return "its GPU" if steps == (1,) else f"{steps[0]} GPUs"
    if steps == tuple(range(1, len(steps) + 1)):
        return f"1 to {steps[-1]} GPUs, one more at each step"
    return f"{', '.join(map(str, steps))} GPUs"


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
