import gc
import math

import pytest
import torch

from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.start import HashedStart
from rigproof.devices.transformer.step import Trainer

SHAPE = Shape(64, 2, 256, 16)


@pytest.fixture
def trainer(cpu):
    made = Trainer(SHAPE, cpu, tf32=True)
    yield made
    made.release()


def test_every_beginning_is_the_same(trainer):
    trainer.begin("fp32", 4)
    first = trainer.run(3).losses
    trainer.run(2)
    trainer.begin("fp32", 4)
    assert trainer.run(3).losses == first


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_loss_falls_on_a_batch_that_is_always_the_same(trainer, precision):
    trainer.begin(precision, 2)
    steps = trainer.run(12)
    assert steps.count == 12
    assert steps.seconds > 0
    assert steps.losses[0] == pytest.approx(SHAPE.first_loss, rel=0.02)
    assert steps.losses[-1] < steps.losses[0] - 0.3
    assert steps.overflows == 0


def test_steps_that_are_not_done_have_no_loss_of_earlier_ones(trainer, monkeypatch):
    trainer.begin("fp32", 2)
    trainer.run(3)
    monkeypatch.setattr(trainer, "_step", lambda slot, watcher: None)
    steps = trainer.run(3)
    assert all(math.isnan(value) for value in (*steps.losses, *steps.norms))


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_16_bit_means_autocast_over_32_bit_weights(trainer, precision, dtype):
    seen = []
    hook = trainer._model.head.register_forward_hook(lambda module, inputs, out: seen.append(out.dtype))
    trainer.begin(precision, 1)
    trainer.run(1)
    hook.remove()
    assert seen == [dtype]
    assert {one.dtype for one in trainer._model.parameters()} == {torch.float32}


def test_a_scale_that_is_too_high_leaves_the_weights_alone_until_it_fits(trainer):
    trainer.begin("fp16", 2)
    trainer._scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    steps = trainer.run(16)
    left_out = [place for place, norm in enumerate(steps.norms[:-1]) if not math.isfinite(norm)]
    assert left_out
    assert all(steps.losses[place + 1] == steps.losses[place] for place in left_out)
    assert steps.losses[-1] < steps.losses[0]


def test_tf32_is_on_where_it_is_measured_and_beside_16_bit_if_wished(cpu, monkeypatch):
    used = []
    monkeypatch.setattr(cpu, "use", used.append, raising=False)
    monkeypatch.setattr(cpu, "precisions", ("fp32", "tf32", "bf16"))
    for tf32 in (True, False):
        trainer = Trainer(SHAPE, cpu, tf32=tf32)
        for precision in ("fp32", "tf32", "bf16"):
            trainer.begin(precision, 1)
        trainer.release()
    assert used == ["fp32", "tf32", "tf32", "fp32", "tf32", "fp32"]


def test_release_lets_go_of_everything(cpu):
    def held():
        gc.collect()
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())

    before = held()
    trainer = Trainer(SHAPE, cpu, tf32=False)
    trainer.begin("bf16", 2)
    trainer.run(2)
    assert held() > before + 20
    trainer.release()
    del trainer
    assert held() <= before


class Noted:
    """What a watcher sees."""

    def __init__(self):
        self.seen = []

    def gradients(self, step, model, loss):
        gradient = model.head.weight.grad
        self.seen.append(("gradients", step, float(loss), float(gradient.norm()), self.weights(model)))

    def updated(self, step, model):
        self.seen.append(("updated", step, self.weights(model)))

    @staticmethod
    def weights(model):
        return float(model.head.weight.detach().sum())


def test_a_watcher_sees_gradients_before_and_weights_after_the_update(trainer):
    noted = Noted()
    trainer.begin("fp32", 2)
    steps = trainer.run(2, noted)
    assert [one[:2] for one in noted.seen] == [
        ("gradients", 0), ("updated", 0), ("gradients", 1), ("updated", 1),
    ]  # fmt: skip
    first, after_first, second, _ = noted.seen
    assert (first[2], second[2]) == steps.losses
    assert first[3] > 0
    assert first[4] != after_first[2] == second[4]


def test_a_restart_is_the_same_as_the_beginning(trainer):
    trainer.begin("fp32", 2)
    first = trainer.run(3).losses
    trainer.restart()
    assert trainer.run(3).losses == first


def test_another_start_has_other_weights_and_tokens(cpu):
    losses = []
    for start in (None, HashedStart()):
        trainer = Trainer(SHAPE, cpu, tf32=False, start=start)
        trainer.begin("fp32", 4)
        losses.append(trainer.run(12).losses)
        trainer.release()
    assert losses[0][0] != losses[1][0]
    assert all(SHAPE.may_be_first(one[0]) and one[-1] < one[0] - 0.3 for one in losses)
