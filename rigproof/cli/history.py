"""`rigproof history [list]|compare`: what was kept of earlier runs, and whether it got slower."""

import json as json_module
import sys
from csv import DictWriter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rigproof.cli.refused import Refused
from rigproof.cli.report_folder import ReportDir, there
from rigproof.history.names import SIMULATED
from rigproof.records.verdict import USAGE

if TYPE_CHECKING:
    from rigproof.history.reading import History


class _ListsByDefault(TyperGroup):
    """`rigproof history NAME` is `rigproof history list NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = (*self.commands, "-h", "--help")
        return super().parse_args(ctx, args if args[:1] and args[0] in known else ["list", *args])


Simulated = Annotated[bool, typer.Option("--simulated", help="simulated runs alone (--keep-history)")]

app = typer.Typer(
    cls=_ListsByDefault,
    help="List the kept rates of each card and the rig's champions, or compare two sets of runs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_rates(
    rig: Annotated[str | None, typer.Argument(help="a rig's name or profile; default: all rigs")] = None,
    runs: Annotated[list[str] | None, typer.Argument(help="numbers of runs, as 0001 0007: all rates")] = None,
    *,
    of: Annotated[str | None, typer.Option(metavar="TERMS", help="only these; terms as in compare")] = None,
    each: Annotated[bool, typer.Option("--each", help="every rate of every run")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON: an object for each figure")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV: a line for each kept rate")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a rig's page with charts")] = None,
    sku: Annotated[Path | None, typer.Option(metavar="FILE", help="what is normal, by this SKU file")] = None,
    simulated: Simulated = False,
    report_dir: ReportDir = None,
) -> None:
    """Say how each figure of each card went on from run to run, since when it changed, whether that is normal
    for its model, and the champions.

    With --each, or numbers of runs, list rates, oldest first, each with its change.
    """
    from rigproof.history import comparison, listing, models, reading, rejections  # noqa: PLC0415 - imports scipy
    from rigproof.records.grouping import grouped  # noqa: PLC0415
    from rigproof.report.terminal.matrix_lines import colored  # noqa: PLC0415

    if json + csv + (html is not None) > 1:
        raise Refused("--json, --csv and --html: choose one of them")
    report_dir = there(report_dir)
    folder, numbers = report_dir / (SIMULATED if simulated else "history"), runs or []
    if rig is not None and ("/" in rig or rig.endswith(".toml")):
        from rigproof.profiles.loading.load import load_rig  # noqa: PLC0415
        from rigproof.stages.registry import KINDS  # noqa: PLC0415

        rig = load_rig(rig, KINDS).rig.name
    histories = reading.read_histories(folder, rig)
    rates = [one for own in histories for one in own.everything]
    skus = models.skus_with(sku)
    if rig is not None and (unknown := [one for one in numbers if one not in {it.number for it in rates}]):
        raise Refused(f"{folder / rig}: no run {', '.join(unknown)}; `rigproof history {rig}` lists them")
    try:
        selected = rates if of is None else comparison.chosen(rates, of)
        shown = (one for one in selected if not numbers or one.number in numbers)
        every = grouped(shown, lambda one: one.rig).values()
        if html is not None:
            _write_page(html, report_dir, histories, [listing.history_content(own, skus) for own in every])
        elif (json or csv) and rig is not None and not histories:
            raise Refused(f"{folder}: no history of {rig}; `rigproof history` lists those there are")
        elif json:
            told = [one for rates in every for one in listing.trends_json(rates, skus=skus)]
            typer.echo(json_module.dumps(told, indent=1))
        elif csv:
            writer = DictWriter(sys.stdout, listing.COLUMNS)
            writer.writeheader()
            writer.writerows(row for rates in every for row in listing.csv_rows(rates))
        else:
            lines = listing.listing_lines(
                folder, histories, selected, rig, numbers, each=each, color=colored(), skus=skus
            )
            alone = bool(numbers or of) or simulated
            best = [] if alone else [*listing.champions_listing(report_dir / "champions", rig)]
            if rig is not None and not histories:
                if not best:
                    raise Refused("\n".join(lines))
                lines = iter(())  # only its champions are left
            rejected = [] if alone else [*rejections.rejection_lines(report_dir, rig)]
            typer.echo("\n".join([*lines, *best, *rejected]))
    except comparison.SelectionError as error:
        raise Refused(str(error)) from None
    if reading.unreadable(histories, report_dir / "champions", rig):
        raise typer.Exit(USAGE)


def _write_page(
    path: Path, report_dir: Path, histories: list["History"], every: list[dict[str, Any]]
) -> None:
    """Write the page of the one rig of which something is selected. Raises Refused."""
    from rigproof.history import listing, rejections  # noqa: PLC0415
    from rigproof.report.page.history_page import write_history_page  # noqa: PLC0415

    if len(every) != 1:
        rigs = ", ".join(one["rig"] for one in every) or "nothing that is kept"
        raise Refused(f"--html {path}: a page is of one rig, and {rigs} is selected; name one")
    content = every[0]
    notes = [problem for own in histories if own.rig == content["rig"] for problem in own.problems]
    if not content["mark"]:
        notes += listing.champions_listing(report_dir / "champions", content["rig"])
        notes += rejections.rejection_lines(report_dir, content["rig"])
    try:
        write_history_page(path, content, notes)
    except OSError as error:
        raise Refused(f"--html {path}: {error.strerror or error}; name another file") from None
    typer.echo(f"{content['mark']}written: {path}")


@app.command()
def compare(
    before: Annotated[
        str | None, typer.Argument(metavar="A", help="runs, such as 0003, 0001-0007 or driver=570")
    ] = None,
    after: Annotated[str | None, typer.Argument(metavar="B", help="the runs to compare with them")] = None,
    *,
    driver: Annotated[
        str | None, typer.Option(metavar="A..B", help="compare the runs of two drivers, such as 570..580")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--before", metavar="DATE", help="compare the runs before a date with the others"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON in place of text")] = False,
    simulated: Simulated = False,
    report_dir: ReportDir = None,
) -> None:
    """Say of each figure whether it is slower or faster in B, or whether the runs show no difference.

    A and B are numbers of runs, or terms parted by commas that hold together: run, rig, card (UUID or slot),
    figure, driver, torch, cuda, level, tag, power (W), since, before; such as `card=pc1/gpu0,driver=580`.
    """
    from rigproof.history import comparison, listing  # noqa: PLC0415 - imports scipy
    from rigproof.history.reading import read_histories  # noqa: PLC0415
    from rigproof.report.terminal.matrix_lines import colored  # noqa: PLC0415

    names = _sides(before, after, driver, split)
    folder = there(report_dir) / (SIMULATED if simulated else "history")
    nothing = listing.NOTHING_SIMULATED if simulated else listing.NOTHING
    histories = read_histories(folder)
    rates = [one for history in histories for one in history.everything]
    problems = [problem for history in histories for problem in history.problems]
    if not rates:
        raise Refused("; ".join([f"{folder}: {nothing}", *problems]))
    try:
        sides = [comparison.chosen(rates, name) for name in names]
        found = comparison.compare(sides[0], sides[1], rates)
    except comparison.SelectionError as error:
        raise Refused(str(error)) from None
    lines = comparison.comparison_lines(found, names, color=colored())
    typer.echo(json_module.dumps(found.as_json(), indent=1) if json else "\n".join(lines))
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(USAGE)


@app.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="JSON files of pytest-benchmark")],
    *,
    rig: Annotated[
        str | None,
        typer.Option(help="the rig whose runs they were; default: the one, or the host, they name"),
    ] = None,
    report_dir: ReportDir = None,
) -> None:
    """Add earlier runs: what plain pytest-benchmark, or rigproof, has stored. No run is judged by them."""
    from rigproof.history import importing  # noqa: PLC0415
    from rigproof.records.limits import FileRefusedError  # noqa: PLC0415

    folder = there(report_dir) / "history"
    try:
        found = importing.checked(files, folder, rig)
        for line in importing.write(found, folder):
            typer.echo(line)
    except FileRefusedError as error:
        raise Refused(f"{error}; nothing was imported") from None
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror or error}"
        raise Refused(f"{why}; nothing was imported") from None


def _sides(before: str | None, after: str | None, driver: str | None, split: str | None) -> tuple[str, str]:
    """The selections of both sides, however they were given. Raises Refused."""
    ways = [(before, after)] if before is not None and after is not None else []
    if driver is not None:
        first, _, second = driver.partition("..")
        if not (first and second):
            raise Refused(f"--driver {driver}: name two of them, such as 570..580")
        ways.append((f"driver={first}", f"driver={second}"))
    if split is not None:
        ways.append((f"before={split}", f"since={split}"))
    if len(ways) != 1 or (before is None) != (after is None):
        raise Refused("history compare: name A and B, or one of --driver and --before; `--help` has examples")
    return ways[0]
