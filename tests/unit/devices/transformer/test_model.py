import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import HEAD, Shape, shape_for

SMALL = Shape(width=128, blocks=3, vocabulary=512, sequence=32)
HOST = torch.device("cpu")


@pytest.fixture(scope="module")
def model():
    made = Transformer(SMALL, HOST)
    made.initialise(torch.Generator().manual_seed(1))
    return made


def examples(number, shape=SMALL):
    return torch.randint(
        shape.vocabulary, (number, shape.sequence + 1), generator=torch.Generator().manual_seed(2)
    )


def test_the_parameters_are_those_of_the_model(model):
    assert sum(one.numel() for one in model.parameters()) == SMALL.parameters


def test_a_step_s_work_is_what_torch_counts(model):
    """With attention as plain products: fused kernels are counted in ways of their own."""
    tokens = examples(3)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(tokens[:, :-1], tokens[:, 1:]).backward()
    assert counter.get_total_flops() == SMALL.step_flop(3)


def test_the_known_models_of_the_papers_come_out():
    """Kaplan et al.: 12 · blocks · width² parameters that count, 6 operations a token for each."""
    shape = Shape(width=768, blocks=12, vocabulary=0, sequence=1024)
    assert shape.multiplied == 84_934_656  # GPT-2's 85 M without embeddings
    assert shape.step_flop(1) / 1024 == 6 * 84_934_656 + 12 * 12 * 768 * 1024


@pytest.mark.parametrize("shape", [SMALL, Shape(64, 2, 256, 64)])
def test_an_untrained_model_has_the_predicted_loss(shape):
    made = Transformer(shape, HOST)
    made.initialise(torch.Generator().manual_seed(3))
    tokens = examples(16, shape)
    loss = float(made(tokens[:, :-1], tokens[:, 1:]).detach())
    assert loss == pytest.approx(shape.first_loss, rel=0.01)
    assert shape.first_loss > math.log(shape.vocabulary)


def test_the_same_seed_gives_the_same_weights(model):
    other = Transformer(SMALL, HOST)
    other.initialise(torch.Generator().manual_seed(1))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_no_token_sees_a_later_one(model):
    x = torch.randn(1, SMALL.sequence, SMALL.width, generator=torch.Generator().manual_seed(4))
    changed = x.clone()
    changed[0, 20] += 1.0
    before, after = (model.blocks[0](one).detach()[0] for one in (x, changed))
    assert torch.allclose(before[:20], after[:20], atol=1e-6)
    assert not torch.allclose(before[20:], after[20:], atol=1e-3)


@given(st.floats(1024, 300_000), st.floats(0.05, 0.5), st.sampled_from([64, 512, 2048]))
def test_the_widest_model_that_fits_its_share_is_taken(memory_mib, share, sequence):
    shape = shape_for("cuda", memory_mib, share, sequence)
    wider = Shape(shape.width + HEAD, shape.blocks, shape.vocabulary, sequence)
    assert shape.held_mib <= share * memory_mib
    assert wider.held_mib > share * memory_mib or shape.width == 16384
    assert all(size % 8 == 0 for size in (shape.width, shape.vocabulary, shape.sequence))


def test_the_widest_tensor_of_the_largest_batch_can_be_counted_in_32_bit():
    for shape in (Shape(2496, 8, 8192, 512), Shape(64, 2, 8192, 64), Shape(16384, 8, 8192, 65536)):
        widest = shape.sequence * max(shape.vocabulary, 4 * shape.width)
        assert (
            shape.most_examples == 1
            or shape.most_examples * widest < 2**31 <= (shape.most_examples + 1) * widest
        )


def test_weights_gradients_and_the_optimizer_s_averages_count():
    assert SMALL.held_mib == SMALL.parameters * (4 + 4 + 8) / 2**20


def test_memory_for_no_model_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"model_share = 0.1 of 100 MiB holds no model: .* needs \d+"):
        shape_for("cuda", 100, 0.1, 512)


def test_the_cpu_gets_a_tiny_model_whatever_its_memory():
    assert shape_for("cpu", 1e6, 0.5, 512) == Shape(64, 2, 256, 64)
    assert shape_for("cpu", 1.0, 0.1, 32).sequence == 32
