"""The command line of the acceptance suite."""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest
from _pytest.mark.expression import Expression

from rigproof.profiles.tables.levels import LevelName

Simulate = Literal["ray", "inline"]
LEVELS: tuple[LevelName, ...] = get_args(LevelName)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option; names and meanings are those of the README."""
    group = parser.getgroup("rigproof", "hardware acceptance (pytest -m hardware)")
    group.addoption(
        "--hwprofile",
        default="auto",
        metavar="NAME|PATH|auto",
        help="rig of hwprofiles/rigs, a TOML file, or auto: the hardware found here (default)",
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
        "--duration", default=None, type=_minutes, metavar="MIN", help="length of the continuous load"
    )
    group.addoption("--plan", action="store_true", help="print what would be run and judged; load nothing")
    group.addoption(
        "--ray-address",
        default=None,
        metavar="ADDR",
        help="join this Ray cluster instead of starting a local one",
    )
    group.addoption(
        "--allow-open-cluster",
        action="store_true",
        help="with --ray-address: join even a cluster without token authentication; the report says so",
    )
    group.addoption("--require-gpu", action="store_true", help="fail if no GPU is found")
    group.addoption(
        "--simulate",
        action="store_true",
        help="the profile's rig on simulated silicon, in simulated time, on a real local Ray",
    )
    group.addoption(
        "--simulate-inline",
        action="store_true",
        help="the same without Ray, in this process: for large rigs and for many runs",
    )
    group.addoption(
        "--simulate-seed", default=0, type=int, metavar="N", help="seed of the simulated noise (default: 0)"
    )
    group.addoption(
        "--inject",
        action="append",
        default=[],
        metavar="FAULT[@SUBJECT][:key=value,…]",
        help="a simulated fault by name, repeatable; `rigproof lint --faults` lists them",
    )
    group.addoption(
        "--share",
        action="store_true",
        help="also write a copy of the report without names of hosts, addresses and UUIDs",
    )
    group.addoption(
        "--report-dir", default="reports", metavar="DIR", help="folder of runs and history (default: reports)"
    )


def _level(text: str) -> str:
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a level: use one of {', '.join(LEVELS)}")
    return text


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not (math.isfinite(minutes) and 0 < minutes <= 7 * 24 * 60):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length: write minutes, more than 0 and at most a week, such as 3"
        )
    return minutes


@dataclass(frozen=True, slots=True)
class Request:
    """The options of a run."""

    profile: str
    level: LevelName | None
    duration_s: float | None
    ray_address: str | None
    require_gpu: bool
    report_dir: Path
    simulate: Simulate | None = None
    seed: int = 0
    inject: tuple[str, ...] = ()
    allow_open: bool = False
    share: bool = False

    @classmethod
    def of(cls, config: pytest.Config) -> "Request":
        """Read the options of this session."""
        minutes = config.getoption("--duration")
        return cls(
            profile=config.getoption("--hwprofile"),
            level=config.getoption("--level"),
            duration_s=None if minutes is None else minutes * 60,
            ray_address=config.getoption("--ray-address"),
            allow_open=config.getoption("--allow-open-cluster"),
            share=config.getoption("--share"),
            require_gpu=config.getoption("--require-gpu"),
            simulate=_simulate(config),
            seed=config.getoption("--simulate-seed"),
            inject=tuple(config.getoption("--inject")),
            report_dir=config.invocation_params.dir / config.getoption("--report-dir"),
        )


def _simulate(config: pytest.Config) -> Simulate | None:
    """Where the simulated rig is to run; None for a real rig."""
    if config.getoption("--simulate-inline"):
        return "inline"
    return "ray" if config.getoption("--simulate") else None


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
        return False  # pytest itself refuses it with its own message
