"""Patterns in the host's memory: every word is compared, and a wrong one found, located and told apart."""

from dataclasses import replace

import pytest
import torch

from rigproof.devices.reporting import Reporter
from rigproof.devices.vram_policy import VramPolicy
from rigproof.profiles.planning.plan import MemoryPlan
from rigproof.records.measurements import GB
from rigproof.stages.pattern import workload
from rigproof.stages.pattern.filling import TestedMemory
from rigproof.stages.pattern.passes import MOST_FOUND, TorchPasses
from rigproof.stages.pattern.stage import (
    COLD,
    FADE,
    HOT,
    OPERATIONS,
    PatternSpec,
    VramError,
    patterns_with,
)
from rigproof.stages.pattern.workload import FEWEST_PROBES, run_pattern

SPEC = PatternSpec("pattern", duration_s=0.1, fade_s=0.02, free_share=0.95, most_mib=1.0)
WORDS = int(0.95 * 2**17) // 4096 * 4096
WRONG = WORDS // 2 + 3


@pytest.fixture(autouse=True)
def short_probes(monkeypatch):
    monkeypatch.setattr(workload, "PROBE_S", 0.0)


def errors(context):
    return [one for one in context.records if isinstance(one, VramError)]


def flip(number=WRONG, bit=17, once=True):
    """Changes a bit between a pass that writes and the one that reads: the first time, or every time."""
    done = []

    def disturb(memory, _content):
        if not (once and done):
            done.append(number)
            word = memory.read(number) ^ (1 << bit)
            memory.put(number, (word + 2**63) % 2**64 - 2**63)

    return disturb


def test_every_pattern_is_written_inverted_and_compared_and_all_of_it_is_verified(cpu, context):
    run_pattern(SPEC, cpu, context)
    done = {(one.label("pattern"), one.label("operation")) for one in context.rounds}
    assert done == {(name, operation) for name in patterns_with(1.0) for operation in OPERATIONS}
    assert all(one.verified for one in context.rounds)
    assert context.rounds[-1].label("pattern") == FADE
    assert not errors(context)
    assert not context.events("wrong_result")
    assert not context.events("pattern_unchecked")
    (result,) = context.events("pattern_result")
    compared = [one for one in context.rounds if one.label("operation") != "write"]
    assert (result.data["passes"], result.data["bad_passes"], result.data["most"]) == (len(compared), 0, 0)
    assert result.data["compared_gib"] == pytest.approx(len(compared) * WORDS * 8 / 2**30)


def test_a_round_states_the_bytes_that_were_moved(cpu, context):
    run_pattern(SPEC, cpu, context)
    for one in context.rounds:
        times = 2 if one.label("operation") == "invert" else 1
        assert (one.unit, one.work) == (GB, pytest.approx(times * WORDS * 8 / 1e9))
        assert one.label("size") == 1
        assert one.seconds > 0


def test_the_rate_of_reading_is_taken_before_and_after_all_other_passes(cpu, context):
    run_pattern(SPEC, cpu, context)
    heats = [one.label("heat") for one in context.rounds]
    assert heats[3 : 3 + FEWEST_PROBES] == [COLD] * FEWEST_PROBES
    assert heats[-3 - FEWEST_PROBES : -3] == [HOT] * FEWEST_PROBES
    assert heats.count(COLD) == heats.count(HOT) == FEWEST_PROBES
    same = {(one.label("pattern"), one.label("operation")) for one in context.rounds if one.label("heat")}
    assert same == {("address", "check")}


def test_without_pauses_bit_fade_is_left_out(cpu, context):
    run_pattern(replace(SPEC, fade_s=0.0), cpu, context)
    assert {one.label("pattern") for one in context.rounds} == set(patterns_with(0.0))


def test_a_bit_that_flips_is_located_and_wrong_again_but_right_once_rewritten(cpu, context):
    run_pattern(SPEC, cpu, context, flip())
    (found,) = errors(context)
    assert (found.kind, found.mended, found.bits) == ("hard", True, "17")
    assert (found.pattern, found.operation) == ("address", "invert")
    assert (found.chunk, found.word, found.offset) == (0, WRONG, 8 * WRONG)
    assert int(found.expected, 16) & ~7 == 8 * WRONG
    assert int(found.read, 16) == int(found.again, 16) == int(found.expected, 16) ^ (1 << 17)
    (event,) = context.events("wrong_result")
    assert event.message.startswith(f"address: 1 of {WORDS} words, the first at 0x{found.address} (byte ")
    assert (event.data["words"], event.data["hard"], event.data["soft"]) == (1, 1, 0)
    bad = [one for one in context.rounds if not one.verified]
    assert [one.label("operation") for one in bad] == ["write", "invert"]
    assert {one.label("pattern") for one in bad} == {"address"}


def test_a_word_read_wrong_once_is_soft_and_the_passes_after_it_are_verified(cpu, context, monkeypatch):
    calls = []

    def read(part):
        calls.append(part)
        copied = part.clone()
        if len(calls) == 5:
            copied[7] ^= 1 << 40
        return copied

    monkeypatch.setattr(TorchPasses, "_read", staticmethod(read))
    run_pattern(SPEC, cpu, context)
    (found,) = errors(context)
    assert (found.kind, found.mended, found.bits) == ("soft", True, "40")
    assert found.again == found.expected != found.read
    assert sum(not one.verified for one in context.rounds) == 2


def test_a_stuck_bit_is_wrong_again_and_again(cpu, context, monkeypatch):
    read, put = TestedMemory.read, TestedMemory.put

    def stuck_put(self, number, word):
        put(self, number, word | (1 << 17) if number == WRONG else word)

    monkeypatch.setattr(TestedMemory, "put", stuck_put)
    monkeypatch.setattr(TestedMemory, "read", read)

    def disturb(memory, _content):
        memory.put(WRONG, memory.read(WRONG))

    run_pattern(SPEC, cpu, context, disturb)
    found = errors(context)
    assert {(one.kind, one.mended, one.bits, one.offset) for one in found} == {
        ("hard", False, "17", 8 * WRONG)
    }
    assert len(found) >= len(patterns_with(1.0))  # in the pattern or in its complement
    assert {one.pattern for one in found} == set(patterns_with(1.0))


def test_of_many_wrong_words_all_are_counted_some_recorded_and_none_left(cpu, context):
    changed = []

    def disturb(memory, _content):
        if not changed:
            changed.append(True)
            memory.chunks[0].words[1000:1300] += 1

    run_pattern(SPEC, cpu, context, disturb)
    assert {one.offset for one in errors(context)} <= set(range(8000, 10400, 8))
    assert 40 <= len(errors(context)) <= MOST_FOUND
    (event,) = context.events("wrong_result")
    (result,) = context.events("pattern_result")
    assert event.data["words"] == result.data["most"] == 300
    assert result.data["bad_passes"] == 1
    assert sum(not one.verified for one in context.rounds) == 2


@pytest.mark.parametrize("operation", ["write", "compare"])
def test_a_kernel_that_does_nothing_verifies_nothing(cpu, context, monkeypatch, operation):
    monkeypatch.setattr(TorchPasses, operation, lambda _self, _content, **_more: None)
    run_pattern(SPEC, cpu, context)
    assert context.rounds
    assert not any(one.verified for one in context.rounds)
    if operation == "compare":
        assert not errors(context)
        assert context.events("pattern_unchecked")[0].message == f"address: 0 of {WORDS} words were compared"


def test_a_comparison_that_finds_everything_right_misses_the_word_changed_on_purpose(
    cpu, context, monkeypatch
):
    def compare(self, content, *, invert):
        for part, numbers in self._slices():
            self._right += len(part)
            if invert:
                part.copy_(content.inverted.words(numbers))

    monkeypatch.setattr(TorchPasses, "compare", compare)
    run_pattern(SPEC, cpu, context)
    assert not any(one.verified for one in context.rounds)
    assert "changed on purpose" in context.events("pattern_unchecked")[0].message
    assert not context.events("wrong_result")


def test_a_comparison_that_leaves_words_out_verifies_nothing(cpu, context, monkeypatch):
    whole = TorchPasses._slices
    monkeypatch.setattr(TorchPasses, "_slices", lambda self: list(whole(self))[:-1])
    run_pattern(SPEC, cpu, context)
    assert not any(one.verified for one in context.rounds)


def test_nothing_is_left_when_it_is_stopped_in_a_lap(cpu, stopping_context):
    context = stopping_context(lambda context: len(context.rounds) >= 4)
    before_mib = cpu.memory().allocated_mib
    run_pattern(SPEC, cpu, context)
    assert 4 <= len(context.rounds) <= 6
    assert all(one.verified for one in context.rounds)
    assert cpu.memory().allocated_mib == before_mib


# Memory

POLICY = MemoryPlan(enabled=True, start_share=0.2, step_share=0.2, retry_share=0.9, last_resort_mib=0.2)


def limited(cpu, monkeypatch, most_words):
    """Room for so many words."""
    words, before_mib = cpu.words, cpu.memory().allocated_mib

    def some(count):
        if (cpu.memory().allocated_mib - before_mib) * 2**17 + count > most_words:
            raise torch.OutOfMemoryError("no room")
        return words(count)

    monkeypatch.setattr(cpu, "words", some)


def memory_of(cpu, context, **changes):
    spec, reporter = replace(SPEC, fade_s=0.0, **changes), Reporter(context, "pattern")
    return TestedMemory(spec, cpu, reporter, VramPolicy(spec.memory, cpu, reporter))


def test_the_memory_is_taken_step_by_step_and_reported(cpu, context):
    run_pattern(replace(SPEC, fade_s=0.0, memory=POLICY), cpu, context)
    (event,) = context.events("allocation")
    assert event.data["chunks"] == 5
    assert event.data["available_mib"] == 1.0
    assert event.data["target_mib"] == 0.95
    assert event.data["allocated_mib"] == WORDS * 8 / 2**20


def test_want_of_memory_leads_to_less_and_counts(cpu, context, monkeypatch):
    limited(cpu, monkeypatch, int(0.7 * WORDS))
    run_pattern(replace(SPEC, fade_s=0.0, memory=POLICY), cpu, context)
    assert context.events("oom")
    assert all(one.data["recovered"] for one in context.events("oom"))
    (event,) = context.events("allocation")
    assert 0.55 < event.data["allocated_mib"] < 0.7
    assert event.data["available_mib"] == 1.0
    assert all(one.verified for one in context.rounds)


def test_without_any_free_memory_the_task_fails(cpu, context):
    with pytest.raises(MemoryError, match=r"no room for patterns: 0\.01 MiB are free"):
        run_pattern(replace(SPEC, most_mib=0.01), cpu, context)
    assert not context.rounds


def test_without_a_policy_the_first_failure_ends_the_task(cpu, context, monkeypatch):
    limited(cpu, monkeypatch, 0)
    with pytest.raises(MemoryError, match="no room for 1 MiB of patterns: no room"):
        run_pattern(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert event.data["recovered"] is False
    assert not context.rounds


def test_a_pass_without_room_of_its_own_ends_the_task(cpu, context, monkeypatch):
    def full(_self, _content):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(TorchPasses, "write", full)
    with pytest.raises(MemoryError, match="no room beside the memory under test"):
        run_pattern(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert event.data["recovered"] is False


def test_what_fails_otherwise_is_not_taken_for_want_of_memory(cpu, context, monkeypatch):
    def broken(_self, _content):
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(TorchPasses, "write", broken)
    before_mib = cpu.memory().allocated_mib
    with pytest.raises(RuntimeError, match="launch failure"):
        run_pattern(SPEC, cpu, context)
    assert not context.events("oom")
    assert cpu.memory().allocated_mib == before_mib


@pytest.mark.parametrize(("cap_mib", "available_mib"), [(None, 1.0), (0.5, 0.5)])
def test_the_cap_of_the_profile_is_not_exceeded(cpu, context, cap_mib, available_mib):
    memory = memory_of(cpu, context, memory=MemoryPlan(cap_mib=cap_mib))
    memory.fill()
    assert memory.available_mib == available_mib
    assert 0.9 * available_mib <= memory.mib <= available_mib
    memory.release()


@pytest.mark.parametrize(
    ("free_mib", "share"),
    [(8192, 0.9375), (24 * 1024, 0.95), (2048, 0.9)],  # the reserve; the share; no less than must be tested
)
def test_a_reserve_stays_free_if_enough_can_be_tested(cpu, context, monkeypatch, free_mib, share):
    state = replace(cpu.memory(), device_free_mib=free_mib)
    monkeypatch.setattr(cpu, "memory", lambda: state)
    memory = memory_of(cpu, context, most_mib=None, least_share=0.9, reserve_mib=512)
    assert (memory.available_mib, memory.target_mib) == (free_mib, pytest.approx(share * free_mib))


def test_a_word_is_found_in_its_chunk(cpu, context):
    memory = memory_of(cpu, context, memory=POLICY)
    memory.fill()
    first = memory.chunks[0].words.numel()
    assert memory.place(first - 1) == (0, first - 1)
    assert memory.place(first) == (1, 0)
    assert memory.place(memory.words - 1) == (4, memory.chunks[4].words.numel() - 1)
    memory.put(first, 5)
    assert (memory.read(first), int(memory.chunks[1].words[0])) == (5, 5)
    assert memory.address(first) == memory.chunks[1].words.data_ptr()
    memory.release()
    assert memory.words == 0
