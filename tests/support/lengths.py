"""How long stages take, as a profile's tables state it, for profiles that tests write."""

from typing import Any


def lengths(
    *levels: str,
    settle_s: float | None = None,
    measure_s: float | None = None,
    round_s: float | None = None,
    **stages: float,
) -> dict[str, dict[str, Any]]:
    """The tables `stages` and `levels`: at these levels each stage by name takes so many seconds."""

    def each(seconds: float) -> dict[str, float]:
        return dict.fromkeys(levels, seconds)

    made: dict[str, Any] = {name: {"length_s": each(seconds)} for name, seconds in stages.items()}
    if settle_s is not None:
        made.setdefault("gemm", {})["settle_s"] = each(settle_s)
        made.setdefault("sustained", {})["settle_s"] = each(settle_s)
    if measure_s is not None:
        made.setdefault("gemm", {})["measure_s"] = each(measure_s)
    return {"stages": made, "levels": {} if round_s is None else {"round_s": each(round_s)}}
