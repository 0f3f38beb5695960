"""A snapshot as lines of text. Whatever colour says is also marked with "!". Pure."""

import textwrap
from collections.abc import Collection, Mapping, Sequence

from rich.text import Text

from rigproof.monitor import cells
from rigproof.monitor.signs import WarningSign
from rigproof.monitor.snapshot import GpuNow, NodeNow, RunDevice, RunNow, Snapshot
from rigproof.records.verdict import count_of

MARK = "!"
ALARM, EARLY, FAINT, TITLE = "bold red", "yellow", "dim", "bold"
EARLY_KINDS = frozenset({"core_temperature_early"})
MARGIN = 2  # columns, for the mark
# The column that a sign about a GPU is about; other signs mark only the row.
COLUMN_OF = {
    "idle": "util",
    "headroom": "VRAM GiB",
    "core_temperature": "core °C",
    "core_temperature_early": "core °C",
    "memory_temperature": "mem °C",
    "throttled": "clocks",
    "xid": "Xid",
    "ecc": "ECC",
}
ALWAYS = ("GPU", "util", "VRAM GiB", "core °C", "mem °C", "fan", "power W", "SM MHz", "rate")
# Added one after the other, as long as the table fits.
WHERE_ROOM = (
    "model",
    "PCIe",
    "ECC",
    "Xid",
    "clocks",
    "mem MHz",
    "workers",
    "util bar",
    "VRAM bar",
    "power bar",
)
COLUMNS = (
    *("GPU", "model", "util bar", "util", "VRAM bar", "VRAM GiB", "core °C", "mem °C", "fan"),
    *("power bar", "power W", "SM MHz", "mem MHz", "PCIe", "ECC", "Xid", "rate", "workers", "clocks"),
)
LEFT = frozenset({"GPU", "model", "workers", "clocks"})  # aligned left; so are bars
PROCESS_COLUMNS = ("process", "pid", "user", "program", "MiB", "SM")

Parts = list[tuple[str, str]]  # text and its style


def frame(
    snapshot: Snapshot,
    signs: Sequence[WarningSign],
    width: int = 80,
    most_signs: int | None = None,
    rows: int | None = None,
) -> list[Text]:
    """The lines of one frame, at most `width` wide, with at most `most_signs` signs.

    Processes are shown as far as the frame has no more than `rows` lines then; None: all of them.
    """
    lines = [_title(snapshot, signs), *_signs(signs, width, most_signs)]
    if snapshot.run is not None:
        lines += _run(snapshot, snapshot.run)
    nodes = [[Text(), *_node(snapshot, node, signs, width)] for node in snapshot.nodes]
    room = None if rows is None else rows - len(lines) - sum(map(len, nodes))
    for node, shown in zip(snapshot.nodes, nodes, strict=True):
        processes = _processes(node, room)
        room = None if room is None else room - len(processes)
        lines += [*shown, *processes]
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
    troubles = ((run.ooms, "OOMs"), (len(run.timeouts), "timeouts"), (len(run.losses), "losses"))
    trouble = ", ".join(count_of(*one) for one in troubles)
    headline = f"{mark}run {run.level}: {stage}  {trouble}  {run.run_id}"
    shown = [snapshot.in_run(gpu) for gpu in snapshot.gpus]
    others = [device for device in run.devices if device not in shown]
    return [Text(), _line([(headline, TITLE)]), *(_run_device(device) for device in others)]


def _run_device(device: RunDevice) -> Text:
    """A device of the run that is not a GPU of this view: a CPU, or a card of another node."""
    text = f"  {device.subject}  {cells.rate(device)}  workers: {cells.workers(device)}"
    return _line([(text, "")])


def _node(snapshot: Snapshot, node: NodeNow, signs: Sequence[WarningSign], width: int) -> list[Text]:
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
    return lines + _table(snapshot, node.gpus, signs, width)


def _table(
    snapshot: Snapshot, gpus: Sequence[GpuNow], signs: Sequence[WarningSign], width: int
) -> list[Text]:
    """A row for each GPU, with the columns for which there is room."""
    unit = cells.rate_unit(snapshot.run.devices if snapshot.run is not None else ())
    known = {gpu.subject: _cells(snapshot, gpu, unit) for gpu in gpus if gpu.presence != "missing"}
    names = [_name(gpu) for gpu in gpus]
    rows = list(known.values())
    widths = {
        column: max([len(_title_of(column, unit)), *(len(row[column]) for row in rows)]) for column in COLUMNS
    }
    widths["GPU"] = max(widths["GPU"], *map(len, names))
    shown = set(ALWAYS)
    for column in WHERE_ROOM:
        empty = not any(row[column] for row in rows)
        if not empty and MARGIN + sum(widths[one] + 1 for one in {*shown, column}) - 1 <= width:
            shown.add(column)
    columns = [column for column in COLUMNS if column in shown]
    titles = [_aligned(_title_of(column, unit), column, widths) for column in columns]
    lines = [_line([(" " * MARGIN + " ".join(titles), FAINT)])]
    for gpu in gpus:
        kinds = {sign.kind for sign in signs if sign.subject == gpu.subject}
        parts: Parts = [_mark(kinds)]
        if gpu.subject not in known:
            state = "missing" if gpu.name is None else f"{_model(gpu)} does not answer"
            parts += [(_aligned(_name(gpu), "GPU", widths), FAINT), (f" {state}", ALARM)]
        else:
            styles = {
                COLUMN_OF[kind]: EARLY if kind in EARLY_KINDS else ALARM for kind in kinds & COLUMN_OF.keys()
            }
            for column in columns:
                cell = _aligned(known[gpu.subject][column], column, widths)
                parts += [(" " if column != columns[0] else "", ""), (cell, styles.get(column, ""))]
        lines.append(_line(parts))
    return lines


def _aligned(text: str, column: str, widths: Mapping[str, int]) -> str:
    left = column in LEFT or column.endswith(" bar")
    return text.ljust(widths[column]) if left else text.rjust(widths[column])


def _title_of(column: str, unit: str) -> str:
    return "" if column.endswith(" bar") else unit if column == "rate" else column


def _processes(node: NodeNow, room: int | None) -> list[Text]:
    """The processes on the node's GPUs, one on each line; at most `room` lines, or none."""
    rows = [
        (
            _name(gpu),
            str(one.pid),
            one.user or cells.NONE,
            one.name or cells.NONE,
            cells.number(one.used_mib),
            cells.percent(one.sm_percent),
        )
        for gpu in node.gpus
        if gpu.presence != "missing"
        for one in gpu.processes or ()
    ]
    if not rows or (room is not None and room < 2):
        return []
    lines = [
        _line([(" " * MARGIN + " ".join(row), "" if place else FAINT)])
        for place, row in enumerate(cells.aligned([PROCESS_COLUMNS, *rows]))
    ]
    if room is None or len(lines) <= room:
        return lines
    left = len(rows) - (room - 2)
    return [*lines[: room - 1], Text(f"{' ' * MARGIN}and {left} more", FAINT)]


def _name(gpu: GpuNow) -> str:
    return gpu.subject.partition("/")[2]


def _model(gpu: GpuNow) -> str:
    return (gpu.name or "").removeprefix("NVIDIA ").removeprefix("GeForce ")


def _cpu(node: NodeNow, mark: tuple[str, str], kinds: Collection[str]) -> Text:
    band = f"band {cells.span(node.cpu.band_percent)} %, " if node.cpu.enabled else ""
    promised = f" ({band}warn {node.cpu.warn_percent:g} %)"
    return _line(
        [
            mark,
            (node.name, TITLE),
            (f"  CPU {cells.number(node.sample.cpu_percent)} %", ALARM if "cpu" in kinds else ""),
            (f"{promised}  load {cells.number(node.sample.load_1m, 1)}", ""),
            (f"  RAM {cells.gib(node.sample.ram_used_mib, node.ram_total_mib)} GiB", ""),
        ]
    )


def _host(node: NodeNow, kinds: Collection[str]) -> Text:
    p99 = cells.pair(node.wakeup_p99_ms, node.responsiveness.p99_ms, 1)
    worst = cells.pair(node.wakeup_max_ms, node.responsiveness.max_ms, 1)
    swap = None if node.sample.swap_used_mib is None else node.sample.swap_used_mib / cells.MIB_PER_GIB
    return _line(
        [
            (f"  wake-up p99 {p99} ms, max {worst} ms", ALARM if "unresponsive" in kinds else ""),
            (f"  CPU {cells.number(node.sample.cpu_temperature_c)} °C  swap {cells.number(swap, 1)} GiB", ""),
        ]
    )


def _cells(snapshot: Snapshot, gpu: GpuNow, rate_unit: str) -> dict[str, str]:
    """The cell of each column; an empty one where the column has nothing to say of this GPU."""
    device = snapshot.in_run(gpu)
    sample, limits, card = gpu.sample, gpu.limits, gpu.identity
    return {
        "GPU": _name(gpu),
        "model": cells.printable(_model(gpu)),
        "util bar": cells.bar(sample.utilization_percent, 100),
        "util": cells.percent(sample.utilization_percent),
        "VRAM bar": cells.bar(sample.memory_used_mib, gpu.memory_total_mib),
        "VRAM GiB": cells.gib(sample.memory_used_mib, gpu.memory_total_mib),
        "core °C": cells.pair(sample.core_temperature_c, limits.core_temperature_c),
        "mem °C": cells.pair(sample.memory_temperature_c, limits.memory_temperature_c),
        "fan": cells.percent(gpu.counters.fan_percent),
        "power bar": cells.bar(sample.power_average_w, gpu.power_limit_w),
        "power W": cells.pair(sample.power_average_w, gpu.power_limit_w),
        "SM MHz": cells.pair(sample.sm_clock_mhz, None if card is None else card.sm_clock_max_mhz),
        "mem MHz": cells.pair(sample.memory_clock_mhz, None if card is None else card.memory_clock_max_mhz),
        "PCIe": cells.link(sample),
        "ECC": cells.number(gpu.counters.ecc_uncorrected),
        "Xid": cells.NONE if gpu.xids is None else str(len(gpu.xids)),
        "rate": cells.rate(device, rate_unit),
        "workers": "" if device is None else cells.workers(device),
        "clocks": cells.reasons(sample.clock_event_reasons),
    }


def _mark(kinds: Collection[str]) -> tuple[str, str]:
    """The margin of a row: a mark if there is a sign about it."""
    alarm = any(kind not in EARLY_KINDS for kind in kinds)
    return (f"{MARK} ", ALARM if alarm else EARLY) if kinds else ("  ", "")


def _line(parts: Parts) -> Text:
    line = Text()
    for text, style in parts:
        line.append(cells.printable(text), style)
    return line
