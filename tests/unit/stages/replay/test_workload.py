"""Training steps repeated on the CPU: the bits are the same each time, and one that is not is located."""

import math
from dataclasses import replace

import pytest
import torch

from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.start import HashedStart
from rigproof.stages.replay import workload
from rigproof.stages.replay.stage import ReplaySpec, StepDigest, places_of
from rigproof.stages.replay.workload import FEWEST_RUNS, run_replay

SPEC = ReplaySpec("replay", vram_mib=64, duration_s=0.0, sequence=16, model_share=0.1, batch=2, steps=4)
PLACES = places_of(2, 4)


def digests(context):
    return [one for one in context.records if isinstance(one, StepDigest)]


def flip(model, name, bit=13):
    """One bit of the middle value of a parameter's gradient."""
    gradient = dict(model.named_parameters())[name].grad.view(-1)
    gradient.view(torch.int32)[len(gradient) // 2] ^= 1 << bit


def flipping(run, step, name):
    def spoil(now_run, now_step, model):
        if (now_run, now_step) == (run, step):
            flip(model, name)

    return spoil


def test_every_value_has_the_same_bits_in_every_run(cpu, context):
    run_replay(SPEC, cpu, context)
    assert [one.phase for one in context.rounds] == ["warmup", *["measure"] * (FEWEST_RUNS - 1)]
    assert all(one.verified for one in context.rounds)
    assert not context.events("wrong_result")
    assert tuple(one.place for one in digests(context)) == PLACES
    (event,) = context.events("replay")
    assert (event.data["runs"], event.data["differing"]) == (FEWEST_RUNS, 0)
    losses = [float(one) for one in event.data["losses"]]
    assert len(losses) == SPEC.steps
    assert Shape(64, 2, 256, 16).may_be_first(losses[0])
    assert losses[-1] < 0.99 * losses[0]


def test_another_task_gives_the_same_bits_again(cpu, stopping_context):
    contexts = [stopping_context(lambda _: False) for _ in range(2)]
    for one in contexts:
        run_replay(SPEC, cpu, one)
    first, second = ([one.digest for one in digests(context)] for context in contexts)
    assert first == second
    assert len(set(first)) > 0.9 * len(first)


@pytest.mark.parametrize(
    ("name", "block", "parameter"),
    [
        ("blocks.1.up.weight", "block 1", "up"),
        ("blocks.0.attention_norm.weight", "block 0", "attention_norm"),
        ("tokens.weight", "embeddings", "tokens"),
        ("head.weight", "head", "head"),
    ],
)
def test_one_flipped_bit_of_one_gradient_is_located_and_leaves_the_next_run_alone(
    cpu, context, name, block, parameter
):
    run_replay(SPEC, cpu, context, flipping(2, 3, name))
    (event,) = context.events("wrong_result")
    assert event.message == f"fp32 run 2 differs: step 3, gradient of {block}, {parameter} (one bit)"
    found = {key: event.data[key] for key in ("run", "step", "part", "block", "parameter")}
    assert found == {
        "run": 2, "step": 3, "part": "gradient", "block": block, "parameter": parameter,
    }  # fmt: skip
    assert event.data["bit"] % 32 == 13
    # And what follows from it: from the gradient of a token that the text lacks, nothing does.
    assert (event.data["values"] > 1) is (name != "tokens.weight")
    assert [one.verified for one in context.rounds] == [True, False, True]
    assert context.events("replay")[0].data["differing"] == 1


def test_a_weight_that_changes_by_itself_is_located_among_the_updated_weights(cpu, context):
    def spoil(run, step, model):
        if run == 2 and step == 2:
            model.blocks[1].down.weight.data.view(torch.int32)[0, 0] ^= 1 << 22

    run_replay(SPEC, cpu, context, spoil)
    (event,) = context.events("wrong_result")
    assert (event.data["step"], event.data["part"], event.data["block"]) == (2, "parameter", "block 1")


def test_a_first_run_that_was_hit_makes_all_others_differ(cpu, context):
    run_replay(SPEC, cpu, context, flipping(1, 1, "head.weight"))
    assert [one.verified for one in context.rounds] == [True, False, False]
    assert context.events("replay")[0].data["differing"] == 2


def test_a_loss_that_is_no_number_verifies_nothing(cpu, context):
    def spoil(_run, step, model):
        if step == 2:
            model.head.weight.grad.fill_(math.nan)

    run_replay(SPEC, cpu, context, spoil)
    (event,) = context.events("wrong_result")
    assert event.message == "fp32 steps: the loss is nan in step 3"
    assert not any(one.verified for one in context.rounds)
    assert context.events("replay")[0].data["losses"][2:] == ["nan", "nan"]


def test_a_start_that_the_cpu_does_not_make_is_reported(cpu, context, monkeypatch):
    weights = HashedStart.weights

    def wrong(self, model):
        weights(self, model)
        model.blocks[0].up.weight.data[0, 0] = 1.0

    monkeypatch.setattr(HashedStart, "weights", wrong)
    run_replay(SPEC, cpu, context)
    (event,) = context.events("wrong_result")
    assert "the first weights of blocks.0.up.weight are not those that the CPU makes" in event.message
    assert not any(one.verified for one in context.rounds)


def test_an_untrained_model_with_another_loss_is_reported(cpu, context, monkeypatch):
    monkeypatch.setattr(Shape, "first_loss", property(lambda _shape: 4.0))
    run_replay(SPEC, cpu, context)
    (event,) = context.events("wrong_result")
    assert event.message.startswith("fp32 steps: the untrained model's loss is 5.5")
    assert event.message.endswith("not 4.0000")


def test_it_goes_on_for_its_time_and_ends_when_it_is_asked_to(cpu, stopping_context):
    context = stopping_context(lambda one: len(one.rounds) == 5)
    run_replay(replace(SPEC, duration_s=1e6), cpu, context)
    assert len(context.rounds) == 5
    assert context.events("replay")[0].data["runs"] == 5
    stopped = stopping_context(lambda _: True)
    run_replay(SPEC, cpu, stopped)
    assert not stopped.records


def test_settings_of_torch_are_as_before(cpu, context):
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
    run_replay(SPEC, cpu, context, flipping(2, 3, "head.weight"))
    assert (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic) == before


def test_want_of_memory_is_an_event_and_ends_the_task(cpu, context, monkeypatch):
    def full(*_arguments, **_more):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(workload.Trainer, "restart", full)
    with pytest.raises(MemoryError, match="steps of 2 examples, model of width 64: no room"):
        run_replay(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert not event.data["recovered"]
    assert not torch.are_deterministic_algorithms_enabled()


def test_nothing_of_the_model_is_left(cpu, context, monkeypatch):
    released = []
    release = workload.Trainer.release
    monkeypatch.setattr(workload.Trainer, "release", lambda self: (released.append(self), release(self)))
    run_replay(SPEC, cpu, context)
    (trainer,) = released
    with pytest.raises(AssertionError, match="released"):
        _ = trainer.model
