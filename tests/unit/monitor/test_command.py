"""`rigproof monitor` as a user and a script meet it: frames, documents, exit statuses, and its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rigproof.host import processes
from support import on_simulated_gpus as on_gpus

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60
# Limits that say nothing about the machine that the tests run on.
PROFILE = """
name = "bench"
[cpu]
warn_percent = 100
[responsiveness]
p99_ms = 1e6
max_ms = 1e6
[[nodes]]
name = "pc1"
"""
CARD = '[[nodes.gpus]]\nsku = "unknown"\n'


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "bench.toml"
    path.write_text(PROFILE + 2 * CARD)
    return path


@pytest.fixture
def cpu_profile(tmp_path):
    path = tmp_path / "cpu.toml"
    path.write_text(PROFILE + '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n')
    return path


@pytest.fixture
def start(tmp_path):
    """Start the command line in a folder of its own; what still runs is killed at the end."""
    started = []

    def start(scenario, *arguments):
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI")}
        started.append(
            subprocess.Popen(
                [
                    sys.executable,
                    on_gpus.__file__,
                    scenario,
                    "monitor",
                    *map(str, arguments),
                ],
                cwd=tmp_path,
                env=environment | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def shown(tmp_path, monkeypatch, capsys):
    """Run the command line in this process; its exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def shown(scenario, *arguments):
        monkeypatch.setattr(sys, "argv", ["rigproof", "monitor", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            on_gpus.on_simulated_gpus(scenario)
        return ended.value.code, *capsys.readouterr()

    return shown


def ended(process):
    """Its exit status, standard output and standard error."""
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_once_as_json_is_one_document(shown, profile):
    status, out, err = shown("calm", "--once", "--json", "--interval=0.2", f"--hwprofile={profile}")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["schema_version"], found["rig"], found["source"]) == (1, "bench", "this machine")
    assert (found["warnings"], found["errors"], found["run"]) == ([], [], None)
    (node,) = found["nodes"]
    assert (node["name"], node["presence"]) == ("pc1", "here")
    assert node["limits"]["cpu_band_percent"] == [70, 85]
    first, second = node["gpus"]
    assert (first["subject"], first["utilization_percent"], first["power_average_w"]) == ("pc1/gpu0", 99, 341)
    assert (first["limits"]["power_w"], first["memory_temperature_c"]) == (350, None)
    assert (first["clock_event_reasons"], first["clock_event_reasons_mask"]) == (["idle"], 1)
    assert (second["name"], second["memory_total_mib"]) == ("NVIDIA GeForce RTX 3070", 8192)


def test_once_with_warnings_ends_with_1_and_is_plain_text_of_80_columns(shown, profile):
    status, out, _ = shown("hot", "--once", "--interval=0.2", f"--hwprofile={profile}")
    assert status == 1
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "! pc1/gpu0: core at 96 °C, limit ≤ 93 °C" in out.splitlines()


def test_a_machine_without_a_gpu_shows_its_host(shown, cpu_profile):
    status, out, _ = shown("no-driver", "--once", "--interval=0.2", f"--hwprofile={cpu_profile}")
    assert status == 0
    assert out.splitlines()[0].endswith("no warnings  bench on this machine")
    assert "  no GPU was found here" in out.splitlines()
    assert "  pc1  CPU " in out


def frames(process, number):
    """Lines of the output up to the beginning of that many frames."""
    lines = []
    while sum(line.startswith("rigproof monitor") for line in lines) < number:
        lines.append(process.stdout.readline())
        assert lines[-1], "the output has ended"
    return lines


def probes_of(process):
    """Processes that the monitor has started."""
    return processes.descendants({process.pid})


@pytest.mark.parametrize(
    ("number", "scenario"),
    [(signal.SIGINT, "calm"), (signal.SIGHUP, "calm"), (signal.SIGINT, "hung")],
)
def test_a_signal_ends_it_with_0_and_leaves_no_process(start, number, scenario):
    process = start(scenario, "--interval=0.3")
    lines = frames(process, 3)
    assert not any("\x1b" in line for line in lines)
    started = probes_of(process)
    assert bool(started) == (scenario == "calm")  # the sleeper that feels how the host responds
    process.send_signal(number)
    status, _, err = ended(process)
    assert (status, err) == (0, "")
    assert processes.wait_gone(started, 5) == ()


def test_ctrl_c_before_once_has_printed_anything_is_an_interruption(start, tmp_path):
    process = start("hung", "--once")
    end_s = time.monotonic() + PATIENCE_S
    while not (tmp_path / "hung").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert ended(process)[:2] == (2, "")


def test_as_json_every_frame_is_a_line(start, profile):
    process = start("calm", "--json", "--interval=0.3", f"--hwprofile={profile}")
    documents = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [one["rig"] for one in documents] == ["bench", "bench"]
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 0


def test_it_ends_when_nobody_reads_any_more(start, profile):
    process = start("calm", "--interval=0.3", f"--hwprofile={profile}")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--hwprofile=no-such-rig"], "no rig of that name"),
        (["--ray-address=127.0.0.1:1"], "--ray-address 127.0.0.1:1: no answer from there"),
        (["--interval=0"], "--interval"),
    ],
)
def test_what_cannot_be_used_is_refused(shown, arguments, expected):
    status, out, err = shown("calm", "--once", *arguments)
    assert (status, out) == (4, "")
    assert expected in err


def test_on_this_machine_alone_neither_ray_nor_torch_is_loaded(tmp_path):
    code = (
        "import sys; from rigproof.monitor.command import Options, monitor; "
        "monitor(Options(once=True, interval_s=0.2), sys.stdout); "
        "print([name for name in ('ray', 'torch', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"
