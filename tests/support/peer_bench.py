"""Simulated runs whose copies between GPUs are changed, then judged."""

from dataclasses import replace

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.profiles.loading.load import over_defaults
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.peer.stage import PeerLink
from rigproof.stages.registry import KINDS
from support.simulated_bench import SimulatedBench

GPU, OTHER = "localhost/gpu0", "localhost/gpu1"
PAIR = f"{GPU}-{OTHER}"


class PeerBench(SimulatedBench):
    def peer(self, subject=PAIR):
        return self.verdict("transfer.peer", subject)

    def link(self, subject=PAIR, **changes):
        """Another connection of the pair, or of all if the subject is empty."""
        links = self.recording.of(PeerLink)
        self.recording.put(
            PeerLink, [replace(one, **changes) if subject in {one.subject, ""} else one for one in links]
        )

    def no_counters(self):
        self.recording.counters = [replace(one, nvlinks=None) for one in self.recording.counters]


def bench_of(*gpus, level="quick", limits=None, **node):
    """A node of these GPUs, just simulated."""
    node = {"name": "n1", "cpus": 24, "ram_gib": 96, "gpus": [{"sku": sku} for sku in gpus]} | node
    tables = {"name": "made", "nodes": [node]} | ({"limits": limits} if limits else {})
    loaded = over_defaults(tables, "made.toml", KINDS)
    return PeerBench(simulated_recording(loaded, level), loaded, "peer")


def pairs_of(bench):
    return promised(CATALOGUE["transfer.peer"], bench.loaded)
