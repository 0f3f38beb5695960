"""Four operations on the CPU's own memory: each is timed, verified, and noticed where it does nothing."""

import pytest
import torch

from rigproof.devices.reporting import Reporter
from rigproof.records.measurements import GB
from rigproof.stages.bandwidth import operations
from rigproof.stages.bandwidth.stage import FIGURES, BandwidthSpec, buffer_size
from rigproof.stages.bandwidth.workload import FEWEST_ROUNDS, MeasuredOperation, run_bandwidth

SIZE = 256
SPEC = BandwidthSpec("bandwidth", size=SIZE, duration_s=0.4, round_s=0.02)


def test_each_operation_is_warmed_up_then_measured_and_all_of_it_is_verified(cpu, context):
    run_bandwidth(SPEC, cpu, context)
    assert list(dict.fromkeys(one.label("operation") for one in context.rounds)) == list(FIGURES)
    for operation in FIGURES:
        own = [one for one in context.rounds if one.label("operation") == operation]
        phases = [one.phase for one in own]
        assert phases == sorted(phases, key=["warmup", "measure"].index)
        assert phases.count("measure") >= FEWEST_ROUNDS
    assert all(one.verified for one in context.rounds)
    assert not context.events("wrong_result")


def test_it_ends_as_soon_as_its_time_is_over_and_enough_was_measured(cpu, stopping_context, monkeypatch):
    """Of no length: a round that warms up, and the fewest that measure."""
    context = stopping_context(lambda own: len(own.rounds) > 3 * FEWEST_ROUNDS)
    monkeypatch.setattr(context, "now_s", lambda: 5.0)
    buffers = operations.Buffers(cpu, SIZE)
    MeasuredOperation(SPEC, operations.Write(buffers), Reporter(context, "bandwidth")).run(0.0)
    assert [one.phase for one in context.rounds] == ["warmup", *["measure"] * FEWEST_ROUNDS]


def test_a_round_states_the_bytes_that_were_moved(cpu, context):
    run_bandwidth(SPEC, cpu, context)
    passes = {one.name: one.passes for one in operations.OPERATIONS}
    assert passes == {"write": 1, "read": 1, "copy": 2, "triad": 3}
    for one in context.rounds:
        launches = one.work * 1e9 / (4 * SIZE**2 * passes[one.label("operation")])
        assert launches == pytest.approx(round(launches))
        assert (one.unit, one.label("size")) == (GB, SIZE)
        assert one.seconds > 0


@pytest.mark.parametrize("operation", [operations.Write, operations.Copy, operations.Triad])
def test_an_operation_that_does_nothing_is_a_wrong_result(cpu, context, monkeypatch, operation):
    monkeypatch.setattr(operation, "launch", lambda _self, _sums: None)
    run_bandwidth(SPEC, cpu, context)
    own = [one for one in context.rounds if one.label("operation") == operation.name]
    assert not any(one.verified for one in own)
    assert all(one.verified for one in context.rounds if one not in own)
    assert {one.data["operation"] for one in context.events("wrong_result")} == {operation.name}


def test_one_wrong_word_in_the_middle_of_a_copy_is_noticed(cpu, context, monkeypatch):
    def launch(self, _sums):
        self.buffers.target.copy_(self.buffers.rest)
        self.buffers.target.view(-1)[SIZE] += 1

    monkeypatch.setattr(operations.Copy, "launch", launch)
    run_bandwidth(SPEC, cpu, context)
    assert not any(one.verified for one in context.rounds if one.label("operation") == "copy")


def test_two_words_that_changed_places_in_a_copy_are_noticed(cpu, context, monkeypatch):
    def launch(self, _sums):
        self.buffers.target.copy_(self.buffers.rest)
        row = self.buffers.target.view(-1)
        different = int((row != row[0]).nonzero()[0])
        row[[0, different]] = row[[different, 0]]

    monkeypatch.setattr(operations.Copy, "launch", launch)
    run_bandwidth(SPEC, cpu, context)
    assert not any(one.verified for one in context.rounds if one.label("operation") == "copy")


def test_memory_that_changes_while_it_is_read_is_noticed(cpu, context, monkeypatch):
    def launch(self, sums):
        sums.add(self.buffers.rest)
        self.buffers.rest.view(-1)[0] += 1

    monkeypatch.setattr(operations.Read, "launch", launch)
    run_bandwidth(SPEC, cpu, context)
    assert not all(one.verified for one in context.rounds if one.label("operation") == "read")


def test_memory_that_does_not_keep_what_is_written_verifies_nothing(cpu, context, monkeypatch):
    monkeypatch.setattr(operations.Buffers, "checksums", forgetful(operations.Buffers.checksums))
    run_bandwidth(SPEC, cpu, context)
    assert not any(one.verified for one in context.rounds)
    assert "differ" in context.events("wrong_result")[0].message


def forgetful(checksums):
    def changed(self, *matrices):
        found = checksums(self, *matrices)
        return (found[0] + 1, *found[1:]) if len(matrices) == 3 else found

    return changed


def test_want_of_memory_is_an_event_and_ends_the_task(cpu, context, monkeypatch):
    def full(*_arguments):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(cpu, "empty", full)
    with pytest.raises(MemoryError, match="three buffers of 0 MiB: no room"):
        run_bandwidth(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert event.data == {"requested_mib": 0.75, "recovered": False}


@pytest.mark.parametrize(("mib", "size"), [(1024, 16384), (1023, 16320), (0.25, 256), (0.0, 256)])
def test_a_buffer_is_a_square_of_whole_aligned_rows(mib, size):
    assert buffer_size(mib) == size
