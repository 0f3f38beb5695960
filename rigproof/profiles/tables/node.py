"""A host that a rig promises, and its CPU load."""

import re
from ipaddress import ip_address
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rigproof.host.addresses import one_spelling
from rigproof.profiles.tables.base import (
    Flag,
    LimitKeys,
    Meaningful,
    Name,
    Overlay,
    Percent,
    Positive,
    Share,
    Table,
    optional,
)
from rigproof.profiles.tables.gpu import Gpu

_NAME = re.compile(r"(?!-)[\w-]{1,63}(\.(?!-)[\w-]{1,63})*\.?")  # of a host, in any alphabet


def _host_alone(address: str) -> str:
    """An IP address of one machine, or a host's name; its last part is no number (RFC 3696, section 2)."""
    host = one_spelling(address)
    try:
        found = ip_address(host)
    except ValueError:
        if not _NAME.fullmatch(host):
            raise PydanticCustomError("not_a_host", "not a host") from None
        if host.rstrip(".").rpartition(".")[2].isdigit():
            raise PydanticCustomError("not_an_address", "not an address") from None
        return host
    if found.is_unspecified or found.is_multicast or host == "255.255.255.255":
        raise PydanticCustomError("of_no_machine", "of no machine")
    return host


Address = Annotated[str, AfterValidator(_host_alone)]


class CpuLoad(Table):
    """The CPU load that every host carries while its GPUs work, and the limits of its CPU use."""

    enabled: Flag = Field(description="false: no CPU load, and the host's CPU use is not judged.")
    band_percent: tuple[Percent, Percent] = Field(
        description="Lowest and highest CPU use of the whole host, in percent, in windows of 1 s. The CPU "
        "load aims at the middle."
    )
    # A host without an idle CPU reads 98 to 100 %.
    warn_percent: Percent = Field(
        description="A mean CPU use over this, in percent, warns.",
        json_schema_extra=Meaningful(highest=98, above="no load ever exceeds this"),
    )
    warn_windows_share: Share | None = optional(
        "If more than this share of the 1 s windows is over warn_percent, that warns too.",
        Meaningful(highest=0.5, above="only warns about a host that is busy most of the time"),
    )
    in_band_share: Share = Field(
        description="Smallest share of the 1 s windows in which the CPU use must be within band_percent.",
        json_schema_extra=Meaningful(lowest=0.3, below="a load that is hardly ever in its band would pass"),
    )
    # A quick run has eleven windows: six outside happen by chance once in 85 runs, all of them never.
    false_alarm_share: Share | None = optional(
        "A band that is missed in more windows than in_band_share allows fails only if chance "
        "explains that less often than this; else it warns.",
        Meaningful(1e-6, 0.05, "needs a minute outside the band to fail", "fails sound hosts by chance"),
    )
    # Twice the share at which the CPU load misses its band.
    stolen_warn_percent: Percent | None = optional(
        "If a hypervisor takes more than this of the host's CPU time under load, in percent, that warns.",
        Meaningful(highest=30, above="is silent about a host of which a third is taken away"),
    )
    # Work takes three times as long with a third of the CPU; the deadlines are far wider.
    starved_percent: Percent | None = optional(
        "A wait that passes its deadline is no failure of the rig if others left the host less "
        "than this of the CPU time that the run needs, in percent: of a CPU for each worker and one for all "
        "else, or of all CPUs if they are the device. (Of a rank that others wait for, half.)",
        Meaningful(highest=30, above="excuses hangs on hosts that left enough of the CPU"),
    )
    primary_thread_share: Share = Field(
        description="Number of primary threads of the CPU load, as a share of the node's CPUs. They can "
        "bring an idle host to the low end of its band."
    )
    secondary_thread_share: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        description="Number of secondary threads, in the same way. Beside the primary ones they bring the "
        "host up to the high end; both shares together are 1 at most."
    )


class Responsiveness(Table):
    """How late a process that sleeps 10 ms at a time may wake up while the GPUs are under load."""

    # A second is where people lose their train of thought, ten are where they give up (Nielsen, Response
    # Times); a frozen host is no worse.
    p99_ms: Positive = Field(
        description="99 % of the delays must be at most this long, in ms.",
        json_schema_extra=Meaningful(highest=1000, above="a host that is as slow as this is frozen"),
    )
    max_ms: Positive = Field(
        description="No delay may be longer than this, in ms. A single one of up to twice as long "
        "only warns.",
        json_schema_extra=Meaningful(highest=10_000, above="a host that is as slow as this is frozen"),
    )


class Node(Table):
    """One promised host."""

    name: Name = Field(
        description="The node's name, as in `pc1/gpu0`: letters, digits, dots, dashes, underscores."
    )
    address: Address | None = optional(
        "IP address or hostname of the node in the Ray cluster, without a port. Left out: the "
        "node's name is looked for, and a rig's only node is this machine."
    )
    cpus: Positive | None = optional(
        "Number of CPUs of the node. A plan whose workers reserve more is refused. Left out: "
        "what is found, on this machine; another machine is not checked."
    )
    ram_gib: Positive | None = optional(
        "RAM of the node, in GiB. Needed only if the CPU is the device. Left out: what is found "
        "on this machine."
    )
    psu_w: Positive | None = optional(
        "Power, in W, that the node's power supplies deliver together; of redundant ones, "
        "without the spare. Left out: what its cards draw together is reported, not judged."
    )
    gpus: tuple[Gpu, ...] = Field(
        default=(), description="The node's GPUs, in NVML's order (that of the PCI bus)."
    )
    cpu: Overlay = Field(
        default=Overlay(),
        description="CPU load of this node. A key that is left out is as in the rig's [cpu].",
    )
    stages: Overlay = Field(
        default=Overlay(),
        description="This node's work and limits in the stages that measure hosts. A key that is left out is "
        "as in the rig's [stages].",
    )


CPU = LimitKeys("cpu", CpuLoad)
RESPONSIVENESS = LimitKeys("responsiveness", Responsiveness)
