"""The pattern stage's workload: nearly all memory is written, compared word by word, and inverted."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.measurements import GB, Labels, Phase
from rigproof.stages.pattern.choosing import choose, own_kernel_cache
from rigproof.stages.pattern.comparing import Comparing, Pass
from rigproof.stages.pattern.filling import MIB, TestedMemory
from rigproof.stages.pattern.passes import Content
from rigproof.stages.pattern.stage import COLD, FADE, HOT, Operation, PatternSpec, patterns_with

SEED_BITS = 62  # seeds are not negative, and neither are they as 64-bit numbers
PROBE_S = 0.5  # of reading, to see how fast it is, cold and hot
FEWEST_PROBES = 3
WAIT_S = 0.05

# Called between writing and comparing: tests and benches change a bit then, as a broken memory would.
Disturb = Callable[[TestedMemory, Content], None]


def run_pattern(
    spec: PatternSpec, device: Device, context: WorkerContext, disturb: Disturb | None = None
) -> None:
    """Fill the memory and do the passes until done or stopped. Emits rounds, errors, and events.

    All memory is always freed at the end. Raises MemoryError if memory does not suffice, and `spec.memory`
    allows no smaller attempt.
    """
    reporter = Reporter(context, spec.stage)
    policy = VramPolicy(spec.memory, device, reporter)
    try:
        policy.begin()
        with own_kernel_cache():
            make, reason = choose(device)
            memory = TestedMemory(spec, device, reporter, policy)
            try:
                memory.fill()
                beside_mib = memory.available_mib - memory.mib

                def test() -> None:
                    passes = make(memory.chunks)
                    message = f"passes by {passes.name}" + (f": {reason}" if reason else "")
                    reporter.event("pattern_kernels", message, {"by": passes.name, "reason": reason})
                    Laps(spec, Comparing(memory, passes, device, reporter), policy, reporter, disturb).run()

                failure = failed_allocation(device, test)
            finally:
                memory.release()
        if failure:
            policy.failed(failure, beside_mib, recovered=False)
            raise MemoryError(f"no room beside the memory under test: {failure}")
    finally:
        policy.end()


@dataclass
class Laps:
    """One lap for each pattern: write it, compare and invert it, compare the complement.

    Before and after all laps the memory is only read for a moment: its rate cold, and hot.
    """

    spec: PatternSpec
    comparing: Comparing
    policy: VramPolicy
    reporter: Reporter
    disturb: Disturb | None
    number: int = 0  # of laps so far

    def __post_init__(self) -> None:
        self.context = self.reporter.context
        self.size = max(1, round(self.comparing.memory.mib))

    def run(self) -> None:
        """Each pattern at least once, in turn until the time is over; the one with pauses comes last."""
        patterns = patterns_with(0.0)
        begin_s = self.context.now_s()
        content = self._lap(patterns[0])
        if content is not None:
            self._probe(content, COLD)
        while not self.context.stopped():
            late = self.context.now_s() - begin_s >= self.spec.duration_s
            if late and self.number >= len(patterns):
                break
            content = self._lap(patterns[self.number % len(patterns)])
        if content is not None and not self.context.stopped():
            content = self._lap(patterns[0])
            if content is not None:
                self._probe(content, HOT)
        if self.spec.fade_s:
            self._lap(FADE, self.spec.fade_s)
        self.comparing.report()

    def _lap(self, pattern: str, pause_s: float = 0.0) -> Content | None:
        """One lap; returns what the memory then holds, None if it was stopped meanwhile."""
        content = Content(pattern, random.Random(self.number).getrandbits(SEED_BITS))  # noqa: S311 - no secret
        phase: Phase = "measure" if self.number else "warmup"
        self.number += 1
        written = self.comparing.write(content)
        if not self._pause(content, pause_s):
            return None
        inverted = self.comparing.compare(content, invert=True)
        self._report("write", written, content, phase, verified=inverted.good)
        if not self._pause(content.inverted, pause_s):
            return None
        checked = self.comparing.compare(content.inverted, invert=False)
        self._report("invert", inverted, content, phase, verified=inverted.good and checked.good)
        self._report("check", checked, content, phase, verified=checked.good)
        self.policy.monitor()
        return content.inverted

    def _probe(self, content: Content, heat: str) -> None:
        """Only read, several times."""
        begin_s, number = self.context.now_s(), 0
        while not self.context.stopped():
            if number >= FEWEST_PROBES and self.context.now_s() - begin_s >= PROBE_S:
                break
            checked = self.comparing.compare(content, invert=False)
            self._report("check", checked, content, "measure", verified=checked.good, heat=heat)
            number += 1

    def _pause(self, content: Content, pause_s: float) -> bool:
        """Leave the memory alone for a while; False if stopped."""
        if self.disturb is not None:
            self.disturb(self.comparing.memory, content)
        until_s = self.context.now_s() + pause_s
        while pause_s and self.context.now_s() < until_s:
            if self.context.stopped():
                return False
            self.context.alive()
            time.sleep(min(WAIT_S, pause_s))
        return not self.context.stopped()

    def _report(
        self,
        operation: Operation,
        done: Pass,
        content: Content,
        phase: Phase,
        *,
        verified: bool,
        heat: str = "",
    ) -> None:
        passes = 2 if operation == "invert" else 1
        labels: Labels = {"pattern": content.pattern, "operation": operation, "size": self.size}
        self.reporter.round(
            phase=phase,
            seconds=done.seconds,
            work=passes * self.comparing.memory.mib * MIB / 1e9,
            unit=GB,
            verified=verified,
            labels={**labels, "heat": heat} if heat else labels,
            t_s=done.t_s,
        )
