"""How the examples of a step are shared out. Pure."""

import math
from collections.abc import Sequence


def shared_out(examples: int, rates: Sequence[float]) -> list[int]:
    """The examples of each rank in proportion to its rate, at least one, together `examples`.

    By largest remainders; the least is one. ValueError if there are fewer examples than ranks, or a rate is
    not positive.
    """
    if examples < len(rates) or not all(rate > 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"{examples} examples cannot be shared out by the rates {rates}")
    wanted = [examples * rate / sum(rates) for rate in rates]
    found = [max(1, int(one)) for one in wanted]
    places = range(len(rates))
    while sum(found) < examples:
        found[max(places, key=lambda place: wanted[place] - found[place])] += 1
    while sum(found) > examples:  # some get the least, which is more than their part
        found[max(places, key=lambda place: (found[place], -wanted[place]))] -= 1
    return found
