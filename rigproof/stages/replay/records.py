"""The replay stage's records besides rounds."""

from dataclasses import dataclass

from rigproof.stages.replay.places import Part, Place


@dataclass(frozen=True, slots=True)
class StepDigest:
    """The checksum of one value of the first run of the steps; all other runs are compared with it.

    Its fields from `step` on are those of a `Place`.
    """

    t_s: float  # run time of the run's end
    stage: str
    worker: str
    subject: str
    step: int
    part: Part
    block: str
    parameter: str
    digest: str  # of the value's memory as integers, hexadecimal

    @property
    def place(self) -> Place:
        """The value that it is the checksum of."""
        return Place(self.step, self.part, self.block, self.parameter)
