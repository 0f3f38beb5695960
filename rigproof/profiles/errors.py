"""Problems of a profile, in sentences that name file, key, value and remedy."""

import difflib
import json
import re
from collections.abc import Iterable

LISTED_MAX = 20  # names; of more a message has the nearest
VENDOR = frozenset({"nvidia", "corporation", "geforce", "tesla"})  # words before the name of a card's model


class ProfileError(Exception):
    """A profile that cannot be used. `problems` lists everything that is wrong with it, at once.

    Each problem reads `FILE: key = value: what is wrong; way out`; `str()` joins them by newlines.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems: tuple[str, ...] = tuple(problems) or ("profile: unknown problem; run `rigproof lint`",)
        super().__init__("\n".join(self.problems))


def problem(file: str, key: str, value: object, wrong: str, way_out: str) -> str:
    """A problem in the common form: `FILE: key = value: what is wrong; way out`."""
    return f"{file}: {key} = {shown(value)}: {wrong}; {way_out}"


def shown(value: object, width: int = 60) -> str:
    """A value as TOML would write it, shortened if it is long."""
    value = [_plain(element) for element in value] if isinstance(value, list) else _plain(value)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= width else text[: width - 1] + "…"


def _plain(value: object) -> object:
    """The value as it is shown: a float that is a whole number becomes an int, so that no `.0` follows."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return int(value) if isinstance(value, float) and whole else value


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean "x"?` or, if nothing is similar, the known names; of many the nearest.

    Case, blanks, dashes and a card's vendor (`NVIDIA GeForce RTX 3090`) make no difference.
    """
    names = sorted(known)
    bare = [_bare(name) for name in names]
    wanted = _bare(word[:100])
    close = [name for name, one in zip(names, bare, strict=True) if one == wanted]
    if not close:
        near = difflib.get_close_matches(wanted, bare, n=2, cutoff=0.6)
        close = [names[bare.index(one)] for one in dict.fromkeys(near)]
    if close:
        return "did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
    if len(names) > LISTED_MAX:
        near = difflib.get_close_matches(wanted, bare, n=5, cutoff=0.0)
        some = ", ".join(names[bare.index(one)] for one in dict.fromkeys(near))
        return f"{len(names)} are known, such as {some}"
    return "known: " + (", ".join(names) if names else "none")


def _bare(name: str) -> str:
    """A name in lower case, without what separates its words and without a card's vendor."""
    words = re.split(r"[\s_-]+", name.strip().lower())
    return "".join(word for word in words if word not in VENDOR) or name.lower()
