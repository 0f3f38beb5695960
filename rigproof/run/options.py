"""The options of an acceptance run, in one table: `--hw-level` in pytest, `--level` of `rigproof accept`.

Every pytest session of an environment that has rigproof imports it, so it imports nothing heavy.
"""

import argparse
import math
import re
from collections.abc import Mapping
from typing import Any

from rigproof.profiles.tables.level_names import LEVELS

PREFIX = "--hw-"


def short(text: str) -> str:
    """A text with the options' names as the command line `rigproof` has them: `--level` for `--hw-level`."""
    return text.replace(PREFIX, "--")


def _level(text: str) -> str:
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a level: use one of {', '.join(LEVELS)}")
    return text


SHORTEST_MIN = 0.05  # in less than 2 s a sound card may finish no round, which would be called its failure


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not SHORTEST_MIN <= minutes <= 7 * 24 * 60:  # NaN is outside, too
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length: write minutes, {SHORTEST_MIN} at least and at most a week, such as 3"
        )
    return minutes


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time to wait: write seconds, more than 0, such as --hw-wait=600"
        )
    return seconds


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "its value is empty, as that of a variable that is not set; leave the option out for its default"
        )
    return text


TAG = re.compile(r"[A-Za-z0-9][\w.=:+-]{0,39}", re.ASCII)


def _tag(text: str) -> str:
    if not TAG.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no tag: write up to 40 letters, digits and _.=:+-, such as paste=new"
        )
    return text


def _switch(help_text: str) -> dict[str, Any]:
    return {"action": "store_true", "default": None, "help": help_text}


# By group: the names of an option, and what argparse is told of it. All are None where they are not given.
OPTIONS: Mapping[str, Mapping[tuple[str, ...], Mapping[str, Any]]] = {
    "what is tested, and for how long": {
        ("--hw-profile", "--hwprofile"): {
            "type": _text,
            "metavar": "NAME|PATH|auto",
            "help": "rig of hwprofiles/rigs, a TOML file, or auto: the hardware found here (default)",
        },
        ("--hw-level",): {
            "type": _level,
            "metavar": "|".join(LEVELS),
            "help": "about 1, 3, 15 or 60 minutes, whatever the number of GPUs "
            "(default: standard, without a GPU quick)",
        },
        ("--hw-duration",): {
            "type": _minutes,
            "metavar": "MIN",
            "help": "length of the sustained stage; at level soak, of the whole run",
        },
        ("--hw-plan",): _switch("print what would be run and judged; load nothing"),
        ("--hw-wait",): {
            "type": _seconds,
            "nargs": "?",
            "const": math.inf,
            "metavar": "SECONDS",
            "help": "if another run is going on here, or on a host of the cluster, wait for its end, for "
            "SECONDS at most; without this option the run is refused then",
        },
        ("--hw-require-gpu",): _switch("fail if no GPU is found"),
    },
    "a cluster of several machines": {
        ("--hw-ray-address",): {
            "type": _text,
            "metavar": "ADDR",
            "help": "join this Ray cluster instead of starting a local one",
        },
        ("--hw-allow-open-cluster",): _switch(
            "with --hw-ray-address: join even a cluster without token authentication; the report says so"
        ),
    },
    "a simulated rig": {
        ("--hw-simulate",): _switch(
            "test no hardware: simulate the profile's rig, in simulated time, on a real local Ray"
        ),
        ("--hw-simulate-inline",): _switch(
            "the same in this process, without Ray, for large rigs and for many runs"
        ),
        ("--hw-simulate-seed",): {
            "type": int,
            "metavar": "N",
            "help": "seed of the simulated noise (default: 0)",
        },
        ("--hw-inject",): {
            "action": "append",
            "type": _text,
            "metavar": "FAULT[@SUBJECT][:key=value,…]",
            "help": "give the simulated rig this fault; can be repeated; `rigproof lint --faults` lists them",
        },
        ("--hw-keep-history",): _switch(
            "keep the simulated rates, apart from real ones; `rigproof history --simulated` lists them"
        ),
    },
    "what is written, and who is told": {
        ("--hw-report-dir",): {
            "type": _text,
            "metavar": "DIR",
            "help": "folder of runs and history (default: reports)",
        },
        ("--hw-tag",): {
            "action": "append",
            "type": _tag,
            "metavar": "TAG",
            "help": "a word of yours for this run, such as paste=new, by which the history can select it; "
            "can be repeated",
        },
        ("--hw-notify",): {
            "type": _text,
            "metavar": "CMD",
            "help": "run this shell command once the verdict is written, whatever it is; it gets the "
            "verdict's sentences as input, and $RIGPROOF_VERDICT, $RIGPROOF_EXIT_STATUS, $RIGPROOF_REPORT",
        },
    },
}
