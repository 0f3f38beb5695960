"""The options in pytest, and whether a session asks for an acceptance run."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from rigproof.report.files.folders import unwritable
from rigproof.run.options import OPTIONS

MARKER = "hardware"
OWN = [names for group in OPTIONS.values() for names in group]
TYPED = {name for names in OWN for name in names}
# Options with which pytest collects nothing, and those with which it shows tests or fixtures and runs none,
# by the names under which pytest keeps them, in every spelling.
QUESTIONS = {
    "help": ("--help", "-h"),
    "version": ("--version", "-V"),
    "markers": ("--markers",),
    "cacheshow": ("--cache-show",),
}
SHOWING = {
    "collectonly": ("--collect-only", "--collectonly", "--co"),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "setupplan": ("--setup-plan", "--setupplan"),
}
PLAN = {"hw_plan": ("--hw-plan",)}
LOADS_ITSELF = "the acceptance suite itself loads all GPUs at the same time"
# Options with which no test would judge, or several sessions would load the GPUs, by the names under which
# pytest keeps them.
REFUSED = {
    "numprocesses": f"-n/--numprocesses: {LOADS_ITSELF}; give -n 0",
    "looponfail": "-f/--looponfail: an acceptance run ends with a verdict; leave it out",
    "forked": f"--forked: each test would be a run of its own, and {LOADS_ITSELF}; leave it out",
    "setuponly": "--setup-only: all GPUs would be loaded, and no test would judge them; leave it out",
    "benchmark_only": "--benchmark-only: pytest-benchmark would skip every test that judges; leave it out",
    "benchmark_compare_fail": "--benchmark-compare-fail: history.regression compares a run with earlier "
    "ones, by a limit of the profile; leave it out",
}
# Files that pytest and its plugins write, most of them when the load is over, by the names under which pytest
# keeps the options.
WRITTEN = {
    "xmlpath": "--junit-xml",
    "log_file": "--log-file",
    "benchmark_json": "--benchmark-json",
    "benchmark_histogram": "--benchmark-histogram",
    "benchmark_cprofile_dump": "--benchmark-cprofile-dump",
    "htmlpath": "--html",
    "report_log": "--report-log",
    "json_report_file": "--json-report-file",
}
STORAGE = "benchmark_storage"
# What makes a run and its exit status, by the names under which `-p no:…` would leave them out.
PARTS = ("last-word", "wanted", "session", "guard", "ending", "display", "fixtures", "history")
STORED = [names[0].removeprefix("--").replace("-", "_") for names in OWN]  # as pytest has them


def add_options(parser: pytest.Parser) -> None:
    """Declare every option; names and meanings are those of docs/running.md."""
    group = parser.getgroup("rigproof", "hardware acceptance (pytest -m hardware)")
    for options in OPTIONS.values():
        for names, settings in options.items():
            group.addoption(*names, **settings)
    parser.addini(
        "rigproof", "true: `pytest -m hardware` is the acceptance run of rigproof here", type="bool"
    )


def acts(config: pytest.Config) -> bool:
    """Whether rigproof is wanted here: an ini key says so, or one of its options is given.

    In any other project nothing may change: its marker `hardware` is its own, and nobody's GPUs are loaded.
    """
    return config.getini("rigproof") or any(config.getoption(name) is not None for name in STORED)


def wants_hardware(config: pytest.Config) -> bool:
    """Whether this is an acceptance run: rigproof is wanted, and `-m` selects the marker `hardware`.

    Not if pytest is only asked something, such as for its markers, and runs no test.
    """
    return acts(config) and _given(config, QUESTIONS) is None and _selects(config.option.markexpr)


def shows_only(config: pytest.Config) -> str | None:
    """The option with which pytest only shows what it has; None if tests are to run."""
    names = _given(config, SHOWING)
    return None if names is None else names[0]


def only_asks(config: pytest.Config) -> bool:
    """Whether no test is to run: pytest is asked something, shows what there is, or prints the plan."""
    return _given(config, QUESTIONS | SHOWING | PLAN) is not None


def _given(config: pytest.Config, options: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The spellings of the first of these options that is set, by whatever way; None if none is."""
    return next((names for key, names in options.items() if getattr(config.option, key, None)), None)


def asks_to_simulate(config: pytest.Config) -> bool:
    """Whether no hardware is asked for: the rig is to be simulated."""
    return bool(config.option.hw_simulate or config.option.hw_simulate_inline)


def refuse_untyped(config: pytest.Config) -> None:
    """Refuse an acceptance run that would test nothing, though nobody typed that: pytest.UsageError.

    After a `--help` of PYTEST_ADDOPTS pytest reads nothing of what was typed, so that is looked at here.
    """
    typed = _typed(config)
    asked = (
        _selects(config.option.markexpr) or any(MARKER in one for one in typed) or _first(typed) is not None
    )
    names = _given(config, QUESTIONS | SHOWING | PLAN)
    if not (acts(config) and asked) or names is None:
        return
    if not any(one.partition("=")[0] in names or one[:2] in names for one in typed):  # -VV, too
        raise pytest.UsageError(
            f"{names[0]}: PYTEST_ADDOPTS or an ini file asks for it, and nothing would be tested; take it "
            "out there, or type it, if you want what it shows"
        )


def refuse_options(config: pytest.Config) -> None:
    """Refuse what would keep an acceptance run from its verdict: pytest.UsageError."""
    for name, sentence in REFUSED.items():
        if config.getoption(name, None) and shows_only(config) is None:
            raise pytest.UsageError(sentence)
    for part in PARTS:
        if config.pluginmanager.is_blocked(f"rigproof-{part}"):
            raise pytest.UsageError(
                f"-p no:rigproof-{part}: it is a part of what makes the run; leave it out"
            )
    if shows_only(config) is None:
        _refuse_unwritable(config)
    if _ends_the_process(config):
        raise pytest.UsageError(
            "faulthandler_exit_on_timeout: it would end a run without a verdict, as a stage lasts longer "
            "than faulthandler_timeout; give -o faulthandler_exit_on_timeout=false"
        )
    spread = config.getoption("distload", False) or config.getoption("dist", "no") != "no"
    if spread and config.getoption("tx", None) and config.getoption("numprocesses", None) is None:
        raise pytest.UsageError(f"--dist, --tx: {LOADS_ITSELF}; leave both out, or give -n 0")


def _refuse_unwritable(config: pytest.Config) -> None:
    """Refuse a file that could not be written, before the load rather than after it: pytest.UsageError."""
    for name, option in WRITTEN.items():
        given = config.getoption(name, None) or []
        for one in given if isinstance(given, list) else [given]:
            path = Path(os.path.expanduser(os.path.expandvars(one)))  # noqa: PTH111 - as pytest does it
            why = unwritable(path)
            if not why and name == "benchmark_json" and not path.absolute().parent.is_dir():
                why = "its folder is not there"
            if why:
                raise pytest.UsageError(f"{option} {one}: {why}; name another file, or leave it out")
    from rigproof.history.storage import DEFAULT_STORAGE  # noqa: PLC0415 - imports pytest-benchmark

    given = str(config.getoption(STORAGE, None) or DEFAULT_STORAGE)
    if given == DEFAULT_STORAGE or given.startswith("elasticsearch+"):
        return  # the rig's own history takes the default's place
    storage = given.removeprefix("file://")
    why = "no such kind of storage" if "://" in storage else unwritable(Path(storage), folder=True)
    if why:
        raise pytest.UsageError(f"--benchmark-storage {storage}: {why}; name another folder, or leave it out")


def _ends_the_process(config: pytest.Config) -> bool:
    """Whether pytest's faulthandler would end the process with 1 when a test, with its stages, takes long."""
    try:
        return float(config.getini("faulthandler_timeout")) > 0 and config.getini(
            "faulthandler_exit_on_timeout"
        )
    except ValueError:  # a pytest without it
        return False


def select_hardware(config: pytest.Config) -> None:
    """Options that were typed ask for an acceptance run: without a `-m` beside them, select the marker.

    Options of `addopts` are defaults, and ask for nothing. Raises pytest.UsageError if the typed `-m` selects
    other tests.
    """
    typed = _typed(config)
    option = _first(typed)
    if option is None or _selects(config.option.markexpr) or _given(config, QUESTIONS) is not None:
        return
    if any(argument.startswith("-m") for argument in typed):
        raise pytest.UsageError(
            f"{option}: an acceptance run has this option, and -m {config.option.markexpr!r} selects none of "
            f"its tests; write -m {MARKER}, or drop one of the two"
        )
    config.option.markexpr = MARKER


def _typed(config: pytest.Config) -> list[str]:
    """The arguments without those of PYTEST_ADDOPTS and of ini files."""
    return [str(argument) for argument in config.invocation_params.args]


def _first(typed: Iterable[str]) -> str | None:
    """The first of these arguments that is one of our options, without its value."""
    return next((name for name in (one.partition("=")[0] for one in typed) if name in TYPED), None)


def _selects(expression: str) -> bool:
    """Whether a `-m` asks for the marker `hardware`: `not slow` would select it too, but asks for others."""
    if not expression:
        return False

    def only(marker: str | None) -> bool:
        return Expression.compile(expression).evaluate(lambda name, /, **_: name == marker)

    try:
        return only(MARKER) and not only(None)
    except SyntaxError:
        return False  # pytest itself refuses it with its own message
