"""A simulated run whose collectives are changed, then judged."""

from dataclasses import replace

from rigproof.records.measurements import Event
from rigproof.stages.collective.stage import ALL_REDUCE, OPERATIONS, STAGE
from support.simulated_bench import SimulatedBench

TEAM, RANKS = "localhost", ("localhost/gpu0#0", "localhost/gpu1#0")


class CollectiveBench(SimulatedBench):
    def found(self, operation=ALL_REDUCE, subject=TEAM):
        return self.verdict(f"collective.{operation}", subject)

    def outcomes(self):
        return {one: self.found(one).outcome for one in OPERATIONS}

    def one_rank(self, number, share, **where):
        """This share of that rank's work in the same time."""

        def slower(one):
            return replace(one, work=share * one.work) if one.worker == RANKS[number] else one

        self.change(slower, TEAM, **where)


# What a rank says whose host does not give it what it needs, and what is asked for then.
RAN_SHORT = (
    ("RuntimeError: No space left on device (28)", "start the container with `--shm-size=8g`"),
    ("OSError: [Errno 24] Too many open files", "see `ulimit -n`"),
    ("RuntimeError: CUDA driver error: out of memory", "free memory on that device"),
)


def stuck(bench, rank, **data):
    told = {"rank": rank, "group": "", "arm": "as it is", "mib": 16, "inside": True, "held": False, **data}
    bench.recording.events.append(Event(170.0, "rank_stuck", TEAM, "silent", STAGE, RANKS[rank], told))


def died(bench, rank, error, **data):
    told = {"rank": rank, "group": "", "arm": "as it is", "mib": 16, "inside": True, **data}
    message = f"the rank's process failed: {error}"
    bench.recording.events.append(Event(170.0, "rank_died", TEAM, message, STAGE, RANKS[rank], told))
