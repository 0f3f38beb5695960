"""`rigproof accept`: the acceptance suite in a pytest session of its own, with short names of its options."""

import argparse
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rigproof.cli.refused import Refused
from rigproof.run.options import OPTIONS, PREFIX, short
from rigproof.run.suite import suite_folder

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
  rigproof accept -k thermal -v                       options of pytest work too

`rigproof detect` prints a profile of what is found here, `rigproof lint --faults` lists the faults.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; `rigproof accept --help` lists the options")


class _ShortNames:
    """A pytest plugin: a refusal names options as they are typed here."""

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_main(self) -> Generator[None, object, object]:
        try:
            return (yield)
        except pytest.UsageError as error:
            raise pytest.UsageError(short(str(error))) from error


def accept(given: Sequence[str]) -> int:
    """Run the suite with these arguments; returns the exit status. Raises Refused."""
    # The suite's own configuration, so that the project around it changes nothing.
    own = ["-c", os.devnull, f"--rootdir={Path.cwd()}", "--import-mode=importlib"]
    own += ["-o", "rigproof=true", "-o", "junit_family=xunit1"]
    # rigproof is already imported, by this very command.
    own += ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "rigproof.plugin", "-m", "hardware"]
    return int(pytest.main([*own, str(suite_folder()), *_for_pytest(given)], plugins=[_ShortNames()]))


def _for_pytest(given: Sequence[str]) -> list[str]:
    """These arguments with the options' names in pytest; what is not an option of ours is left as it is."""
    options, others = _parser().parse_known_args(given)
    arguments = []
    for key, value in vars(options).items():
        name = PREFIX + key.replace("_", "-")
        if value is True:
            arguments.append(name)
        elif value is not None:
            arguments += [f"{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return [*arguments, *others]


def _parser() -> argparse.ArgumentParser:
    style: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    usage = "rigproof accept [options] [options of pytest]"
    parser = _Parser("rigproof accept", usage, ABOUT, EXAMPLES, **style)
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for names, settings in options.items():
            group.add_argument(*map(short, names), **{**settings, "help": short(settings["help"])})
    return parser
