"""A pass at a time: timed by the device's clock, and believed only if it finds a word changed on purpose."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.verification import as_hex
from rigproof.stages.pattern.filling import TestedMemory
from rigproof.stages.pattern.passes import MOST_FOUND, Compared, Content, Found, Passes
from rigproof.stages.pattern.stage import WORD_BYTES, VramError, bits_in_words, bits_of

RECORDED = 48  # wrong words of a task that are recorded one by one; all are counted


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass that the device has done, by its own clock; `t_s`: run time of its end.

    `good`: every word was compared and as expected, and the one that had been changed on purpose was found.
    """

    seconds: float
    t_s: float
    good: bool


class Comparing:
    """The passes over the memory under test, and what they found."""

    def __init__(self, memory: TestedMemory, passes: Passes, device: Device, reporter: Reporter) -> None:
        self.memory = memory
        self._passes = passes
        self._device = device
        self._reporter = reporter
        self._random = random.Random(1)  # noqa: S311 - chooses the word that is changed on purpose
        self._recorded = 0
        self._compared = self._most = self._bad_passes = self._passes_done = 0

    def write(self, content: Content) -> Pass:
        """Write all words; whether they are right shows when they are compared."""
        start = self._device.mark()
        self._passes.write(content)
        end = self._device.mark()
        end.wait()
        return Pass(end.seconds_since(start), self._reporter.context.now_s(), good=True)

    def compare(self, content: Content, *, invert: bool) -> Pass:
        """Compare all words, and overwrite each right one with its complement if they are inverted."""
        canary = self._change_one(content)
        self._passes.prepare()
        start = self._device.mark()
        self._passes.compare(content, invert=invert)
        end = self._device.mark()
        end.wait()
        seconds, t_s = end.seconds_since(start), self._reporter.context.now_s()
        result = self._passes.result()
        seen = canary in result.found or result.wrong > MOST_FOUND
        self.memory.mend(canary.number, content)
        wrong = result.wrong - seen
        if wrong > 0:
            found = [one for one in result.found if one != canary]
            self._found_wrong(wrong, found, content, "invert" if invert else "check", t_s)
        doubt = self._doubt(result, seen=seen)
        if doubt:
            data = {"pattern": content.pattern, "right": result.right, "wrong": result.wrong}
            self._reporter.event("pattern_unchecked", f"{content.pattern}: {doubt}", data)
        if invert:
            self._complete(result, canary, content.inverted)
        self._compared += result.right + result.wrong
        self._passes_done += 1
        return Pass(seconds, t_s, good=not doubt and not wrong)

    def report(self) -> None:
        """Report what all passes found."""
        gib = self._compared * WORD_BYTES / 2**30
        self._reporter.event(
            "pattern_result",
            f"wrong words in {self._bad_passes} of {self._passes_done} passes, {gib:.0f} GiB compared",
            {
                "passes": self._passes_done,
                "bad_passes": self._bad_passes,
                "most": self._most,
                "compared_gib": gib,
            },
        )

    def _change_one(self, content: Content) -> Found:
        """Change one bit of one word, which the next comparison must find."""
        number = self._random.randrange(self.memory.words)
        bit = self._random.randrange(64)
        changed = content.word(number) ^ (1 << bit)
        changed = (changed + 2**63) % 2**64 - 2**63
        self.memory.put(number, changed)
        return Found(number, changed)

    def _doubt(self, result: Compared, *, seen: bool) -> str:
        """Why a comparison proves nothing; empty if it does. `seen`: it found the word changed on purpose."""
        compared = result.right + result.wrong
        if compared != self.memory.words:
            return f"{compared} of {self.memory.words} words were compared"
        return "" if seen else "a word that was changed on purpose was not found"

    def _complete(self, result: Compared, canary: Found, inverted: Content) -> None:
        """Invert the words that a pass had left because they were wrong."""
        if result.wrong > MOST_FOUND:  # not all of them are known
            self._passes.write(inverted)
            return
        for number in {canary.number, *(one.number for one in result.found)}:
            self.memory.mend(number, inverted)

    def _found_wrong(
        self, wrong: int, found: Sequence[Found], content: Content, operation: str, t_s: float
    ) -> None:
        """Read the wrong words again, and report them."""
        located = self._located(found, content, operation, t_s)
        hard = sum(one.kind == "hard" for one in located)
        self._most = max(self._most, wrong)
        self._bad_passes += 1
        for one in located[: RECORDED - self._recorded]:
            self._reporter.context.emit(one)
        self._recorded = min(RECORDED, self._recorded + len(located))
        first = f", the first at {_in_words(located[0])}" if located else ""
        self._reporter.wrong_result(
            f"{content.pattern}: {wrong} of {self.memory.words} words{first}",
            {
                "pattern": content.pattern,
                "operation": operation,
                "words": wrong,
                "hard": hard,
                "soft": len(located) - hard,
            },
        )

    def _located(
        self, found: Sequence[Found], content: Content, operation: str, t_s: float
    ) -> list[VramError]:
        """Read each word again, past the caches, then write and read it; they hold `content`'s words then."""
        memory, context = self.memory, self._reporter.context
        expected = [content.word(one.number) for one in found]
        memory.evict()
        again = [memory.read(one.number) for one in found]
        for one, word in zip(found, expected, strict=True):
            memory.put(one.number, word)
        memory.evict()
        errors = []
        for one, word, second in zip(found, expected, again, strict=True):
            chunk, place = memory.place(one.number)
            error = VramError(
                t_s=t_s,
                stage=self._reporter.stage,
                worker=context.worker,
                subject=context.subject,
                pattern=content.pattern,
                operation=operation,
                chunk=chunk,
                word=place,
                offset=one.number * WORD_BYTES,
                address=f"{memory.address(one.number):x}",
                expected=as_hex(word),
                read=as_hex(one.read),
                again=as_hex(second),
                bits=" ".join(map(str, bits_of(word ^ one.read))),
                kind="hard" if second != word else "soft",
                mended=memory.read(one.number) == word,
            )
            errors.append(error)
        return errors


def _in_words(one: VramError) -> str:
    """`0x7f2a40001000 (byte 68719480832): expected …, read … (bit 17), hard`."""
    kind = "hard, right once rewritten" if one.kind == "hard" and one.mended else one.kind
    bits = bits_in_words(one.bits.split())
    return f"0x{one.address} (byte {one.offset}): expected {one.expected}, read {one.read} ({bits}), {kind}"
