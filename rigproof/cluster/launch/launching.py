"""Starts a rig's cluster on its machines, over ssh, and ends that cluster and no other."""

import hashlib
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from rigproof import __version__
from rigproof.cluster.launch.commands import GCS_PORT, head_of, ray_start_line
from rigproof.cluster.launch.remote import Answer, NoAnswer, NoSsh, Remote
from rigproof.cluster.launch.scripts import END, LOOK, SAVE_IT, START
from rigproof.cluster.ray.join_probe import node_names
from rigproof.cluster.ray.preconditions import (
    ClusterError,
    ClusterStartFailed,
    TokenPlace,
    check_listening,
    check_private,
    token_file,
)
from rigproof.host.addresses import numeric
from rigproof.profiles.tables.node import Node
from rigproof.records.verdict import count_of

MARK = "RIGPROOF_CLUSTER"  # in the environment of every process of a cluster that was started by rigproof
LOOK_S = 60.0
END_S = 10  # for processes to end by themselves
ASK_S = 20.0  # for the head to list its nodes
QUOTED = 3  # lines of what a failed start printed

STAYS = (
    "What of this cluster still runs there goes on: type the same `rigproof cluster down` again once "
    "{node} can be reached, or `ray stop` on {node} itself, which ends every Ray of yours there"
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Launch:
    """The cluster to start: its nodes (the first is the head) with numeric addresses, and how to reach them.

    `ssh_user`, `ssh_key`: None for ssh's own choice. `ray`: the command that runs Ray on the nodes; None for
    this environment's, or else a terminal's there.
    """

    rig: str
    nodes: tuple[Node, ...]
    ssh_user: str | None = None
    ssh_key: str | None = None
    port: int = GCS_PORT
    ray: str | None = None

    @property
    def mark(self) -> str:
        """The entry `NAME=VALUE` that the cluster's processes have in their environment."""
        return f"{MARK}=rigproof-{self.rig}-{self.port}@{self.nodes[0].address}"

    @property
    def head_address(self) -> str:
        """HOST:PORT, for --hw-ray-address."""
        return head_of(self.nodes, self.port)

    @property
    def rays(self) -> tuple[str, ...]:
        """The Rays to look for on each machine, the first that is there counts (scripts.LOOK)."""
        if self.ray is not None:
            return (self.ray,)
        here, home = Path(sys.executable).parent / "ray", os.environ.get("HOME")
        at_home = [f"~/{here.relative_to(home)}"] if home and here.is_relative_to(home) else []
        return (str(here), *at_home, "ray")

    def start_line(self, node: Node, ray: str) -> str:
        """The line that starts Ray on a node, marked as ours."""
        head = None if node is self.nodes[0] else self.head_address
        line = ray_start_line(node, head, port=self.port, ray=ray, more=["--disable-usage-stats"])
        return f"env {shlex.quote(self.mark)} {line}"


@dataclass(frozen=True)
class Found:
    """The state of one machine.

    `processes`: how many of this cluster run there. `token`: the SHA-256 of its token. `ray`: the path of the
    command that runs Ray. None: there is none. `has`: the version of what that Ray's Python has, by name;
    `lacks`: what went wrong there.
    """

    processes: int
    token: str | None
    ray: str | None
    has: dict[str, str] = field(default_factory=dict)
    lacks: str = ""


def addressed(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes with numeric addresses. Raises ClusterError if one has none, or its name is not known."""
    if not nodes:
        raise ClusterError("the rig has no nodes; there is no cluster to start")
    found = []
    for node in nodes:
        if node.address is None:
            if len(nodes) == 1:
                raise ClusterError("a rig of one machine needs no cluster; run `rigproof accept` on it")
            raise ClusterError(
                f"{node.name} has no address in the profile; write the one there that `ip address` shows on "
                f'{node.name}, such as address = "192.168.1.10"'
            )
        try:
            found.append(node.model_copy(update={"address": numeric(node.address)}))
        except OSError as error:
            raise ClusterError(
                f"{node.name}: {node.address} is not known here ({error}); write its IP address into the "
                "profile, as `ip address` shows it there"
            ) from error
    names: dict[str | None, str] = {}
    for node in found:
        if (other := names.setdefault(node.address, node.name)) != node.name:
            raise ClusterError(
                f"{other} and {node.name} are at one address, {node.address}; write the address of each "
                "into the profile, as `ip address` shows it there"
            )
    return tuple(found)


def nodes_in(head: str) -> tuple[frozenset[str], str]:
    """The names and addresses of the nodes of the cluster at this address, and why there are none."""
    try:
        check_listening(head)
    except ClusterError:
        return frozenset(), "nothing answers there: no cluster is running"
    there = node_names(head, ASK_S)
    token = "copy its token to ~/.ray/auth_token here, or use another --port if it is no Ray of yours"  # noqa: S105
    return there, "" if there else f"something answers there but lists no nodes; {token}"


def up(launch: Launch, *, limit_s: float, say: Say) -> None:
    """Start the cluster and wait, at most `limit_s`, until every node is in it. A whole one stays.

    Raises:
        NoSsh: a machine cannot be reached; nothing was started.
        ClusterStartFailed: with the reason; what was started has been ended again.
    """
    remotes = _remotes(launch)
    with ThreadPoolExecutor(len(remotes)) as pool:
        looked = [pool.submit(one.run, LOOK, launch.mark, *launch.rays, limit_s=LOOK_S) for one in remotes]
        found = [_found(node, one) for node, one in zip(launch.nodes, looked, strict=True)]
    if any(there.processes for there in found):
        _refuse_part(launch, found)
        say("this cluster runs already")
        return
    rays = [_ray(launch, node, there) for node, there in zip(launch.nodes, found, strict=True)]
    _keep_tokens(launch, found)

    def start(node: Node, remote: Remote, ray: str) -> None:
        say(f"{node.name}: starting {ray}")
        try:
            answer = remote.run(START, launch.start_line(node, ray), limit_s=limit_s)
        except NoAnswer as error:
            if node is launch.nodes[0]:
                raise
            raise ClusterStartFailed(
                f"{node.name}: `ray start` reached no head within {limit_s:g} s; {_let_in(launch, node)}"
            ) from error
        if answer.status != 0:
            lines = [line for line in answer.output.splitlines() if line.strip()][-QUOTED:]
            raise ClusterStartFailed(
                f"{node.name}: `ray start` ended with status {answer.status}: {' | '.join(lines)}; if "
                "another Ray of yours runs there, end it with `ray stop`, else correct what this says"
            )

    try:
        start(launch.nodes[0], remotes[0], rays[0])
        with ThreadPoolExecutor(len(remotes)) as pool:
            list(pool.map(start, launch.nodes[1:], remotes[1:], rays[1:]))
        _wait(launch, limit_s, say)
    except BaseException:
        _undo(launch, say)
        raise


def down(launch: Launch, *, say: Say) -> int:
    """End the processes of this cluster on every machine, the head's first. Returns how many are left.

    Raises:
        NoSsh: a machine cannot be reached or looked at; the others are done.
    """
    left, undone = 0, []
    for node, remote in zip(launch.nodes, _remotes(launch), strict=True):
        try:
            answer = remote.run(END, launch.mark, str(END_S), limit_s=LOOK_S + END_S)
        except NoSsh as error:
            undone.append(f"{node.name}: {error}. {STAYS.format(node=node.name)}")
            continue
        words = [line.split() for line in answer.output.splitlines()]
        ended = [int(word[1]) for word in words if len(word) == 2 and word[0] == "ended"]
        if answer.status != 0 or not ended:
            undone.append(f"{node.name}: {answer.output.strip()}. {STAYS.format(node=node.name)}")
            continue
        still = [word[1] for word in words if len(word) == 2 and word[0] == "left"]
        left += len(still)
        gone = ended[0] - len(still)
        say(
            f"{node.name}: {count_of(gone, 'processes')} ended"
            if ended[0]
            else f"{node.name}: nothing of it was running"
        )
        if still:
            say(
                f"{node.name}: not even SIGKILL ended {' '.join(still)}: they wait in the kernel, often "
                "for the GPU's driver; `sudo dmesg` there says more, and a restart of that machine ends them"
            )
    if undone:
        raise NoSsh("\n".join(undone))
    return left


def _undo(launch: Launch, say: Say) -> None:
    try:
        down(launch, say=say)
    except NoSsh as error:
        say(f"what was started could not be ended everywhere: {error}")


def _remotes(launch: Launch) -> list[Remote]:
    return [Remote(str(node.address), launch.ssh_user, launch.ssh_key) for node in launch.nodes]


def _found(node: Node, looked: Future[Answer]) -> Found:
    """Look at a machine. Raises NoSsh or ClusterStartFailed if that fails."""
    try:
        answer = looked.result()
    except NoSsh as error:
        raise NoSsh(f"{node.name}: {error}") from error
    if answer.status != 0:
        raise ClusterStartFailed(f"{node.name}: {answer.output.strip()}")
    lines = [line.partition(" ") for line in answer.output.splitlines()]
    told = {word: rest for word, _, rest in lines}
    has = dict(rest.split(" ", 1) for word, _, rest in lines if word == "has" and " " in rest)
    processes = sum(word == "process" for word, _, _ in lines)
    return Found(processes, told.get("token"), told.get("ray"), has, told.get("lacks", ""))


def _refuse_part(launch: Launch, found: Sequence[Found]) -> None:
    """Return if every machine runs this cluster and is in it."""
    names, problem = nodes_in(launch.head_address)
    for node, there in zip(launch.nodes, found, strict=True):
        if not there.processes or node.name not in names:
            raise ClusterStartFailed(
                f"a part of this cluster runs already, but {node.name} is not in it"
                f"{f' ({problem})' if problem else ''}; end it with `rigproof cluster down`, then type "
                "`rigproof cluster up` again"
            )


def _ray(launch: Launch, node: Node, there: Found) -> str:
    """The Ray of a machine. Raises ClusterStartFailed if it has none, or not what is needed with it."""
    if there.ray is None:
        raise ClusterStartFailed(
            f"{node.name} has no {' and no '.join(f'`{one}`' for one in launch.rays)}; install rigproof "
            "there in the same folder as here, or say where Ray is there: --ray /path/to/bin/ray"
        )
    if there.lacks:
        raise ClusterStartFailed(
            f"{node.name}: the Python of {there.ray} cannot import what a run needs ({there.lacks}); install "
            f"rigproof {__version__} in it there, or give the path of another Ray: --ray /path/to/bin/ray"
        )
    here = {"Python": python_version(), "ray": version("ray"), "rigproof": __version__}
    for name, mine in here.items():
        theirs = there.has.get(name, mine)
        shown = 2 if name == "Python" else None  # patch releases of Python go together
        if theirs.split(".")[:shown] != mine.split(".")[:shown]:
            raise ClusterStartFailed(
                f"{node.name}: {there.ray} has {name} {theirs}, and this machine {name} {mine} "
                f"({sys.executable}); install the same version of {name} on both"
            )
    return there.ray


def _keep_tokens(launch: Launch, found: Sequence[Found]) -> None:
    """Give every machine this machine's token, in a file that only its owner reads.

    Raises ClusterStartFailed if a machine has a different token, which is never replaced.
    """
    token = _own_token()
    digest = hashlib.sha256(token.encode()).hexdigest()
    for node, remote, there in zip(launch.nodes, _remotes(launch), found, strict=True):
        if there.token is None:
            kept = remote.run(SAVE_IT, token, limit_s=LOOK_S)
            if kept.status != 0:
                raise ClusterStartFailed(
                    f"{node.name}: ~/.ray/auth_token was not written: {kept.output.strip()}; make room "
                    "there, or the folder writable"
                )
        elif there.token != digest:
            raise ClusterStartFailed(
                f"{node.name} has another token in ~/.ray/auth_token than this machine; if no other "
                "cluster of "
                f"yours uses it, delete that file on {node.name} and type `rigproof cluster up` again"
            )


def _own_token() -> str:
    """The token of this machine's user, made if there is none."""
    if token := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    token = secrets.token_hex(32)
    try:
        path = token_file(os.environ)
        if path.exists() and (kept := path.read_text().strip()):
            check_private(TokenPlace(path))
            return kept
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(token)
        path.chmod(0o600)
    except (OSError, UnicodeDecodeError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise ClusterStartFailed(
            f"the cluster's token cannot be kept: {why}; set RAY_AUTH_TOKEN_PATH to a file of yours"
        ) from error
    return token


def _wait(launch: Launch, limit_s: float, say: Say) -> None:
    end_s = time.monotonic() + limit_s
    missing = list(launch.nodes)
    while True:
        there = node_names(launch.head_address, ASK_S)
        for node in [node for node in missing if node.name in there]:
            say(f"{node.name}: in the cluster")
            missing.remove(node)
        if not missing:
            return
        if time.monotonic() > end_s:
            raise ClusterStartFailed(
                f"{', '.join(node.name for node in missing)} did not join within {limit_s:g} s; "
                f"{_let_in(launch, missing[-1])}; else the logs in /tmp/ray/session_latest/logs there say why"
            )
        time.sleep(1)


def _let_in(launch: Launch, node: Node) -> str:
    """What to type where firewalls keep the head and a node apart."""
    head, allow = launch.nodes[0], "sudo ufw allow from"
    return (
        f"if a firewall is on (`sudo ufw status`), type `{allow} {node.address}` on {head.name} and "
        f"`{allow} {head.address}` on {node.name}"
    )
