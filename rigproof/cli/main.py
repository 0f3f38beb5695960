"""`rigproof`: everything around the acceptance run. The run itself is pytest's."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from rigproof import __version__
from rigproof.cli import cluster, history
from rigproof.cli.refused import Refused
from rigproof.cli.report_folder import ReportDir, there
from rigproof.cluster.ray.preconditions import ClusterError
from rigproof.host.exit_status import interrupted_early, keep_status, noted_signal, status_kept
from rigproof.host.package import refusal
from rigproof.host.standard_streams import outlive_readers
from rigproof.profiles.errors import ProfileError
from rigproof.records.verdict import INTERRUPTED, USAGE
from rigproof.run.options import short
from rigproof.stages.registry import KINDS

NEEDS_LINUX = ("accept", "calibrate", "detect", "monitor", "cluster")  # the others read files
TYPER_INTERRUPTED = 130  # what newer versions of typer raise for Ctrl-C

OF_ITS_OWN = {"allow_extra_args": True, "ignore_unknown_options": True}  # a command with its own parser
AllowOpen = Annotated[
    bool, typer.Option("--allow-open-cluster", help="also join a cluster without token authentication")
]

# Newer versions of typer bundle click: its usage errors have no public name except those of subclasses.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="rigproof",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(history.app, name="history")
app.add_typer(cluster.app, name="cluster")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rigproof {__version__}")
        raise typer.Exit


@app.callback()
def rigproof(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Prove that a GPU training rig is fit before a training session starts."""


@app.command(add_help_option=False, context_settings=OF_ITS_OWN)
def accept(context: typer.Context) -> None:
    """Test this machine or a cluster; `rigproof accept --help` lists the options."""
    from rigproof.cli.accept import accept as run_suite  # noqa: PLC0415 - the other commands need no pytest

    raise typer.Exit(run_suite(context.args))


@app.command(add_help_option=False, context_settings=OF_ITS_OWN)
def calibrate(context: typer.Context) -> None:
    """Repeat runs until rates are known, and write floors; `rigproof calibrate --help` lists the options."""
    from rigproof.cli.calibrate import calibrate as run_often  # noqa: PLC0415 - imports pytest and scipy

    raise typer.Exit(run_often(context.args))


@app.command(add_help_option=False, context_settings=OF_ITS_OWN)
def verdict() -> None:
    """Read the last verdict on this machine in milliseconds; `rigproof verdict --help` lists the options."""
    raise AssertionError("it is run before this module is imported")


@app.command()
def detect(
    *,
    ray_address: Annotated[
        str | None,
        typer.Option(help="print all machines of this Ray cluster, HOST:PORT; default: this machine alone"),
    ] = None,
    allow_open_cluster: AllowOpen = False,
) -> None:
    """Print a rig profile of the hardware found here, or in a cluster, for you to save and edit."""
    from rigproof.profiles.auto import rig_of, rig_of_hosts  # noqa: PLC0415
    from rigproof.profiles.documents.text import profile_text  # noqa: PLC0415
    from rigproof.telemetry.inventory import detect as detect_host  # noqa: PLC0415

    if ray_address is not None:
        from rigproof.cluster.ray.inventories import cluster_hosts  # noqa: PLC0415 - imports Ray

        hosts = cluster_hosts(ray_address, allow_open=allow_open_cluster)
        typer.echo(profile_text(rig_of_hosts(hosts, KINDS)), nl=False)
        return
    inventory = detect_host(20.0)
    if inventory.doubt is not None:
        raise Refused(f"this machine's hardware cannot be fully detected: {inventory.doubt}")
    typer.echo(profile_text(rig_of(inventory, KINDS)), nl=False)


@app.command()
def lint(
    profiles: Annotated[
        list[str] | None,
        typer.Argument(help="rigs, by name or file; default: every profile that comes with rigproof"),
    ] = None,
    *,
    faults: Annotated[
        bool,
        typer.Option(
            "--faults",
            help="check nothing; list the faults that a simulated rig can be given, and what each trips",
        ),
    ] = False,
) -> None:
    """Check profiles before a run: typing mistakes, plans that do not fit, limits that nothing can fail.

    Prints how each named rig was understood, then `clean`; or one line for each mistake, and ends with exit
    status 4. What may be wrong and refuses no run is a line that begins with `warning:`.
    """
    if faults:
        if profiles:
            raise Refused(f"--faults: the list is the same for every rig; leave out {' '.join(profiles)}")
        from rigproof.judging.fault_page import listing  # noqa: PLC0415

        typer.echo("\n".join(listing()))
        return
    from rigproof.profiles.documents.text import summary_lines  # noqa: PLC0415
    from rigproof.profiles.lint.rig import lint_all, lint_doubts  # noqa: PLC0415
    from rigproof.profiles.loading.load import load_rig  # noqa: PLC0415

    problems = lint_all(KINDS, profiles)
    for name in profiles or ():
        try:
            loaded = load_rig(name, KINDS)
        except ProfileError:
            continue  # one of the problems
        typer.echo("\n".join(summary_lines(loaded)))
        for doubt in lint_doubts(loaded):
            typer.echo(f"warning: {doubt}", err=True)
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(USAGE)
    typer.echo("clean")


@app.command()
def schema(kind: Annotated[str, typer.Argument(help="of what: rig, sku or xids")] = "rig") -> None:
    """Print the JSON Schema by which editors check rig files, SKU files or the list of Xids."""
    import json  # noqa: PLC0415

    from rigproof.judging.catalogue import JUDGED_BY  # noqa: PLC0415
    from rigproof.profiles.documents.keys import rig_schema, sku_schema, xids_schema  # noqa: PLC0415

    schemas = {
        "rig": lambda: rig_schema(KINDS, JUDGED_BY),
        "sku": lambda: sku_schema(KINDS),
        "xids": xids_schema,
    }
    if kind not in schemas:
        raise Refused(f"{kind}: no such schema; use rig, sku or xids")
    typer.echo(json.dumps(schemas[kind](), indent=2))


@app.command()
def judge(
    run: Annotated[Path, typer.Argument(help="a run's folder, such as reports/latest")],
    hwprofile: Annotated[
        str | None, typer.Option(help="judge by this rig profile instead of the recorded one")
    ] = None,
    champions: Annotated[
        Path | None,
        typer.Option(help="a rig's champions, such as reports/champions/NAME, instead of the recorded ones"),
    ] = None,
    *,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="also list what passed")] = False,
) -> None:
    """Judge a recorded run again, on any machine, with the recorded or with other limits.

    If this profile plans other work than the run did, what depends on that work is not measured.
    """
    from rigproof.cli.rejudge import rejudge  # noqa: PLC0415
    from rigproof.report.files.folders import named_run  # noqa: PLC0415

    raise typer.Exit(rejudge(named_run(run), hwprofile, typer.echo, champions, everything=verbose))


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="a run's folder, such as reports/latest")],
    *,
    output: Annotated[
        Path | None, typer.Option(help="write into this new folder instead of the run's")
    ] = None,
    over: Annotated[
        Path | None,
        typer.Option(
            "--with",
            help="write only report-with-OTHER.html, with the charts of this other run over the run's",
        ),
    ] = None,
) -> None:
    """Write the files of a run again, from its recording."""
    from rigproof.cli.rejudge import rewrite, write_overlay  # noqa: PLC0415
    from rigproof.report.files.folders import named_run  # noqa: PLC0415

    run = named_run(run)
    if output is not None and output.exists() and not (output.is_dir() and over is not None):
        raise Refused(f"--output {output}: it is there already; name a new folder")
    if over is not None:
        raise typer.Exit(write_overlay(run, named_run(over), typer.echo, output=output))
    raise typer.Exit(rewrite(run, typer.echo, output=output))


@app.command()
def monitor(
    *,
    hwprofile: Annotated[
        str,
        typer.Option(help="a rig's name or file, whose nodes and limits are shown; auto: the hardware found"),
    ] = "auto",
    ray_address: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Ray cluster; default: this machine, without Ray")
    ] = None,
    allow_open_cluster: AllowOpen = False,
    report_dir: ReportDir = None,
    interval: Annotated[float, typer.Option(min=0.2, max=3600, help="seconds between two frames")] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="show one frame; exit status 1 if it has a warning")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="JSON in place of text, one document for each frame")
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="no colours, as with NO_COLOR in the environment")
    ] = False,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate", help="show the profile's rig simulated, without a GPU; without a profile two PCs"
        ),
    ] = False,
    inject: Annotated[
        list[str] | None, typer.Option(help="give the simulated rig this fault; can be repeated")
    ] = None,
) -> None:
    """Show the state of every node and GPU, next to the profile's limits, until Ctrl-C. Loads nothing."""
    from rigproof.monitor.command import Options  # noqa: PLC0415
    from rigproof.monitor.command import monitor as run_monitor  # noqa: PLC0415

    options = Options(
        hwprofile=hwprofile,
        ray_address=ray_address,
        allow_open=allow_open_cluster,
        report_dir=there(report_dir),
        interval_s=interval,
        once=once,
        as_json=json,
        color=not no_color and not os.environ.get("NO_COLOR"),
        simulate=simulate,
        inject=tuple(inject or ()),
    )
    raise typer.Exit(run_monitor(options, sys.stdout))


def _require_a_folder() -> None:
    """Refuse a current folder that was removed: whatever asks for it would end with a traceback."""
    try:
        Path.cwd()
    except OSError as error:
        raise Refused(f"the current folder: {error.strerror}; change to one that exists") from None


def main() -> None:
    """Run the command line; bad input ends with one message and exit status 4, as it does in pytest."""
    from rigproof.history.champions import ChampionError  # noqa: PLC0415
    from rigproof.records.disk.store import RecordingError  # noqa: PLC0415
    from rigproof.report.files.folders import ReportFolderError  # noqa: PLC0415
    from rigproof.run.simulated.making import NotSimulated  # noqa: PLC0415

    if sys.argv[1:2] != ["monitor"]:  # which ends with its reader
        outlive_readers()
    for stream in (sys.stdout, sys.stderr):  # a file's name or content may not be encodable by the streams
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    os.environ.pop("_RIGPROOF_COMPLETE", None)  # typer would complete a line, and end with 0
    try:
        _require_a_folder()
        if sys.argv[1:2] in ([name] for name in NEEDS_LINUX) and (why := refusal()) is not None:
            raise Refused(why)
        status = app(prog_name="rigproof", standalone_mode=False)
    except (
        ProfileError,
        RecordingError,
        ReportFolderError,
        ChampionError,
        ClusterError,
        NotSimulated,
        Refused,
    ) as error:
        typer.echo(f"rigproof: {short(str(error))}", err=True)
        status = USAGE
    except UsageError as error:
        error.show()  # type: ignore[attr-defined]  # with the command's usage above it
        status = USAGE
    except (KeyboardInterrupt, typer.Abort):
        status = status_kept() or INTERRUPTED  # after the last line the signal changes nothing
    status = INTERRUPTED if status == TYPER_INTERRUPTED else status
    if status == INTERRUPTED and status_kept() is None and noted_signal() is not None:
        typer.echo(f"rigproof: {interrupted_early()}", err=True)
    sys.stdout.flush()
    keep_status(status or 0)
    sys.exit(status)
