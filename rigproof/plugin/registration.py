"""Prepares an acceptance session, or refuses it, and hooks its parts into pytest."""

import os
from datetime import UTC, datetime

import pytest

from rigproof.host.package import suite_folder
from rigproof.plugin import fixtures
from rigproof.plugin.benchmarks import BenchmarkHooks
from rigproof.plugin.display import Display
from rigproof.plugin.ending import Ending
from rigproof.plugin.guard import Guard
from rigproof.plugin.keys import DETECTION, ENDING, SESSION
from rigproof.plugin.options import shows_only
from rigproof.plugin.preparation import Refused, prepare, require_surroundings
from rigproof.plugin.request import Request
from rigproof.plugin.session import HardwareSession
from rigproof.report.files.folders import ReportFolderError, new_run_folder, room_mib
from rigproof.run.start_up import StartUp


def register(config: pytest.Config, start_up: StartUp) -> None:
    """Prepare a session and hook it in. Raises pytest.UsageError (exit 4) if it cannot begin."""
    try:
        prepared = prepare(Request.of(config), config.stash[DETECTION])
        folder = None
        if shows_only(config) is None:
            require_surroundings(prepared)
            rig, plan = prepared.loaded.rig, prepared.plan
            subjects = len(rig.nodes) + len(prepared.loaded.devices())
            needed_mib = room_mib(subjects, plan.expected_s, rig.sampling.rate_hz)
            folder = new_run_folder(prepared.request.report_dir, rig.name, datetime.now(UTC), needed_mib)
    except (Refused, ReportFolderError) as error:
        raise pytest.UsageError(str(error)) from error
    # A library's warning must not decide about a rig, however this project treats warnings.
    config.addinivalue_line("filterwarnings", "default")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(suite_folder())]  # not the suite's own tests, which need torch and Ray here
    start_up.ended("rig")
    own_junit = None
    if folder is not None:
        if own_junit := config.getoption("xmlpath", None):
            own_junit = os.path.expanduser(os.path.expandvars(own_junit))  # noqa: PTH111 - as pytest does it
        config.option.xmlpath = str(folder / "junit.xml")
    session = HardwareSession(config, prepared, folder, start_up)
    guard, benchmarks = Guard(session), BenchmarkHooks(session)
    ending = Ending(session, guard, benchmarks, own_junit)
    config.stash[SESSION], config.stash[ENDING] = session, ending
    parts = {
        "session": session,
        "guard": guard,
        "ending": ending,
        "display": Display(session),
        "fixtures": fixtures,
        "history": benchmarks,
    }
    for name, part in parts.items():
        config.pluginmanager.register(part, f"rigproof-{name}")
