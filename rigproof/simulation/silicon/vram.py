"""A simulated card's memory: how much is held, and how workers fill it until it runs out. Pure.

The workers of a card fill it together, each by its own policy (the real one, `devices.retreat`), so each
of their processes can compute by itself what all of them get.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rigproof.devices.retreat import CPU, Attempt, next_attempt
from rigproof.profiles.planning.operands import CONTEXT_GIB, WORKSPACE_MIB, matrix_mib
from rigproof.profiles.planning.plan import WorkerPlan

CONTEXT_MIB = CONTEXT_GIB * 1024 + WORKSPACE_MIB  # of each process that works on the card
RESERVE_MIB = 300.0  # the driver's own; measured: 250 to 600 on cards of 8 to 24 GiB
MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class Vram:
    """The memory of a card.

    Others hold `foreign_mib` before the run and take `taken_mib` during it. Workers that fill it get
    `fragments_mib` in pieces too small for their matrices.
    """

    total_mib: float
    foreign_mib: float = 0.0
    fragments_mib: float = 0.0
    taken_mib: float = 0.0

    def free_mib(self, processes: int, held_mib: float) -> float:
        """Free memory as the driver reports it, while `processes` of ours hold `held_mib` together."""
        used_mib = RESERVE_MIB + self.foreign_mib + self.taken_mib + processes * CONTEXT_MIB + held_mib
        return max(0.0, self.total_mib - used_mib)

    def room_mib(self, processes: int) -> float:
        """The memory that this many processes can allocate together."""
        return max(0.0, self.free_mib(processes, 0.0) - self.fragments_mib)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A failed allocation: the memory requested, free on the card, and held by the process at that moment.

    Of the latter `pieces_mib` are in pieces that are too small.
    """

    requested_mib: float
    free_mib: float
    own_mib: float
    recovered: bool
    pieces_mib: float = 0.0

    @property
    def data(self) -> dict[str, float | bool]:
        """The data of a worker's event."""
        return {"requested_mib": self.requested_mib, "recovered": self.recovered}

    def message(self, total_mib: float) -> str:
        """The message in torch's words."""
        allocated_mib = max(0.0, self.own_mib - CONTEXT_MIB - self.pieces_mib)
        return (
            f"CUDA out of memory. Tried to allocate {_size(self.requested_mib)}. GPU 0 has a total capacity "
            f"of {_size(total_mib)} of which {_size(self.free_mib)} is free. Including non-PyTorch memory, "
            f"this process has {_size(self.own_mib)} memory in use. Of the allocated memory "
            f"{_size(allocated_mib)} is allocated by PyTorch, and {_size(self.pieces_mib)} is reserved by "
            "PyTorch but unallocated."
        )


def _size(mib: float) -> str:
    """A size in the words of torch's own message."""
    return f"{mib:.2f} MiB" if mib < MIB_PER_GIB else f"{mib / MIB_PER_GIB:.2f} GiB"


@dataclass(slots=True)
class Fill:
    """The memory that a worker got. `failed`: nothing was left to try, and its task ends."""

    plan: WorkerPlan
    precision: str
    held_mib: float = 0.0
    failed: bool = False
    shortages: list[Shortage] = field(default_factory=list)
    attempt: Attempt = field(init=False)
    _share: float = 0.0

    def __post_init__(self) -> None:
        self.attempt = Attempt(self.plan.vram_mib, self.plan.gemm_size)

    @property
    def on_cpu(self) -> bool:
        """Whether the CPU does the work instead of the card."""
        return self.attempt.part == CPU

    @property
    def done(self) -> bool:
        """Whether it holds its target, or has given up."""
        return self.failed or self.on_cpu or self.held_mib >= self.attempt.target_mib

    def step(self, free_mib: float, fragments_mib: float = 0.0) -> None:
        """Grow by one step of the policy; if `free_mib` does not suffice, lower the target.

        Further `fragments_mib` are then held in pieces too small for a matrix, until that is cleaned up.
        """
        policy = self.plan.memory
        self._share += (policy.step_share if self._share else policy.start_share) if policy.enabled else 1.0
        goal_mib = min(1.0, self._share) * self.attempt.target_mib
        if policy.cap_mib is not None:
            free_mib = min(free_mib, policy.cap_mib - WORKSPACE_MIB - self.held_mib)
        if goal_mib - self.held_mib <= free_mib:
            self.held_mib = max(self.held_mib, goal_mib)
            return
        requested_mib = matrix_mib(self.attempt.size, self.precision)
        retry = None
        if policy.enabled:
            retry = next_attempt(
                policy,
                self.attempt,
                self.plan.gemm_size,
                self.precision,
                in_round=False,
                fallback=policy.cpu_fallback,
            )
        left_mib = max(0.0, free_mib) % requested_mib  # matrix by matrix, until one does not fit
        own_mib = CONTEXT_MIB + self.held_mib + max(0.0, free_mib) - left_mib + fragments_mib
        self.shortages.append(
            Shortage(requested_mib, left_mib, own_mib, retry is not None, pieces_mib=fragments_mib)
        )
        if retry is None:
            self.failed, self.held_mib = True, 0.0
            return
        self.attempt = retry
        self.held_mib = 0.0 if self.on_cpu else min(self.held_mib + max(0.0, free_mib), retry.target_mib)


def fill_together(vram: Vram, plans: Sequence[WorkerPlan], precision: str) -> dict[str, Fill]:
    """The memory that each worker of a card holds, by name, once all have filled it at the same pace."""
    fills = {plan.worker: Fill(plan, precision) for plan in plans}
    room_mib = vram.room_mib(len(plans))
    while unfinished := [fill for fill in fills.values() if not fill.done]:
        for fill in unfinished:
            fill.step(room_mib - sum(each.held_mib for each in fills.values()), vram.fragments_mib)
    return fills
