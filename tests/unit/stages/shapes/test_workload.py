"""Products of many sizes on the CPU: all are verified, and one that is wrong or not computed is noticed."""

import pytest
import torch

from rigproof.stages.shapes import products, workload
from rigproof.stages.shapes.candidates import Candidate, attention, candidates, layer
from rigproof.stages.shapes.stage import ShapesSpec
from rigproof.stages.shapes.workload import FEWEST_PASSES, run_shapes

SPEC = ShapesSpec("shapes", vram_mib=256, duration_s=0.0, sequence=16, model_share=0.1, tokens=32)
FEW = (*layer(64, 32), Candidate(attention(64), 256, 32, 0, 0, 64))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Five candidates, in rounds as short as they can be."""
    monkeypatch.setattr(workload, "candidates", lambda _width, _tokens: FEW)
    monkeypatch.setattr(workload, "products_for", lambda _round_s, _seconds: 2)


def of(context, product):
    return [one for one in context.rounds if one.label("product") == product]


def test_all_are_measured_in_passes_and_verified(cpu, context):
    run_shapes(SPEC, cpu, context)
    measured = [one for one in context.rounds if one.phase == "measure"]
    assert [one.label("product") for one in measured] == [one.product for one in FEW] * FEWEST_PASSES
    assert all(one.verified for one in context.rounds)
    assert not context.events("wrong_result")
    for one, candidate in zip(measured, FEW * FEWEST_PASSES, strict=True):
        assert one.work == pytest.approx(2 * candidate.tflop(16))
        assert (one.label("size"), one.label("tokens")) == (candidate.size, candidate.tokens)
        assert one.seconds > 0


def test_on_the_cpu_everything_is_small(cpu, context, monkeypatch):
    asked = []
    monkeypatch.setattr(workload, "candidates", lambda width, tokens: asked.append((width, tokens)) or FEW)
    run_shapes(SPEC, cpu, context)
    assert asked == [(64, 32)]
    asked.clear()
    run_shapes(ShapesSpec("shapes", 256, 0.0, 512, 0.1, 8192), cpu, context)
    assert asked == [(64, 64)]


@pytest.mark.parametrize("kind", [products.MatrixProduct, products.Attention])
def test_what_is_not_computed_again_is_a_wrong_result(cpu, context, monkeypatch, kind):
    launch, launched = kind.launch, []

    def once(self):
        if len(launched) < 3:
            launched.append(launch(self))
        elif isinstance(self, products.Attention):
            self._result = torch.zeros_like(self._inputs[0])

    monkeypatch.setattr(kind, "launch", once)
    run_shapes(SPEC, cpu, context)
    assert context.events("wrong_result")
    name = attention(64) if kind is products.Attention else "down"
    assert not any(one.verified for one in of(context, name) if one.phase == "measure")


def test_a_product_that_is_wrong_each_time_is_never_verified(faulty_cpu, context):
    run_shapes(SPEC, faulty_cpu(lambda call, out: out.mul_(1.5)), context)
    assert not any(one.verified for one in of(context, "qkv"))
    assert context.events("wrong_result")[0].message.startswith(
        f"{context.rounds[0].label('precision')} qkv of"
    )


def test_one_wrong_element_of_one_round_is_named(faulty_cpu, context):
    def fault(call, out):
        if call == 40:
            out.view(-1)[5] += 1

    device = faulty_cpu(fault)
    run_shapes(SPEC, device, context)
    (event,) = context.events("wrong_result")
    assert "has the checksum" in event.message
    assert sum(not one.verified for one in context.rounds) == 1


def test_attention_is_held_against_64_bit_arithmetic(cpu, context, monkeypatch):
    launch = products.Attention.launch

    def wrong(self):
        launch(self)
        self._result = self._result * 1.2

    monkeypatch.setattr(products.Attention, "launch", wrong)
    run_shapes(SPEC, cpu, context)
    assert not any(one.verified for one in of(context, attention(64)))
    assert all(one.verified for one in of(context, "up"))


def test_it_stops_when_it_is_asked_to(cpu, stopping_context):
    stopped = stopping_context(lambda one: len(one.rounds) >= 4)
    run_shapes(SPEC, cpu, stopped)
    assert len(stopped.rounds) <= 7


def test_want_of_memory_is_an_event_and_ends_the_task(cpu, context, monkeypatch):
    def full(*_arguments):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(workload, "Operands", full)
    with pytest.raises(MemoryError, match=r"operands of .* MiB: no room"):
        run_shapes(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert not event.data["recovered"]


def test_real_candidates_of_a_small_model_are_verified(cpu, context, monkeypatch):
    monkeypatch.setattr(workload, "candidates", candidates)
    run_shapes(ShapesSpec("shapes", 256, 0.0, 16, 0.1, 8), cpu, context)
    assert len({(one.label("product"), one.label("size")) for one in context.rounds}) > 30
    assert all(one.verified for one in context.rounds)
