"""Strategies that change a true file as accidents and enemies do, by the kind of its text."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

DEEP = 100_000
# Where a value was. Text, because JSON can say much that no Python value is written as.
HOSTILE = st.sampled_from(
    [
        b"null",
        b"true",
        b"0",
        b"-1",
        b"1e308",
        b"-1e308",
        b"5e-324",
        b"1e999",
        b"-1e999",
        b"NaN",
        b"Infinity",
        b"9" * 30,
        b"9" * 5000,
        b"0." + b"9" * 5000,
        b'""',
        b'"\\ud800"',
        b'"\\u0000\\u001b[2J"',
        b'"\\u0085\\u2028"',
        b'"\xff\xfe"',
        b'"' + b"x" * 100_000 + b'"',
        b'"../../../etc/passwd"',
        b'"9999-12-31T23:59:59Z"',
        b'"0001-01-01T00:00:00"',
        b"[]",
        b"{}",
        b"[" * DEEP + b"]" * DEEP,
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b"[" + b"{}," * 10_000 + b"1]",
        b'{"a": 1, "a": 2}',
        b"inf",
        b"1979-05-27T07:32:00Z",
        b"a" + b".a" * 50_000,
    ]
)
NUMBERS = st.sampled_from([b"1", b"10", b"-5", b"0.5", b"1e9", b"2147483648", b"18446744073709551615"])
WORDS = st.sampled_from(
    [b'"gemm"', b'"sustained"', b'"rig"', b'"cuda"', b'"cpu"', b'"finished"', b'"quick"', b'"x"']
)
VALUES = HOSTILE | HOSTILE | NUMBERS | WORDS
MARK = "\N{SNOWMAN}here\N{SNOWMAN}"


def mutated(kind: str, samples: list[bytes]) -> st.SearchStrategy[bytes]:
    """Files that are no more what they were; `kind` is the reader's."""
    sample = st.sampled_from(samples)
    by_kind: dict[str, Callable[[bytes], st.SearchStrategy[bytes]]] = {
        "json": changed_json,
        "lines": changed_lines,
        "toml": changed_toml,
    }
    damage = sample.flatmap(damaged)
    return damage if kind not in by_kind else sample.flatmap(by_kind[kind]) | damage


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Bits that flipped, bytes that were lost, came twice, or came from somewhere else."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 40))
        match draw(st.sampled_from(["flip", "flip", "lose", "twice", "put", "cut", "zero"])):
            case "flip" if at < len(data):
                flipped = data[at] ^ (1 << draw(st.integers(0, 7)))
                data = data[:at] + bytes([flipped]) + data[at + 1 :]
            case "lose":
                data = data[:at] + data[at + length :]
            case "twice":
                data = data[:at] + data[at : at + length] * 2 + data[at + length :]
            case "put":
                data = data[:at] + draw(st.binary(max_size=20) | HOSTILE) + data[at:]
            case "cut":
                data = data[:at]
            case "zero":
                data = data[:at] + bytes(length) + data[at + length :]
    return data


@st.composite
def changed_json(draw: st.DrawFn, data: bytes) -> bytes:
    """A document of which values were replaced, keys lost or repeated."""
    for _ in range(draw(st.integers(1, 3))):
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            return data
        place, key = draw(st.sampled_from(_places(document)))
        match draw(st.sampled_from(["value", "value", "value", "lose", "repeat", "rename"])):
            case "lose":
                del place[key]
            case "rename" if isinstance(place, dict):
                place[draw(st.text(max_size=5))] = place.pop(key)
            case "repeat" if isinstance(place, dict):
                place[MARK] = place[key]
                renamed = json.dumps(document, separators=(",", ":"))
                return renamed.replace(json.dumps(MARK), json.dumps(key)).encode()
            case _:
                place[key] = MARK
                text = json.dumps(document, separators=(",", ":")).encode()
                data = text.replace(json.dumps(MARK).encode(), draw(VALUES))
                continue
        data = json.dumps(document, separators=(",", ":")).encode()
    return data


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        container = waiting.pop()
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found or [({"": 0}, "")]


@st.composite
def changed_lines(draw: st.DrawFn, data: bytes) -> bytes:
    """Lines of JSON, some changed, lost, repeated or put elsewhere."""
    lines = data.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["change", "change", "change", "change", "lose", "twice", "swap"])):
            case "change":
                lines[at] = draw(changed_json(lines[at]))
            case how:
                move_line(draw, lines, at, how)
    return b"\n".join(lines) + b"\n"


def move_line(draw: st.DrawFn, lines: list[bytes], at: int, how: str) -> None:
    """Lose a line, repeat it, or swap it with another."""
    match how:
        case "lose" if len(lines) > 1:
            del lines[at]
        case "twice":
            lines.insert(at, lines[at])
        case _:
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]


@st.composite
def changed_toml(draw: st.DrawFn, data: bytes) -> bytes:
    """Lines of TOML, some with another value, lost, repeated or put elsewhere."""
    lines = data.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[at].partition(b"=")
        match draw(st.sampled_from(["value", "value", "value", "key", "lose", "twice", "swap"])):
            case "value" if equals:
                lines[at] = key + b"= " + draw(VALUES)
            case "key" if equals:
                lines[at] = lines[at].replace(key, draw(st.sampled_from([b"a.b ", b"nodes.x ", b'"" ', b""])))
            case how:
                move_line(draw, lines, at, how)
    return b"\n".join(lines) + b"\n"
