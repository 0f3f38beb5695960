"""What the replay stage makes of one bit that flips in one gradient of one step, on a real device.

One process: the stage's own workload, with a flip between the backward pass and the update of one step of its
second run. Required: that run alone is not verified, the first value that differs is that gradient, and the
next run is verified again. Ends with status 1 if not.

    python3 bench/replay_with_flip.py --out flip.json
    python3 bench/replay_with_flip.py --device cpu --seconds 0
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from rates import records_of, tell

from rigproof.devices.opening import open_device
from rigproof.devices.transformer.model import Transformer
from rigproof.records.measurements import Event, Round
from rigproof.stages.replay.stage import ReplaySpec
from rigproof.stages.replay.workload import run_replay

RUN = 2


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--parameter", default="blocks.1.up.weight", help="whose gradient is hit")
    parser.add_argument("--step", type=int, default=3, help="from 1 on")
    parser.add_argument("--bit", type=int, default=13, help="of the 32 of the value in its middle")
    parser.add_argument("--vram-gib", type=float, default=16.0, help="a tenth of it is the model's")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--without", action="store_true", help="flip nothing: all runs must be the same")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    """Replay with one flip; print and write what was found."""
    given = arguments()

    def flip(run: int, step: int, model: Transformer) -> None:
        if (run, step) != (RUN, given.step) or given.without:
            return
        gradient = dict(model.named_parameters())[given.parameter].grad.view(-1)
        gradient.view(torch.int32)[len(gradient) // 2 : len(gradient) // 2 + 1] ^= 1 << given.bit

    device = open_device(given.device, 1)
    spec = ReplaySpec("replay", 1024 * given.vram_gib, given.seconds, 512, 0.1, given.batch, given.steps)
    records = records_of(lambda context: run_replay(spec, device, context, flip))
    rounds = [one for one in records if isinstance(one, Round)]
    wrong = [one for one in records if isinstance(one, Event) and one.kind == "wrong_result"]
    (done,) = (one for one in records if isinstance(one, Event) and one.kind == "replay")
    unverified = [place for place, one in enumerate(rounds, 1) if not one.verified]
    name = given.parameter.removesuffix(".weight").split(".")[-1]
    found = [(one.data.get("step"), one.data.get("part"), one.data.get("parameter")) for one in wrong]
    expected = [] if given.without else [(given.step, "gradient", name)]
    good = found == expected and unverified == ([] if given.without else [RUN]) and len(rounds) > RUN
    result = {
        "device": device.name,
        "torch": torch.__version__,
        "good": good,
        "unverified_runs": unverified,
        "wrong_results": [{"message": one.message, **one.data} for one in wrong],
        "run_s": [one.seconds for one in rounds],
        "step_s": sum(one.seconds for one in rounds[1:]) / max(1, len(rounds) - 1) / given.steps,
        "report": done.data,
    }
    tell(result, given.out)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
