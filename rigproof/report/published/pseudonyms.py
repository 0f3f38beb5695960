"""Stable names that reveal nothing about the rig: HMAC-SHA256 with a key that stays on this machine.

Two shared reports of one rig can be recognised as such, but nobody can check a guessed name without the key.
"""

import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEY_FILE = "share.key"
KEY_BYTES = 32
KEY_TEXT_MAX = 4 * KEY_BYTES  # twice its hexadecimal digits
UUID_KINDS = ("GPU", "MIG", "CPU")


class ShareError(Exception):
    """A report cannot be prepared for sharing; the message names the file and the way out."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key. `remark` says what was wrong with its file; None if nothing was."""

    secret: bytes
    remark: str | None = None


def read_key(folder: Path) -> Key:
    """The key of a report folder, created there (mode 0600) if there is none.

    One that others could read becomes 0600, and `remark` says so. Raises ShareError if the file is not
    ours, is not a regular file, or holds no key; OSError if the folder is not writable.
    """
    path = folder / KEY_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        _make(path)
        return _read(path)


def require_key(folder: Path) -> None:
    """Raise ShareError where `read_key` would, for a key that is there; its file is left as it is."""
    with suppress(FileNotFoundError):
        _read(folder / KEY_FILE, close=False)


def _make(path: Path) -> None:
    """Create the key file in one step; one that another process has created in the meantime is kept."""
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_hex(KEY_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path, follow_symlinks=False)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read(path: Path, *, close: bool = True) -> Key:
    way_out = "move it away, and the next shared report makes another"
    if path.is_symlink():
        raise ShareError(f"{path}: is a symbolic link; {way_out}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        raise ShareError(f"{path}: is not a file of this user; {way_out}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ShareError(f"{path}: is not a file of this user; {way_out}")
        mode, remark = stat.S_IMODE(found.st_mode), None
        if close and mode & (stat.S_IRWXG | stat.S_IRWXO):
            os.fchmod(file.fileno(), 0o600)
            remark = (
                f"{path}: its mode was {mode:04o} and is 0600 now; whoever has read it can check guesses "
                "at the names in shared reports: move it away to start with a new one"
            )
        text = file.read(KEY_TEXT_MAX + 1)
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise ShareError(f"{path}: holds no key; {way_out}")
    return Key(secret, remark)


class Pseudonyms:
    """A pseudonym for each original, by kind. Case does not matter."""

    def __init__(self, key: Key) -> None:
        self._secret = key.secret

    def of(self, kind: str, original: str) -> str:
        """For example `host-1f0c2a9b`."""
        return f"{kind}-{self._digest(kind, original)[:8]}"

    def uuid(self, original: str) -> str:
        """In the form of a UUID, with NVML's prefix if the original has one: `GPU-1f0c2a9b-…`."""
        digest = self._digest("uuid", original)
        parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
        kind = original.partition("-")[0].upper()
        return "-".join((kind, *parts) if kind in UUID_KINDS else parts)

    def _digest(self, kind: str, original: str) -> str:
        return hmac.digest(self._secret, f"{kind}\0{original.lower()}".encode(), "sha256").hex()
