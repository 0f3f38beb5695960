"""How much memory matrices and a GEMM need."""

OPERANDS = 3  # A, B and the product
ITEM_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
STEP = 8  # tensor cores want dimensions divisible by 8
SMALLEST = 64
MIB_BYTES = 1 << 20


def matrix_mib(size: int, precision: str) -> float:
    """Memory of one `size` × `size` matrix. KeyError for a precision that is not in ITEM_BYTES."""
    return size * size * ITEM_BYTES[precision] / MIB_BYTES


def operands_mib(size: int, precision: str = "fp32") -> float:
    """Memory of the three square matrices of one product; fp32 takes the most."""
    return OPERANDS * matrix_mib(size, precision)


def fitting_size(size: int, memory_mib: float) -> int:
    """`size`, halved until its operands fit into `memory_mib`; at least 64."""
    while operands_mib(size) > memory_mib and size > SMALLEST:
        size = max(SMALLEST, size // 2 // STEP * STEP)
    return size
