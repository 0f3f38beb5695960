"""Which passes a device gets, Triton's kernels where they work, and where Triton keeps them meanwhile."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from rigproof.devices.device import Device
from rigproof.records.message_text import telling_line, what_it_says
from rigproof.stages.pattern.passes import NUMBERS, Chunk, Compared, Content, Found, Passes, TorchPasses

VARIABLE = "TRITON_CACHE_DIR"
PREFIX = "rigproof-triton-"
LOCK = "lock"


@contextlib.contextmanager
def own_kernel_cache() -> Iterator[None]:
    """Have Triton write to a temporary folder, unless the user has chosen one.

    Folders that killed processes left are removed first: their lock is free.
    """
    if VARIABLE in os.environ:
        yield
        return
    remove_left()
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder,
        Path(folder, "new").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        Path(folder, "new").rename(Path(folder, LOCK))  # so that nobody finds it unlocked
        os.environ[VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLE]


def remove_left() -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        # An OSError: it is in use, of another user, or somebody else removes it.
        with contextlib.suppress(OSError), Path(folder, LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


PROBE_WORDS = 4 * 4096
PROBE_FIRST = 2**33 + 4096  # its number in the memory under test: beyond what 32 bits hold
PROBE_SEED = 2**61 + 12345
LONGEST = 160  # characters of a reason

MakePasses = Callable[[Sequence[Chunk]], Passes]


def choose(device: Device) -> tuple[MakePasses, str]:
    """The passes for a device, and why they are not Triton's; empty if they are.

    Triton needs a GPU that it knows, and a C compiler at run time.
    """
    if device.kind != "cuda":
        return TorchPasses, "Triton's kernels are for GPUs"
    try:
        from rigproof.stages.pattern.kernels import TritonPasses  # noqa: PLC0415 - it imports Triton

        reason = disagreement(TritonPasses, device)
    except ImportError as error:
        return TorchPasses, f"Triton cannot be imported: {what_it_says(error, LONGEST)}"
    except Exception as error:  # a compiler fails in any way; on a broken card torch fails next
        what = f"{type(error).__name__}: {telling_line(str(error))[:LONGEST]}".removesuffix(": ")
        return TorchPasses, f"Triton's kernels do not run here: {what}"
    return (TorchPasses, f"Triton's kernels {reason}") if reason else (TritonPasses, "")


def disagreement(make: MakePasses, device: Device) -> str:
    """In what some passes differ from the patterns' definition, on a few words; empty if in nothing.

    Every pattern is written, found right, found wrong in exactly one word that was changed, and inverted.
    """
    words = device.words(PROBE_WORDS)
    passes = make([Chunk(words, PROBE_FIRST)])
    numbers = torch.arange(PROBE_WORDS, dtype=torch.int64, device=words.device) + PROBE_FIRST
    for content in (Content(name, PROBE_SEED, flip) for name in NUMBERS for flip in (0, -1)):
        words.fill_(content.word(PROBE_FIRST) ^ 1)
        passes.write(content)
        if not torch.equal(words, content.words(numbers)):
            return f"write other words in {content.pattern}"
        if _compared(passes, content, invert=False) != Compared(PROBE_WORDS, 0, ()):
            return f"find wrong words in {content.pattern} where there are none"
        place = PROBE_WORDS - 5
        changed = content.word(PROBE_FIRST + place) ^ (1 << 40)
        words[place] = changed
        expected = Compared(PROBE_WORDS - 1, 1, (Found(PROBE_FIRST + place, changed),))
        if _compared(passes, content, invert=True) != expected:
            return f"do not find the one wrong word in {content.pattern}"
        inverted = content.inverted.words(numbers)
        inverted[place] = changed
        if not torch.equal(words, inverted):
            return f"do not invert {content.pattern}"
    return ""


def _compared(passes: Passes, content: Content, *, invert: bool) -> Compared:
    passes.prepare()
    passes.compare(content, invert=invert)
    return passes.result()
