"""Bursts of generation: each is one step's completions, in rounds, all compared with their references."""

import math
from dataclasses import dataclass

import torch

from rigproof.devices.device import Checksums, Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import FinishedRound, RoundQueue, products_for
from rigproof.devices.verification import Reference, as_hex, tolerance
from rigproof.records.measurements import Phase
from rigproof.stages.feeding.generation import Decoder, pass_tflop
from rigproof.stages.feeding.reward_pool import Job
from rigproof.stages.feeding.strategies import ANSWER

PROMPTS = 2  # steps alternate between them; each has its own references
WARM_S = 1.0  # of passes, until an idle card has reached its clock
MOST_PASSES = 2**16


@dataclass(frozen=True, slots=True)
class _Portion:
    """The part of a burst that a round does."""

    prompt: int
    place: int
    answers: torch.Tensor | None  # with the last one


class Bursts:
    """Generates one step after the other with one decoder; `begun` counts the steps."""

    def __init__(self, device: Device, decoder: Decoder, reporter: Reporter, round_s: float) -> None:
        self._device = device
        self._decoder = decoder
        self._reporter = reporter
        self._round_s = round_s
        self._queue: RoundQueue[_Portion] = RoundQueue(device, self._launch)
        self._prompt, self._place = 0, 0  # of the next round
        self._passes: tuple[int, ...] = (len(ANSWER),)  # in each round of a burst
        self._checked: float | None = None  # while a reference is made: its error
        self._references: dict[tuple[int, int], Reference] = {}
        self.begun = 0

    @property
    def full(self) -> bool:
        """Whether enough rounds are queued for now."""
        return self._queue.full

    @property
    def waiting(self) -> bool:
        """Whether no round is queued."""
        return not self._queue

    @property
    def between(self) -> bool:
        """Whether the next round begins a step."""
        return self._place == 0

    @property
    def passes(self) -> int:
        """Passes of a step, which is also the number of tokens of its completions."""
        return sum(self._passes)

    def sample(self, prompt: int) -> list[list[int]]:
        """Completions that consist of an answer only. Waits for the device, and reports nothing."""
        self._write(prompt, len(ANSWER), self._device.checksums(1))
        answers = self._decoder.answers()
        self._device.mark().wait()
        completions: list[list[int]] = answers.tolist()
        return completions

    def fit(self, seconds: float) -> float:
        """Set the length of completions so that a step takes about `seconds`; returns a pass's seconds.

        They are timed on the warm device, by the fastest of several batches: a host that is busy for a moment
        launches passes more slowly, and completions that are too short would leave the device without work.
        Longer completions have more reasoning; the shortest is an answer.
        """
        passes, passed_s, pass_s = 1, 0.0, math.inf
        while passed_s < min(WARM_S, seconds) or not 0 < pass_s < math.inf:
            sums = self._device.checksums(1)
            start = self._device.mark()
            self._write(0, passes, sums)
            end = self._device.mark()
            end.wait()
            taken_s = end.seconds_since(start)
            passed_s += taken_s
            pass_s = min(pass_s, taken_s / passes) if taken_s > 0 else pass_s
            if taken_s < self._round_s / 2:
                passes = min(2 * passes, MOST_PASSES)
        length = max(len(ANSWER), min(MOST_PASSES, round(seconds / pass_s)))
        rounds = max(1, round(length / products_for(self._round_s, pass_s)))
        least, more = divmod(length, rounds)
        self._passes = tuple(least + (place < more) for place in range(rounds))
        return pass_s

    def make_references(self) -> None:
        """Generate one step of each prompt; the last pass of each round is checked with 64-bit arithmetic."""
        for _ in range(PROMPTS * len(self._passes)):
            if self._reporter.context.stopped():
                return
            self._checked = 0.0
            prompt, place = self._prompt, self._place
            self.add("warmup")
            finished = self._queue.finish()
            (checksum,) = finished.checksums
            repeated = any(checksum == known.checksum for known in self._references.values())
            reference = Reference(
                checksum,
                self._checked,
                tolerance(self._decoder.precision, self._decoder.width),
                "two prompts generate the same tokens, as if nothing had been computed" if repeated else "",
            )
            self._references[prompt, place] = reference
            self._checked = None
            self._reporter.check(reference, self._decoder.precision)
            self._report(finished, verified=reference.correct)
        self.begun = 0

    def add(self, phase: Phase) -> None:
        """Queue the next round."""
        self._queue.add(self._passes[self._place], phase)

    def finish(self) -> Job | None:
        """Wait for the oldest round; returns its step's completions, as a job, if it was the last of it."""
        finished = self._queue.finish()
        work, (got,) = finished.work, finished.checksums
        reference = self._references[work.prompt, work.place]
        if reference.correct and got != reference.checksum:
            self._reporter.wrong_result(
                f"{self._decoder.precision} generation from prompt {work.prompt} changed between equal steps",
                {
                    "precision": self._decoder.precision,
                    "round": work.place,
                    "expected": as_hex(reference.checksum),
                    "got": as_hex(got),
                },
            )
        self._report(finished, verified=reference.confirms(got))
        return None if work.answers is None else Job(work.answers.tolist(), work.prompt, parallel=True)

    def release(self) -> None:
        """Free the decoder, and the queue, which holds a reference to this object."""
        del self._queue
        self._decoder.release()

    def _write(self, prompt: int, length: int, sums: Checksums) -> None:
        """Queue completions that are not compared."""
        self._decoder.begin(prompt, length)
        self._decoder.write(length, sums)

    def _launch(self, passes: int, sums: Checksums) -> _Portion:
        decoder, prompt, place = self._decoder, self._prompt, self._place
        if place == 0:
            decoder.begin(prompt, self.passes)
            self.begun += 1
        decoder.write(passes, sums)
        if self._checked is not None:
            self._checked = decoder.checked_error()
        last = place == len(self._passes) - 1
        self._place = 0 if last else place + 1
        self._prompt = (prompt + last) % PROMPTS
        return _Portion(prompt, place, decoder.answers() if last else None)

    def _report(self, finished: FinishedRound[_Portion], *, verified: bool) -> None:
        decoder = self._decoder
        self._reporter.round(
            phase=finished.phase,
            seconds=finished.seconds,
            work=finished.products * pass_tflop(decoder.rows, decoder.width),
            verified=verified,
            labels={"precision": decoder.precision, "size": decoder.width},
        )
