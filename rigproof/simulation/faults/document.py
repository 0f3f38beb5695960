"""The faults for people: `rigproof lint --faults`, and `python -m rigproof.simulation.faults.document`."""

from collections.abc import Iterator

from rigproof.simulation.faults.catalogue import ARRIVES_WITH, KINDS, FaultKind

ENDS = {0: "warns", 1: "fails", 6: "not measured"}


def listing() -> Iterator[str]:
    """Plain lines: each fault with its keys and their defaults, what it is, and what it trips."""
    for kind in KINDS:
        keys = f":{','.join(_keys(kind))}" if kind.keys else ""
        yield f"{kind.name}[@{_subject(kind)}]{keys}"
        yield f"    {kind.what}"
        yield f"    {_ends(kind)}: {', '.join(kind.trips)}"
    for name, criterion in ARRIVES_WITH.items():
        yield f"{name}: not yet; it arrives with its criterion {criterion}"


def fault_table() -> str:
    """The same as a table of Markdown."""
    rows = ["| Fault | Hits | What happens | Keys | Trips |", "|---|---|---|---|---|"]
    for kind in KINDS:
        keys = ", ".join(f"`{key}`" for key in _keys(kind))
        trips = ", ".join(f"`{name}`" for name in kind.trips)
        rows.append(f"| `{kind.name}` | {_subject(kind)} | {kind.what} | {keys} | {_ends(kind)}: {trips} |")
    later = ", ".join(f"`{name}` with `{criterion}`" for name, criterion in ARRIVES_WITH.items())
    return "\n".join([*rows, "", f"Not there yet: {later}."])


def _keys(kind: FaultKind) -> list[str]:
    """Each key, with its default where it has one."""
    return [f"{key}={kind.defaults.get(key, '…')}" for key in kind.keys]


def _subject(kind: FaultKind) -> str:
    return "GPU" if kind.scope == "gpu" else kind.scope


def _ends(kind: FaultKind) -> str:
    return ENDS[kind.ends]


if __name__ == "__main__":
    print(fault_table())  # noqa: T201
