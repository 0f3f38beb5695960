"""A snapshot as lines of text. Whatever colour says is also marked with "!". Pure."""

import textwrap
from collections.abc import Collection, Sequence

from rich.text import Text

from rigproof.monitor import cells
from rigproof.monitor.signs import WarningSign
from rigproof.monitor.snapshot import GpuNow, NodeNow, RunDevice, RunNow, Snapshot

MARK = "!"
ALARM, EARLY, FAINT, TITLE = "bold red", "yellow", "dim", "bold"
EARLY_KINDS = frozenset({"core_temperature_early"})
HEADER = (
    "GPU",
    "util",
    "VRAM GiB",
    "core °C",
    "mem °C",
    "power W",
    "SM MHz",
    "mem MHz",
    "PCIe",
)  # and the rate
# The cell of a GPU's row that a sign is about; other signs mark only the row.
CELL_OF = {
    "idle": 1,
    "headroom": 2,
    "core_temperature": 3,
    "core_temperature_early": 3,
    "memory_temperature": 4,
}

Parts = list[tuple[str, str]]  # text and its style


def frame(
    snapshot: Snapshot, signs: Sequence[WarningSign], width: int = 80, most_signs: int | None = None
) -> list[Text]:
    """The lines of one frame, at most `width` wide, with at most `most_signs` signs."""
    lines = [_title(snapshot, signs), *_signs(signs, width, most_signs)]
    if snapshot.run is not None:
        lines += _run(snapshot, snapshot.run)
    for node in snapshot.nodes:
        lines += [Text(), *_node(snapshot, node, signs)]
    if not snapshot.nodes:
        lines.append(Text("waiting for the first readings"))
    for line in lines:
        line.rstrip()
        line.truncate(width, overflow="ellipsis")
    return lines


def _title(snapshot: Snapshot, signs: Sequence[WarningSign]) -> Text:
    number = len(signs)
    warnings = f"{MARK} {number} warning{'' if number == 1 else 's'}" if number else "no warnings"
    title = f"rigproof monitor  {snapshot.at[11:19]}Z  "
    where = f"  {snapshot.rig} on {snapshot.source}"
    return _line([(title, TITLE), (warnings, ALARM if number else ""), (where, "")])


def _signs(signs: Sequence[WarningSign], width: int, most: int | None) -> list[Text]:
    lines = []
    for sign in signs[:most]:
        style = EARLY if sign.kind in EARLY_KINDS else ALARM
        text = cells.printable(f"{sign.subject}: {sign.text}")
        wrapped = textwrap.wrap(text, max(width - 2, 10)) or [""]
        lines += [Text(f"{MARK if not place else ' '} {part}", style) for place, part in enumerate(wrapped)]
    left = 0 if most is None else len(signs) - most
    return [*lines, Text(f"{MARK} and {left} more", ALARM)] if left > 0 else lines


def _run(snapshot: Snapshot, run: RunNow) -> list[Text]:
    mark = "SIMULATED " if run.simulated else ""
    stage = "between stages"
    if run.stage is not None:
        expected = "" if run.stage.expected_s is None else f"/{run.stage.expected_s:.0f}"
        stage = f"{run.stage.name} {run.stage.elapsed_s:.0f}{expected} s"
    trouble = f"{run.ooms} OOMs, {len(run.timeouts)} timeouts, {len(run.losses)} losses"
    headline = f"{mark}run {run.level}: {stage}  {trouble}  {run.run_id}"
    shown = [snapshot.in_run(gpu) for gpu in snapshot.gpus]
    others = [device for device in run.devices if device not in shown]
    return [Text(), _line([(headline, TITLE)]), *(_run_device(device) for device in others)]


def _run_device(device: RunDevice) -> Text:
    """A device of the run that is not a GPU of this view: a CPU, or a card of another node."""
    text = f"  {device.subject}  {cells.rate(device)}  workers: {cells.workers(device)}"
    return _line([(text, "")])


def _node(snapshot: Snapshot, node: NodeNow, signs: Sequence[WarningSign]) -> list[Text]:
    kinds = {sign.kind for sign in signs if sign.subject == node.name}
    mark = _mark(kinds)
    if node.presence != "here":
        state = "missing" if node.presence == "missing" else "waiting for its first reading"
        return [_line([mark, (node.name, TITLE), (f"  {state}", ALARM if kinds else FAINT)])]
    lines = [_cpu(node, mark, kinds), _host(node, kinds)]
    if not node.gpus:
        found = node.gpus_found
        lines.append(Text("  no GPU was found here" if not found else f"  no GPU is promised, {found} found"))
        return lines
    unit = cells.rate_unit(snapshot.run.devices if snapshot.run is not None else ())
    rows = cells.aligned([(*HEADER, unit), *(_cells(snapshot, gpu, unit) for gpu in node.gpus)])
    lines.append(_line([("  " + " ".join(rows[0]), FAINT)]))
    for gpu, row in zip(node.gpus, rows[1:], strict=True):
        own = {sign.kind for sign in signs if sign.subject == gpu.subject}
        lines += [_row(gpu, row, own), *_second_row(snapshot, gpu, own)]
    return lines


def _cpu(node: NodeNow, mark: tuple[str, str], kinds: Collection[str]) -> Text:
    limits = node.limits
    notes = [f"band {cells.span(limits.cpu_band_percent)} %"] if limits.cpu_band_percent else []
    notes += [f"warn {limits.cpu_warn_percent:g} %"] if limits.cpu_warn_percent is not None else []
    promised = f" ({', '.join(notes)})" if notes else ""
    return _line(
        [
            mark,
            (node.name, TITLE),
            (f"  CPU {cells.number(node.cpu_percent)} %", ALARM if "cpu" in kinds else ""),
            (f"{promised}  load {cells.number(node.load_1m, 1)}", ""),
            (f"  RAM {cells.gib(node.ram_used_mib, node.ram_total_mib)} GiB", ""),
        ]
    )


def _host(node: NodeNow, kinds: Collection[str]) -> Text:
    p99 = cells.pair(node.wakeup_p99_ms, node.limits.wakeup_p99_ms, 1)
    worst = cells.pair(node.wakeup_max_ms, node.limits.wakeup_max_ms, 1)
    swap = None if node.swap_used_mib is None else node.swap_used_mib / cells.MIB_PER_GIB
    return _line(
        [
            (f"  wake-up p99 {p99} ms, max {worst} ms", ALARM if "unresponsive" in kinds else ""),
            (f"  CPU {cells.number(node.cpu_temperature_c)} °C  swap {cells.number(swap, 1)} GiB", ""),
        ]
    )


def _cells(snapshot: Snapshot, gpu: GpuNow, rate_unit: str) -> tuple[str, ...]:
    name = gpu.subject.partition("/")[2]
    if gpu.presence == "missing":
        return (name, *[cells.NONE] * len(HEADER))
    return (
        name,
        cells.number(gpu.utilization_percent) + ("" if gpu.utilization_percent is None else "%"),
        cells.gib(gpu.memory_used_mib, gpu.memory_total_mib),
        cells.pair(gpu.core_temperature_c, gpu.limits.core_temperature_c),
        cells.pair(gpu.memory_temperature_c, gpu.limits.memory_temperature_c),
        cells.pair(gpu.power_average_w, gpu.limits.power_w),
        cells.pair(gpu.sm_clock_mhz, gpu.sm_clock_max_mhz),
        cells.pair(gpu.memory_clock_mhz, gpu.memory_clock_max_mhz),
        cells.link(gpu),
        cells.rate(snapshot.in_run(gpu), rate_unit),
    )


def _row(gpu: GpuNow, row: Sequence[str], kinds: Collection[str]) -> Text:
    styles = dict.fromkeys(range(len(row)), FAINT if gpu.presence == "missing" else "")
    for kind in kinds & CELL_OF.keys():
        styles[CELL_OF[kind]] = EARLY if kind in EARLY_KINDS else ALARM
    parts: Parts = [_mark(kinds)]
    for place, cell in enumerate(row):
        parts += [(" " if place else "", ""), (cell, styles[place])]
    return _line(parts)


def _second_row(snapshot: Snapshot, gpu: GpuNow, kinds: Collection[str]) -> list[Text]:
    if gpu.presence == "missing":
        state = "missing" if gpu.name is None else f"{gpu.name} does not answer"
        return [_line([(f"       {state}", ALARM)])]
    device = snapshot.in_run(gpu)
    name = (gpu.name or "").removeprefix("NVIDIA ").removeprefix("GeForce ")
    facts = [name] if name else []
    facts += [f"workers: {cells.workers(device)}"] if device is not None else []
    facts += [f"ECC {cells.number(gpu.ecc_uncorrected)}"]
    facts += [f"Xid {cells.NONE if gpu.xids is None else len(gpu.xids)}"]
    clocks = f"  clocks: {cells.reasons(gpu.clock_event_reasons)}"
    parts = [("       " + "  ".join(facts), ""), (clocks, ALARM if "throttled" in kinds else "")]
    return [_line(parts)]


def _mark(kinds: Collection[str]) -> tuple[str, str]:
    """The margin of a row: a mark if there is a sign about it."""
    alarm = any(kind not in EARLY_KINDS for kind in kinds)
    return (f"{MARK} ", ALARM if alarm else EARLY) if kinds else ("  ", "")


def _line(parts: Parts) -> Text:
    line = Text()
    for text, style in parts:
        line.append(cells.printable(text), style)
    return line
