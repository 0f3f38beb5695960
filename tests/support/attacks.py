"""Attacks on the verdict: runs that were accepted, rejected or explained wrongly once, and what they say now.

`PYTHONPATH=.:tests python -m support.attacks > docs/attacks.md` writes them down; a test runs the simulated
ones and sees that each other one's test is there.
"""

from rigproof.run.options import short
from support.simulated_attacks import ATTACKS
from support.tested_attacks import TESTED

INTRODUCTION = """\
# Attacks on the verdict

Written by `PYTHONPATH=.:tests python -m support.attacks > docs/attacks.md`; tests/simulation/test_attacks.py
runs the first table and keeps this page current. Do not edit it by hand.

Each line was a green that was not earned, a red that was not deserved, or a wrong cause. `before` is what
the verdict was when it was attacked.

## On simulated rigs

`rigproof accept` with:

| What | Options | Before | Now |
|---|---|---|---|
"""
OTHERS = """
## By tests

| What | Before | Now | Test, below `tests/` |
|---|---|---|---|
"""


def markdown() -> str:
    """The whole page."""
    rows = []
    for one in ATTACKS:
        now = "exit 4" if one.verdict == "usage" else one.verdict
        if one.expected is not None:
            criterion, subject, outcome = one.expected
            now += f": `{criterion}` of {subject} {outcome.replace('_', ' ')}"
        rows.append(f"| {one.about} | `{one.command}` | {one.before} | {now} |")
    others = [f"| {one.about} | {one.before} | {one.now} | `{one.test}…` |" for one in TESTED]
    return short(INTRODUCTION + "\n".join(rows) + "\n" + OTHERS + "\n".join(others) + "\n")


if __name__ == "__main__":
    print(markdown(), end="")  # noqa: T201
