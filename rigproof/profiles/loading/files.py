"""Where profiles are, how their names are shown, and reading one TOML file with clean errors."""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rigproof.host.package import PACKAGE, ROOT
from rigproof.profiles.errors import ProfileError
from rigproof.records.limits import PROFILE_BYTES_MAX, FileRefusedError, read_bounded
from rigproof.records.message_text import one_line

DEFAULTS = "hwprofiles/defaults.toml"
CPU_DEFAULTS = "hwprofiles/defaults-cpu.toml"  # laid over them for a rig of CPUs alone
DOTS_MAX = 200  # in a line: a key of n parts costs tomllib n² of time and memory, a key of 40 kB 1.5 GiB


def profile_folder() -> Path:
    """`hwprofiles/` of the checkout, else the one in the wheel."""
    checkout = ROOT / "hwprofiles"
    return checkout if checkout.is_dir() else PACKAGE / "hwprofiles"


def stems(folder: str) -> tuple[str, ...]:
    """Names of the profiles in `hwprofiles/<folder>`, sorted."""
    return tuple(sorted(path.stem for path in (profile_folder() / folder).glob("*.toml")))


def shown_path(path: Path) -> str:
    """A file as users know it: `hwprofiles/…`, else relative to the current folder, else in full."""
    absolute = path.absolute()
    try:
        folder, resolved = profile_folder(), path.resolve()
        if resolved.is_relative_to(folder):
            return str(Path("hwprofiles") / resolved.relative_to(folder))
        if absolute.is_relative_to(Path.cwd()):
            return str(absolute.relative_to(Path.cwd()))
    except (OSError, ValueError, RuntimeError):
        pass  # a path that cannot be resolved is shown as it was written
    return str(path)


def full_path(shown: str) -> Path:
    """The file that `shown_path` has shown, in the same current folder."""
    folder, *parts = Path(shown).parts
    return profile_folder().joinpath(*parts) if folder == "hwprofiles" else Path(shown).absolute()


def digest(tables: Mapping[str, Any]) -> str:
    """SHA-256 of a file's tables, so that comments and spaces do not count."""
    return hashlib.sha256(json.dumps(tables, sort_keys=True, default=str).encode()).hexdigest()


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of one TOML file. Raises ProfileError for every problem of the file."""
    file = shown_path(path)
    return tables_of(read_text(path, file), file)


def tables_of(text: str, file: str) -> dict[str, Any]:
    """The tables of a TOML file's text. Raises ProfileError for every problem of it."""
    _refuse_long_keys(text, file)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError([_syntax_problem(file, text, str(error))]) from None
    except (RecursionError, ValueError, OverflowError):
        # For nesting, impossible dates and integers of thousands of digits tomllib lets Python's errors
        # through.
        raise ProfileError(
            [f"{file}: not usable TOML: a value is nested too deep or out of range; write it plainly"]
        ) from None


def read_text(path: Path, file: str) -> str:
    """The text of a profile, which users know as `file`. Raises ProfileError if it cannot be read."""
    try:
        content = read_bounded(path, PROFILE_BYTES_MAX)
    except FileRefusedError as refused:
        raise ProfileError([f"{one_line(file, 1000)}: {refused.reason}; name a .toml file"]) from None
    try:
        text = content.decode("utf-8-sig")  # editors of Windows begin a file with a byte order mark
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProfileError([f"{file}: line {line}: not UTF-8 text; save the file as UTF-8"]) from None
    if "\0" in text:
        raise ProfileError([f"{file}: not UTF-8 text, perhaps UTF-16; save the file as UTF-8"])
    return text


def _refuse_long_keys(text: str, file: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > DOTS_MAX:
            raise ProfileError(
                [f"{file}: line {number}: more than {DOTS_MAX} dots: nested too deep; write it plainly"]
            )


def _syntax_problem(file: str, text: str, message: str) -> str:
    """The problem of a `message` of tomllib's, such as `Expected '=' after a key (at line 3, column 5)`."""
    found = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if found is None:
        return f"{file}: not TOML: {message}; correct it"
    what = message[: found.start()]
    number = int(found[1]) if found[1] else max(1, len(text.splitlines()))
    lines = text.split("\n")
    written = lines[number - 1].strip()[:60] if number <= len(lines) else ""
    return f"{file}: line {number}: {written!r}: not TOML: {what}; correct this line or the one before it"
