"""Work that gives the same bits each time: what torch and cuBLAS have to be told. torch is imported late.

The sources: https://docs.pytorch.org/docs/stable/notes/randomness.html, and NVIDIA's cuBLAS documentation,
"Results Reproducibility".
"""

from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn.attention import SDPBackend

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
# The values with which cuBLAS gives the same bits each time; torch refuses strict work without one of them.
# The first has eight buffers of 4 MiB, which is also what torch takes by itself on Hopper.
REPRODUCIBLE = (":4096:8", ":16:8")


def configure(environ: MutableMapping[str, str]) -> None:
    """Give cuBLAS a reproducible workspace. Has an effect only before the process uses CUDA.

    All processes then have the same, whatever each node's own environment says: a different workspace may
    change the last bit of a product.
    """
    if environ.get(VARIABLE) not in REPRODUCIBLE:
        environ[VARIABLE] = REPRODUCIBLE[0]


def attention_backends() -> list["SDPBackend"]:
    """The kinds of attention that are deterministic in strict work, the fastest first.

    Flash attention's backward pass then adds up in a fixed order, without atomics; plain products and a
    softmax are the fallback. cuDNN's is left out by torch itself.
    """
    from torch.nn.attention import SDPBackend  # noqa: PLC0415 - torch is loaded only where it works

    return [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


@contextmanager
def strict() -> Iterator[None]:
    """Only deterministic algorithms inside: torch raises RuntimeError for an operation that has none.

    Afterwards all settings are as before, since later work of this process is meant to be fast.
    """
    import torch  # noqa: PLC0415 - as above
    from torch.nn.attention import sdpa_kernel  # noqa: PLC0415

    cudnn = torch.backends.cudnn
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
    )
    with ExitStack() as undo:
        undo.callback(torch.use_deterministic_algorithms, before[0], warn_only=before[1])
        undo.callback(_set_cudnn, before[2], before[3])
        torch.use_deterministic_algorithms(True)
        _set_cudnn(True, False)  # a benchmark may choose another algorithm each time
        undo.enter_context(sdpa_kernel(attention_backends()))
        yield


def _set_cudnn(deterministic: bool, benchmark: bool) -> None:
    import torch  # noqa: PLC0415 - as above

    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = deterministic, benchmark
