"""PCIe errors that the kernel counts: Advanced Error Reporting (AER), PCI Express Base Specification, 6.2."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PcieErrors:
    """The errors of one GPU's link since the host booted, at both of its ends.

    The agent records them when it first reads them, when one has changed, once a minute at least, and after
    the load. A count is None if the kernel keeps none. `port` is the address of the upstream port, the other
    end of the link; None if the kernel shows none.
    """

    t_s: float
    subject: str
    fatal: int | None = None  # the link had to be reset
    nonfatal: int | None = None  # a transaction was lost
    correctable: int | None = None  # repaired by the link itself, by sending again
    port: str | None = None
    port_fatal: int | None = None
    port_nonfatal: int | None = None
    port_correctable: int | None = None

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The counts of both ends of the link, three each."""
        return (
            *(self.fatal, self.nonfatal, self.correctable),
            *(self.port_fatal, self.port_nonfatal, self.port_correctable),
        )
