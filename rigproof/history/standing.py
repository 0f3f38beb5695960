"""Does the last verdict on this machine hold? For schedulers, hooks and training scripts.

It is read from the folder of reports and compared with what the kernel says of this machine. That takes
milliseconds and cannot hang: nothing here imports torch, Ray, NVML or pydantic, but where power limits are
asked for.
"""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rigproof.history.verdicts import ended_at, verdicts, was_on
from rigproof.host.nvidia import KernelDriver, kernel_driver
from rigproof.host.proc import boot_id
from rigproof.host.visible import BY_BUS, ORDER, by_speed, own_setting, shown, visible_gpus
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.files import digest, profile_folder, read_toml
from rigproof.profiles.tables.level_names import LEVELS
from rigproof.records.identity import GpuIdentity
from rigproof.records.message_text import one_line
from rigproof.records.verdict import EXIT_STATUS, Decision

LINE_MAX = 80
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FUTURE_S = 60.0  # by so much a clock that was set back since is not noticed
ASK_S = 5.0
SLACK_W = 0.5
NO_LEVEL = -1


class NotAcceptedError(RuntimeError):
    """No ACCEPTED verdict holds for this machine; the message says why, and what to type."""


@dataclass(frozen=True, slots=True)
class Here:
    """This machine, as its kernel tells. `boot_id`: None if it is not the host's own.

    `visible` and `order`: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER of who asks; None if not set.
    """

    hostname: str = field(default_factory=socket.gethostname)
    boot_id: str | None = field(default_factory=lambda: boot_id().value)
    driver: KernelDriver = field(default_factory=kernel_driver)
    visible: str | None = field(default_factory=own_setting)
    order: str | None = field(default_factory=lambda: os.environ.get(ORDER))

    @property
    def uuids(self) -> dict[str, str]:
        """Of the cards that this process was given too, as far as they have told theirs, by address."""
        return {address: uuid for address, uuid in self.driver.uuids if address in self.driver.expected}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a verdict has to be: no older, of this level or a longer one, of this profile."""

    max_age: str | None = None  # such as "24h"
    level: str | None = None
    hwprofile: str | None = None
    power_limits: bool = False  # whether the driver is asked for them

    @property
    def command(self) -> str:
        """What makes such a verdict."""
        options = {"--level": self.level, "--hwprofile": self.hwprofile}
        return " ".join(["rigproof accept", *(f"{name} {text}" for name, text in options.items() if text)])


@dataclass(frozen=True, slots=True)
class Standing:
    """How this machine stands: INCOMPLETE, too, where no verdict holds.

    `line` has at most 80 characters. `notes`: where to read more, and what was not compared.
    """

    decision: Decision
    line: str
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        return EXIT_STATUS[self.decision]


def seconds_of(text: str) -> float:
    """A duration such as `90m`, in s. ValueError."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration; write it like 24h, 90m or 7d")
    return float(found[1]) * SECONDS[found[2]]


def require_accepted(
    max_age: str | None = "24h",
    *,
    level: str | None = None,
    hwprofile: str | None = None,
    report_dir: str | Path = "reports",
    power_limits: bool = False,
) -> None:
    """Raise NotAcceptedError unless this machine was accepted, and nothing has changed since.

    `max_age`: such as "24h"; None: however old. `level`: the shortest that counts; None: any. `hwprofile`:
    the rig's name, or the file of its profile; None: any rig with this machine. `power_limits`: compare
    them, too, by NVML, which may take seconds. ValueError for a duration or level that there is not.
    """
    wanted = Wanted(max_age, level, hwprofile, power_limits)
    found = standing(Path(report_dir), wanted)
    if found.decision is not Decision.ACCEPTED:
        raise NotAcceptedError("; ".join([f"{found.line}. Run `{wanted.command}` first", *found.notes]))


def standing(
    report_dir: Path, wanted: Wanted, here: Here | None = None, now: datetime | None = None
) -> Standing:
    """What the newest verdict that counts says, if it still holds.

    Neither simulated nor shortened runs count, but that a shortened one may have rejected the rig; nor does
    one at a shorter level, unless it did. Behind a run without a verdict, or one that was judged again, no
    earlier one holds; nor behind a rejection at a longer level, or since by another profile. ValueError as in
    `require_accepted`.
    """
    if wanted.max_age is not None:
        seconds_of(wanted.max_age)
    if wanted.level is not None and wanted.level not in LEVELS:
        raise ValueError(f"{wanted.level!r} is no level; use {', '.join(LEVELS)}")
    here, now = here or Here(), now or datetime.now().astimezone()
    passed_over: list[str] = []
    of_others: list[tuple[Path, dict[str, Any] | None]] = []
    every = verdicts(report_dir)
    for run, head in every:
        if head is None:
            if was_on(run, here.hostname):
                line, why = f"none that holds: {run.name} has no verdict", "it was ended, or has not ended"
                return _none(line, (why,))
            continue
        node = _this_node(head, here)
        if node is None or head.get("simulated"):
            continue
        if wanted.hwprofile and not _of_profile(head, wanted):
            of_others.append((run, head))
            continue
        if why := _does_not_count(head, wanted):
            passed_over.append(f"{run.name} does not count: {why}")
            continue
        found = _held(run, head, node, wanted, here, now=now)
        if found.decision is not Decision.ACCEPTED:
            return found
        tested = dict.fromkeys(_cards(node), _length(head))
        worse = _rejected(of_others, {}, here) or _rejected(every, tested, here)
        return _none(f"none that holds: {worse}", found.notes) if worse else found
    which = "that counts" if passed_over else f"of {wanted.hwprofile or 'this machine'}"
    return _none(f"none {which} in {report_dir}/runs", tuple(passed_over[:1]))


def _held(
    run: Path, head: Mapping[str, Any], node: Mapping[str, Any], wanted: Wanted, here: Here, *, now: datetime
) -> Standing:
    """The verdict of a run that counts, if it still holds."""
    notes = (f"see {run}", *_unseen(head, node, here))
    age_s = (now - ended_at(head)).total_seconds()
    if wanted.max_age is not None and age_s > seconds_of(wanted.max_age):
        return _none(f"none within {wanted.max_age}: the last is {_named(head, age_s)}", notes)
    if age_s < -FUTURE_S:
        return _none(f"none that holds: {run.name} ended in the future; set the clock", notes)
    if head.get("judged_again") and head.get("verdict") != Decision.REJECTED:
        return _none(f"none that holds: {run.name} was judged again", notes)
    if why := _changed(head, node, here, wanted):
        return _none(f"none that holds: {why} since {_named(head, age_s)}", notes)
    return _as_told(head, age_s, notes)


def _rejected(
    runs: Iterable[tuple[Path, dict[str, Any] | None]], tested: Mapping[str, int], here: Here
) -> str:
    """Which run rejected this machine since it started, and no longer one of the same cards accepted since.

    Empty if none did. The newest is first; `tested`: the longest level that accepted each card of `_cards`.
    """
    longest, uuids = dict(tested), {"", *here.uuids.values()}
    for run, head in runs:
        node = None if head is None else _this_node(head, here)
        if head is None or node is None or head.get("simulated"):
            continue
        if node.get("boot_id") != here.boot_id:
            break
        level, cards = _length(head), _cards(node) & uuids
        longer = any(level > longest.get(one, NO_LEVEL) for one in cards)
        if longer and head.get("verdict") == Decision.REJECTED:
            return f"{run.name} rejected it"
        cleared = head.get("verdict") == Decision.ACCEPTED
        if cleared and not (head.get("shortened") or head.get("judged_again")):
            longest |= {one: max(level, longest.get(one, NO_LEVEL)) for one in cards}
    return ""


def _cards(node: Mapping[str, Any]) -> set[str]:
    """The UUIDs of the cards that a run found here, and an empty one: the machine beside them."""
    return {"", *(str(one.get("uuid")) for one in node["gpus"] if one.get("device") == "cuda")}


def _length(head: Mapping[str, Any]) -> int:
    """How long a run's level is, beside others."""
    level = head.get("level")
    return LEVELS.index(level) if level in LEVELS else NO_LEVEL


def _this_node(head: Mapping[str, Any], here: Here) -> Mapping[str, Any] | None:
    """This machine among the nodes of a run: by its boot, or else by its name."""
    nodes = head["rig"]["nodes"]
    booted = [one for one in nodes if here.boot_id is not None and one.get("boot_id") == here.boot_id]
    named = [one for one in nodes if one.get("hostname") == here.hostname]
    return next(iter([*booted, *named]), None)


def _of_profile(head: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether the run was of that profile, by its name or its file."""
    rig, given = head["rig"], wanted.hwprofile or ""
    files = (Path(given).absolute(), profile_folder() / "rigs" / f"{given}.toml")
    return given == rig.get("name") or any(str(one) in rig.get("profile", {}) for one in files)


def _does_not_count(head: Mapping[str, Any], wanted: Wanted) -> str:
    """Why the verdict says nothing; empty if it counts."""
    if head.get("verdict") == Decision.REJECTED:
        return ""
    if head.get("shortened"):
        return "it was shortened"
    if wanted.level is not None and _length(head) < LEVELS.index(wanted.level):
        return f"level {head.get('level')}"
    return ""


def _changed(head: Mapping[str, Any], node: Mapping[str, Any], here: Here, wanted: Wanted) -> str:
    """What has changed since the run, so that its verdict does not hold; empty if nothing has."""
    if here.boot_id is None or node.get("boot_id") is None:
        return "nobody knows whether this machine was restarted"
    if node["boot_id"] != here.boot_id:
        return "this machine was restarted"
    gpus = [one for one in node["gpus"] if one.get("device") == "cuda"]
    if not gpus and here.driver.expected:
        return "there are GPUs here, and none was tested"
    if gpus and node.get("driver_version") != here.driver.version:
        return f"the driver changed to {here.driver.version}" if here.driver.version else "the driver is gone"
    uuids = here.uuids
    for gpu in gpus:
        known = uuids.get(_address(gpu)) if _address(gpu) in here.driver.expected else "gone"
        if known not in (None, gpu.get("uuid")) and gpu.get("uuid") not in uuids.values():
            return f"{gpu.get('subject')} is not there, or another card"
    return (
        _untested(gpus, here) or _other_profile(head) or (_other_limit(gpus) if wanted.power_limits else "")
    )


def _untested(gpus: list[dict[str, Any]], here: Here) -> str:
    """The first card that CUDA_VISIBLE_DEVICES gives who asks and the run did not test; empty if none.

    Of unlike cards CUDA counts the fastest first, unless it is told otherwise: an index may be any of them.
    """
    tested = {*map(_address, gpus), *(str(one.get("uuid")) for one in gpus)}
    found = [(address, here.uuids.get(address, "")) for address in here.driver.expected]
    cards = [GpuIdentity(at, "cuda", uuid, "", index, 0.0) for index, (at, uuid) in enumerate(found)]
    visible = () if here.visible is None else visible_gpus(cards, here.visible, lambda _: None)
    unsure = by_speed(here.visible, here.order) and len(here.driver.models) > 1
    untested = [one.subject for one in (cards if unsure else visible) if not tested & {one.subject, one.uuid}]
    if not untested:
        return ""
    what = f"needs {ORDER}={BY_BUS}" if unsure else f"names {untested[0]}, not tested"
    return f"{shown(here.visible or '')} {what}"


def _other_profile(head: Mapping[str, Any]) -> str:
    for file, told in head["rig"].get("profile", {}).items():
        try:
            if digest(read_toml(Path(file))) != told:
                return f"{Path(file).name} changed"
        except ProfileError:
            return f"{Path(file).name} cannot be read"
    return ""


def _other_limit(gpus: list[dict[str, Any]]) -> str:
    """A power limit that is not what it was, or why NVML does not tell."""
    from rigproof.telemetry.inventory import detect  # noqa: PLC0415 - loads NVML, which nothing else here does

    inventory = detect(ASK_S)
    if inventory.doubt is not None:
        return f"NVML does not tell power limits: {inventory.doubt}"
    limits = {gpu.uuid: gpu.power_limit_w for gpu in (*inventory.gpus, *inventory.hidden)}
    for gpu in gpus:
        then_w, now_w = gpu.get("power_limit_w"), limits.get(str(gpu.get("uuid")))
        if isinstance(then_w, int | float) and (now_w is None or abs(now_w - then_w) > SLACK_W):
            return f"{gpu.get('subject')}'s power limit, {then_w:g} W, is {now_w or 'unknown'}"
    return ""


def _address(gpu: Mapping[str, Any]) -> str:
    """A card's PCI address as Linux writes it: NVML's domain has 8 digits."""
    return str(gpu.get("pci_bus_id")).lower()[-12:]


def _unseen(head: Mapping[str, Any], node: Mapping[str, Any], here: Here) -> tuple[str, ...]:
    """What is not compared: other nodes are known from the run alone; and what was not tested."""
    others = [str(one.get("name")) for one in head["rig"]["nodes"] if one is not node]
    tested = {_address(one) for one in node["gpus"]}
    cards = [one for one in here.driver.expected if tested and one not in tested]
    unseen = {"not compared": others, "not of the rig": cards}
    return tuple(f"{what}: {', '.join(names)}" for what, names in unseen.items() if names)


def _named(head: Mapping[str, Any], age_s: float) -> str:
    unit = next((one for one in "dhm" if age_s >= SECONDS[one]), "s")
    age = f"{max(0.0, age_s) // SECONDS[unit]:.0f} {'min' if unit == 'm' else unit} ago"
    return f"{head.get('verdict')} {head['rig'].get('name')} {head.get('level')} {age}"


def _as_told(head: Mapping[str, Any], age_s: float, notes: tuple[str, ...]) -> Standing:
    """The verdict as the run ended."""
    line, decision, counts = _named(head, age_s), head.get("verdict"), head.get("counts", {})
    if decision == Decision.REJECTED:
        return Standing(Decision.REJECTED, one_line(f"{line}: {counts.get('fail')} failed", LINE_MAX), notes)
    sound = not (head.get("interrupted") or counts.get("fail") or counts.get("not_measured"))
    if decision == Decision.ACCEPTED and head.get("exit_status") == EXIT_STATUS[Decision.ACCEPTED] and sound:
        apart = ", not tested together" if head.get("not_tested_together") else ""
        return Standing(Decision.ACCEPTED, one_line(f"{line}{apart}", LINE_MAX), notes)
    problem = next(iter(head.get("problems", [])), f"{counts.get('not_measured')} not measured")
    return _none(f"{line}: {problem}", notes)


def _none(line: str, notes: tuple[str, ...]) -> Standing:
    return Standing(Decision.INCOMPLETE, one_line(line, LINE_MAX), notes)
