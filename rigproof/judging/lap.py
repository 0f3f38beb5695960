"""All verdicts on one lap of a run. Of a large rig, several processes judge the nodes."""

import multiprocessing
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from rigproof.criteria.criterion import Criterion
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge, promised
from rigproof.judging.roots import with_roots
from rigproof.records.disk.reading import give_memory_back
from rigproof.records.verdict import Verdict

Key = tuple[str, str]  # criterion and subject
Figures = dict[str, dict[str, Any]]  # by which devices are compared: by name and by device


def judge_lap(evidence: Evidence, processes: int = 1) -> list[Verdict]:
    """The verdict of each criterion on each promised subject, in the catalogue's order.

    Comparisons come later: the figures that they need were made with the verdicts on each device. Rates are
    held against those of earlier runs, and of the other cards, when all of them are known.
    """
    keys = [
        (criterion.name, subject)
        for criterion in CATALOGUE.values()
        for subject in promised(criterion, evidence.loaded, evidence.stages)
    ]
    found: dict[Key, Verdict] = {}
    for turn in range(3):
        nodes: dict[str, list[Key]] = defaultdict(list)
        for name, subject in keys:
            if _turn(CATALOGUE[name]) == turn:
                nodes[subject.partition("/")[0]].append((name, subject))
        judged = _judge_in_processes(evidence, [*nodes.values()], processes)
        found |= {(one.criterion, one.subject): one for one in judged}
    return with_roots([found[key] for key in keys], evidence)


def _turn(criterion: Criterion) -> int:
    """0: about its subject alone; 1: by others; 2: by the rates that the others were found to have."""
    return 2 if criterion.family == "history" else int(criterion.compares)


def _judge(evidence: Evidence, nodes: Iterable[Sequence[Key]]) -> list[Verdict]:
    """Node by node, so that what was made for one is released before the next."""
    verdicts = []
    for keys in nodes:
        verdicts += [judge(CATALOGUE[name], subject, evidence) for name, subject in keys]
        evidence.release()
    return verdicts


def _judge_in_processes(evidence: Evidence, nodes: Sequence[Sequence[Key]], processes: int) -> list[Verdict]:
    """The verdicts of all nodes, judged by several processes that each have a share of the nodes.

    They are forked, as it would take longer to send them the recording than to judge it. The first node is
    judged before: what was made for it and all others is then in each of them.
    """
    shares = [nodes[1 + place :: processes] for place in range(processes)]
    if processes == 1 or len(nodes) == 1:
        return _judge(evidence, nodes)
    verdicts = _judge(evidence, nodes[:1])
    give_memory_back()
    fork = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(processes, fork, _take, (evidence,)) as pool, warnings.catch_warnings():
            # The threads of Arrow and numpy are idle at that time.
            warnings.simplefilter("ignore", DeprecationWarning)
            for judged, *figures in pool.map(_judge_share, shares):
                verdicts += judged
                for attempt, own in zip(evidence.attempts, figures, strict=True):
                    for name, by_device in own.items():
                        attempt.shared_figures[name].update(by_device)
    except BrokenProcessPool:  # somebody ended one, such as the kernel for want of memory
        return _judge(evidence, nodes)
    return verdicts


_TAKEN: list[Evidence] = []  # in a forked process, what it is to judge


def _take(evidence: Evidence) -> None:
    _TAKEN.append(evidence)


def _judge_share(nodes: Sequence[Sequence[Key]]) -> tuple[list[Verdict], *tuple[Figures, ...]]:
    (evidence,) = _TAKEN
    return _judge(evidence, nodes), *(dict(one.shared_figures) for one in evidence.attempts)
