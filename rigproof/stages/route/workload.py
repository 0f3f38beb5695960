"""The route stage's workload: the nodes meet, probe their ways to each other, and let libraries use them.

Each node probes its neighbours in a ring, one after the other, and reduces with one or two of them: the stage
takes as long on 128 nodes as on three.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self

from rigproof.devices.device import Device
from rigproof.devices.meeting import LOOK_S, EndedError, Meeting, SilentError
from rigproof.devices.own_process import prepare
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import STORE_SHARE, WorkerContext
from rigproof.host.addresses import free_ports
from rigproof.host.bounded import Background
from rigproof.host.connections import CONNECT_S, connect
from rigproof.host.interfaces import Interface, from_data, interfaces
from rigproof.records.measurements import MB
from rigproof.stages.route.choice import (
    Best,
    Found,
    Way,
    best_of,
    gloo_takes,
    group_of,
    is_loopback,
    nccl_takes,
    neighbours,
    ways,
)
from rigproof.stages.route.objects import take_object
from rigproof.stages.route.probes import Answers, Burst, Packets, better, burst, packets
from rigproof.stages.route.stage import (
    AS_IT_IS,
    DECIDING,
    PINNED,
    Arm,
    Came,
    LanArm,
    LanInterface,
    LanNode,
    LanProbe,
    Library,
    RouteSpec,
)
from rigproof.stages.route.traffic import THROUGH, TrafficSpec, Tried, reduce_all

RESOLVE_S = 3.0  # for the resolver to answer for the own name
TELL_S = 5.0  # for all to say what they have
PROBES_S = 30.0  # for the slowest node's probes
BURSTS = 2  # of each way, the faster one counts: something else may have kept the host busy
ARM_MB, LEAST_MB, ARM_S = 16.0, 0.25, 0.5  # what libraries send: for about so long over the slowest way


def run_route(spec: RouteSpec, _device: Device, context: WorkerContext) -> None:
    """Find the ways from this node to its neighbours. Emits rounds, and the records of stage.py.

    Nodes that meet on loopback are one machine, and have none. Every wait has a deadline: it ends by itself,
    whatever the others do.
    """
    if context.crew.rendezvous is None or is_loopback(context.crew.rendezvous[0]):
        return  # all "nodes" are one machine
    prepare(3 if sum(spec.gpus) > 1 else 1)  # torch is loaded meanwhile: for gloo, and each arm of NCCL
    RouteWork(spec, context).run()


@dataclass(frozen=True, slots=True)
class Told:
    """What a node tells the others of itself. `place`: a free port at `ray`, where ranks can meet."""

    found: tuple[Interface, ...]
    gloo: str
    ray: str
    greeting: str
    ports: Mapping[str, int]  # that answer probes, by address
    place: int
    objects: str  # where its object store is; empty if it has none
    room_mb: float  # of that store

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What `asdict` made this of, after JSON."""
        return cls(**{**data, "found": tuple(map(from_data, data["found"]))})


class RouteWork:
    """One node's part."""

    def __init__(self, spec: RouteSpec, context: WorkerContext) -> None:
        self._spec = spec
        self._context = context
        self._rank = context.crew.rank
        self._subject = spec.nodes[self._rank]
        self._reporter = Reporter(context, spec.stage, self._subject)
        self._found = interfaces()

    def run(self) -> None:
        """All of it; if the crew ends meanwhile, what was found until then."""
        for one in self._found:
            fields = asdict(one) | {"addresses": " ".join(one.addresses)}
            self._context.emit(LanInterface(**self._reporter.head, **fields))
        variables = {name: os.environ[name] for name in DECIDING if os.environ.get(name)}
        hostname = socket.gethostname()
        resolved = resolve(hostname, self._go_on)
        gloo = gloo_takes(self._found, variables, resolved)
        best, meeting = Best(), Meeting(self._context, careful=True)
        with suppress(EndedError, SilentError), meeting:
            if meeting.trouble is None and len(meeting.present) > 1:
                best = self._together(meeting, gloo)
        missing = set(range(self._context.crew.size)) - meeting.present
        self._context.emit(
            LanNode(
                **self._reporter.head,
                hostname=hostname,
                resolves=" ".join(resolved),
                gloo=gloo,
                nccl=" ".join(nccl_takes(self._found, variables)),
                ray=meeting.own_address,
                variables=" ".join(f"{name}={value}" for name, value in variables.items()),
                best=best.interfaces.get(self._subject, ""),
                network=best.network,
                ahead_s=meeting.ahead_s,
                ahead_error_s=meeting.ahead_error_s,
                trouble=meeting.trouble,
                meets_at=self._spec.nodes[0],
                missing=" ".join(self._spec.nodes[rank] for rank in sorted(missing))
                if not self._rank
                else "",
            )
        )

    def _go_on(self) -> bool:
        self._context.alive()
        return not self._context.stopped()

    def _together(self, meeting: Meeting, gloo: str) -> Best:
        """What it takes the others for. Raises SilentError or EndedError if they are gone."""
        outer = [one for one in self._found if one.kind != "loopback"]
        with Answers(tuple(str(own.ip) for one in outer for own in one.parsed())) as answers:
            (place,) = free_ports(meeting.own_address, 1)
            store = self._context.objects
            objects, room_mb = ("", 0.0) if store is None else (store.address, store.room_mb)
            own_ports = answers.greeting, answers.ports, place
            told = Told(self._found, gloo, meeting.own_address, *own_ports, objects, room_mb)
            said = meeting.exchange("node", asdict(told), TELL_S)
            nodes = {rank: Told.from_data(data) for rank, data in said.items()}
            if self._rank not in nodes or len(nodes) < 2:
                return Best()
            probes: list[LanProbe] = []
            for turn, neighbour in enumerate(neighbours(self._rank, sorted(nodes))):
                meeting.exchange(f"turn {turn}", None, PROBES_S)
                probes += self._probed(neighbour, nodes[self._rank], nodes[neighbour])
            found = meeting.exchange("found", [asdict(one) for one in probes], PROBES_S)
        every = [found_by(LanProbe(**one), nodes, self._spec.nodes) for own in found.values() for one in own]
        open_ways = [one for one in every if one is not None]
        best = best_of(open_ways)
        slowest = min((one.mbps for one in open_ways), default=0.0)
        megabytes = min(ARM_MB, max(LEAST_MB, ARM_S * slowest / 8))
        group = group_of(self._rank, sorted(nodes))
        try:
            self._send_by_ray(meeting, group, nodes, megabytes)
        except SilentError as error:
            if self._context.objects is not None:
                self._tell(("Ray", AS_IT_IS, ""), "broken", {"message": str(error)}, group, megabytes)
        if len(group) > 1:
            self._reduce(group, nodes, best, megabytes)
        return best

    def _reduce(self, group: Sequence[int], nodes: Mapping[int, Told], best: Best, megabytes: float) -> None:
        """The all-reduces of a group, by NCCL only if all have GPUs."""
        pins = {rank: best.interfaces.get(self._spec.nodes[rank], "") for rank in group}
        arms: list[tuple[Arm, str]] = [(AS_IT_IS, "")]
        arms += [(PINNED, pins[self._rank])] * all(pins.values())
        without = [self._spec.nodes[rank] for rank in group if not self._spec.gpus[rank]]
        libraries: tuple[Library, ...] = ("gloo",) if without else ("gloo", "NCCL")
        first = nodes[group[0]]
        spec = TrafficSpec(
            stage=self._spec.stage,
            host=first.ray,
            port=first.place,
            rank=group.index(self._rank),
            size=len(group),
            megabytes=megabytes,
            arms=tuple((library, *arm) for library in libraries for arm in arms),
        )

        def hear(tried: Tried, came: Came, more: Mapping[str, Any]) -> None:
            self._tell(tried, came, more, group, megabytes)

        reduce_all(spec, self._context, hear)
        if without and self._spec.gpus[self._rank]:
            more = {"message": f"{' and '.join(without)} {'has' if len(without) == 1 else 'have'} no GPU"}
            hear(("NCCL", AS_IT_IS, ""), "left out", more)

    def _send_by_ray(
        self, meeting: Meeting, group: Sequence[int], nodes: Mapping[int, Told], megabytes: float
    ) -> None:
        """All take part in it; those whose group has no stores, as in a process of its own, send nothing."""
        megabytes = min(megabytes, *(STORE_SHARE * nodes[rank].room_mb for rank in group))
        place = group.index(self._rank)
        ring = [(rank, nodes[rank].objects) for rank in (*group[place:], *group[:place])]
        objects = self._context.objects if len(group) > 1 and megabytes else None
        came, more = take_object(meeting, ring, objects, megabytes, self._go_on)
        if objects is not None:
            self._tell(("Ray", AS_IT_IS, ""), came, more, group, megabytes)

    def _probed(self, neighbour: int, own: Told, other: Told) -> list[LanProbe]:
        """The ways to one neighbour: whether they are open, one burst after the other, then their packets."""
        taken = [(own.ray, other.ray), (own.gloo, other.gloo)]
        every = [way for way in ways(own.found, other.found, taken) if way.target in other.ports]
        if not every:
            return []
        with ThreadPoolExecutor(len(every), thread_name_prefix="rigproof-ways") as pool:
            bursts: list[Burst] = []
            for _ in range(BURSTS):
                socks = pool.map(lambda way: self._connect(way, other), every)
                done = [
                    Burst(outcome) if sock is None else self._burst(sock, way, neighbour, other)
                    for way, (outcome, sock) in zip(every, list(socks), strict=True)
                ]
                bursts = list(map(better, bursts or done, done))
            mtus, its = ({one.name: one.mtu for one in end.found} for end in (own, other))

            def sizes(place: int) -> Packets:
                way = every[place]
                mtu = min(mtus[way.interface], its[way.to_interface])  # TCP sends no larger ones
                greeted = bursts[place].outcome in ("open", "stalled")
                return packets(way, other.ports[way.target], mtu, self._go_on) if greeted else Packets(mtu, 0)

            found = zip(every, bursts, pool.map(sizes, range(len(every))), strict=True)
            probes = [
                LanProbe(
                    **self._reporter.head,
                    to=self._spec.nodes[neighbour],
                    **asdict(way),
                    outcome=done.outcome,
                    mbps=done.mbps or None,
                    **asdict(size),
                )
                for way, done, size in found
            ]
        for probe in probes:
            self._context.emit(probe)
        return probes

    def _connect(self, way: Way, other: Told) -> tuple[Any, socket.socket | None]:
        return connect((way.target, other.ports[way.target]), CONNECT_S, way.source, way.interface)

    def _burst(self, sock: socket.socket, way: Way, neighbour: int, other: Told) -> Burst:
        self._context.alive()
        with sock:
            done = burst(sock, other.greeting)
        if done.outcome == "open":
            self._reporter.round(
                phase="measure",
                seconds=done.seconds,
                work=done.megabytes,
                unit=MB,
                verified=done.verified,
                labels={"to": self._spec.nodes[neighbour], "over": way.interface},
            )
        return done

    def _tell(
        self, tried: Tried, came: Came, more: Mapping[str, Any], group: Sequence[int], megabytes: float
    ) -> None:
        """Report what came of an exchange of that size in a group, and what each interface sent meanwhile."""
        library, arm, interface = tried
        if came in THROUGH:
            self._reporter.round(
                phase="measure",
                seconds=more["seconds"],
                work=megabytes,
                unit=MB,
                verified=came == "done",
                labels={
                    "to": " ".join(self._spec.nodes[rank] for rank in group if rank != self._rank),
                    "over": f"{library} {arm}",
                },
            )
        outer = {one.name for one in self._found if one.kind != "loopback"}
        sent = {name: mb for name, mb in more.get("sent_mb", {}).items() if name in outer}
        total = sum(sent.values())
        names = sorted(sent, key=lambda name: -sent[name])
        self._context.emit(
            LanArm(
                **self._reporter.head,
                arm=arm,
                interface=interface,
                outcome=came,
                message=more.get("message", ""),
                payload_mb=megabytes,
                sent_mb=total,
                names=" ".join(names),
                shares=tuple(sent[name] / total if total else 0.0 for name in names),
                library=library,
            )
        )


def found_by(probe: LanProbe, nodes: Mapping[int, Told], names: Sequence[str]) -> Found | None:
    """What a probe found, if its way is open."""
    if probe.outcome != "open" or probe.mbps is None:
        return None
    by_name = {names[rank]: told for rank, told in nodes.items()}
    ends = ((probe.subject, probe.interface), (probe.to, probe.to_interface))
    own, other = (next(one for one in by_name[node].found if one.name == name) for node, name in ends)
    ports = [one.speed_mbps for one in (own, other) if one.speed_mbps is not None]
    return Found(
        nodes=(probe.subject, probe.to),
        interfaces=(probe.interface, probe.to_interface),
        kinds=(own.kind, other.kind),
        network=probe.network,
        whole=probe.passed in (0, probe.full),
        mbps=probe.mbps,
        rays=(probe.source, probe.target) == (by_name[probe.subject].ray, by_name[probe.to].ray),
        port_mbps=min(ports) if len(ports) == 2 else None,
    )


def resolve(hostname: str, go_on: Callable[[], bool]) -> tuple[str, ...]:
    """The addresses of a name in the resolver's order; none if it has none, or gives none in time."""

    def ask() -> tuple[str, ...]:
        answers = socket.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
        return tuple(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in answers))

    asking = Background(ask, "resolver")  # an error is no answer
    for _ in range(round(RESOLVE_S / LOOK_S)):
        if asking.done(LOOK_S) or not go_on():
            break
    return asking.result(())
