"""A simulated card's memory: who holds how much of it, and filling it until it runs out. Pure.

The workers of a card fill it together, each by its own policy (`workloads.retreat`, the real one), so each
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

    Others hold `foreign_mib` before the run and take `taken_mib` in it; `fragments_mib` cannot be had.
    """

    total_mib: float
    foreign_mib: float = 0.0
    fragments_mib: float = 0.0
    taken_mib: float = 0.0

    def free_mib(self, processes: int, held_mib: float) -> float:
        """What the driver says is free while so many processes of ours hold so much together."""
        used_mib = RESERVE_MIB + self.foreign_mib + self.taken_mib + processes * CONTEXT_MIB + held_mib
        return max(0.0, self.total_mib - used_mib)

    def room_mib(self, processes: int) -> float:
        """What so many processes can allocate together."""
        return max(0.0, self.free_mib(processes, 0.0) - self.fragments_mib)


@dataclass(frozen=True, slots=True)
class Shortage:
    """An allocation that failed: what was asked for, and what the card had free then."""

    requested_mib: float
    free_mib: float
    recovered: bool

    @property
    def data(self) -> dict[str, float | bool]:
        """As a worker tells it."""
        return {"requested_mib": self.requested_mib, "recovered": self.recovered}

    def message(self, total_mib: float) -> str:
        """As torch words it."""
        return (
            f"CUDA out of memory. Tried to allocate {self.requested_mib:.2f} MiB. GPU 0 has a total capacity "
            f"of {total_mib / MIB_PER_GIB:.2f} GiB of which {self.free_mib:.2f} MiB is free."
        )


@dataclass(slots=True)
class Fill:
    """What a worker got. `failed`: nothing was left to try, and its task ends."""

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
        """Whether the CPU does the work in the card's place."""
        return self.attempt.part == CPU

    @property
    def done(self) -> bool:
        """Whether it holds what it aims at, or has given up."""
        return self.failed or self.on_cpu or self.held_mib >= self.attempt.target_mib

    def step(self, free_mib: float) -> None:
        """Grow by one step of the policy; where `free_mib` does not suffice, aim at less."""
        policy = self.plan.memory
        self._share += (policy.step_share if self._share else policy.start_share) if policy.enabled else 1.0
        goal_mib = min(1.0, self._share) * self.attempt.target_mib
        if policy.cap_mib is not None:
            free_mib = min(free_mib, policy.cap_mib - WORKSPACE_MIB - self.held_mib)
        if goal_mib - self.held_mib <= free_mib:
            self.held_mib = max(self.held_mib, goal_mib)
            return
        requested_mib = matrix_mib(self.attempt.size, self.precision)
        now = None
        if policy.enabled:
            now = next_attempt(
                policy,
                self.attempt,
                self.plan.gemm_size,
                self.precision,
                in_round=False,
                fallback=policy.cpu_fallback,
            )
        left_mib = max(0.0, free_mib) % requested_mib  # matrix by matrix, until one finds no room
        self.shortages.append(Shortage(requested_mib, left_mib, recovered=now is not None))
        if now is None:
            self.failed, self.held_mib = True, 0.0
            return
        self.attempt = now
        self.held_mib = 0.0 if self.on_cpu else min(self.held_mib + max(0.0, free_mib), now.target_mib)


def fill_together(vram: Vram, plans: Sequence[WorkerPlan], precision: str) -> dict[str, Fill]:
    """What the workers of a card hold, by name, once all have filled it at the same pace."""
    fills = {plan.worker: Fill(plan, precision) for plan in plans}
    room_mib = vram.room_mib(len(plans))
    while waiting := [fill for fill in fills.values() if not fill.done]:
        for fill in waiting:
            fill.step(room_mib - sum(one.held_mib for one in fills.values()))
    return fills
