"""Whether the devices of a rig exchanged verified data: cards that are good alone may not train together."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rigproof.profiles.kinds.stages import Kinds
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import Subject, subjects
from rigproof.records.verdict import Outcome
from rigproof.stages.kind import StageKind

Outcomes = Mapping[tuple[str, str], Outcome]  # by criterion and subject
# "no limit" too: the data of an unlisted card were verified, only its rate is held against nothing.
MEASURED = (Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT)


def not_together(
    loaded: LoadedRig, kinds: Kinds[StageKind[Any]], finished: Collection[str], outcomes: Outcomes
) -> tuple[Subject, ...]:
    """The teams of the rig whose devices did not exchange verified data in any one of the `finished` stages.

    A stage counts for a team if it `exchanges` and measured all that applies of its criteria: those about the
    team, or, inside a node, those about each two of its GPUs. Empty while no stage of `kinds` exchanges.
    """
    exchanging = [kind for kind in kinds if kind.exchanges]
    if not exchanging:
        return ()
    measuring = [kind for kind in exchanging if kind.name in finished]
    pairs: dict[str, list[str]] = {}
    for pair in subjects(loaded, "peers"):
        pairs.setdefault(_nodes(pair)[0], []).append(pair.text)
    found = []
    for team in subjects(loaded, "team"):
        nodes = _nodes(team)
        inside = pairs.get(nodes[0], []) if len(nodes) == 1 else []
        if not any(_exchanged(kind, team.text, inside, outcomes) for kind in measuring):
            found.append(team)
    return tuple(found)


def _nodes(team: Subject) -> list[str]:
    return list(dict.fromkeys(device.rpartition("/")[0] for device in team.members))


def _exchanged(kind: StageKind[Any], team: str, pairs: Sequence[str], outcomes: Outcomes) -> bool:
    of_team = [one.name for one in kind.criteria if one.scope == "team"]
    of_pairs = [one.name for one in kind.criteria if one.scope == "peers"]
    return _measured(outcomes.get((name, team)) for name in of_team) or (
        bool(pairs) and all(_measured(outcomes.get((name, pair)) for name in of_pairs) for pair in pairs)
    )


def _measured(outcomes: Iterable[Outcome | None]) -> bool:
    """Whether at least one of a subject's criteria applies, and all that do were measured and are good."""
    applying = [one for one in outcomes if one not in (None, Outcome.NOT_APPLICABLE)]
    return bool(applying) and all(one in MEASURED for one in applying)


def who(teams: Sequence[Subject]) -> str:
    """Who was not tested together: GPUs, or nodes if all GPUs of each node were, or it has only one."""
    return "GPUs" if any(len(_nodes(team)) == 1 for team in teams) else "nodes"


def remark(teams: Sequence[Subject]) -> str:
    """What a verdict line adds to ACCEPTED: `GPUs not tested together`; empty if all teams were tested."""
    return f"{who(teams)} not tested together" if teams else ""


def alone(loaded: LoadedRig, kinds: Kinds[StageKind[Any]]) -> str:
    """Said of a rig with a single device, which nothing can be missing of; empty for others."""
    devices = loaded.devices()
    if len(devices) != 1 or not any(kind.exchanges for kind in kinds):
        return ""
    return f"one {'GPU' if devices[0].gpu.device == 'cuda' else 'CPU'}: nothing to exchange with others"
