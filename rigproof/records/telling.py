"""What a file from anywhere says, in words that fit a line: no control characters, nothing endless."""

from pydantic import ValidationError

WIDTH = 200


def shortened(text: str, width: int = WIDTH) -> str:
    """One printable line of at most `width` characters; what cannot be printed is escaped."""
    plain = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[: width + 1]
    )
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def cause_and_step(text: str) -> tuple[str, str]:
    """What is the case and the next step, of a message that has them on both sides of its last `; `.

    A message without one has no next step.
    """
    cause, mark, step = text.rpartition("; ")
    return (cause, step) if mark else (text, "")


def first_problem(error: ValidationError) -> str:
    """The first thing that pydantic has against a document: `key.key: what is wrong`."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][:8])
    return shortened(f"{where}: {first['msg']}" if where else first["msg"])
