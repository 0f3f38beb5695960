"""`rigproof cluster up|down|status|lines`: the Ray cluster of a rig of several machines."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from rigproof.cli.refused import Refused
from rigproof.cluster.launch.commands import GCS_PORT, head_of, lines_to_type
from rigproof.cluster.launch.launching import Launch, addressed, down, nodes_in, up
from rigproof.cluster.launch.remote import NoSsh
from rigproof.profiles.loading.load import load_rig
from rigproof.records.verdict import USAGE
from rigproof.stages.registry import KINDS

NOT_ALL = 1  # exit status: some processes did not end, or not all nodes are in the cluster

app = typer.Typer(
    help="Start, look at or end the Ray cluster of a rig's machines, or print the commands for it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Rig = Annotated[str, typer.Argument(help="a rig's name or file, with an address for each node")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="port of the head node")]
User = Annotated[str | None, typer.Option(help="user to log in as; default: ssh's own choice")]
Key = Annotated[Path | None, typer.Option(help="private key for ssh; default: ssh's own choice")]
Ray = Annotated[
    str | None,
    typer.Option(
        help="command that runs Ray on the nodes, such as /opt/train/bin/ray; default: the one beside this "
        "rigproof, if it is there too, else the one that a terminal there finds"
    ),
]


@app.command()
def lines(rig: Rig, port: Port = GCS_PORT, ray: Ray = None) -> None:
    """Print the commands to type on each machine, for rigs without ssh."""
    typer.echo(_lines(rig, port, ray))


@app.command("up")
def start(
    rig: Rig,
    *,
    port: Port = GCS_PORT,
    ssh_user: User = None,
    ssh_key: Key = None,
    ray: Ray = None,
    limit: Annotated[float, typer.Option(min=1, help="seconds to wait for the nodes to join")] = 180.0,
) -> None:
    """Start the cluster over ssh, unless it runs already; prints the lines to type next."""
    launch = _launch(rig, port, ssh_user, ssh_key, ray)
    try:
        up(launch, limit_s=limit, say=typer.echo)
    except NoSsh as error:
        typer.echo(f"rigproof: {error}\nOr type this yourself, without ssh:\n", err=True)
        typer.echo(_lines(rig, port, ray))
        raise typer.Exit(USAGE) from error
    _say_next(launch.head_address, rig, port)


@app.command("down")
def end(rig: Rig, *, port: Port = GCS_PORT, ssh_user: User = None, ssh_key: Key = None) -> None:
    """End the cluster that `up` started, and no other Ray of those machines."""
    left = down(_launch(rig, port, ssh_user, ssh_key), say=typer.echo)
    if left:
        raise typer.Exit(NOT_ALL)


@app.command()
def status(rig: Rig, *, port: Port = GCS_PORT) -> None:
    """Print which machines of the rig are in its cluster; exit status 1 if one is not. Changes nothing."""
    nodes = addressed(load_rig(rig, KINDS).rig.nodes)
    head = head_of(nodes, port)
    there, problem = nodes_in(head)
    if problem:
        typer.echo(f"{head}: {problem}")
    for node in nodes:
        joined = not there.isdisjoint({node.name, node.address})
        typer.echo(f"{node.name}  {node.address}  {'in the cluster' if joined else 'MISSING'}")
        problem = problem or ("" if joined else "missing")
    if problem:
        if there:
            typer.echo(f"end what is there with: {_cluster_line('down', rig, port)}")
        typer.echo(f"start it with: {_cluster_line('up', rig, port)}")
        raise typer.Exit(NOT_ALL)
    _say_next(head, rig, port)


def _launch(rig: str, port: int, user: str | None, key: Path | None, ray: str | None = None) -> Launch:
    loaded = load_rig(rig, KINDS).rig
    nodes = addressed(loaded.nodes)
    if ray is not None and "/" in ray and not ray.startswith("~"):
        ray = str(Path(ray).absolute())
    try:
        return Launch(loaded.name, nodes, user, str(key.expanduser().absolute()) if key else None, port, ray)
    except (RuntimeError, OSError) as error:
        raise Refused(f"--ssh-key {key}: {error}; write the whole path") from error


def _say_next(head: str, rig: str, port: int) -> None:
    """Print the lines to type once the cluster is up."""
    if shutil.which("rigproof") is None and (file := _activate()):
        typer.echo(
            f"before, in this terminal: . {shlex.quote(file)} (in csh: source {shlex.quote(file)}.csh)"
        )
    typer.echo(f"run: rigproof accept --hwprofile {shlex.quote(rig)} --ray-address {shlex.quote(head)}")
    typer.echo(f"afterwards: {_cluster_line('down', rig, port)}")


def _cluster_line(what: str, rig: str, port: int) -> str:
    at = "" if port == GCS_PORT else f" --port {port}"
    return f"rigproof cluster {what} {shlex.quote(rig)}{at}"


def _lines(rig: str, port: int, ray: str | None) -> str:
    nodes = load_rig(rig, KINDS).rig.nodes
    activate = "" if ray else _activate()
    return "\n".join(lines_to_type(nodes, rig=rig, port=port, ray=ray or "ray", activate=activate))


def _activate() -> str:
    """The file that a shell reads to have this virtual environment; empty if this is none."""
    file = Path(sys.prefix, "bin", "activate")
    return str(file) if sys.prefix != sys.base_prefix and file.is_file() else ""
