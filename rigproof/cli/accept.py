"""`rigproof accept`: the acceptance suite in a pytest session of its own, with short names of its options."""

import argparse
import difflib
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pytest
import typer

from rigproof.cli.plain_terminal import PlainReporter
from rigproof.cli.refused import Refused
from rigproof.host.exit_status import UNSAID
from rigproof.host.package import suite_folder
from rigproof.host.standard_streams import lasting
from rigproof.profiles.loading.files import stems
from rigproof.profiles.tables.level_names import LEVELS
from rigproof.records.verdict import EXIT_STATUS, USAGE, Decision
from rigproof.run.options import OPTIONS, short

ABOUT = """\
Run the acceptance suite on this machine or cluster: load every GPU, judge what was measured,
and end with ACCEPTED (exit status 0), REJECTED (1) or INCOMPLETE (6).
"""
EXAMPLES = """\
examples:
  rigproof accept                                     what is found here, about 3 minutes
  rigproof accept --level quick --require-gpu         a minute; without a GPU the rig is rejected
  rigproof accept --hwprofile my-rig.toml --plan      what would be run and judged
  rigproof accept --hwprofile my-rig.toml --ray-address 192.168.1.10:6379
  rigproof accept --simulate --hwprofile dual-3090-3070 --inject overheat@pc2/gpu0
  rigproof accept --json | jq -r .verdict             for scripts
  rigproof accept -k thermal -v                       options of pytest work too

`rigproof detect` prints a profile of what is found here, `rigproof lint --faults` lists the faults.
"""
NAMES = [short(name) for group in OPTIONS.values() for names in group for name in names]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; `{self.prog} --help` lists the options")

    def exit(self, status: int = 0, _: str | None = None) -> NoReturn:  # after --help
        raise typer.Exit(status)


class _Watching:
    """A pytest plugin for which options have their names as typed here, and nothing that is typed is lost.

    It also remembers the run's folder, and shows a run without pytest's own lines.
    """

    def __init__(self) -> None:
        self.only_asked = False  # for a plan, for what there is: 0 is no verdict then
        self._session: Any = None

    @property
    def status(self) -> int | None:
        """The exit status of the run; None if none was judged."""
        return None if self.folder is None else self._session.conclusion.exit_status

    @property
    def folder(self) -> Path | None:
        """The folder of a run that has been judged."""
        judged = self._session is not None and self._session.conclusion is not None
        return self._session.folder if judged else None

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        try:
            config = yield
        except pytest.UsageError as error:
            # Without pytest's usage above the reason, and its files below.
            reason = re.sub(
                r"\Ausage: .*?\berror: |\n  (?:inifile|rootdir):.*", "", str(error), flags=re.DOTALL
            )
            raise pytest.UsageError(reason) from error
        own = str(suite_folder())
        for word in config.option.file_or_dir:
            if word != own and (meant := _meant(word)):
                raise pytest.UsageError(f"{word}: {meant}")
        return config

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        plugins = config.pluginmanager
        ours: Any = plugins.get_plugin("rigproof.plugin")
        shows_tests = ours is None or ours.only_asks(config)
        if type(plugins.get_plugin("terminalreporter")) is pytest.TerminalReporter and not shows_tests:
            plugins.unregister(name="terminalreporter")
            plugins.register(PlainReporter(config, sys.stdout), "terminalreporter")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        self._session = config.pluginmanager.get_plugin("rigproof-session")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        run: Any = session.config.pluginmanager.get_plugin("rigproof-session")
        if run is not None and run.refusal is not None:
            run.refusal = short(run.refusal)

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, object, object]:
        ours: Any = config.pluginmanager.get_plugin("rigproof.plugin")
        if ours is None:
            raise pytest.UsageError("-p no:rigproof.plugin: it is what makes the run; leave it out")
        self.only_asked = ours.only_asks(config)
        if not (self.only_asked or ours.wants_hardware(config)):
            raise pytest.UsageError(
                f"-m {config.option.markexpr!r}: selects no test of the acceptance suite; leave it out"
            )
        try:
            return (yield)
        except pytest.UsageError as error:
            raise pytest.UsageError(short(str(error))) from error


def accept(given: Sequence[str]) -> int:
    """Run the suite with these arguments; returns the exit status. Raises Refused."""
    _require_what_pytest_needs()
    # The suite's own configuration, so that the project around it changes nothing.
    own = ["-c", os.devnull, f"--rootdir={Path.cwd()}", "--import-mode=importlib"]
    own += ["-o", "rigproof=true"]
    # rigproof is already imported, by this very command.
    own += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "rigproof.plugin", "-m", "hardware"]
    parser = parser_of("accept", "[options] [options of pytest]", ABOUT, EXAMPLES)
    json_help = "verdict.json on standard output, all else on standard error"
    parser.add_argument("--json", action="store_true", help=json_help)
    options, others = parser.parse_known_args(given)
    as_json = vars(options).pop("json")
    if as_json and options.hw_plan:
        raise Refused("--json: a plan has no verdict; leave out one of --json and --plan")
    watching = _Watching()
    watching.only_asked = "--version" in others or "-V" in others  # pytest answers without any plugin
    arguments = [*own, str(suite_folder()), *for_pytest(options), *others]
    with _elsewhere() if as_json else nullcontext() as answer:
        status = _status(arguments, watching)
        if answer is not None and watching.folder is not None:
            with suppress(OSError):
                answer.buffer.write((watching.folder / "verdict.json").read_bytes())  # UTF-8 in every locale
    if status == USAGE:
        _suggest(others)
    return status


def _require_what_pytest_needs() -> None:
    """Refuse what pytest itself would end with a traceback for, before any plugin is asked."""
    try:
        shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))
    except ValueError as error:
        raise Refused(f"PYTEST_ADDOPTS: {error}; correct it, or unset it") from None
    try:
        tempfile.gettempdir()
    except OSError as error:
        raise Refused(f"{error.strerror}; make room there, or name one in TMPDIR") from None


def _status(arguments: list[str], watching: _Watching) -> int:
    """The exit status of pytest: 0 only where the verdict.json of its run says so, 1 if it was rejected."""
    try:
        status = int(pytest.main(arguments, plugins=[watching]))
        why = f"pytest ended with {status}, and no verdict of this run says so"
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0
        why = f"a plugin or a conftest.py ended pytest (SystemExit: {left.code})"
    except OSError as error:  # such as of a --debug file, which pytest opens before it asks any plugin
        if watching.folder is not None:
            raise
        raise Refused(f"pytest did not begin: {error}; correct the option that names it") from error
    accepted, rejected = EXIT_STATUS[Decision.ACCEPTED], EXIT_STATUS[Decision.REJECTED]
    if status not in (accepted, rejected) or watching.only_asked:
        return status
    if status == watching.status and (status == rejected or _written(watching.folder) == status):
        return status
    typer.echo(f"rigproof: {why}; no verdict", err=True)
    return UNSAID


def _written(folder: Path | None) -> object:
    """The exit status in the run's verdict.json; None if there is none."""
    if folder is None:
        return None
    try:
        return json.loads((folder / "verdict.json").read_bytes()).get("exit_status")
    except (OSError, ValueError):
        return None


@contextmanager
def _elsewhere() -> Iterator[TextIO]:
    """Send what is written to standard output to standard error; yields what standard output was."""
    sys.stdout.flush()
    with lasting(sys.stdout, "standard output", os.dup(1), own=True) as answer:
        os.dup2(2, 1)
        try:
            yield answer
        finally:
            sys.stdout.flush()
            answer.flush()
            os.dup2(answer.fileno(), 1)


def _meant(word: str) -> str:
    """What somebody may have meant by a word that is no option, as a question; empty if it is a file."""
    from rigproof.judging.catalogue import CATALOGUE, FAULTS  # noqa: PLC0415 - only after a mistake

    options = {name.removeprefix("--") for name in NAMES}
    rigs, criteria = stems("rigs"), {*CATALOGUE, *(one.family for one in CATALOGUE.values())}
    guesses = {
        f"--level {word}": word in LEVELS,
        f"--hwprofile {word}": word in rigs or word.endswith(".toml"),
        f"--{word}": word in options or word == "json",
        f"--simulate --inject {word}": re.split("[@:]", word)[0] in FAULTS,
        f"-k {word}": word in criteria,
        f"--ray-address {word}": re.fullmatch(r"\S+[^:]:\d{2,5}", word) is not None,
    }
    for guess, fits in guesses.items():
        if fits:
            return f"did you mean {guess}?"
    if Path(word.partition("::")[0]).exists():
        return ""
    near = difflib.get_close_matches(word, sorted({*LEVELS, *rigs, *options, *FAULTS}), 1, 0.75)
    nothing = "neither an option nor a file; `rigproof accept --help` lists the options"
    return _meant(near[0]) if near else nothing


def _suggest(others: Sequence[str]) -> None:
    """Name the options that somebody may have meant by those that pytest has refused."""
    for one in others:
        near = difflib.get_close_matches(one.partition("=")[0], NAMES, 1, 0.75) if one[:2] == "--" else []
        if near:
            typer.echo(f"rigproof: {one.partition('=')[0]}: did you mean {near[0]}?", err=True)


def for_pytest(options: argparse.Namespace) -> list[str]:
    """These options with their names in pytest."""
    arguments = []
    for key, value in vars(options).items():
        name = f"--{key.replace('_', '-')}"
        if value is True:
            arguments.append(name)
        elif value is not None:
            arguments += [f"{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return arguments


def parser_of(command: str, usage: str, about: str, examples: str) -> argparse.ArgumentParser:
    """A command's parser with the options of a run; what is wrong raises Refused, --help typer.Exit."""
    style: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    name = f"rigproof {command}"
    parser = _Parser(name, f"{name} {usage}", about, examples, **style)
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for names, settings in options.items():
            key = names[0].removeprefix("--").replace("-", "_")
            group.add_argument(*map(short, names), dest=key, **{**settings, "help": short(settings["help"])})
    return parser
