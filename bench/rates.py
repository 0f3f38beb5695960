"""What the benches that compare rates share: their command line, a stage's records, and the result."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def command_line(doc: str, *, pairs: str, measure: str, measure_s: float) -> argparse.ArgumentParser:
    """The options that all have; `pairs` and `measure` say what each means, `doc` starts with the purpose."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--measure", type=float, default=measure_s, help=measure)
    parser.add_argument("--round", type=float, default=0.1, help="seconds")
    parser.add_argument("--pairs", type=int, default=2, help=pairs)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    return parser


def records_of(work: Callable[[Any], None]) -> list[Any]:
    """What a workload reports to the context that it is given, until its end."""
    records: list[Any] = []
    work(
        SimpleNamespace(
            worker="bench",
            subject="bench",
            now_s=time.monotonic,
            emit=records.append,
            alive=lambda: None,
            stopped=lambda: False,
        )
    )
    return records


def tell(result: dict[str, Any], out: Path | None) -> None:
    """Print it, and write it to `out`."""
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
