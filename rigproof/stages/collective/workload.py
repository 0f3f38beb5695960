"""The collective stage's workload: a rank of a team, in a process of its own. Imports torch.

All ranks do the same steps in the same order. Before each round they agree on how much time is left, and on
how long the slowest of them takes; whatever they decide follows from that alone, so that all decide alike. A
round is a batch of operations between two marks of the device, behind a first one that is not timed: while it
goes on, the host queues the others. All answers are compared afterwards.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import NamedTuple

import torch
import torch.distributed as dist

from rigproof.devices.device import Device
from rigproof.devices.own_process import serve_apart
from rigproof.devices.process_group import Place, Steps, join, meeting_place
from rigproof.devices.rank import OURS, run_rank
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import NCCL, WorkerContext
from rigproof.records.measurements import GB, Phase
from rigproof.stages.collective.operations import BATCH, KINDS, Operation, Wrong
from rigproof.stages.collective.stage import (
    AS_IT_IS,
    EVERY_ARM,
    ONE_MIB,
    WORD_BYTES,
    Case,
    CollectiveSpec,
    share_of_time,
)

MODULE = "rigproof.stages.collective.workload"
FEWEST_ROUNDS = 3
MOST_ROUNDS = 12  # of which so many have to be at the pace of the GPUs
PACED_SHARE = 0.8  # of a round's time; a host that queues for longer sets its pace
FEWEST = 1 + 2 * FEWEST_ROUNDS  # operations of a case: one to warm up, then rounds of two at least
OVERTIME_S = 30.0  # that what is due may take beyond the length; the driver waits for `timeouts.task_s`, 60
# At most so much of an operation's first one costs no size its time: all-to-all connects four H200 for 1.4 s.
CONNECTING_S = 2.0
ALONE = 1.0  # of its bytes count for a rank that has nobody to exchange them with
STOPPED = -math.inf  # in place of the time that is left
PROBE_BYTES = 2**16
PROBES = 3  # the least counts: 18 ms without a CPU would foretell 4.6 s for 16 MiB, which is then left out


def run_collective(spec: CollectiveSpec, device: Device, context: WorkerContext) -> None:
    """Be a rank until all is done, or stopped. Emits rounds of the team, and events for what went wrong.

    A rank that is stuck or dies is an event, not an error: the worker itself and its card are as before.
    The other arms follow where a node's GPUs are a team, at levels that have them.
    """
    device.empty_cache()
    with meeting_place(context.crew):
        for one in spec.of_team(context.crew.subject):
            if not context.stopped():
                run_rank(
                    MODULE,
                    one,
                    context,
                    first_s=one.join_s,
                    data={"group": one.group, "arm": one.arm},
                    environment=EVERY_ARM[one.arm],
                )


class Agreed(NamedTuple):
    """What all ranks know: the least time that one of them has left, and the most that one needed."""

    left_s: float  # below 0: beyond the length. STOPPED: one has been told to stop
    step_s: float  # of the last operation
    outside_s: float  # between the last two steps
    paced: bool  # whether a host queued the last round more slowly than its GPU could do it


class RankWork:
    """All operations of one rank."""

    def __init__(self, spec: CollectiveSpec, context: WorkerContext) -> None:
        self.spec, self.context, self.crew = spec, context, context.crew
        self.place = Place(spec.backend, spec.threads)
        self.steps = Steps(spec.first_s)
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._limit_s = spec.first_s
        self._end_s = 0.0
        self._operation = ""  # of the case that is done
        self._step_s = self._outside_s = 0.0
        self._paced = False
        self._left_step_s = context.now_s()  # when the last step was left
        self._foreseen: dict[str, tuple[float, float]] = {}  # MiB and s of an operation, the last one of each

    def run(self) -> None:
        """Join, then do one case after the other."""
        join(self.crew, self.place, self.steps, self.spec.join_s, f"{self.spec.group}/{self.spec.arm}")
        self._left_step_s = self.context.now_s()
        self._report_variables()
        self._end_s = self.context.now_s() + self.spec.seconds
        cases = list(self.spec.cases())
        for number, case in enumerate(cases):
            self._limit_s = self.steps.outside_s = self.spec.first_s
            self._operation = case.operation
            if not self._foreseen:
                self._probe()
            left_s = self._agree().left_s
            if left_s == STOPPED and self.context.stopped():
                return
            if not self._fits(case, left_s):
                continue
            self._case(case, max(0.0, left_s) * (1 - share_of_time(cases, number)))

    def _report_variables(self) -> None:
        """Report the variables with which a user, or an image, tells the libraries what to use."""
        variables = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("NCCL_", "GLOO_")) and name not in (*OURS, "NCCL_VERSION")
        }
        if variables and self.spec.arm == AS_IT_IS and not self.spec.group:
            text = ", ".join(f"{name}={value}" for name, value in variables.items())
            data = {"device": self.context.subject, "variables": variables}
            self._reporter.event("rank_variables", f"rank {self.crew.rank} works with {text}", data)

    def make(self, case: Case, repeats: int) -> Operation:
        """The operation of a case on this rank."""
        crew, where = self.crew, self.place.where
        return KINDS[case.operation](case.elements(crew.size), crew.rank, crew.size, where, repeats)

    def _probe(self) -> None:
        """Find out, by a few bytes, how slow the network may be: nothing of it is reported."""
        row = torch.zeros(PROBE_BYTES // WORD_BYTES, device=self.place.where)
        taken_s = []
        for _ in range(1 + PROBES):  # the first one sets things up
            begun_s = self.context.now_s()
            with self._step(self._operation, 0):
                dist.all_reduce(row)
                self.place.mark().wait()
            taken_s.append(self.context.now_s() - begun_s)
        self._step_s = min(taken_s[1:])
        self._foreseen[""] = PROBE_BYTES / 2**20, self._agree().step_s

    def _fits(self, case: Case, left_s: float) -> bool:
        """Whether enough rounds fit into the time left; what is due, or failed before, may take some more."""
        mib, seconds = self._foreseen.get(case.operation, self._foreseen[""])
        expected_s = seconds * max(1.0, case.mib / mib)
        due = case.due or self.spec.thorough
        # Half of it is kept for those of which nothing has been done.
        more_s = OVERTIME_S / 2 if case.operation in self._foreseen else OVERTIME_S
        late = due and FEWEST * expected_s <= left_s + more_s
        if expected_s < self.spec.first_s / 2 and (late or (1 + FEWEST_ROUNDS) * expected_s <= left_s):
            return True
        if self.crew.rank == 0:
            what = f"{case.operation} of {case.mib} MiB was left out"
            each = f"each would take {expected_s:.2g} s, with the comparison of its answer"
            message = f"{what}: {each}, and {max(0.0, left_s):.2g} s were left"
            data = asdict(case) | {"group": self.spec.group, "arm": self.spec.arm}
            self._reporter.event("size_left_out", message, data)
        return False

    def _case(self, case: Case, until_left_s: float) -> None:
        """Rounds of a case, of which the first warms up, until no more than that much time is left."""
        begun_s = self.context.now_s()
        self._round(case, self.make(case, 1), "warmup")
        if not case.mib:  # the first one of an operation
            self._end_s += min(CONNECTING_S, self.context.now_s() - begun_s)
        elif case.operation not in self._foreseen:  # it may have connected the ranks: the next one tells
            self._round(case, self.make(case, 1), "warmup")
        agreed = self._agree()
        if case.mib:
            self._foreseen[case.operation] = case.mib, agreed.step_s + agreed.outside_s
        room = self.spec.buffers_mib // case.mib if case.mib else BATCH
        fitting = int(self.spec.round_s / max(agreed.step_s, 1e-6))
        # The first one of a batch gives the others their head start, and is not timed.
        operation = self.make(case, max(1, min(BATCH, room, 1 + max(1, fitting))))
        number = own_pace = 0
        while (own_pace < FEWEST_ROUNDS and number < MOST_ROUNDS) or agreed.left_s > until_left_s:
            if agreed.left_s == STOPPED and self.context.stopped():
                return
            self._round(case, operation, "measure")
            agreed = self._agree()
            number, own_pace = number + 1, own_pace + (not agreed.paced)
            took_s = len(operation.answers) * agreed.step_s + agreed.outside_s
            self._limit_s = max(self.spec.least_s, min(self.spec.patience * took_s, self.spec.first_s))
            self.steps.outside_s = self._limit_s
            if case.mib:  # better known than from the first round, which sets things up
                self._foreseen[case.operation] = case.mib, took_s / len(operation.answers)

    def _round(self, case: Case, operation: Operation, phase: Phase) -> None:
        """A batch of operations, timed together; then all answers are compared."""
        number, place = len(operation.answers), self.place
        head = 1 if number > 1 else 0
        repeats = number - head
        first = (self.steps.sequence + 1) * BATCH  # the number of the step to come, on all ranks
        for each in range(number):
            operation.prepare(each, first + each)
        together = torch.zeros(1, device=place.where)
        place.mark().wait()
        with self._step(case.operation, case.mib):
            self._start(dist.all_reduce, together)
            for each in range(head):
                self._start(operation.start, each, first + each)
            begun, begun_s = place.mark(), self.context.now_s()
            for each in range(head, number):
                self._start(operation.start, each, first + each)
            ended, queued_s = place.mark(), self.context.now_s() - begun_s
            ended.wait()
        seconds = ended.seconds_since(begun)
        self._step_s = seconds / repeats
        # Only a GPU works while its host queues. At smaller sizes, that have no limits, it mostly waits.
        observed = head and self.spec.backend == NCCL and case.mib >= ONE_MIB
        self._paced = bool(observed) and queued_s > PACED_SHARE * seconds
        wrong = operation.wrong(first)
        if wrong:
            self._report(case, operation, wrong)
        self._reporter.round(
            phase=phase,
            seconds=seconds,
            work=repeats * operation.size_bytes * (operation.bus_factor or ALONE) / 1e9,
            unit=GB,
            verified=not wrong,
            host_paced=self._paced if observed else None,
            labels={
                "operation": case.operation,
                "mib": case.mib,
                "elements": operation.elements,
                "backend": self.spec.backend,
                "ranks": self.crew.size,
                "arm": self.spec.arm,
                "group": self.spec.group,
                "repeats": repeats,
            },
        )

    def _start(self, start: Callable[..., object], *arguments: object) -> None:
        with self.steps.progress.operation():
            start(*arguments)

    def _agree(self) -> Agreed:
        """Let all ranks know the least time left, and the most time needed."""
        left_s = STOPPED if self.context.stopped() else self._end_s - self.context.now_s()
        self._note_outside()
        own = [left_s, -self._step_s, -self._outside_s, -float(self._paced)]
        self._outside_s = 0.0
        everyones = torch.tensor(own, dtype=torch.float64, device=self.place.where)
        with self._step(self._operation, 0):
            dist.all_reduce(everyones, op=dist.ReduceOp.MIN)
            left_s, step_s, outside_s, paced = everyones.tolist()
        return Agreed(left_s, -step_s, -outside_s, bool(paced))

    @contextmanager
    def _step(self, operation: str, mib: int) -> Iterator[None]:
        self._note_outside()
        with self.steps.step(operation, mib, self._limit_s):
            yield
        self._left_step_s = self.context.now_s()

    def _note_outside(self) -> None:
        """Keep the longest time since the last step that this rank needed between two agreements."""
        self._outside_s = max(self._outside_s, self.context.now_s() - self._left_step_s)

    def _report(self, case: Case, operation: Operation, wrong: list[Wrong]) -> None:
        """Report the first wrong answer of a batch."""
        one, crew = wrong[0], self.crew
        total = len(operation.answers[0])
        message = (
            f"{case.operation} of {case.mib} MiB on rank {crew.rank} ({self.context.subject}): "
            f"{one.count} of {total} elements are wrong, from {one.first} to {one.last}; the first is "
            f"{one.got:g}, not {one.expected:g}"
        )
        data = {
            "operation": case.operation,
            "mib": case.mib,
            "rank": crew.rank,
            "group": self.spec.group,
            "arm": self.spec.arm,
            "answers": len(wrong),
            "elements": one.count,
            "first": one.first,
            "last": one.last,
        }
        self._reporter.wrong_result(message, data)


def serve(work: Callable[[CollectiveSpec, WorkerContext], RankWork]) -> None:
    """Do this rank's work."""
    serve_apart(lambda spec, context: work(spec, context).run(), CollectiveSpec)


if __name__ == "__main__":
    serve(RankWork)
