"""Feeds a reader with inputs that atheris finds by coverage: `python bench/fuzz.py READER --seconds 60`.

The readers, and what they may raise, are those of tests/support/readers.py, which `pytest tests/unit/fuzz`
feeds with the same inputs each time. Needs `pip install atheris` (there are no wheels for every Python).
Prints JSON; what a reader did not withstand is kept in `--keep` and makes the exit status 1.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]
LONGEST_INPUT = 64 * 1024
MEMORY_MIB = 2048  # of the process; what a reader takes above is a defect
ONE_INPUT_S = 30
FINAL = re.compile(r"^stat::(\w+):\s+(\d+)$", re.MULTILINE)
COVERED = re.compile(r"\bcov: (\d+)")


def main() -> int:
    """Feed one reader or, one after the other, all; the exit status."""
    options = _options()
    try:
        import atheris  # noqa: F401, PLC0415
    except ImportError as error:
        print(f"fuzz.py: {error}; run `pip install atheris`, or `pytest tests/unit/fuzz`", file=sys.stderr)
        return 2
    if options.child:
        return _feed(options.reader, Path(options.child), options.seconds)
    readers = _names() if options.reader == "all" else [options.reader]
    results = [_run(name, options.seconds, Path(options.keep)) for name in readers]
    return 1 if any(result["defects"] for result in results) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", choices=[*_names(), "all"], metavar="READER", help=", ".join(_names()))
    parser.add_argument("--seconds", type=int, default=60, help="for each reader (60)")
    parser.add_argument("--keep", default=".", help="where inputs go that a reader did not withstand (.)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def _names() -> list[str]:
    """Without importing the readers: what is imported before atheris looks is not seen by it."""
    text = (CHECKOUT / "tests" / "support" / "readers.py").read_text()
    return re.findall(r'^    "([a-z-]+)": Reader\(', text, re.MULTILINE)


def _run(name: str, seconds: int, keep: Path) -> dict[str, object]:
    """One reader in a process of its own, since libFuzzer ends the one that it runs in."""
    keep.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        command = [sys.executable, __file__, name, "--child", folder, "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        defects = []
        for found in sorted(Path(folder).glob("found-*")):
            kept = keep / f"{name}-{found.name.removeprefix('found-')}"
            kept.write_bytes(found.read_bytes())
            defects.append(str(kept))
    if done.returncode and not defects:
        defects.append(f"ended with {done.returncode}")
    stats = dict(FINAL.findall(done.stderr))
    covered = COVERED.findall(done.stderr)
    result: dict[str, object] = {
        "reader": name,
        "seconds": round(time.monotonic() - begun_s, 1),
        "inputs": int(stats.get("number_of_executed_units", 0)),
        "peak_mib": int(stats.get("peak_rss_mb", 0)),
        "covered": int(covered[-1]) if covered else 0,  # edges of rigproof's own code
        "defects": defects,
    }
    print(json.dumps(result), flush=True)
    if defects:
        print(done.stderr[-4000:] + done.stdout[-4000:], file=sys.stderr)
    return result


def _feed(name: str, folder: Path, seconds: int) -> int:
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["rigproof"]):
        from support.readers import READERS  # noqa: PLC0415
    reader = READERS[name]
    corpus, work = folder / "corpus", folder / "work"
    corpus.mkdir()
    samples = [sample for sample in reader.samples() if len(sample) <= LONGEST_INPUT]
    for number, sample in enumerate(samples):
        (corpus / str(number)).write_bytes(sample)
    words = {
        word for sample in samples for word in re.findall(rb'"[a-z_0-9]{1,30}"|\b[a-z_]{2,30}\b', sample)
    }
    words |= {b"[", b"{", b"null", b"NaN", b"-1", b"1e999", b"\\\\ud800", b"9" * 40, b"\xff"}
    escaped = ["".join(f"\\x{byte:02x}" for byte in word) for word in sorted(words)]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in escaped))

    def one_input(data: bytes) -> None:
        reader.read(work, data)

    settings = {
        "max_total_time": seconds,
        "max_len": LONGEST_INPUT,
        "rss_limit_mb": MEMORY_MIB,
        "timeout": ONE_INPUT_S,
        "dict": folder / "words",
        "artifact_prefix": f"{folder}/found-",
        "print_final_stats": 1,
    }
    arguments = [f"-{key}={value}" for key, value in settings.items()]
    atheris.Setup([sys.argv[0], *arguments, str(corpus)], one_input)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
