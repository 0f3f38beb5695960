"""A simulated run of three hosts whose LAN is changed, then judged."""

from dataclasses import replace

from rigproof.records.measurements import Event, Round
from rigproof.stages.lan.stage import STAGE, LanEnd, LanTraffic
from support.equal_hosts import HostRun
from support.sentences import check_sentences

PAIRS = ("n1+n2", "n2+n3", "n1+n3")


class LanRun(HostRun):
    """A simulated run of three hosts on 1 GbE, to be changed."""

    def settings(self, **changes):
        own = self.loaded.rig.stages.lan.model_copy(update=changes)
        stages = self.loaded.rig.stages.model_copy(update={"lan": own})
        self.loaded = replace(self.loaded, rig=self.loaded.rig.model_copy(update={"stages": stages}))

    def slower(self, by, *pairs, **labels):
        """Multiply the rates of these pairs, of rounds with these labels."""

        def hit(one):
            return one.subject in pairs and labels.items() <= one.labels.items()

        made = [replace(one, work=by * one.work) if hit(one) else one for one in self.recording.rounds]
        self.recording.put(Round, made)

    def counted(self, pair="n1+n2", *, only=lambda one: True, **changes):
        """Change what the ends of a pair counted."""
        made = [
            replace(one, **changes) if one.subject == pair and only(one) else one
            for one in self.recording.of(LanTraffic)
        ]
        self.recording.put(LanTraffic, made)

    def ends(self, node=None, pair="n1+n2", **changes):
        """Change the ends of a pair, or that of one node."""
        made = [
            replace(one, **changes) if one.subject == pair and node in (None, one.node) else one
            for one in self.recording.of(LanEnd)
        ]
        self.recording.put(LanEnd, made)

    def stands_still(self, node, share, pair="n1+n2"):
        """Let a node take no sample, and its probe sleep, for a share of each direction of TCP of a pair."""
        spans = [
            (one.t_s - share * one.seconds, one.t_s) for one in self.recording.of(LanTraffic)
            if (one.subject, one.traffic) == (pair, "tcp")
        ]  # fmt: skip
        made = []
        for one in self.recording.host_samples:
            if one.subject == node and any(from_s < one.t_s < to_s for from_s, to_s in spans):
                continue
            late = [1000 * (to_s - from_s) for from_s, to_s in spans if 0 <= one.t_s - to_s < 0.3]
            made.append(replace(one, wakeup_delays_ms=(max(late),)) if one.subject == node and late else one)
        self.recording.host_samples = made

    def without(self, pair="n1+n2", **labels):
        """Drop rounds."""
        kept = [
            one for one in self.recording.rounds
            if one.subject != pair or not labels.items() <= one.labels.items()
        ]  # fmt: skip
        self.recording.put(Round, kept)

    def happened(self, kind, message, pair="n1+n2", t_s=3.0):
        data = {"traffic": message.partition(":")[0]}
        self.recording.events = [*self.recording.events, Event(t_s, kind, pair, message, STAGE, data=data)]

    def outcomes(self):
        return {pair: self.verdict(pair).outcome for pair in PAIRS}

    def first(self):
        found = self.verdict("n1+n2")
        check_sentences([found])
        return found
