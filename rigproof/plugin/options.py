"""The command line of the acceptance suite."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from _pytest.mark.expression import Expression

from rigproof.profiles.models import LevelName

LEVELS: tuple[LevelName, ...] = get_args(LevelName)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option; names and meanings are those of the README."""
    group = parser.getgroup("rigproof", "hardware acceptance (pytest -m hardware)")
    group.addoption(
        "--hwprofile",
        default="auto",
        metavar="NAME|PATH|auto",
        help="rig of hwprofiles/rigs, a TOML file, or what is found here (default)",
    )
    group.addoption(
        "--level",
        default=None,
        type=_level,
        metavar="|".join(LEVELS),
        help="about 1, 3, 15 or 60 minutes, whatever the number of GPUs "
        "(default: standard, without a GPU quick)",
    )
    group.addoption(
        "--duration", default=None, type=_minutes, metavar="MIN", help="length of the sustained stage"
    )
    group.addoption("--plan", action="store_true", help="print what would be done and judged; load nothing")
    group.addoption(
        "--ray-address", default=None, metavar="ADDR", help="join this Ray cluster in place of a local one"
    )
    group.addoption("--require-gpu", action="store_true", help="fail where no GPU is found")
    group.addoption(
        "--report-dir", default="reports", metavar="DIR", help="where runs and history go (default: reports)"
    )


def _level(text: str) -> str:
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is no level: take one of {', '.join(LEVELS)}")
    return text


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not (math.isfinite(minutes) and 0 < minutes <= 7 * 24 * 60):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no length: write minutes over 0 and at most a week, such as 3"
        )
    return minutes


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for."""

    profile: str
    level: LevelName | None
    sustained_s: float | None
    ray_address: str | None
    require_gpu: bool
    report_dir: Path

    @classmethod
    def of(cls, config: pytest.Config) -> "Request":
        """Read the options of this session."""
        minutes = config.getoption("--duration")
        return cls(
            profile=config.getoption("--hwprofile"),
            level=config.getoption("--level"),
            sustained_s=None if minutes is None else minutes * 60,
            ray_address=config.getoption("--ray-address"),
            require_gpu=config.getoption("--require-gpu"),
            report_dir=config.invocation_params.dir / config.getoption("--report-dir"),
        )


def wants_hardware(config: pytest.Config) -> bool:
    """Whether `-m` names the marker `hardware` in a way that selects it."""
    expression = config.option.markexpr
    if not expression:
        return False

    def only_hardware(name: str, /, **_: str | int | bool | None) -> bool:
        return name == "hardware"

    try:
        return Expression.compile(expression).evaluate(only_hardware)
    except SyntaxError:
        return False  # pytest itself refuses it with its own words
