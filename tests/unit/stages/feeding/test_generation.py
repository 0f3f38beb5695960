import math

import pytest
import torch

from rigproof.devices.cpu import CpuDevice
from rigproof.devices.reporting import Reporter
from rigproof.devices.verification import tolerance
from rigproof.stages.feeding.bursts import PROMPTS, Bursts
from rigproof.stages.feeding.generation import LAYERS, Decoder, pass_tflop, width_for
from rigproof.stages.feeding.strategies import ANSWER, WORDS
from rigproof.stages.feeding.workload import _is_strategy

ROWS, VRAM_MIB = 16, 1.0


@pytest.fixture(scope="module")
def decoder(cpu):
    return Decoder(cpu, ROWS, VRAM_MIB)


def written(decoder, prompt, length):
    """The completions, and the checksum of each pass."""
    sums = decoder._device.checksums(length)
    decoder.begin(prompt, length)
    for _ in range(length):
        decoder.write(1, sums)
    sums.fetch()
    return decoder.answers().tolist(), sums.take()


class OneLaunch(CpuDevice):
    """Queues a pass with one call, as a CUDA graph does."""

    def __init__(self):
        super().__init__(cpu_threads=1)
        self.launches = 0

    def launched_at_once(self, work, random):
        assert random.device == self.where
        work()  # what capturing it leaves behind must not matter

        def launch():
            self.launches += 1
            work()

        return launch


def test_passes_that_are_launched_at_once_write_the_same(decoder):
    device = OneLaunch()
    at_once = Decoder(device, ROWS, VRAM_MIB)
    length = len(ANSWER) + 20
    assert written(at_once, 1, length) == written(decoder, 1, length)
    assert device.launches == 20  # the answer's passes, each with another bias, are launched one by one
    at_once.release()


@pytest.mark.parametrize(
    ("vram_mib", "precision", "width"),
    [(1.0, "bf16", 256), (1.0, "fp32", 128), (0.0625, "bf16", 64), (100_000, "bf16", 16384)],
)
def test_the_weights_are_half_of_the_memory_at_most(vram_mib, precision, width):
    assert width_for(vram_mib, precision) == width


def test_too_little_memory_is_refused_with_what_it_takes():
    with pytest.raises(
        ValueError, match=r"vram_mib = 0.01 is too little for a decoder in fp32: give at least 0.125 MiB"
    ):
        width_for(0.01, "fp32")


def test_work_is_counted_by_its_products():
    products = [(64, 1024, 1024)] * LAYERS + [(64, 1024, len(WORDS))]
    assert pass_tflop(64, 1024) == pytest.approx(sum(2 * a * b * c for a, b, c in products) / 1e12)


def test_a_token_is_drawn_as_often_as_its_share_says(cpu, monkeypatch):
    """Half of the rows get the one that has half; all others have the same share."""
    rows, words = 4096, len(WORDS)
    decoder = Decoder(cpu, rows, VRAM_MIB)
    shares = torch.full((words,), 0.5 / (words - 1))
    shares[3] = 0.5
    monkeypatch.setattr(decoder, "_pass", list)  # of no product: the logits stay
    decoder._logits.copy_(shares.log().expand(rows, words))
    decoder._random.manual_seed(1)
    decoder._next()
    drawn = torch.bincount(decoder._tokens, minlength=words) / rows
    assert float(drawn[3]) == pytest.approx(0.5, abs=0.03)
    others = drawn[torch.arange(words) != 3]
    assert float(others.max()) < 3 * 0.5 / (words - 1) + 0.01


def test_the_same_prompt_and_length_give_the_same_completions(decoder):
    first, sums = written(decoder, 1, 9)
    others = written(decoder, 2, 9)
    assert others[0] != first
    assert not set(others[1]) & set(sums)
    assert written(decoder, 1, 9) == (first, sums)


def test_most_completions_are_strategies_and_some_are_not(decoder):
    lengths = {prompt: len(ANSWER) + prompt for prompt in range(8)}
    completions = [one for prompt, length in lengths.items() for one in written(decoder, prompt, length)[0]]
    assert len(completions) == 8 * ROWS
    assert {len(one) for one in completions} == {len(ANSWER)}
    share = sum(map(_is_strategy, completions)) / len(completions)
    assert 0.5 < share < 0.95
    assert len({tuple(one) for one in completions}) > 4 * ROWS
    assert max(max(one) for one in completions) < len(WORDS)


def test_its_products_agree_with_64_bit_arithmetic(decoder):
    written(decoder, 0, 3)
    error = decoder.checked_error()
    assert 0 < error < tolerance(decoder.precision, decoder.width)
    assert decoder.checked_error() == error  # it left the state as it was


def test_a_product_that_is_wrong_or_no_number_is_seen(faulty_cpu):
    armed = []
    device = faulty_cpu(lambda call, out: armed and out.mul_(armed[0]))
    decoder = Decoder(device, ROWS, VRAM_MIB)
    written(decoder, 0, 3)
    armed.append(1.5)
    assert decoder.checked_error() > 0.1
    armed[0] = math.nan
    assert math.isnan(decoder.checked_error())


def bursts_of(device, context, round_s=0.002):
    bursts = Bursts(device, Decoder(device, ROWS, VRAM_MIB), Reporter(context, "feeding"), round_s)
    bursts.fit(0.05)
    bursts.make_references()
    return bursts


def steps(bursts, number):
    """So many steps' completions."""
    found = []
    while len(found) < number:
        while not bursts.full:
            bursts.add("measure")
        generated = bursts.finish()
        found += [generated] if generated is not None else []
    return found


def test_each_prompt_has_references_and_later_steps_equal_them(cpu, context):
    bursts = bursts_of(cpu, context)
    first = [one.phase for one in context.rounds]
    assert set(first) == {"warmup"}
    assert len(first) % PROMPTS == 0
    found = steps(bursts, 2 * PROMPTS)
    assert found[:PROMPTS] == found[PROMPTS:]
    assert [one.seed for one in found] == list(range(PROMPTS)) * 2
    assert all(one.verified for one in context.rounds)
    assert bursts.begun == 2 * PROMPTS
    measured = [one for one in context.rounds if one.phase == "measure"]
    expected = 2 * PROMPTS * bursts.passes * pass_tflop(ROWS, measured[0].label("size"))
    assert sum(one.work for one in measured) == pytest.approx(expected)
    bursts.release()


def test_a_step_begins_after_the_last_round_of_the_one_before(cpu, context):
    bursts = bursts_of(cpu, context)
    (rounds, rest), begins = divmod(len(context.rounds), PROMPTS), []
    assert (rounds > 1, rest) == (True, 0)
    for _ in range(2 * rounds):
        begins.append(bursts.between)
        bursts.add("measure")
    assert begins == [True, *[False] * (rounds - 1)] * 2
    bursts.release()


@pytest.mark.parametrize("product", range(LAYERS + 1))
def test_the_lowest_bit_flipped_in_one_product_is_caught(faulty_cpu, context, product):
    calls = []

    def flip(call, out):
        if any(one.phase == "measure" for one in context.rounds):
            calls.append(call)
            if len(calls) == LAYERS + 2 + product:
                out.view(torch.int16)[3, 2] ^= 1

    bursts = bursts_of(faulty_cpu(flip), context)
    steps(bursts, 2 * PROMPTS)
    (event,) = context.events("wrong_result")
    assert event.data["expected"] != event.data["got"]
    wrong = [one for one in context.rounds if not one.verified]
    assert 1 <= len(wrong) <= len([one for one in context.rounds if one.phase == "warmup"]) / PROMPTS


def test_wrong_references_verify_nothing(faulty_cpu, context):
    armed = []
    device = faulty_cpu(lambda call, out: armed and out.mul_(1.5))
    bursts = Bursts(device, Decoder(device, ROWS, VRAM_MIB), Reporter(context, "feeding"), 0.002)
    armed.append(True)
    bursts.fit(0.01)
    bursts.make_references()
    steps(bursts, 1)
    assert not any(one.verified for one in context.rounds)
    assert context.events("wrong_result")[0].data["error"] > 0.1
