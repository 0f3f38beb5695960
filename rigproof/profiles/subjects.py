"""The subjects that are judged and that crews work on: nodes, devices, pairs and groups of them, the rig.

A subject's text is written and read here only: a node's name may contain the dash that joins a pair, so a
text is looked up among the promised subjects and never split.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

from rigproof.profiles.loading.loaded import LoadedRig

# "pair": two devices. "node_pair": two nodes, each with a device. "group": all devices of one SKU, if it has
# several.
Scope = Literal["node", "device", "pair", "node_pair", "group", "rig"]
SharedScope = Literal["pair", "node_pair", "group"]
SHARED_SCOPES: tuple[SharedScope, ...] = get_args(SharedScope)
RIG = "rig"


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its text. `members` are the texts of the devices or nodes in it.

    A single device or node is its own only member.
    """

    text: str
    members: tuple[str, ...]


def subjects(loaded: LoadedRig, scope: Scope) -> tuple[Subject, ...]:
    """All subjects of one scope that the profile promises, in the profile's order.

    Each pair occurs once, the member that the profile names earlier first.
    """
    devices = loaded.devices()
    with_devices = tuple(dict.fromkeys(device.node for device in devices))
    match scope:
        case "node":
            return tuple(Subject(node.name, (node.name,)) for node in loaded.rig.nodes)
        case "device":
            return tuple(Subject(device.subject, (device.subject,)) for device in devices)
        case "pair":  # pc1/gpu0-pc2/gpu0: only the part between the slashes could contain another dash
            names = (device.subject for device in devices)
            return tuple(Subject("-".join(pair), pair) for pair in combinations(names, 2))
        case "node_pair":  # pc1+pc2: no name contains a plus
            return tuple(Subject("+".join(pair), pair) for pair in combinations(with_devices, 2))
        case "group":  # sku:rtx-3090: no name contains a colon
            return _alike(loaded)
        case "rig":
            return (Subject(RIG, tuple(device.subject for device in devices)),)


def _alike(loaded: LoadedRig) -> tuple[Subject, ...]:
    """One group for each SKU that several devices have. Devices without a SKU file are in no group."""
    found: dict[str, list[str]] = defaultdict(list)
    for device in loaded.devices():
        if device.sku_stem is not None:
            found[device.sku_stem].append(device.subject)
    return tuple(Subject(f"sku:{stem}", tuple(alike)) for stem, alike in found.items() if len(alike) > 1)
