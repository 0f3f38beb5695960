"""Starts a rig's cluster over ssh with `ray up`, and ends that cluster and no other."""

import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rigproof.cluster.launch.file import Launch, launch_text, numeric
from rigproof.cluster.launch.remote import Answer, NoSsh, Remote
from rigproof.cluster.launch.scripts import END, LOOK, SAVE_IT
from rigproof.cluster.ray.address import check_listening
from rigproof.cluster.ray.auth_token import TokenPlace, check_private, token_file
from rigproof.cluster.ray.errors import ClusterError, ClusterStartFailed
from rigproof.cluster.ray.node_list import node_names
from rigproof.profiles.tables.node import Node

RAY_UP = (sys.executable, "-m", "ray.scripts.scripts", "up", "-y", "--no-config-cache")
LOOK_S = 60.0
END_S = 10  # for processes to end by themselves
ASK_S = 20.0  # for the head to list its nodes

Say = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """What was found on one machine.

    `processes`: how many of this cluster run there. `token`: the SHA-256 of its token; None if it has none.
    `ray`: whether the command that runs Ray can be called.
    """

    processes: int
    token: str | None
    ray: bool


def addressed(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes with numeric addresses. Raises ClusterError where one has none, or its name is not known."""
    if not nodes:
        raise ClusterError("the rig has no nodes; there is no cluster to start")
    found = []
    for node in nodes:
        if node.address is None:
            if len(nodes) == 1:
                raise ClusterError("a rig of one machine needs no cluster; run `rigproof accept` on it")
            raise ClusterError(f"{node.name} has no address in the profile; write its address there")
        try:
            found.append(socket.gethostbyname(node.address))
        except OSError as error:
            raise ClusterError(f"{node.name}: {node.address} is not known here ({error})") from error
    return numeric(nodes, found)


def nodes_in(head: str) -> tuple[frozenset[str], str]:
    """The names and addresses of the nodes of the cluster at this address, and why there are none."""
    try:
        check_listening(head)
    except ClusterError:
        return frozenset(), "nothing answers there: no cluster is running"
    there = node_names(head, ASK_S)
    token = "is it a Ray, and is its token in ~/.ray/auth_token or RAY_AUTH_TOKEN here?"  # noqa: S105
    return there, "" if there else f"something answers there but lists no nodes; {token}"


def write_file(launch: Launch, file: Path) -> None:
    """Write the file for `ray up`. Raises ClusterStartFailed with the way out."""
    try:
        file.write_text(launch_text(launch))
    except OSError as error:
        raise _unwritten(file, error) from error


def _unwritten(file: Path, error: OSError) -> ClusterStartFailed:
    return ClusterStartFailed(
        f"{file.absolute()}: not written: {error.strerror or error}; give --file FILE in a folder where you "
        "may write"
    )


def up(launch: Launch, file: Path, *, limit_s: float, say: Say) -> None:
    """Start the cluster and wait, at most `limit_s`, until every node is in it. Writes `file` for `ray up`.

    Raises:
        NoSsh: a machine cannot be reached; nothing was started.
        ClusterStartFailed: with the reason; what was started has been ended again.
    """
    found = _on_all(launch, lambda remote: _found(remote.run(LOOK, launch.mark, launch.ray, limit_s=LOOK_S)))
    _refuse(launch, found)
    _keep_tokens(launch, found)
    write_file(launch, file)
    say(f"{file}: written; `ray up` starts {', '.join(node.name for node in launch.nodes)}")
    try:
        _ray_up(file, limit_s)
        _wait(launch, limit_s, say)
    except BaseException:
        down(launch, say=say)
        raise


def down(launch: Launch, *, say: Say) -> int:
    """End the processes of this cluster on every machine, the head's first. Returns how many are left.

    Raises:
        NoSsh: a machine cannot be reached; the others are done.
    """
    left, unreached = 0, []
    for node, remote in zip(launch.nodes, _remotes(launch), strict=True):
        try:
            answer = remote.run(END, launch.mark, str(END_S), launch.name, limit_s=LOOK_S + END_S)
        except NoSsh as error:
            unreached.append(str(error))
            continue
        words = [line.split() for line in answer.output.splitlines()]
        ended = [int(word[1]) for word in words if len(word) == 2 and word[0] == "ended"]
        still = [word[1] for word in words if len(word) == 2 and word[0] == "left"]
        left += len(still)
        say(f"{node.name}: {sum(ended) - len(still)} processes ended")
        if still:
            say(f"{node.name}: still there: {' '.join(still)}")
    _forget(launch)
    if unreached:
        raise NoSsh("; ".join(unreached))
    return left


def _remotes(launch: Launch) -> list[Remote]:
    return [Remote(address, launch.ssh_user, launch.ssh_key) for address in launch.addresses]


def _on_all(launch: Launch, do: Callable[[Remote], Found]) -> list[Found]:
    with ThreadPoolExecutor(len(launch.nodes)) as pool:
        return list(pool.map(do, _remotes(launch)))


def _found(answer: Answer) -> Found:
    lines = answer.output.splitlines()
    tokens = [line.removeprefix("token ").strip() for line in lines if line.startswith("token ")]
    processes = sum(line.startswith("process ") for line in lines)
    return Found(processes, tokens[0] if tokens else None, "ray" in lines)


def _refuse(launch: Launch, found: list[Found]) -> None:
    for node, there in zip(launch.nodes, found, strict=True):
        if there.processes:
            raise ClusterStartFailed(
                f"{node.name} runs {there.processes} processes of this cluster already; "
                f"end them with `rigproof cluster down`"
            )
        if not there.ray:
            raise ClusterStartFailed(
                f"{node.name} has no `{launch.ray}` for the user {launch.ssh_user}; install ray there, or "
                "give its path: --ray /path/to/bin/ray"
            )


def _keep_tokens(launch: Launch, found: list[Found]) -> None:
    """Give every machine this machine's token, in a file that only its owner reads.

    Raises ClusterStartFailed if a machine has a different token, which is never replaced.
    """
    token = _own_token()
    digest = hashlib.sha256(token.encode()).hexdigest()
    for node, remote, there in zip(launch.nodes, _remotes(launch), found, strict=True):
        if there.token is None:
            kept = remote.run(SAVE_IT, given=token, limit_s=LOOK_S)
            if kept.status != 0:
                raise ClusterStartFailed(f"{node.name}: ~/.ray/auth_token was not written: {kept.output}")
        elif there.token != digest:
            raise ClusterStartFailed(
                f"{node.name} has another token in ~/.ray/auth_token than this machine; make them the same, "
                "and chmod 600 them (other clusters of yours may use the one that is there)"
            )


def _own_token() -> str:
    """The token of this machine's user; made where there is none."""
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


def _ray_up(file: Path, limit_s: float) -> None:
    """Run `ray up` to its end. Its output goes to a log file, and is quoted only if it fails."""
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_UP_enable_autoscaler_v2": "0"}
    log = file.with_suffix(".log")
    try:
        output = log.open("w")
    except OSError as error:
        raise _unwritten(log, error) from error
    # No `host.child.Child`: Ray's own program, in a session of its own, so that its ssh can be ended with it.
    with output:
        process = subprocess.Popen(
            [*RAY_UP, str(file)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise ClusterStartFailed(f"`ray up` did not end within {limit_s:g} s; see {log}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its ssh
                process.wait()
    if status != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise ClusterStartFailed(f"`ray up` ended with status {status}: {' | '.join(lines[-3:])}; see {log}")


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
                f"{', '.join(node.name for node in missing)} did not join within {limit_s:g} s; the head "
                "starts the others by ssh, so it needs a key for them too: see session_latest/logs/monitor.* "
                f"in Ray's folder on {launch.nodes[0].name} (/tmp/ray)"
            )
        time.sleep(1)


def _forget(launch: Launch) -> None:
    """Remove what `ray up` noted on this machine about the cluster, which is gone."""
    folder = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray"  # noqa: S108 - Ray's own
    for ending in ("state", "lock"):
        (folder / f"cluster-{launch.name}.{ending}").unlink(missing_ok=True)
