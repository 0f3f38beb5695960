"""How a finding has to read: one short sentence, a next step, and nothing twice."""

import re

from rigproof.records.verdict import Outcome, Verdict, sentence

LONGEST = 255  # characters: three lines of a terminal
COUNTED = ("cluster.no_timeouts", "memory.success_rate")  # they name the first of what they count
LOUD = (Outcome.FAIL, Outcome.WARN)
STEP = re.compile(
    r"(ask|check|close|compare|cool|correct|do not train|end|find|follows from|give|have the card|have|"
    r"install|join|keep|lift|look|lower|make|NVIDIA|put|raise|read|reboot|replace|reseat|reset|restart|restore|run|see|set|"
    r"start|state|swap|switch|the driver hangs|undo|unset|usually|watch|if|clean|bring|test)\b",
    re.IGNORECASE,
)


def check_sentences(verdicts: list[Verdict]) -> None:
    """Assert that each verdict is one short sentence, and that failures and warnings have a next step."""
    failed = [one for one in verdicts if one.outcome is Outcome.FAIL]
    roots = [one.detail for one in failed if not one.follows and one.detail]
    for verdict in verdicts:
        text = sentence(verdict)
        assert len(text) <= LONGEST, text
        assert "docs/criteria.md" not in text
        if verdict.outcome not in LOUD:
            continue
        step = text.rpartition(f". {verdict.remedy[:1].upper()}{verdict.remedy[1:]}.")
        assert step[1], text
        assert not step[2], text
        assert STEP.match(verdict.remedy), verdict.remedy
        assert verdict.remedy not in step[0]
        assert not repeated(text), text
        if verdict.follows and verdict.criterion not in COUNTED:
            assert not any(detail in verdict.detail for detail in roots), text


def repeated(text: str) -> set[str]:
    """A clause of several words that stands in it twice."""
    clauses = [one.strip(" .") for one in re.split(r"[:;,(]|\. ", text)]
    long_ones = [one.lower() for one in clauses if one.count(" ") >= 3]
    return {one for one in long_ones if long_ones.count(one) > 1}


__all__ = ["check_sentences"]
