"""Ranks of groups on hosts of a network, without Ray: a process of each host is the worker of all its groups.

    python -m support.rank_ends '{"node": "n1", "rank": 0, "size": 2, "host": …, "ports": {"all_reduce": …}}'

prints what the collective stage's workload emits, a JSON line each with the group's operation. That goes to a
file: a pipe that is full would stop them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rigproof.devices.specs import GLOO
from rigproof.records.crews import Member
from rigproof.records.measurements import Event, Round
from rigproof.stages.collective.stage import STAGE, CollectiveSpec
from support.acceptance import CHECKOUT
from support.forked_children import forked_children, serve
from support.network_hosts import PATIENCE_S, Network
from support.printing import Printing
from support.waiting import wait_for

RECORDS = {one.__name__: one for one in (Round, Event)}
SPEC = {
    "sizes_mib": (1,),
    "other_sizes_mib": (),
    "buffers_mib": 4,
    "threads": 1,
    "seconds": 600.0,
    "round_s": 0.01,
    "join_s": 59.0,
    "first_s": 12.0,
    "least_s": 6.0,  # a busy machine stops a rank for seconds
    "patience": 6.0,
}


class Groups:
    """On each of these hosts one rank of each group, which does another operation each until it is ended."""

    def __init__(self, network: Network, names: Sequence[str], ports: Mapping[str, int]) -> None:
        self._operations = tuple(ports)
        told = {"size": len(names), "host": network[names[0]].address, "ports": ports}
        self._ends = []
        for rank, name in enumerate(names):
            host = network[name]
            path = host.folder / "records.jsonl"
            with path.open("a") as records:
                end = subprocess.Popen(
                    host.command(
                        *(sys.executable, "-m", "support.rank_ends"),
                        json.dumps(told | {"node": name, "rank": rank}),
                    ),
                    env=host.environment({"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'tests'}"}),
                    stdin=subprocess.DEVNULL,
                    stdout=records,
                    start_new_session=True,
                )
            host.started.append(end)
            self._ends.append((end, path))

    def until_measured(self) -> None:
        """Wait until all ranks have done a round of each operation that is timed."""
        wait_for(self._all_measured, "a round of each operation on each host")

    def finish(self) -> dict[str, list[Any]]:
        """Wait for all to end, or to have been killed. What they emitted, by operation."""
        for end, _ in self._ends:
            assert end.wait(PATIENCE_S) in (0, -signal.SIGKILL)
        found: dict[str, list[Any]] = {one: [] for one in self._operations}
        for _, path in self._ends:
            for operation, record in _records(path):
                found[operation].append(record)
        return found

    def _all_measured(self) -> bool:
        for end, path in self._ends:
            records = list(_records(path))
            measured = {one for one, record in records if getattr(record, "phase", "") == "measure"}
            if measured < set(self._operations):
                events = [record for _, record in records if isinstance(record, Event)]
                assert end.poll() is None, f"a host ended before it had done all of them: {events}"
                assert not events, f"a host has only done {measured}: {events}"
                return False
        return True


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """What a host has emitted so far, each with its operation; a line that is being written is left out."""
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            operation, name, fields = json.loads(line)
            yield operation, RECORDS[name](**fields)


class RankContext(Printing):
    """A rank's worker; its records are printed with the operation."""

    operation = ""

    def emit(self, record: Any) -> None:
        line = json.dumps([self.operation, type(record).__name__, asdict(record)]) + "\n"
        os.write(sys.stdout.fileno(), line.encode())  # whole, whatever other threads write


def main() -> None:
    """The ranks of one host."""
    # They load torch, which those who start these processes do not need.
    from rigproof.devices.cpu import CpuDevice  # noqa: PLC0415
    from rigproof.stages.collective.workload import run_collective  # noqa: PLC0415

    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        serve(its)
        os._exit(0)
    its.close()
    told = json.loads(sys.argv[1])
    device, subject, threads = CpuDevice(cpu_threads=1), f"{told['node']}/gpu0", []
    for operation, port in told["ports"].items():
        crew = Member("rig", told["rank"], told["size"], (told["host"], port))
        context = RankContext(f"{subject}#0", crew, subject)
        context.operation = operation
        spec = CollectiveSpec(STAGE, GLOO, GLOO, (operation,), **SPEC)
        threads.append(threading.Thread(target=run_collective, args=(spec, device, context)))
    with ours, forked_children(ours):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
