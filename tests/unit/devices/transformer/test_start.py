"""What training starts from: the same bits on every device, and as random as they should be."""

import pytest
import torch

from rigproof.devices.transformer import start
from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.start import HashedStart, hashed, weights_of

SHAPE = Shape(64, 2, 256, 16)
HOST = torch.device("cpu")


@pytest.fixture
def model():
    made = Transformer(SHAPE, HOST)
    HashedStart().weights(made)
    return made


def test_these_bits_are_the_same_on_every_device():
    """Of the CPU; on a GPU `HashedStart.flaw` compares them."""
    assert hashed(0, 0, 4, HOST).tolist() == [379550018, 0, 3467960566, 1947742423]
    assert hashed(7, 2**31, 2, HOST).tolist() == [524284883, 953519939]
    assert [one.hex() for one in weights_of(3, 0, 2, 0.02, HOST).tolist()] == [
        "-0x1.c8b5ec0000000p-6",
        "-0x1.07d3f80000000p-5",
    ]


def test_it_does_not_matter_in_which_chunks_they_are_made(model, monkeypatch):
    monkeypatch.setattr(start, "CHUNK", 1000)
    other = Transformer(SHAPE, HOST)
    HashedStart().weights(other)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_weights_are_close_to_normal_and_differ_between_parameters():
    drawn = weights_of(1, 0, 2**18, 0.02, HOST)
    assert float(drawn.mean()) == pytest.approx(0.0, abs=2e-4)
    assert float(drawn.std()) == pytest.approx(0.02, rel=0.01)
    assert float((drawn.abs() < 0.02).float().mean()) == pytest.approx(0.68, abs=0.02)
    other = weights_of(2, 0, 2**18, 0.02, HOST)
    assert abs(float(torch.corrcoef(torch.stack([drawn, other]))[0, 1])) < 0.01
    assert abs(float(torch.corrcoef(torch.stack([drawn[1:], drawn[:-1]]))[0, 1])) < 0.01


def test_words_do_not_repeat_and_use_all_bits():
    words = hashed(0, 0, 2**18, HOST)
    assert len(words.unique()) == len(words)
    assert int(words.min()) >= 0
    assert int(words.max()) < 2**32
    for bit in range(32):
        assert float(((words >> bit) & 1).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_an_untrained_model_has_the_predicted_loss(model):
    tokens = HashedStart().tokens(SHAPE, 16, HOST)
    assert tokens.shape == (16, 17)
    assert set(tokens.unique().tolist()) <= set(range(256))
    assert SHAPE.may_be_first(float(model(tokens[:, :-1], tokens[:, 1:]).detach()))


def test_one_wrong_bit_of_weights_or_tokens_is_a_flaw(model):
    tokens = HashedStart().tokens(SHAPE, 2, HOST)
    assert HashedStart.flaw(model, tokens) == ""
    weights = model.blocks[1].up.weight.detach().view(-1)
    weights.view(torch.int32)[4095] ^= 1
    assert HashedStart.flaw(model, tokens) == (
        "the first weights of blocks.1.up.weight are not those that the CPU makes"
    )
    weights.view(torch.int32)[4095] ^= 1
    tokens[1, 16] += 1
    assert HashedStart.flaw(model, tokens) == "the tokens are not those that the CPU makes"
