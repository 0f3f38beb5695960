"""The least rate of a pair: by what connects the two, or by the rig. None where that is not known."""

from collections import defaultdict
from collections.abc import Mapping
from operator import attrgetter

from rigproof.criteria.criterion import Limit
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.link import link_gbps, link_name, link_under_load
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS
from rigproof.criteria.evidence.shared import SharedEvidence
from rigproof.profiles.planning.subjects import subjects
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import GB
from rigproof.records.verdict import count_of, figure
from rigproof.stages.peer.stage import BOTH, KERNEL, KIND, STAGE, PeerLink

FLOOR_GBPS = KIND.key(lambda own: own.floor_gbps)
NVLINK_GBPS = KIND.key(lambda own: own.nvlink_gbps)
NVLINK_SHARE = KIND.key(lambda own: own.nvlink_share)
PCIE_SHARE = KIND.key(lambda own: own.pcie_share)
HOST_SHARE = KIND.key(lambda own: own.host_share)
BOTH_SHARE = KIND.key(lambda own: own.both_share)
KERNEL_SHARE = KIND.key(lambda own: own.kernel_share)
NVLINKS = LIMITS.key(lambda limits: limits.nvlinks)

UNIT = "GB/s"
LEAST_PART = 3  # four GPUs without a switch share the links of each: a third for each other one


def members_of(pair: SharedEvidence) -> tuple[DeviceEvidence, DeviceEvidence]:
    """Its two GPUs."""
    first, second = pair.members
    assert isinstance(first, DeviceEvidence)
    assert isinstance(second, DeviceEvidence)
    return first, second


def floor_of_pair(pair: SharedEvidence, link: PeerLink) -> Limit | None:
    """The least rate one way; None if what connects the two is not known."""
    stated = [limit for one in members_of(pair) if (limit := one.optional_limit(FLOOR_GBPS)) is not None]
    if stated:
        return max(stated, key=attrgetter("value"))
    first, _ = members_of(pair)
    links, each = nvlinks_between(pair, link), nvlink_gbps(pair)
    if links:
        if each is None:
            return None
        share = first.limit(NVLINK_SHARE)
        return each.times(share.value * links, f" × {count_of(links, 'NVLinks')} × {share.value:g}")
    share = first.limit(PCIE_SHARE if link.direct else HOST_SHARE)
    slowest = (None if link.direct else _transfers(pair)) or _slower_link(pair)
    return None if slowest is None else slowest.times(share.value, f" × {share.value:g}; {share.source}")


def nvlinks_between(pair: SharedEvidence, link: PeerLink) -> int:
    """How many NVLinks there should be between the two: not fewer because some are down.

    Over a switch, all that each is promised to have. Else those that are there, and those that both lack of
    what is promised, but no more than any other two of that host have: both may lack those to a third one.
    Where NVML does not say what they lead to, as few as any board has between two.
    """
    promised = [one for one in map(_promised, members_of(pair)) if one is not None]
    if len(promised) < len(pair.members):
        return link.nvlinks or 0
    if link.switched:
        return max(link.nvlinks or 0, min(promised))
    if link.nvlinks is None:
        return min(promised) // LEAST_PART
    lacking = min(map(_missing, members_of(pair)))
    most = _most_nvlinks(pair.evidence)[members_of(pair)[0].node_name]
    return link.nvlinks + (lacking if len(most) == 1 else min(lacking, max(most) - link.nvlinks))


def _most_nvlinks(evidence: Evidence) -> Mapping[str, list[int]]:
    """By node, the NVLinks between each two of its GPUs."""

    def found() -> Mapping[str, list[int]]:
        nodes = defaultdict(list)
        for one in subjects(evidence.loaded, "peers"):
            for told in evidence.records(PeerLink, one.text)[-1:]:
                nodes[one.members[0].partition("/")[0]].append(told.nvlinks or 0)
        return nodes

    return evidence.cached(("nvlinks", STAGE), found)


def _missing(device: DeviceEvidence) -> int:
    """The promised NVLinks of a GPU that were not active, before or after the load."""
    read = [one for moment in ("before", "after") if (one := device.counters(moment)) is not None]
    active = min((sum(map(bool, one.nvlinks or ())) for one in read), default=None)
    return 0 if active is None else max(0, (_promised(device) or 0) - active)


def _promised(device: DeviceEvidence) -> int | None:
    """The NVLinks that the rig or the SKU file promises of a GPU; None if neither does."""
    stated, sku = device.optional_limit(NVLINKS), device.device.sku
    if stated is not None:
        return int(stated.value)
    return None if sku is None else sku.nvlinks


def nvlink_gbps(pair: SharedEvidence) -> Limit | None:
    """The rate of a link one way, of the slower of the two; None if it is not stated for both."""
    found = []
    for device in members_of(pair):
        capability = device.identity.compute_capability
        name = "" if capability is None else "cc_{}_{}".format(*capability)
        gbps = getattr(device.stated(NVLINK_GBPS)[0], name, None)
        if gbps is None:
            return None
        file = device.source_of(f"{NVLINK_GBPS}.{name}")
        found.append(Limit(gbps, f"{figure(gbps, UNIT)} of each link, {file}"))
    return min(found, key=attrgetter("value"))


def _slower_link(pair: SharedEvidence) -> Limit | None:
    """The nominal rate of the slower PCIe link of the two under load; None if one is not known."""
    links = [link_under_load(one, STAGE) for one in members_of(pair)]
    known = [one for one in links if one is not None]
    if len(known) < len(links):
        return None
    slower = min(known, key=lambda one: link_gbps(*one))
    return Limit(link_gbps(*slower), link_name(*slower))


def _transfers(pair: SharedEvidence) -> Limit | None:
    """The slowest transfer of the two alone, to or from the host; None if one was not measured."""
    found = []
    for device in members_of(pair):
        copies = device.all_rounds.only(device.own & device.all_rounds.same("unit", GB)).verified.measured
        for direction in ("h2d", "d2h"):
            own = copies.having(direction=direction, company="alone")
            if len(own) < FEWEST_ROUNDS:
                return None
            found.append(Limit(own.rate(), f"{direction} of {device.subject}"))
    return min(found, key=attrgetter("value"))


def limit_of(pair: SharedEvidence, floor: Limit, by: str, way: str) -> Limit:
    """The limit of an arm, by the floor of one way by copy engine."""
    if by == KERNEL:
        share = members_of(pair)[0].limit(KERNEL_SHARE)
        floor = Limit(share.value * floor.value, f"{share.value:g} of {floor.source}")
    if way == BOTH:
        share = members_of(pair)[0].limit(BOTH_SHARE)
        floor = Limit(2 * share.value * floor.value, f"{share.value:g} of twice {floor.source}")
    return floor
