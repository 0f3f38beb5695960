"""What sampling at 10 Hz, and looking at the processes once a second, costs the GEMM rate.

The gemm stage runs without and with a sampler in a process of its own, interleaved: A B A B ….
The sampler reads everything that a node agent reads, of every GPU of the host and of the host. With
`--compare processes` both arms are sampled, and the processes are looked at in the second one alone.

    python3 bench/sampling_cost.py --out sampling.json
    python3 bench/sampling_cost.py --compare processes --out processes.json
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rates import command_line, records_of, tell

from rigproof.records.measurements import Event, Round
from rigproof.telemetry.host import HostReader
from rigproof.telemetry.nvml.errors import NvmlUnavailable
from rigproof.telemetry.nvml.processes import read_processes, read_sm_use
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import open_nvml
from rigproof.telemetry.process_watch import RATE_HZ
from rigproof.telemetry.sampler import Sampler


def sample_until_stopped(rate_hz: float, *, nvml_required: bool, processes: bool) -> None:
    """The sampler's process: says "ready", samples until its input closes, then says what it read."""
    host = HostReader()
    with contextlib.ExitStack() as stack:
        try:
            nvml = stack.enter_context(open_nvml())
            gpus = nvml.gpus("host")
        except NvmlUnavailable as error:
            if nvml_required:
                sys.exit(f"NVML does not answer: {error}")
            nvml, gpus = None, ()

        def read(t_s: float, lateness_s: float) -> list:
            samples = [read_sample(nvml.gpu(gpu.uuid, gpu.subject, t_s), lateness_s) for gpu in gpus]
            return [*samples, host.sample("host", t_s, lateness_s, None)]

        took_ms: list[float] = []

        def look(t_s: float, _lateness_s: float) -> list:
            for gpu in gpus:
                read_processes(nvml.gpu(gpu.uuid, gpu.subject, t_s))
                read_sm_use(nvml.gpu(gpu.uuid, gpu.subject, t_s))
            took_ms.append(1e3 * (time.monotonic() - t_s))
            return []

        sampler = Sampler(rate_hz, read, time.monotonic)
        watch = Sampler(RATE_HZ, look, time.monotonic, offset_s=0.5 / rate_hz)
        read(time.monotonic(), 0.0)  # first calls are slow
        sampler.start()
        if processes:
            watch.start()
        print("ready", flush=True)
        sys.stdin.read()
        watch.stop(5.0)
        sampler.stop(5.0)
        samples = sampler.drain()
        lateness = [sample.lateness_s for sample in samples if not isinstance(sample, Event)]
        summary = {
            "gpus": len(gpus),
            "samples": len(lateness),
            "missed": sampler.missed,
            "errors": [sample.message for sample in samples if isinstance(sample, Event)],
            "lateness_max_ms": 1e3 * max(lateness, default=0.0),
            "looks": len(took_ms),
            "look_max_ms": max(took_ms, default=0.0),
        }
        print(json.dumps(summary), flush=True)


@contextlib.contextmanager
def sampler_process(rate_hz: float, *, nvml_required: bool, processes: bool) -> Iterator[list[dict]]:
    """A sampler beside the work; what it read is in the list afterwards."""
    command = [sys.executable, __file__, "--sampler", "--rate", str(rate_hz)]
    if not nvml_required:
        command += ["--device", "cpu"]
    if processes:
        command += ["--compare", "processes"]
    summaries: list[dict] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            sys.exit("the sampler did not start")
        yield summaries
        process.stdin.close()
        summaries.append(json.loads(process.stdout.readline()))


def arguments() -> argparse.Namespace:
    """The command line."""
    pairs = "without + with"
    parser = command_line(__doc__, pairs=pairs, measure="seconds per arm", measure_s=5.0)
    parser.set_defaults(pairs=3)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--settle", type=float, default=8.0, help="seconds of warm-up, at most, per arm")
    parser.add_argument("--rate", type=float, default=10.0, help="Hz")
    parser.add_argument("--compare", choices=["sampling", "processes"], default="sampling")
    parser.add_argument("--sampler", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict:
    """Rates without and with a sampler, in turn, and the ratio of their sums."""
    from rigproof.devices.device import Device  # noqa: PLC0415
    from rigproof.devices.opening import open_device  # noqa: PLC0415 - the sampler needs no torch
    from rigproof.stages.gemm.stage import GemmSpec  # noqa: PLC0415
    from rigproof.stages.gemm.workload import run_gemm  # noqa: PLC0415

    def rate(device: Device) -> float:
        spec = GemmSpec("gemm", given.size, (device.half,), given.settle, given.measure, given.round)
        records = records_of(lambda context: run_gemm(spec, device, context))
        measured = [r for r in records if isinstance(r, Round) and r.phase == "measure"]
        return sum(r.work for r in measured) / sum(r.seconds for r in measured)

    device = open_device(given.device, given.threads)
    rate(device)  # warm: the first arm must not be the only cold one
    without, with_it, samplers = [], [], []

    def sampled(*, processes: bool) -> float:
        nvml_required = given.device == "cuda"
        with sampler_process(given.rate, nvml_required=nvml_required, processes=processes) as summaries:
            found = rate(device)
        samplers.extend(summaries)
        return found

    watched = given.compare == "processes"
    for _ in range(given.pairs):
        without.append(sampled(processes=False) if watched else rate(device))
        with_it.append(sampled(processes=watched))
    return {
        "device": device.name,
        "torch": device.torch_version,
        "size": given.size,
        "precision": device.half,
        "rate_hz": given.rate,
        "compared": given.compare,
        "without_tflops": without,
        "with_tflops": with_it,
        "samplers": samplers,
        "ratio": sum(with_it) / sum(without),
    }


def main() -> None:
    """Be the sampler, or measure, print and write."""
    given = arguments()
    if given.sampler:
        sample_until_stopped(
            given.rate, nvml_required=given.device == "cuda", processes=given.compare == "processes"
        )
        return
    tell(measure(given), given.out)


if __name__ == "__main__":
    main()
