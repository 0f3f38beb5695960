"""The values of a run: they are those of the model, in the order in which one leads to the next."""

import pytest
import torch

from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape
from rigproof.stages.replay.stage import Place, number_of, outputs_of, parameters_of, places_of
from rigproof.stages.replay.workload import flipped_bit


def torch_name(block, parameter):
    inside = f"blocks.{block.removeprefix('block ')}." if block.startswith("block ") else ""
    return f"{inside}{parameter}.weight"


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_parameters_are_those_of_the_model(blocks):
    model = Transformer(Shape(64, blocks, 64, 8), torch.device("cpu"))
    names = [torch_name(*one) for one in parameters_of(blocks)]
    assert names == [name for name, _ in model.named_parameters()]


def test_each_value_comes_once_and_after_what_it_is_made_of():
    places = places_of(2, 3)
    assert len(set(places)) == len(places) == number_of(2, 3) == 1 + 16 + 3 * (5 + 16 + 16)
    assert outputs_of(2) == ("embeddings", "block 0", "block 1", "head", "loss")
    order = {place: number for number, place in enumerate(places)}
    gradient = order[Place(2, "gradient", "block 1", "up")]
    assert order[Place(2, "forward", "loss")] < gradient < order[Place(2, "gradient", "block 0", "up")]
    assert (
        gradient
        < order[Place(2, "parameter", "embeddings", "tokens")]
        < order[Place(3, "forward", "block 0")]
    )
    assert places[0] == Place(0, "start", "batch")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(0, "start", "block 3", "up"), "the start, block 3, up"),
        (Place(2, "forward", "block 5"), "step 2, output of block 5"),
        (Place(2, "forward", "loss"), "step 2, the loss"),
        (Place(3, "gradient", "block 5", "up"), "step 3, gradient of block 5, up"),
        (Place(4, "parameter", "head", "norm"), "step 4, updated weights of head, norm"),
    ],
)
def test_a_value_has_a_name_that_people_read(place, words):
    assert place.in_words == words


@pytest.mark.parametrize(
    ("expected", "got", "bit"),
    [(5, 5, None), (5, 4, 0), (4, 5, 0), (0, 2**63, 63), (2**40, 0, 40), (0, 3, None), (-1, 2**33 - 1, 33)],
)
def test_a_single_flipped_bit_shows_in_the_sums(expected, got, bit):
    assert flipped_bit(expected, got) == bit
