"""One worker's memory policy in one stage, as the profile sets it; each decision is an event."""

import gc
import os
from collections.abc import Iterator

from rigproof.devices.allocator import configured, environment_warnings, wanted
from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.retreat import CPU, EMERGENCY, Attempt, learned_size, next_attempt
from rigproof.profiles.planning.plan import MemoryPlan
from rigproof.records.verdict import count_of

WORTH_MIB = 32.0  # fewer cached blocks are kept: freeing them makes the host wait for the device


class VramPolicy:
    """One worker's memory policy in one stage: cap, cleanups, and the reaction to failed allocations.

    A decision is recorded as a "memory_policy" event when it changes something. Without a policy
    (`recovers` is False) only the cap and the readings of the memory remain, and nothing is tried.
    """

    def __init__(self, plan: MemoryPlan, device: Device, reporter: Reporter) -> None:
        self._plan = plan
        self._device = device
        self._reporter = reporter
        self._reported: dict[str, int] = {}  # batch and matrix size as last reported
        self._rounds = self._cleanups = self._skipped = 0
        self._given_back_mib = 0.0
        self.failures = 0  # OOMs of this stage so far

    @property
    def recovers(self) -> bool:
        """Whether the work continues with less after a failed allocation; else it ends the task."""
        return self._plan.enabled

    def begin(self) -> None:
        """Set the cap, and record the settings in force. `end` must follow, whatever happens."""
        if not self.recovers:
            self.decided("policy", "on", "off", "", "the first failed allocation ends the task")
        if self._device.kind == "cuda":
            self._report_allocator()
            self._report_environment()
        if self._plan.cap_mib is not None:
            self._limit(self._plan.cap_mib)
        if self._cleanup_rounds is not None:
            gc.collect()
            gc.freeze()  # what exists by now is torch and Ray, which stay: later collections are short
            why = f"garbage is collected, and cached blocks of {WORTH_MIB:g} MiB and more are freed"
            self.decided("periodic_cleanup", None, self._cleanup_rounds, "rounds", why)
        self.decided("memory_monitoring", None, self._plan.monitor_s, "s", "between two readings")

    def end(self) -> None:
        """Remove the cap, clean up, and record what the cleanups freed. Call it when all memory is free."""
        if self._plan.cap_mib is not None:
            self._device.limit_memory(None)
        self._clean()
        if self._cleanup_rounds is not None:
            why = f"freed in {self._cleanups} cleanups; {self._skipped} found too little to free"
            self.decided("periodic_cleanup", 0.0, self._given_back_mib, "MiB", why)

    def failed(self, error_text: str, requested_mib: float, *, recovered: bool) -> None:
        """Count a failed allocation, record it as an "oom" event, and clean up.

        Release the memory that is to be freed before, and call this outside the `except` block: a traceback
        keeps allocated memory alive. Without a policy nothing is recovered, whatever `recovered` says.
        """
        self.failures += 1
        self._reporter.out_of_memory(error_text, requested_mib, recovered=recovered and self.recovers)
        self._clean()

    def batch(self, planned: int) -> int:
        """Batch size after the failures so far: `batch_step` less for each, at least `least_batch`."""
        least = min(planned, self._plan.least_batch)
        now = max(least, planned - self.failures * self._plan.batch_step) if self.recovers else planned
        return self._learned("batch_size", planned, now, "examples")

    def size(self, planned: int, failures: int | None = None) -> int:
        """Matrix size after that many failures, by default all so far: × `size_share` for each.

        A multiple of 8, at least `least_size`, at most `planned`.
        """
        count = self.failures if failures is None else failures
        now = learned_size(self._plan, planned, count) if self.recovers else planned
        return self._learned("matrix_size", planned, now, "M = N = K")

    def steps(self, target_mib: float, held_mib: float = 0.0) -> Iterator[float]:
        """Progressive allocation: the memory held after each step, MiB, from `held_mib` up to the target.

        Requesting the next step means that the last was reached; the memory held by then is recorded.
        """
        if not self.recovers:
            yield target_mib
            return
        share = self._plan.start_share
        before_mib = self._device.memory().allocated_mib
        while True:
            last = share >= 1
            goal_mib = target_mib if last else share * target_mib
            if last or goal_mib > held_mib:
                yield goal_mib
                now_mib = self._device.memory().allocated_mib
                if now_mib != before_mib:
                    why = f"held after the step to {min(share, 1.0):.0%} of {target_mib:.0f} MiB"
                    self.decided("progressive_allocation", before_mib, now_mib, "MiB", why)
                before_mib = now_mib
            if last:
                return
            share = round(share + self._plan.step_share, 6)

    def precision(self) -> str:
        """The precision of the load: the device's best 16-bit one, or fp32 without mixed precision."""
        half = self._device.half
        if not self._plan.mixed_precision:
            self.decided("mixed_precision", half, "fp32", "", "off in the profile")
            return "fp32"
        why = (
            "half the memory of fp32" if half != "fp32" else "this device has no 16-bit precision worth using"
        )
        self.decided("mixed_precision", "fp32", half, "", why)
        return half

    def after_failure(self, last: Attempt, planned: int, precision: str, *, in_round: bool) -> Attempt | None:
        """The attempt after `last` has failed; None if nothing is left, and without a policy."""
        if not self.recovers:
            return None
        fallback = self._plan.cpu_fallback and self._device.kind != "cpu"
        return next_attempt(self._plan, last, planned, precision, in_round=in_round, fallback=fallback)

    def changed(self, last: Attempt, now: Attempt, planned: int) -> None:
        """Record what the reaction to a failure changes."""
        if now.part == EMERGENCY:
            why = "no pair of matrices fits: tiny operations continue"
            self.decided("emergency", last.size, now.size, "M = N = K", why)
            return
        if now.part == CPU:
            why = "the tiny operations failed too: the CPU continues, and its work counts for no GPU"
            self.decided("cpu_fallback", self._device.kind, "cpu", "", why)
            return
        if now.size != last.size:
            self.size(planned, now.lessons)
        if now.target_mib != last.target_mib:
            why = f"less after failure {self.failures}"
            if now.target_mib <= self._plan.last_resort_mib:
                why = f"the last resort, after failure {self.failures}"
            self.decided("target", last.target_mib, now.target_mib, "MiB", why)

    def monitor(self) -> None:
        """Read the memory when a reading is due."""
        self._reporter.memory_when_due(self._device, self._plan.monitor_s)

    def after_round(self) -> None:
        """Read the memory when that is due, and clean up every `cleanup_rounds`.

        It waits for the device only if there are cached blocks to free.
        """
        self.monitor()
        if self._cleanup_rounds is None:
            return
        self._rounds += 1
        if self._rounds % self._cleanup_rounds:
            return
        gc.collect()
        if self._device.cached_mib() < WORTH_MIB:
            self._skipped += 1
            return
        before_mib = self._device.memory().reserved_mib
        self._device.empty_cache()
        self._cleanups += 1
        self._given_back_mib += max(0.0, before_mib - self._device.memory().reserved_mib)

    def decided(
        self, technique: str, before: float | str | None, after: float | str | None, unit: str, reason: str
    ) -> None:
        """Record a decision: the old and the new value, in `unit`, and the reason."""
        change = " -> ".join(_text(value) for value in (before, after) if value is not None)
        self._reporter.event(
            "memory_policy",
            f"{technique}: {change}{' ' if unit else ''}{unit}: {reason}",
            {"technique": technique, "before": before, "after": after, "unit": unit, "reason": reason},
        )

    @property
    def _cleanup_rounds(self) -> int | None:
        return self._plan.cleanup_rounds if self.recovers else None

    def _clean(self) -> None:
        gc.collect()
        self._device.empty_cache()

    def _learned(self, technique: str, planned: int, now: int, unit: str) -> int:
        before = self._reported.get(technique, planned)
        if now != before:
            self._reported[technique] = now
            self.decided(technique, before, now, unit, f"learned from {count_of(self.failures, 'failures')}")
        return now

    def _limit(self, cap_mib: float) -> None:
        total_mib = self._device.memory().device_total_mib
        held = self._device.limit_memory(cap_mib)
        why = "this worker's part of fraction_share" if held else "no cap: the device has no more"
        self.decided("memory_fraction", total_mib, min(cap_mib, total_mib or cap_mib), "MiB", why)

    def _report_allocator(self) -> None:
        """The allocator's setting, who set it, and what torch itself reports."""
        setting = configured(self._plan, os.environ)
        if setting.variable is None and not self.recovers:
            return
        why = "torch's defaults: neither the profile nor the environment sets it"
        if setting.variable is not None:
            whose = (
                "as set in the profile" if setting.by == "profile" else "already set by the user, and kept"
            )
            why = f"{setting.variable}, {whose}"
        settings = self._device.allocator_settings()
        if settings:
            why += "; torch says " + ", ".join(f"{name}={value}" for name, value in settings.items())
        if self._plan.expandable_segments and settings.get("expandable_segments") is False:
            why += ": expandable segments are not in force here"
        self.decided("allocator", wanted(self._plan), setting.value, "", why)

    def _report_environment(self) -> None:
        found = environment_warnings(os.environ, self._device.cuda_version)
        if found:
            why = "; ".join(f"{setting}: {effect}" for setting, effect in found.items())
            self.decided("environment", None, ", ".join(found), "", why)


def _text(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
