"""Simulated runs of every fault, and docs/faults.toml, which is written from them.

`PYTHONPATH=.:tests python -m support.outcomes` writes the file. It runs the cases that the file lists, and
each fault with its defaults, in each stage in which it can act, and late in the continuous stage.
`why` and keys are kept: they are all that a person writes. `git diff` shows what changed.
"""

import argparse
import json
import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.expected_outcomes import (
    ENDS,
    OTHERS,
    OTHERS_OF_GPUS,
    PATH,
    Case,
    cases,
    hits,
    others,
)
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from rigproof.stages.registry import FORMS, KINDS
from support.fault_matrix import LEVEL, changes_of, level_of, rig_of, subject_of
from support.lengths import lengths

DUTIES = {kind.name: kind.duty for kind in KINDS}
CONTINUOUS = next(name for name, duty in DUTIES.items() if duty == "continuous")
LATE = f"stage={CONTINUOUS},after="  # how the keys of a case begin that is late in the continuous stage
LENGTHS = {kind.name: 30 for kind in KINDS if "length_s" in kind.settings.model_fields}
LENGTHS |= {CONTINUOUS: 60, "training": 40, "transient": 60}
NODE = "n1"
WITH_OTHERS = 15  # cards of a run, at most
# They end the work of the whole run or of the whole node, or they show on the rig: each has a run of its own.
ALONE = (
    "gpu-lost",
    "ecc-uncorrected",
    "hung-kernel",
    "worker-killed",
    "worker-frozen",
    "timeout",
)
IN_REAL_TIME = "nvml-hang"  # its deadline passes in real time: one run of it is enough


@dataclass(frozen=True, slots=True)
class Run:
    """Cases of one simulated run, each with the subject that it hits; `stage`: the one that it is about."""

    stage: str
    hurt: tuple[tuple[Case, str], ...]

    def __str__(self) -> str:
        return " ".join(str(case) for case, _ in self.hurt)

    @property
    def rig(self) -> LoadedRig:
        """The rig that it needs."""
        if not self.stage:
            return rig_of(self.hurt[0][0].fault)
        if len(self.hurt) == 1:
            return stage_rig(self.stage, "h200-sxm", "h200-sxm", beside="h200-sxm")
        return stage_rig(self.stage, *(sku_of(case.fault) for case, _ in self.hurt), "h200-sxm")

    @property
    def level(self) -> LevelName:
        """The level at which its faults show."""
        return level_of(self.hurt[0][0].fault)

    def judged(self) -> tuple[Recording, list[Verdict]]:
        """Its recording, and all verdicts."""
        texts = [typed(case, subject) for case, subject in self.hurt]
        recording = simulated_recording(self.rig, self.level, texts)
        return recording, judge_all(recording)

    def found_in(self, verdicts: Sequence[Verdict]) -> list[Case]:
        """The cases, with what they change there."""
        alone = len(self.hurt) == 1
        found = []
        for case, subject in self.hurt:
            changed = summed_up(verdicts, case.fault, subject, self.rig, alone=alone)
            if self.stage and len(changed) > 1 and case.fault.ends != "not measured":
                changed.pop(Outcome.NOT_MEASURED, None)
            found.append(replace(case, changed=changed))
        return found


def typed(case: Case, subject: str) -> str:
    """The fault as `--hw-inject` takes it."""
    return f"{case.fault.name}@{subject}" + (f":{case.keys}" if case.keys else "")


def sku_of(fault: FaultKind) -> str:
    """A card that can have the fault: one of those of the whole runs."""
    return rig_of(fault).devices()[0].sku_stem or ""


@cache
def stage_rig(stage: str, *skus: str, beside: str = "") -> LoadedRig:
    """A node of these cards for runs as short as the stage lets them be, and perhaps a second one."""
    nodes = [{"name": NODE, "cpus": 8 * len(skus), "gpus": [{"sku": sku} for sku in skus]}]
    if beside:
        nodes.append({"name": "n2", "address": "10.0.0.2", "cpus": 8, "gpus": [{"sku": beside}]})
    own = {stage: LENGTHS[stage]} if stage in LENGTHS else {}
    stages = dict.fromkeys(LENGTHS, 0) | {CONTINUOUS: 8} | own
    tables = {
        "name": "a-fault-a-card",
        "sampling": {"rate_hz": 4},
        "limits": {
            "core_temperature_c": 80,
            "core_temperature_warn_c": 78,
            "core_temperature_never_c": 84,
            "working_temperature_c": [50, 75],
            "working_power_w": [300, 700],
        },
        **lengths(LEVEL, settle_s=4, measure_s=4 if stage == "gemm" else 2, round_s=0.5, **stages),
        "nodes": nodes,
    }
    return over_defaults(tables, "a-fault-a-card", KINDS)


def summed_up(
    verdicts: Sequence[Verdict], fault: FaultKind, subject: str, loaded: LoadedRig, *, alone: bool
) -> dict[Outcome, tuple[str, ...]]:
    """What a fault changes, as a case lists it; beside other faults only the verdicts of its own subject."""
    changes = changes_of(list(verdicts))
    found: dict[Outcome, list[str]] = {outcome: [] for outcome in ENDS.values()}
    for name, criterion in CATALOGUE.items():
        own = hits(criterion, subject, loaded) if alone else [subject]
        for outcome in ENDS.values():
            at = [where for (one, where), ended in changes.items() if one == name and ended is outcome]
            if at and set(own) <= set(at):
                found[outcome].append(name)
                at = [where for where in at if where not in own]
            if alone:
                found[outcome] += [f"{where} {name}" for where in at]
    unmeasured = found[Outcome.NOT_MEASURED]
    for word in (OTHERS, OTHERS_OF_GPUS) if alone else ():
        every = others(word, subject, loaded)
        if every and all(one in changes for one in every):
            gone = {name for name, where in every if changes[name, where] is Outcome.NOT_MEASURED}
            gone -= set(fault.trips)
            kept = [name for name in unmeasured if name not in gone]
            # Also of teams, which the word does not stand for.
            for name in [one for one in unmeasured if one in gone]:
                elsewhere = set(hits(CATALOGUE[name], subject, loaded)) - {one for _, one in every}
                kept += [f"{where} {name}" for where in sorted(elsewhere)]
            unmeasured[:] = kept
            unmeasured.append(word)
    return {outcome: tuple(names) for outcome, names in found.items() if names}


def wanted() -> list[Case]:
    """The cases of the file, and those that it lacks, by fault; without what they change."""
    found = []
    for fault in FAULTS.values():
        listed = [replace(case, changed=None) for case in cases() if case.fault is fault]
        whole = [case for case in listed if not case.stage] or [Case(fault, "")]
        found += whole
        for stage in stages_of(fault, {case.stage for case in listed}):
            own = [case for case in listed if case.stage == stage and not case.keys.startswith(LATE)]
            found += own or [Case(fault, f"stage={stage}")]
        if "after" in fault.keys and "continuous" in fault.duties and fault.name != IN_REAL_TIME:
            late = [case for case in listed if case.keys.startswith(LATE)]
            found += late or [Case(fault, f"{LATE}80%")]
    return found


def stages_of(fault: FaultKind, listed: Collection[str]) -> Iterator[str]:
    """The stages in which a fault can be noticed, if it can choose one: those listed, and others."""
    if "stage" not in fault.keys or fault.stage is not None or fault.name == IN_REAL_TIME:
        return
    for stage in fault.acts_in(DUTIES):
        loaded = stage_rig(stage, sku_of(fault), sku_of(fault), beside="h200-sxm")
        try:
            parse_faults(
                [f"{fault.name}:stage={stage}"], FAULTS, loaded, make_plan(loaded, LEVEL).stages, FORMS
            )
        except FaultError as error:
            if stage not in listed and "nothing could notice" in str(error):
                continue
        yield stage


def runs(of: Iterable[Case]) -> list[Run]:
    """The runs of these cases; in that of a stage many faults act, each on a card of its own."""
    found, together = [], {}
    for case in of:
        if not case.stage:
            found.append(Run("", ((case, subject_of(case.fault)),)))
        elif case.fault.scope == "node" or case.fault.name in ALONE or not KINDS[case.stage].by_device:
            found.append(Run(case.stage, ((case, NODE if case.fault.scope == "node" else f"{NODE}/gpu0"),)))
        else:
            together.setdefault(case.stage, []).append(case)
    for stage, several in together.items():
        number = -(-len(several) // WITH_OTHERS)
        for one in range(number):
            some = several[one::number]
            found.append(Run(stage, tuple((case, f"{NODE}/gpu{place}") for place, case in enumerate(some))))
    return found


def written(of: Iterable[Case]) -> str:
    """The file with these cases."""
    tables: dict[tuple[str, str, str], list[str]] = {}
    for case in of:
        body = "".join(
            f"{word.replace(' ', '_')} = {_array(case.criteria(outcome))}\n"
            for word, outcome in ENDS.items()
            if case.criteria(outcome)
        )
        body += f"why = {json.dumps(case.why, ensure_ascii=False)}\n" if case.why else ""
        # Stages in which it changes the same are one table; whole runs are tables of their own.
        alike = "stage" if case.stage else case.keys
        tables.setdefault((case.fault.name, alike, body), []).append(case.keys)
    lines = [HEAD]
    for (name, _, body), keys in tables.items():
        lines += [f"[[{name}]]", *([] if keys == [""] else [f"keys = {_array(keys)}"]), body]
    return "\n".join(lines)


def _array(words: Iterable[str]) -> str:
    """A TOML array, in lines of at most 110 characters."""
    items = [json.dumps(word, ensure_ascii=False).replace(" ", "\0") for word in words]
    one = ", ".join(items)
    if len(one) > 90:
        one = "\n" + textwrap.indent(textwrap.fill(one + ",", 106, break_on_hyphens=False), "    ") + "\n"
    return f"[{one}]".replace("\0", " ")


HEAD = """\
# What each simulated fault changes, written from simulated runs:
#
#     PYTHONPATH=.:tests python -m support.outcomes
#
# A person writes only `why` and `keys`: for a fault with other keys than its defaults, add a table with these
# keys, and the command fills in the rest. Without a stage in its keys a fault is in a whole run at level
# extended on the rig of tests/support/fault_matrix.toml, on the first subject that can have it, or on two
# RTX 3090 if an H200 cannot; what only a soak looks for is in a soak of four H200 in one node. With a stage,
# it is in a run that is about that stage. Criteria are those of the fault's own subject, its node, each GPU
# of it, or the rig; those of others stand behind their subject. In the run of a stage, which faults of
# several cards may share, only the verdicts of the card are listed, and what is not measured only if nothing
# fails or warns, or if that is how the fault shows.
"""


@cache
def every_run() -> list[Run]:
    """Those that the file is written from."""
    return runs(wanted())


def changed_in(number: int) -> dict[str, dict[Outcome, tuple[str, ...]]]:
    """What the cases of that run change."""
    one = every_run()[number]
    return {str(case): dict(case.changed or {}) for case in one.found_in(one.judged()[1])}


def main() -> None:
    """Run and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = options.parse_args()
    changed: dict[str, dict[Outcome, tuple[str, ...]]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(changed_in, range(len(every_run()))):
            changed |= found
    found = [replace(case, changed=changed[str(case)]) for case in wanted()]
    PATH.write_text(written(found), encoding="utf-8")
    for case in found:
        if case.fault.trips and not case.changed:
            why = "give it other keys in docs/faults.toml, or say why in the stage's `unnoticed`"
            sys.stdout.write(f"{case} changes nothing: {why}\n")


if __name__ == "__main__":
    main()
