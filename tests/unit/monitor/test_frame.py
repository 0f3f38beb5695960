"""What a person sees: never wider than the terminal, a dash for what is not known, a mark for every sign."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.monitor.frame import frame
from rigproof.monitor.signs import WarningSign, warning_signs
from rigproof.monitor.snapshot import RunWorker
from rigproof.records.measurements import GpuCounters, Rate
from rigproof.records.processes import GpuProcess
from rigproof.records.samples import GpuSample, HostSample

from .conftest import gpu_now, node_now, run_device, run_now, snapshot_of


def plain(snapshot, width=80, **options):
    return [line.plain for line in frame(snapshot, warning_signs(snapshot), width, **options)]


def test_a_node_without_a_cpu_load_has_no_band(calm):
    cpu = calm.nodes[0].cpu.model_copy(update={"enabled": False})
    lines = plain(snapshot_of(replace(calm.nodes[0], cpu=cpu)))
    assert lines[2] == "  pc1  CPU 78 % (warn 90 %)  load 61.2  RAM 40/128 GiB"


PC = [
    "CPU 78 % (band 70-85 %, warn 90 %)  load 61.2  RAM 40/128 GiB",
    "  wake-up p99 0.8/50.0 ms, max 2.1/250.0 ms  CPU 61 °C  swap 0.0 GiB",
    "  GPU  model    util  VRAM GiB core °C mem °C fan power W    SM MHz PCIe TFLOP/s",
    "  gpu0 RTX 3090  99% 17.2/24.0   71/80  82/95 47% 341/350 1695/2100 4x16    51.2",
    "  process  pid user program   MiB  SM",
    "  gpu0    5263   ml python3 17613 98%",
]


def test_a_calm_rig(calm):
    assert plain(calm) == [
        "rigproof monitor  03:04:05Z  no warnings  dual-3090-3070 on this machine",
        "",
        "run standard: sustained 42/110 s  0 OOMs, 0 timeouts, 0 losses  20260102T030405…",
        *("", f"  pc1  {PC[0]}", *PC[1:]),
        *("", f"  pc2  {PC[0]}", *PC[1:]),
    ]


def words(line):
    return " ".join(line.split())


def test_where_there_is_room_there_are_bars_and_more_columns(calm):
    lines = plain(calm, width=200)
    title = next(line for line in lines if line.startswith("  GPU "))
    assert words(title) == (
        "GPU model util VRAM GiB core °C mem °C fan power W SM MHz mem MHz PCIe ECC Xid TFLOP/s "
        "workers clocks"
    )
    row = next(line for line in lines if line.startswith("  gpu0 RTX"))
    assert words(row) == (
        "gpu0 RTX 3090 ██████████ 99% ███████░░░ 17.2/24.0 71/80 82/95 47% ██████████ 341/350 1695/2100 "
        "9501/9751 4x16 0 0 51.2 1 working power cap"
    )
    assert max(map(len, lines)) <= 200


def eight(**changes):
    gpus = [
        gpu_now(f"pc1/gpu{n}", name="NVIDIA H200", memory_total_mib=143771.0, **changes) for n in range(8)
    ]
    return snapshot_of(node_now("pc1", *gpus), run=run_now(*(run_device(one.subject) for one in gpus)))


def test_eight_gpus_are_eight_lines_and_fit_80_by_24_with_their_processes():
    lines = plain(eight(), rows=24)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines if "H200" in line] == [[f"gpu{n}", "H200"] for n in range(8)]
    assert sum("python3" in line for line in lines) == 8


def test_processes_that_do_not_fit_are_counted():
    several = tuple(
        GpuProcess(0.0, "pc1/gpu0", pid, used_mib=100.0, user="ml", name="python3") for pid in (7, 8)
    )
    lines = plain(eight(processes=several), rows=24)
    assert len(lines) == 24
    assert lines[-1] == "  and 9 more"
    assert sum(" python3 " in line for line in lines) == 7
    assert sum(" python3 " in line for line in plain(eight(processes=several))) == 16
    assert not any("process" in line for line in plain(eight(processes=several), rows=16))


def test_a_driver_that_lists_no_processes_has_no_lines_of_them():
    for processes in (None, ()):
        lines = plain(snapshot_of(node_now("pc1", gpu_now("pc1/gpu0", processes=processes))))
        assert not any("process" in line for line in lines)


def test_what_is_not_known_is_a_dash_never_zero():
    unknown = {
        "sample": GpuSample(0.0, "pc1/gpu0"),
        "counters": GpuCounters(0.0, "pc1/gpu0", "after"),
        **dict.fromkeys(("identity", "uuid", "reading_age_s", "coverage_share", "xids", "processes")),
    }
    node = node_now(
        "pc1",
        gpu_now("pc1/gpu0", **unknown),
        sample=HostSample(0.0, "pc1"),
        wakeup_p99_ms=None,
        wakeup_max_ms=None,
    )
    lines = plain(snapshot_of(node))
    assert lines[2:4] == [
        "  pc1  CPU - % (band 70-85 %, warn 90 %)  load -  RAM - GiB",
        "  wake-up p99 -/50.0 ms, max -/250.0 ms  CPU - °C  swap - GiB",
    ]
    assert words(lines[4]) == "GPU util VRAM GiB core °C mem °C fan power W SM MHz PCIe ECC Xid rate clocks"
    assert words(lines[5]) == "gpu0 - - -/80 -/95 - - - - - - - -"


def test_every_sign_has_a_mark_and_is_not_only_a_colour(calm):
    hot = gpu_now("pc1/gpu0", core_temperature_c=84.0)
    snapshot = replace(calm, nodes=(node_now("pc1", hot, cpu_percent=95.0), calm.nodes[1]))
    lines = plain(snapshot)
    assert lines[0].startswith("rigproof monitor  03:04:05Z  ! 2 warnings")
    assert lines[1] == "! pc1: CPU at 95 %, limit ≤ 90 %"
    assert lines[2] == "! pc1/gpu0: core, which must never exceed the limit, at 84 °C, limit ≤ 83 °C"
    marked = [line for line in lines[3:] if line.startswith("!")]
    assert [line.split()[1] for line in marked] == ["pc1", "gpu0"]


@pytest.mark.parametrize(
    ("changes", "cell", "style"),
    [
        ({"core_temperature_c": 82.0}, "82/80", "bold red"),
        ({"core_temperature_c": 79.0}, "79/80", "yellow"),
        ({"memory_temperature_c": 97.0}, "97/95", "bold red"),
        ({"memory_used_mib": 24500.0}, "23.9/24.0", "bold red"),
    ],
)
def test_the_cell_that_a_sign_is_about_lights_up(changes, cell, style):
    snapshot = snapshot_of(node_now("pc1", gpu_now("pc1/gpu0", **changes)))
    styles = {}
    for line in frame(snapshot, warning_signs(snapshot)):
        for part in line.spans:
            styles[line.plain[part.start : part.end].strip()] = part.style
    assert styles[cell] == style


def test_a_long_sign_is_wrapped_with_its_mark_in_front(calm):
    line = "RAY_AUTH_MODE=token ray start --address=192.168.1.10:6379 --node-ip-address=192.168.1.11"
    node = node_now("pc2", presence="missing", reason=f"pc2 is not in the cluster; type on pc2: {line}")
    lines = plain(replace(calm, nodes=(node,), run=None))
    assert lines[1:] == [
        "! pc2: pc2 is not in the cluster; type on pc2: RAY_AUTH_MODE=token ray start",
        "  --address=192.168.1.10:6379 --node-ip-address=192.168.1.11",
        "",
        "! pc2  missing",
    ]


def test_signs_beyond_what_fits_are_counted(calm):
    signs = [WarningSign("error", "rig", str(number)) for number in range(9)]
    lines = [line.plain for line in frame(calm, signs, most_signs=4)]
    assert lines[1:6] == ["! rig: 0", "! rig: 1", "! rig: 2", "! rig: 3", "! and 5 more"]


def test_a_missing_gpu_and_a_silent_one_keep_their_rows():
    missing = gpu_now("pc1/gpu0", presence="missing", identity=None, reason="rtx-3090 is not on pc1")
    silent = gpu_now("pc1/gpu1", presence="missing", reason="NVML has not answered")
    lines = plain(snapshot_of(node_now("pc1", missing, silent)))
    assert [line.rstrip() for line in lines[-2:]] == ["! gpu0 missing", "! gpu1 RTX 3090 does not answer"]


@pytest.mark.parametrize(
    ("found", "expected"), [(0, "  no GPU was found here"), (2, "  no GPU is promised, 2 found")]
)
def test_a_host_without_a_gpu_says_so(found, expected):
    assert plain(snapshot_of(node_now("pc1", gpus_found=found)))[-1] == expected


def test_before_anything_is_known_it_says_what_it_waits_for():
    assert plain(snapshot_of())[1:] == ["waiting for the first readings"]
    assert (
        plain(snapshot_of(node_now("pc1", presence="starting")))[-1] == "  pc1  waiting for its first reading"
    )


def test_devices_of_the_run_that_are_no_gpu_here_stand_below_it():
    states = (RunWorker("pc1/cpu0#0", "working"), RunWorker("pc1/cpu0#1", "died"))
    cpu = run_device("pc1/cpu0", device="cpu", uuid="cpu", rate=Rate(0.314, "TFLOP/s"), workers=states)
    lines = plain(snapshot_of(node_now("pc1", gpus_found=0), run=run_now(cpu, stage=None, simulated=True)))
    assert lines[2].startswith("SIMULATED run standard: between stages  0 OOMs")
    assert lines[3] == "  pc1/cpu0  0.31 TFLOP/s  workers: 1 working, 1 died"


def test_a_card_is_found_in_the_run_by_its_uuid_whatever_it_is_called_there(calm):
    run = run_now(run_device("lab/gpu5", uuid="GPU-pc1/gpu0", rate=Rate(7.125, "TFLOP/s")))
    lines = plain(replace(calm, run=run))
    assert [line.split()[-1] for line in lines if line.startswith("  gpu0 RTX")] == ["7.12", "-"]


def test_the_column_of_rates_is_named_after_their_unit(calm):
    run = run_now(
        run_device("pc1/gpu0", uuid="GPU-pc1/gpu0", rate=Rate(4212.4, "GB/s")),
        run_device("pc2/gpu0", uuid="GPU-pc2/gpu0", rate=Rate(71.3, "TFLOP/s")),
    )
    lines = plain(replace(calm, run=run), width=100)
    assert sum(line.startswith("  GPU") and "GB/s" in line for line in lines) == 2
    rows = [line for line in lines if line.startswith("  gpu0 RTX")]
    assert " 4212.4" in rows[0]
    assert " 71.3 TFLOP/s" in rows[1]


def test_nothing_that_a_driver_says_commands_the_terminal(calm):
    node = node_now("pc1", gpu_now("pc1/gpu0", name="RTX\x1b[2J\r\n3090"), errors=("a\x1b]0;b\x07\nc",))
    assert not any(set("\x1b\x07\r\n") & set(line) for line in plain(snapshot_of(node)))


numbers = st.none() | st.floats(0, 1e6)


@given(
    width=st.integers(20, 120),
    node=st.fixed_dictionaries({"cpu_percent": numbers, "load_1m": numbers, "ram_used_mib": numbers}),
    gpu=st.fixed_dictionaries(
        {
            "power_average_w": numbers,
            "memory_used_mib": numbers,
            "sm_clock_mhz": numbers,
            "clock_event_reasons": st.none() | st.integers(0, 2**16),
            "name": st.text(max_size=60),
            "errors": st.tuples(st.text(max_size=200)),
        }
    ),
)
@settings(max_examples=50, deadline=None)
def test_no_line_is_wider_than_the_terminal(width, node, gpu):
    snapshot = snapshot_of(node_now("pc1", gpu_now("pc1/gpu0", **gpu), **node), run=run_now())
    lines = frame(snapshot, warning_signs(snapshot), width)
    assert max(line.cell_len for line in lines) <= width
