"""How long a simulated rig of many GPUs takes: its acceptance, judging it again, writing its report again.

Each is a process of its own, as a user starts it; time is wall clock, memory the process's highest.

    python3 bench/simulated_rig.py --nodes 128 --gpus 8 --out simulated_rig.json
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIB_PER_MIB = 1024
NODE = '[[nodes]]\nname = "n{number:04d}"\naddress = "10.0.{high}.{low}"\ncpus = 64\nram_gib = 512\n'
GPU = '[[nodes.gpus]]\nsku = "{sku}"\n'


def profile(nodes: int, gpus: int, sku: str, rate_hz: float) -> str:
    """A rig of equal nodes."""
    parts = [f'name = "simulated-{nodes}x{gpus}"\n[sampling]\nrate_hz = {rate_hz:g}\n']
    for number in range(nodes):
        parts.append(NODE.format(number=number, high=number // 250, low=number % 250 + 1))
        parts.append(GPU.format(sku=sku) * gpus)
    return "".join(parts)


def measured(folder: Path, *command: str) -> dict[str, float | int]:
    """Run it; exit status, wall clock in s, highest memory in MiB."""
    begun_s = time.monotonic()
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit_status": process.returncode,
        "wall_s": round(time.monotonic() - begun_s, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mib": round(usage.ru_maxrss / KIB_PER_MIB),
    }


def main() -> None:
    """Run all three and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--sku", default="h100-sxm")
    parser.add_argument("--level", default="quick")
    parser.add_argument("--rate", type=float, default=1.0, help="of sampling, Hz")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rigproof-bench-") as name:
        folder = Path(name)
        rig = folder / "rig.toml"
        rig.write_text(profile(args.nodes, args.gpus, args.sku, args.rate))
        reports = folder / "reports"
        accept = ("-m", "pytest", "-p", "no:cacheprovider", "-m", "hardware", "--hw-simulate-inline", "-q")
        options = (f"--hwprofile={rig}", f"--hw-level={args.level}", f"--hw-report-dir={reports}")
        figures: dict[str, object] = {
            "nodes": args.nodes,
            "gpus": args.nodes * args.gpus,
            "level": args.level,
            "rate_hz": args.rate,
            "cpus": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "accept": measured(folder, *accept, *options),
        }
        for again in ("judge", "report"):
            command = ("-m", "rigproof", again, str(reports / "latest"))
            figures[again] = measured(folder, *command)
        files = sorted((reports / "latest").resolve().iterdir())
        figures["files_mib"] = {one.name: round(one.stat().st_size / 2**20, 1) for one in files}
        if figures["accept"]["exit_status"] != 0:  # type: ignore[index]
            sys.stderr.write((folder / "output.txt").read_text()[-4000:])
    text = json.dumps(figures, indent=2) + "\n"
    sys.stdout.write(text)
    if args.out is not None:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
