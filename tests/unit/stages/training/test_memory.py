import pytest

from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.step import Trainer
from rigproof.stages.training.memory import Peak

SHAPE = Shape(64, 2, 256, 16)


@pytest.fixture
def trainer(cpu):
    made = Trainer(SHAPE, cpu, tf32=True)
    yield made
    made.release()


def test_what_is_kept_for_the_backward_pass_grows_with_the_batch(cpu, trainer):
    peaks = []
    for batch in (1, 2, 3):
        with Peak(cpu, 10.0) as peak:
            trainer.begin("fp32", batch)
            trainer.run(2)
        peaks.append(peak.mib)
    assert peaks[0] > 10
    assert peaks[2] - peaks[1] == pytest.approx(peaks[1] - peaks[0], rel=0.02)
    assert peaks[2] > peaks[1] > peaks[0]
