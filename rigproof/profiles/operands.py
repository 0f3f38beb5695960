"""How much memory a GEMM needs."""

OPERANDS = 3  # A, B and the product
FP32_BYTES = 4
STEP = 8  # tensor cores want dimensions divisible by 8
SMALLEST = 64
MIB_BYTES = 1 << 20


def operands_mib(size: int) -> float:
    """Three square fp32 matrices of `size`, MiB."""
    return OPERANDS * FP32_BYTES * size * size / MIB_BYTES


def fitting_size(size: int, memory_mib: float) -> int:
    """`size`, halved until its operands fit into `memory_mib`; at least 64."""
    while operands_mib(size) > memory_mib and size > SMALLEST:
        size = max(SMALLEST, size // 2 // STEP * STEP)
    return size
