"""How long a run takes until its load begins, against a bare Ray with as many actors, in turns.

`bare` is what any program of this kind has to do: import ray and torch, `ray.init`, one actor for each
device, and a first tensor on it. `rigproof` is an acceptance run until its first stage begins; it is stopped
by SIGINT then. Both count from the start of their process. The parts are what the run recorded of itself.

    python3 bench/startup.py --out startup.json                    # every GPU that is here
    python3 bench/startup.py --device cpu --workers 2
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from rates import tell  # noqa: E402 - after the path

from rigproof.records.disk.store import read_recording  # noqa: E402
from rigproof.records.recording import Recording  # noqa: E402

LIMIT_S = 240.0
BARE = """
import sys, time
import ray, torch
from ray.util.placement_group import placement_group
device, count = sys.argv[1], int(sys.argv[2])
gpus = count if device == "cuda" else 0
times = {"imports": time.monotonic()}
ray.init(include_dashboard=False, num_gpus=gpus, log_to_driver=False)
times["ray"] = time.monotonic()

@ray.remote(num_gpus=1 if gpus else 0, num_cpus=0)
class Actor:
    def __init__(self):
        import torch
        torch.ones(1, device=device).sum().item()

    def ready(self):
        return True

ray.get([actor.ready.remote() for actor in [Actor.remote() for _ in range(count)]])
times["actors"] = time.monotonic()
import json
print(json.dumps(times), flush=True)
"""
RIG = """
name = "start-up"
[[nodes]]
name = "here"
"""
CPU_DEVICE = """
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
gemm_size = 256
vram_gib_per_worker = 0.02
cpus_per_worker = {cpus}
"""


def devices_here() -> int:
    """The GPUs that NVML shows here."""
    command = [sys.executable, "-m", "rigproof.telemetry.inventory"]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return len(json.loads(found.stdout)["gpus"])


def bare(device: str, count: int, environment: dict[str, str]) -> dict[str, float]:
    """When each of its parts had ended, s since its process was started."""
    begun_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", BARE, device, str(count)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"the bare Ray ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return {part: ended_s - begun_s for part, ended_s in json.loads(lines[-1]).items()}


def begun(folder: Path) -> bool:
    """Whether the first products of the run's first stage are verified, as far as it is written."""
    for path in folder.glob("runs/*/recording.jsonl"):
        return any('"kind":"reference"' in line for line in path.read_text().splitlines())
    return False


def rigproof(profile: str, environment: dict[str, str]) -> tuple[dict[str, float], dict[str, Any]]:
    """When each part of a run's start had ended, s since its process began, and what else was recorded."""
    with tempfile.TemporaryDirectory(prefix="rigproof-bench-") as name:
        folder, output = Path(name), Path(name) / "output.txt"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-m",
            "hardware",
            "--hw-level=quick",
        ]
        command += [f"--hwprofile={profile}", f"--hw-report-dir={folder}"]
        with output.open("wb") as file:
            run = subprocess.Popen(
                command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
            end_s = time.monotonic() + LIMIT_S
            try:
                while not begun(folder) and run.poll() is None and time.monotonic() < end_s:
                    time.sleep(0.1)
                time.sleep(2.0)  # for rounds
                run.send_signal(signal.SIGINT)
                stopped_s = time.monotonic()
                run.wait(LIMIT_S)
            finally:
                if run.poll() is None:
                    run.kill()
        stop_s = time.monotonic() - stopped_s
        folders = list(folder.glob("runs/*/recording.jsonl"))
        if not folders:
            sys.exit(f"the run left nothing:\n{output.read_text()}")
        recording = read_recording(folders[0].parent)
        if not any(event.kind == "start_up" for event in recording.events) or not recording.stages:
            sys.exit(f"the run did not begin its load:\n{output.read_text()}")
        return parts_of(recording), {
            "stop_s": stop_s,
            **workers_of(recording),
            "sampled_s": sampled(recording),
        }


def parts_of(recording: Recording) -> dict[str, float]:
    """The ends of the start's parts, then of the first stage's."""
    (start,) = (event for event in recording.events if event.kind == "start_up")
    stage = next(iter(recording.stages.values()))
    verified = [event.t_s for event in recording.events if event.kind == "reference"]
    first: dict[str, float] = {}
    for one in recording.rounds:
        first.setdefault(one.worker, one.t_s)
    ended_s = {
        **start.data["ended_s"],
        "load begins": stage.start_s,
        "first products verified": max(verified[: len(stage.workers)]),
        "first rounds": max(first.values(), default=stage.start_s),
    }
    return {part: at_s - start.data["process_s"] for part, at_s in ended_s.items()}


def workers_of(recording: Recording) -> dict[str, Any]:
    """When the processes of the workers began, had torch, and had opened their devices, s since the start."""
    (start,) = (event for event in recording.events if event.kind == "start_up")
    from_s = start.data["process_s"]
    ups = [event for event in recording.events if event.kind == "worker_up"]
    return {
        "workers": {
            event.worker: {
                "process": round(event.data["process_s"] - from_s, 2),
                "torch": round(event.data["torch_s"] - from_s, 2),
                "device": round(event.t_s - from_s, 2),
            }
            for event in ups
        }
    }


def sampled(recording: Recording) -> dict[str, float]:
    """How long before the first stage's begin the first sample of each subject was taken, s."""
    stage = next(iter(recording.stages.values()))
    first: dict[str, float] = {}
    for sample in (*recording.host_samples, *recording.gpu_samples):
        first[sample.subject] = min(sample.t_s, first.get(sample.subject, sample.t_s))
    return {subject: round(stage.start_s - t_s, 2) for subject, t_s in first.items()}


def lengths(ended_s: dict[str, float]) -> dict[str, float]:
    """From the ends of parts to how long each added."""
    before_s, found = 0.0, {}
    for part, at_s in ended_s.items():
        found[part], before_s = round(at_s - before_s, 2), at_s
    return found


def medians(turns: list[dict[str, float]]) -> dict[str, float]:
    """The median of each part."""
    return {part: round(statistics.median(turn[part] for turn in turns), 2) for part in turns[0]}


def main() -> None:
    """Start both in turns and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--workers", type=int, default=None, help="devices; by default every GPU, or one CPU")
    parser.add_argument("--turns", type=int, default=3, help="of both, after one that fills the page cache")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    count = args.workers or (devices_here() if args.device == "cuda" else 1)
    bares, runs, more = [], [], {}
    with tempfile.TemporaryDirectory(prefix="rigproof-bench-") as name:
        profile = "auto"
        if args.device == "cpu":
            profile = str(Path(name) / "rig.toml")
            cpus = min(1.0, (os.cpu_count() or 1) / count)
            Path(profile).write_text(RIG + count * CPU_DEVICE.format(cpus=cpus))
        elif args.workers:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(count)))
        for turn in range(args.turns + 1):
            one, (two, more) = bare(args.device, count, environment), rigproof(profile, environment)
            print(
                f"turn {turn}: bare {one['actors']:.2f} s, rigproof {two['load begins']:.2f} s",
                file=sys.stderr,
            )
            if turn:
                bares.append(one)
                runs.append(two)
    bare_s = statistics.median(one["actors"] for one in bares)
    rigproof_s = statistics.median(one["load begins"] for one in runs)
    figures = {
        "device": args.device,
        "workers": count,
        "turns": args.turns,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "bare_s": round(bare_s, 2),
        "rigproof_s": round(rigproof_s, 2),
        "difference_s": round(
            statistics.median(b["load begins"] - a["actors"] for a, b in zip(bares, runs, strict=True)), 2
        ),
        "bare_parts_s": lengths(medians(bares)),
        "rigproof_parts_s": lengths(medians(runs)),
        "last_turn": more,
    }
    tell(figures, args.out)


if __name__ == "__main__":
    main()
