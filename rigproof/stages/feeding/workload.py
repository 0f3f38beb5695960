"""The feeding stage's workload: steps of generation on the device; a pool on the CPU computes their rewards.

The length of a step's generation is set once, from the promised speed-up of the pool:

    generation = strategies of a step × sequential seconds of one / promised speed-up

so that a pool with that speed-up is ready just in time, a faster one waits for the device, and a slower one
lets the device wait. This measures whether the host's CPU keeps the device fed.
"""

from contextlib import closing
from statistics import median
from typing import Literal

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.stages.feeding.bursts import Bursts
from rigproof.stages.feeding.generation import Decoder
from rigproof.stages.feeding.reward_pool import Job, RewardPool, Rewards
from rigproof.stages.feeding.stage import FeedingSpec, RewardBatch
from rigproof.stages.feeding.strategies import InvalidStrategyError, parse

COMPARED = 16  # strategies of each sequential run, at least: few, since the device waits for it
COMPARISONS = 3  # before the load; one more after it
LEAST_COMPARISONS = 2  # even if they take more than COMPARING_SHARE of the stage's time
COMPARING_SHARE = 1 / 5
LEAST_LOAD_SHARE = 1 / 2  # of the duration, even if the preparation took long
LEAST_STEPS = 3  # with their rewards: a slow host gets up to the duration once more for them
CPU_STEP_SHARE = 1 / 8  # of the duration, at most: the gaps of the CPU as the device are not judged
MOST_SAMPLES = 64  # tries to find strategies to compare
WAIT_S = 0.02


def run_feeding(spec: FeedingSpec, device: Device, context: WorkerContext) -> None:
    """Feed the device until `duration_s` after the start, or until stopped.

    The pool's processes and the device's memory are always freed. Raises ValueError if `vram_mib` is too
    small for a decoder, MemoryError if the device does not have it free, RuntimeError if the pool dies.
    """
    reporter = Reporter(context, spec.stage)
    started_s = context.now_s()
    with closing(RewardPool(spec.processes, spec.strategy_s, spec.strategy_memory_mib)) as pool:

        def feed() -> None:
            bursts = Bursts(device, Decoder(device, spec.completions, spec.vram_mib), reporter, spec.round_s)
            try:
                feeding = Feeding(spec, bursts, device, reporter, pool)
                feeding.prepare(started_s)
                feeding.work(started_s)
                feeding.conclude()
            finally:
                bursts.release()

        within_memory(device, reporter, spec.vram_mib, f"generation with {spec.vram_mib:.0f} MiB", feed)


class Feeding:
    """One device, its steps of generation, and the pool that computes their rewards."""

    def __init__(
        self, spec: FeedingSpec, bursts: Bursts, device: Device, reporter: Reporter, pool: RewardPool
    ) -> None:
        self._spec = spec
        self._bursts = bursts
        self._device = device
        self._reporter = reporter
        self._context = reporter.context
        self._pool = pool
        self._compared = max(COMPARED, 2 * spec.processes)
        self._sequential_s: list[float] = []  # of one strategy
        self._rewarded = 0  # steps
        self._latest: Rewards | None = None

    def prepare(self, started_s: float) -> None:
        """Time sequential and parallel rewards, then size the steps and make their references."""
        strategies, valid_share = self._samples()
        until_s = started_s + self._spec.duration_s * COMPARING_SHARE
        for number in range(COMPARISONS):
            if number >= LEAST_COMPARISONS and self._context.now_s() >= until_s:
                break
            self._compare(strategies, 0)
        if not self._sequential_s:
            return  # stopped
        played = max(1.0, self._spec.completions * valid_share)
        aimed_s = played * median(self._sequential_s) / self._spec.reward_speedup
        if self._device.kind == "cpu":
            aimed_s = min(aimed_s, CPU_STEP_SHARE * self._spec.duration_s)
        pass_s = self._bursts.fit(aimed_s)
        self._reporter.event(
            "generation",
            f"{self._bursts.passes} tokens a step, {self._bursts.passes * pass_s:.2f} s of generation",
            {
                "tokens": self._bursts.passes,
                "aimed_s": aimed_s,
                "pass_s": pass_s,
                "completions": self._spec.completions,
                "overlap": self._spec.overlap,
            },
        )
        self._bursts.make_references()

    def work(self, started_s: float) -> None:
        """Generate steps until the time is over and some have rewards; then wait for the other rewards."""
        context, bursts, duration_s = self._context, self._bursts, self._spec.duration_s
        end_s = max(started_s + duration_s, context.now_s() + duration_s * LEAST_LOAD_SHARE)
        while not context.stopped():
            over_s = context.now_s() - end_s
            if over_s >= duration_s or (over_s >= 0 and self._rewarded >= LEAST_STEPS):
                break
            while not bursts.full and self._may_continue():
                bursts.add("measure")
            if bursts.waiting:
                self._collect(WAIT_S)
            else:
                self._finish_round()
                self._collect()
            self._reporter.memory_when_due(self._device)
        while not bursts.waiting:
            self._finish_round()
        while len(self._pool) and not context.stopped():
            self._collect(WAIT_S)

    def conclude(self) -> None:
        """Compare once more, with the step generated last."""
        if self._latest is None:
            return
        job, ends = self._latest.job, self._latest.ends
        own = zip(job.completions, self._latest.rewards, ends, strict=True)
        valid = [(strategy, reward) for strategy, reward, end in own if end != "invalid"][: self._compared]
        if valid:
            strategies, rewards = zip(*valid, strict=True)
            self._compare(strategies, job.seed, rewards)

    def _may_continue(self) -> bool:
        """Whether the next round may be generated: a new step waits for the rewards of an earlier one.

        That is the last step but one; without overlap, the last step.
        """
        return not self._bursts.between or self._bursts.begun - self._rewarded <= int(self._spec.overlap)

    def _finish_round(self) -> None:
        job = self._bursts.finish()
        if job is not None:
            self._pool.submit(job)

    def _collect(self, timeout_s: float = 0.0) -> None:
        """Take rewards that are ready."""
        rewards = self._pool.take(timeout_s)
        if rewards is not None:
            self._rewarded += 1
            self._latest = rewards
            self._report(rewards, None)

    def _samples(self) -> tuple[list[list[int]], float]:
        """Generated strategies to compare, and the share of completions that are strategies."""
        strategies: list[list[int]] = []
        tries = 0
        while len(strategies) < self._compared and tries < MOST_SAMPLES:
            strategies += filter(_is_strategy, self._bursts.sample(tries))
            tries += 1
        if not strategies:
            raise RuntimeError(f"none of {tries * self._spec.completions} completions is a strategy")
        share = len(strategies) / (tries * self._spec.completions)
        return strategies[: self._compared], share

    def _compare(
        self,
        strategies: "tuple[list[int], ...] | list[list[int]]",
        seed: int,
        known: tuple[float, ...] | None = None,
    ) -> None:
        """Compute these strategies' rewards one by one, then in the pool. `known`: those of the load."""
        sequential = self._rewards(Job(strategies, seed, parallel=False))
        if sequential is None:
            return
        self._sequential_s.append(sequential.seconds / len(strategies))
        self._report(sequential, None)
        parallel = self._rewards(Job(strategies, seed, parallel=True))
        if parallel is None:
            return
        same = parallel.rewards == sequential.rewards and known in (None, sequential.rewards)
        self._report(parallel, same)

    def _rewards(self, job: Job) -> Rewards | None:
        """Wait for a job's rewards; None if stopped."""
        self._pool.submit(job)
        while not self._context.stopped():
            rewards = self._pool.take(WAIT_S)
            if rewards is not None:
                return rewards
        return None

    def _report(self, rewards: Rewards, matches: bool | None) -> None:
        mode: Literal["sequential", "parallel"] = "parallel" if rewards.job.parallel else "sequential"
        self._context.emit(
            RewardBatch(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._context.subject,
                mode=mode,
                processes=self._spec.processes if rewards.job.parallel else 1,
                strategies=len(rewards.ends),
                invalid=rewards.count("invalid"),
                timed_out=rewards.count("timed_out"),
                crashed=rewards.count("crashed"),
                out_of_memory=rewards.count("out_of_memory"),
                seconds=rewards.seconds,
                matches=matches,
            )
        )


def _is_strategy(completion: list[int]) -> bool:
    try:
        parse(completion)
    except InvalidStrategyError:
        return False
    return True
