"""The peer stage's workload: every two GPUs of a host copy to each other, one pair after the other.

It runs in a process of its own, which sees all GPUs of the host: a copy that hangs is ended with it. The
host's first worker starts it; the others have nothing to do.
"""

from collections.abc import Sequence
from contextlib import suppress

import torch

from rigproof.devices.device import Device
from rigproof.devices.own_process import ApartError, run_apart, serve_apart
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.host import parent
from rigproof.records.measurements import GB, Phase
from rigproof.records.message_text import what_it_says
from rigproof.stages.peer.copies import Card, Lane, copied, odd_words
from rigproof.stages.peer.stage import BACK, BOTH, ENGINE, STAGE, THERE, WORDS, PeerLink, PeerSpec
from rigproof.telemetry.nvml.errors import GpuLost, NvmlUnavailable
from rigproof.telemetry.nvml.peers import Connection, connections
from rigproof.telemetry.nvml.session import open_nvml

MODULE = "rigproof.stages.peer.workload"
START_S = 45.0  # without a message, less than the driver waits for one: torch may load from a slow disk
STALL_S = 15.0  # later on
WAKE_S = 0.3  # of work in their own memory: an idle consumer card's link and memory are slow
WAKE_WORDS = 2**22
COPY_S = 0.002  # of a copy at most: with longer ones a pair would have too few
FEWEST_COPIES = 5  # of each arm, however slow
TRIES = 6  # to find out how much to copy at a time
SMALLEST_MIB = 1
LONGEST = 120  # characters of an error in a verdict
LANES = {THERE: (0,), BACK: (1,), BOTH: (0, 1)}


def run_peer(spec: PeerSpec, _device: Device, context: WorkerContext) -> None:
    """Measure all pairs of the host. Emits a PeerLink for each, rounds, and events for what went wrong.

    A process that fails, dies or hangs is an event of the host, and no failure of the worker that started
    it: which GPU did that is not known.
    """
    if context.crew.rank:
        return
    try:
        run_apart(
            MODULE,
            spec,
            context,
            records=(PeerLink,),
            test="copies between GPUs",
            silent="the copies between GPUs did nothing",
            stall_s=START_S,
            environment={"CUDA_VISIBLE_DEVICES": ",".join(spec.uuids)},
            torch=True,
        )
    except ApartError as error:
        why = what_it_says(error, LONGEST)
        Reporter(context, STAGE, context.crew.subject).event("peers_ended", why, {"message": str(error)})


def serve(spec: PeerSpec, context: WorkerContext) -> None:
    """All pairs, in a process that sees all GPUs. RuntimeError if it sees others."""
    seen = [f"GPU-{torch.cuda.get_device_properties(one).uuid}" for one in range(torch.cuda.device_count())]
    if seen != list(spec.uuids):
        ours = len({*seen} & {*spec.uuids})
        raise RuntimeError(
            f"torch sees {len(seen)} GPUs, {ours} of them of the {len(spec.uuids)} of this rig"
        )
    cards = [Card(number, torch.device("cuda", number)) for number in range(len(seen))]
    known = _connections(spec.uuids)
    _wake(cards, context)
    parent.tell(what="started", limit_s=STALL_S)
    for subject, first, second in spec.pairs:
        if context.stopped():
            return
        own = cards[first], cards[second]
        there, back = (torch.cuda.can_device_access_peer(*one) for one in ((first, second), (second, first)))
        PairWork(spec, subject, own, context).run(known.get((first, second), Connection()), there, back)


def _wake(cards: Sequence[Card], context: WorkerContext) -> None:
    """Make a context on each, then let all work for a moment."""
    rows = []
    for card in cards:
        rows.append(torch.zeros(WAKE_WORDS, dtype=torch.int64, device=card.where))
        context.alive()
    until_s = context.now_s() + WAKE_S
    while not context.stopped() and context.now_s() < until_s:
        for row, card in zip(rows, cards, strict=True):
            row.add_(1)
            card.wait()
        context.alive()


def _connections(uuids: Sequence[str]) -> dict[tuple[int, int], Connection]:
    """What NVML knows; nothing where it does not answer, since the copies tell more."""
    with suppress(NvmlUnavailable, GpuLost), open_nvml() as nvml:
        return connections([nvml.gpu(uuid, uuid, 0.0) for uuid in uuids])
    return {}


class PairWork:
    """The copies of one pair, `pair_s` in all arms together."""

    def __init__(
        self, spec: PeerSpec, subject: str, cards: tuple[Card, Card], context: WorkerContext
    ) -> None:
        self._spec = spec
        self._cards = cards
        self._context = context
        self._reporter = Reporter(context, spec.stage, subject)
        self._subject = subject

    def run(self, known: Connection, there: bool, back: bool) -> None:
        """Find out how much to copy at a time; then each arm. Without direct access no kernel can store."""
        self._reporter.event("pair_begun", f"{self._subject} begin to copy to each other", {})
        lanes, most_mib = self._room()
        mib = self._adapt(lanes, most_mib)
        arms = [(by, way) for by, way in self._spec.arms if by == ENGINE or (there and back)]
        self._context.emit(
            PeerLink(
                t_s=self._context.now_s(),
                stage=self._spec.stage,
                worker=self._context.worker,
                subject=self._subject,
                there=there,
                back=back,
                why="" if there and back else known.why,
                nvlinks=known.nvlinks,
                switched=known.switched,
                path=known.path,
                mib=mib,
            )
        )
        for by, way in arms:
            until_s = self._context.now_s() + self._spec.pair_s / len(arms)
            done = 0
            while not self._context.stopped() and (done < FEWEST_COPIES or self._context.now_s() < until_s):
                self._round([lanes[one] for one in LANES[way]], by, way, "measure", mib)
                done += 1

    def _room(self) -> tuple[tuple[Lane, Lane], int]:
        """Both ways, with as much memory as there is, up to what was asked for; and how much, MiB."""
        first, second = self._cards
        mib = 1 << (self._spec.mib.bit_length() - 1)  # a power of two, so that runs are alike
        while True:
            try:
                lanes = Lane(first, second, odd_words(mib)), Lane(second, first, odd_words(mib))
            except torch.cuda.OutOfMemoryError:
                if mib == SMALLEST_MIB:
                    raise
                mib //= 2
            else:
                for card in self._cards:
                    card.wait()
                return lanes, mib
            torch.cuda.empty_cache()

    def _adapt(self, lanes: Sequence[Lane], most_mib: int) -> int:
        """Set how much is copied at a time, a power of two of MiB, beginning with little; returns it.

        The first copies wake the link and set things up, so that they take long; all are verified.
        """
        mib = chosen = SMALLEST_MIB
        for _ in range(TRIES):
            mib = chosen
            for lane in lanes:
                lane.words = odd_words(mib)
            seconds = min(self._round(lanes, ENGINE, BOTH, "warmup", mib) for _ in range(2))
            fitting = max(1, int(COPY_S / seconds * mib))
            chosen = min(most_mib, 8 * mib, 1 << (fitting.bit_length() - 1))
            if chosen <= mib or self._context.stopped():
                break
        return mib

    def _round(self, lanes: Sequence[Lane], by: str, way: str, phase: Phase, mib: int) -> float:
        """A copy each way, reported as a round; returns its seconds."""
        seconds, wrong = copied(lanes, by)
        self._context.alive()
        if wrong:
            message = f"{WORDS[by, way]}: {wrong}"
            self._reporter.wrong_result(message, {"way": way, "by": by})
        self._reporter.round(
            phase=phase,
            seconds=seconds,
            work=sum(lane.words for lane in lanes) * 8 / 1e9,
            unit=GB,
            verified=not wrong,
            labels={"way": way, "by": by, "mib": mib},
        )
        return seconds


if __name__ == "__main__":
    serve_apart(serve, PeerSpec)
