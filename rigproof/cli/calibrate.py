"""`rigproof calibrate`: floors of a rig, or the figures of a GPU model, from repeated runs."""

import argparse
import difflib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

import typer

from rigproof.cli.accept import for_pytest, parser_of
from rigproof.cli.refused import Refused
from rigproof.cli.rejudge import judged
from rigproof.history.calibration import Floor, Measured, floors, measured, of_model, rounded, spread, unlike
from rigproof.host.package import ROOT
from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.documents.edited import with_figures
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.lint.sku import lint_sku
from rigproof.profiles.loading.files import digest, profile_folder, read_text, shown_path, stems, tables_of
from rigproof.profiles.loading.load import load_rig, rig_path
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.structure import checked
from rigproof.records.disk.durable import replacing
from rigproof.records.disk.store import RecordingError
from rigproof.records.grouping import grouped
from rigproof.records.verdict import EXIT_STATUS, Decision, Outcome, count_of, sentence
from rigproof.report.content.result import RunResult
from rigproof.report.files.folders import named_run, unwritable
from rigproof.run.options import short
from rigproof.stages.registry import KINDS

ABOUT = """\
Repeat an acceptance run until its rates are known, show the floors that follow, and write them into the
rig's profile if you agree. A run that is not ACCEPTED, or has a warning about its cards, ends it.
"""
EXAMPLES = """\
examples:
  rigproof calibrate --hwprofile ./lab.toml           measure, show, ask
  rigproof calibrate --hwprofile ./lab.toml --write reports/runs/2026*     by these runs; load nothing
  rigproof calibrate --sku h200-sxm reports/runs/*    the SKU file with the figures of these runs
"""
INCOMPLETE = EXIT_STATUS[Decision.INCOMPLETE]
TOO_SHORT = "quick"  # a card is not hot yet, and a longer run could not reach its rates
# No `host.child.Child`: a run as users type it, which shows itself on the terminal and ends by signals.
BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from rigproof.__main__ import main; main()"


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = parser_of("calibrate", "[options] [RUN ...]", ABOUT, EXAMPLES)
    option = made.add_argument
    option("runs", nargs="*", type=Path, metavar="RUN", help="folder of a run: go by these, load nothing")
    option("--sku", metavar="NAME|PATH", help="in place of floors, this SKU file with the runs' figures")
    option("--write", action="store_true", help="do not ask")
    option("--out", type=Path, metavar="FILE", help="write this new file in place of the profile")
    option("--lower", action="store_true", help="also write floors that are lower than those so far")
    return made


def calibrate(given: Sequence[str]) -> int:
    """Carry out the command; returns the exit status. Refused, ProfileError."""
    options = parser().parse_args(given)
    if options.out is not None and os.path.lexists(options.out):
        raise Refused(f"--out {options.out}: it is there already; name a new file")
    options.simulated = bool(options.hw_simulate or options.hw_simulate_inline)
    return _floors(options) if options.sku is None else _of_sku(options)


def _floors(options: argparse.Namespace) -> int:
    name = options.hw_profile or "auto"
    if name == "auto":
        raise Refused("--hwprofile auto: no file can hold floors; `rigproof detect > lab.toml` makes one")
    loaded, source = load_rig(name, KINDS), rig_path(name)
    if problems := lint_rig(loaded):
        raise ProfileError(problems)
    text, places = read_text(source, loaded.file), _places(loaded)
    target = _target(options.out, source, loaded)
    for place in places.values():
        with_figures(text, loaded.file, place, "floors", {})  # refused now, not after the measuring
    if options.runs:
        folders = list(map(named_run, options.runs))
        rates = [one for run in folders for one in _given(run, loaded, options.lower)]
    else:
        status, folders, rates = _measure(options, loaded, target)
        if status or not folders:
            return status
    _require_alike(rates)
    found = floors(rates, loaded.rig.calibration, lower=options.lower)
    typer.echo("\n".join(_shown(found)))
    status = INCOMPLETE if not found or not all(one.known for one in found) else 0
    edited = text
    for subject, place in places.items():
        of_card = (one for one in found if one.first.subject == subject)
        changed = (one for one in of_card if one.known and one.answer != "stays")
        new = {one.first.rate.figure: (one.value, _comment(one)) for one in changed}
        edited = with_figures(edited, loaded.file, place, "floors", new) if new else edited
    if edited == text:
        typer.echo("nothing to write")
        return status
    both, shown = (text.splitlines(), edited.splitlines()), shown_path(target)
    typer.echo("\n".join(difflib.unified_diff(*both, loaded.file, shown, n=1, lineterm="")))
    asked = sys.stdin.isatty() and sys.stdout.isatty()
    if options.simulated:
        typer.echo("SIMULATED: not written")
    elif options.write or (asked and typer.confirm(f"write {shown}?")):
        _write(target, edited, source, text)
        typer.echo(f"written: {shown}")
    else:
        own = [*(["--out", str(options.out)] if options.out else []), *(["--lower"] if options.lower else [])]
        words = ["--hwprofile", name, "--write", *own, *map(shown_path, folders)]
        typer.echo(f"not written; to write: rigproof calibrate {shlex.join(words)}")
    return status


def _require_alike(rates: Sequence[Measured]) -> None:
    if differing := unlike(rates):
        raise Refused("\n".join(f"{run}: {why}: not alike" for run, why in differing.items()))


def _target(out: Path | None, source: Path, loaded: LoadedRig) -> Path:
    """The file to write, links followed. Refused where that is known not to work."""
    target = Path(os.path.realpath(out or source))
    if out is None and target.is_relative_to(profile_folder().resolve()):
        raise Refused(f"{loaded.file}: comes with rigproof; name another file: --out ./my-rig.toml")
    if out is None and not target.stat().st_mode & 0o222:
        raise Refused(f"{loaded.file}: is read-only; change its mode, or add --out ./my-rig.toml")
    if "/" in (loaded.rig.extends or "") and target.parent != source.resolve().parent:
        raise Refused(f"--out {out}: it would extend {loaded.rig.extends}; name a file beside {loaded.file}")
    why = "" if target.parent.is_dir() else "no such folder"
    if why := why or unwritable(target) or unwritable(target.parent, folder=True):
        raise Refused(f"{target}: cannot be written ({why}); name another file with --out")
    return target


def _places(loaded: LoadedRig) -> dict[str, str]:
    """By device, where it stands in the rig's own file: `nodes[0].gpus[1]`. Refused if it does not."""
    keys = {one.subject: f"{one.key}.sku" for one in loaded.devices()}
    for subject, key in keys.items():
        if loaded.source_of(key) != loaded.file:
            way_out = "calibrate that file, or state the GPUs of its node here"
            raise Refused(f"{loaded.file}: {subject} is stated in {loaded.source_of(key)}; {way_out}")
    return {subject: loaded.written(key).removesuffix(".sku") for subject, key in keys.items()}


def usable(run: Path, *, lower: bool = False, simulated: bool = False) -> RunResult:
    """A recorded run that tells what its cards reach; else Refused, with why it does not.

    `lower`: it may have failed by floors alone. `simulated`: it may be that.
    """
    result = judged(run)
    bad = [one for one in result.verdicts if one.outcome in (Outcome.FAIL, Outcome.NOT_MEASURED)]
    bad.sort(key=attrgetter("outcome", "follows"))
    below = [one for one in bad if any(rate.floor and rate.value < rate.floor for rate in one.rates)]
    by_floors = bool(bad) and below == bad and not result.problems
    warned = [one for one in result.verdicts if one.outcome is Outcome.WARN]
    warned = [one for one in warned if one.severity != "config" or CATALOGUE[one.criterion].surroundings]
    if result.simulated and not simulated:
        why = "simulated"
    elif result.decision is not Decision.ACCEPTED and not (lower and by_floors):
        said = [*map(sentence, bad), *result.problems, "interrupted"]
        why = f"{result.decision}: {said[0]}"
        why += " --lower writes lower floors all the same." if by_floors else ""
    elif result.short:
        why = f"shortened: {result.short}"
    elif warned:
        why = f"a warning: {sentence(warned[0])}"
    else:
        return result
    raise Refused(f"{run}: {why}")


def _given(run: Path, loaded: LoadedRig, lower: bool) -> Iterator[Measured]:
    result = usable(run, lower=lower)
    if not {digest(tables) for _, tables in loaded.layers} <= {*result.recording.run.profile.values()}:
        raise Refused(f"{run}: is not of {loaded.file} as it is now; name runs of that alone")
    _require_hot(result.recording.run.level, loaded)
    return measured(result.recording, result.verdicts)


def _require_hot(level: str | None, loaded: LoadedRig) -> None:
    if level == TOO_SHORT and any(one.gpu.device == "cuda" for one in loaded.devices()):
        raise Refused(f"level {level}: its cards are not hot yet; floors need standard or extended")


def _measure(
    options: argparse.Namespace, loaded: LoadedRig, target: Path
) -> tuple[int, list[Path], list[Measured]]:
    """Run until all is told, or the most is done: 0, the folders and rates; else the status to end with."""
    has_gpu = any(one.gpu.device == "cuda" for one in loaded.devices())
    options.hw_level = options.hw_level or ("standard" if has_gpu else TOO_SHORT)
    _require_hot(options.hw_level, loaded)
    status, answer = _accept(options, "--plan")
    if status:
        return status, [], []
    plan = answer.decode(errors="replace").rstrip().splitlines()
    wanted, begun_s = loaded.rig.calibration, time.monotonic()
    typer.echo("\n".join(plan if options.hw_plan else (one for one in plan if one.startswith("plan: "))))
    typer.echo(
        f"{wanted.fewest_runs} to {wanted.most_runs} such runs, for {wanted.most_min:g} min at most, until "
        f"each mean rate is known\nwithin ±{wanted.half_width_share * 100:g} %; for {shown_path(target)}"
    )
    folders: list[Path] = []
    rates: list[Measured] = []
    for number in range(0 if options.hw_plan else wanted.most_runs):
        done_s = time.monotonic() - begun_s
        if number and done_s * (1 + 1 / number) > wanted.most_min * 60:
            break
        options.hw_simulate_seed = number if options.simulated else None
        status, answer = _accept(options, "--json")
        try:
            if not answer:
                raise Refused(f"run {number + 1} ended with {status} and no verdict")
            folder = Path(options.hw_report_dir or "reports") / "runs" / json.loads(answer)["run_id"]
            result = usable(folder, lower=options.lower, simulated=options.simulated)
        except Refused as refused:
            typer.echo(f"rigproof: {refused}\nno floor is written", err=True)
            return status or INCOMPLETE, folders, rates
        folders.append(folder)
        rates += measured(result.recording, result.verdicts)
        if all(one.known for one in floors(rates, wanted, lower=options.lower)):
            break
    return 0, folders, rates


def _accept(options: argparse.Namespace, how: str) -> tuple[int, bytes]:
    """The exit status and the standard output of `rigproof accept` with these options. KeyboardInterrupt."""
    own = {key: value for key, value in vars(options).items() if key[:2] == "hw" and key != "hw_plan"}
    given = [how, *map(short, for_pytest(argparse.Namespace(**own)))]
    command = [sys.executable, "-P", "-c", BOOT, str(ROOT), "accept", *given]
    # In a session of its own, so that it gets a signal once: from here.
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        answer, stopped = None, False
        while answer is None:
            try:
                answer, _ = process.communicate()
            except KeyboardInterrupt:
                stopped = True
                process.send_signal(signal.SIGINT)
    if stopped:
        raise KeyboardInterrupt
    return process.returncode, answer


def _shown(found: Sequence[Floor]) -> Iterator[str]:
    subject = ""
    for one in found:
        rate = one.first.rate
        if subject != (subject := one.first.subject):
            yield f"{subject}: {_conditions(one.first)}"
        known = f"{one.median:.4g} {rate.unit} ±{one.half_width * 100:.2g} % of {count_of(one.runs, 'runs')}"
        before = "" if one.before is None else f", {one.before:.4g} so far"
        value = f" {one.value:.4g}" if one.known else ""
        yield f"  {rate.figure:18} {known}: {one.answer}{value}{before}"


def _conditions(one: Measured) -> str:
    names = ("card", "level", "driver", "torch", "power")
    return ", ".join(one.conditions[name] for name in names if one.conditions[name])


def _comment(one: Floor) -> str:
    known = f"median {one.median:.4g} of {count_of(one.runs, 'runs')}, spread {one.spread * 100:.2g} %"
    return f"calibrated {datetime.now(UTC):%Y-%m-%d}: {known}; {_conditions(one.first)}"


def _write(target: Path, edited: str, source: Path, text: str) -> None:
    """Replace the file in one step, once what will stand there was linted. Refused, ProfileError."""
    if read_text(source, str(source)) != text:
        raise Refused(f"{source}: changed since it was read; not written: name a new file with --out")
    try:
        with replacing(target) as file:
            os.fchmod(file.fileno(), source.stat().st_mode & 0o777 | 0o200)
            file.write(edited.encode())
            file.flush()
            if problems := lint_rig(load_rig(f"{target}.part", KINDS)):
                raise ProfileError(problems)
    except OSError as error:
        raise Refused(f"{target}: not written: {error.strerror or error}; name another: --out") from None


def _of_sku(options: argparse.Namespace) -> int:
    """Print a SKU file with the figures of these runs, or write it. Refused, ProfileError."""
    name, file = options.sku, str(options.out or options.sku)
    path = Path(name) if name.endswith(".toml") else profile_folder() / "gpus" / f"{name}.toml"
    if path.stem == name and name not in stems("gpus"):
        way_out = f"copy that of a similar card, correct what is printed, and name it: --sku ./{name}.toml"
        raise Refused(f"--sku {name}: no such SKU file; {way_out}")
    text, model = read_text(path, name), models_of(KINDS).sku
    sku = checked(model, tables_of(text, name), name)
    rates: list[Measured] = []
    wrong: list[str] = []
    for run in map(named_run, options.runs):
        try:
            result = usable(run)
            gpus = [one for one in result.recording.gpus.values() if one.sku in (path.stem, None)]
            cards = {one.subject: one for one in gpus if one.name in sku.nvml_names}
            capped = [one for one, gpu in cards.items() if gpu.power_limit_w != gpu.power_limit_default_w]
            if capped or not cards:
                why = f"{', '.join(capped)}: a power limit that is not the default" if capped else ""
                raise Refused(f"{run}: {why or f'has no {sku.name}'}")
            every = measured(result.recording, result.verdicts)
            rates += [of_model(one) for one in every if one.subject in cards]
        except (Refused, RecordingError) as refused:
            wrong.append(str(refused))
    if wrong or not rates:
        raise Refused("\n".join(wrong) or "--sku: name the folders of runs with such cards")
    _require_alike(rates)
    figures = {}
    for kind in KINDS.figures.values():
        mine = [one for one in rates if one.rate.figure == kind.name]
        if mine and kind.peak is not None:  # else it is of the slot, not of the card
            figures[kind.name] = entry, comment = _entry(mine, kind.conditions)
            known = sku.steady.figure(kind.name)
            stated = "" if known is None else f"; so far {known.value:g} of {known.cards or 'no'} cards"
            value = "{value:g} ({range[0]:g} to {range[1]:g})".format_map(entry)
            of = f"{count_of(entry['runs'], 'runs')} of {count_of(entry['cards'], 'cards')}"
            of += f", spread {entry['spread'] * 100:.2g} %" if "spread" in entry else ""
            typer.echo(f"{kind.name:18} {value}: {of}; {comment}{stated}", err=True)
    edited = with_figures(text, name, "", "steady", figures)
    if problems := lint_sku(file, checked(model, tables_of(edited, file), file), KINDS):
        raise ProfileError(problems)
    if options.out is None:
        typer.echo(edited, nl=False)
        return 0
    try:
        with replacing(options.out) as written:
            written.write(edited.encode())
    except OSError as error:
        raise Refused(f"--out {options.out}: not written: {error.strerror or error}; name another") from None
    return 0


def _entry(rates: Sequence[Measured], more: Sequence[str]) -> tuple[dict[str, Any], str]:
    """A figure of a SKU file, the median of the cards' medians, and the comment beside it."""
    first, values = rates[0], [one.rate.value for one in rates]
    cards = [[one.rate.value for one in every] for every in grouped(rates, lambda one: one.card).values()]
    entry = {
        "value": rounded(median(map(median, cards))),
        "range": [rounded(min(values)), rounded(max(values))],
        "cards": len(cards),
        "runs": len({one.run_id for one in rates}),
        **({"spread": rounded(spread(cards))} if len(cards) > 1 else {}),
        "size": first.rate.labels["size"],
        "workers": first.rate.workers,
        "torch": first.conditions["torch"],
        **{name: first.rate.labels[name] for name in more},
    }
    return entry, f"measured with {first.conditions['driver'] or 'no driver'}"
