"""Removes what identifies a rig from texts and records: hosts, addresses, UUIDs, users, paths, variables.

Names are known from the recording; the rest is recognised by its form. Words that rigproof itself uses are
never treated as a name: a host called `gpu` identifies nobody.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from rigproof.records.processes import PROCESS_TEXT, process_text
from rigproof.report.published.pseudonyms import Pseudonyms

# Variables whose values may be shown: they configure the work and contain no names.
ENVIRONMENT_SHOWN = frozenset(
    {
        "CI",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_VISIBLE_DEVICES",  # UUIDs in it are replaced
        "LANG",
        "LC_ALL",
        "MKL_NUM_THREADS",
        "NCCL_ALGO",
        "NCCL_DEBUG",
        "NCCL_IB_DISABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_SHM_DISABLE",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "PYTHONHASHSEED",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "RAY_AUTH_MODE",
        "TERM",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TZ",
    }
)
ENVIRONMENT_HIDDEN = "[not shown]"
VALUE_LENGTH_MIN = 6  # a shorter value of a variable is no secret, and occurs in texts by chance
SECRET_LENGTH_MIN = 4
SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
NAME_LENGTH_MIN = 2
# Folders that are the same on every machine.
KNOWN_ROOTS = ("/dev", "/proc", "/sys", "/usr/lib", "/usr/bin", "/lib", "/bin")

UUID = re.compile(
    r"(?<![0-9a-z])(?:(?:GPU|MIG|CPU)-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z])",
    re.IGNORECASE,
)
IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
IPV6 = re.compile(r"(?<![\w.:])(?=[0-9a-f]*:[0-9a-f]*:)[0-9a-f:]+(?:%\w+)?(?![\w:])", re.IGNORECASE)
MAC = re.compile(r"(?<![\w:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:-])", re.IGNORECASE)
PATH = re.compile(r"(?<![\w.:~/-])/(?:[\w.@+=%~#-]+/)*[\w.@+=%~#-]+/?")
HOME = re.compile(r"(?<![\w.~-])/(?:home|Users)/([\w.@+-]+)")
ASSIGNMENT = re.compile(r"(?<![\w-])([A-Z][A-Z0-9_]{2,})=([^\s,;'\"]+)")


class Scrubber:
    """Replaces what identifies a rig by pseudonyms.

    `hosts`, `uuids`, `users`: exact originals. `environment`: variables whose values are removed,
    except those that may be shown. `own_words`: never replaced, even if they are also names.
    """

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        *,
        hosts: Iterable[str] = (),
        uuids: Iterable[str] = (),
        users: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        own_words: Iterable[str] = (),
    ) -> None:
        self._pseudonyms = pseudonyms
        own = {word.lower() for word in own_words}
        self._exact: dict[str, str] = {}
        for name, value in (environment or {}).items():
            if _hidden(name, value) and value.lower() not in own:
                self._exact[value.lower()] = ENVIRONMENT_HIDDEN
        for kind, originals in (("user", users), ("host", hosts)):
            for original in originals:
                if len(original) >= NAME_LENGTH_MIN and original.lower() not in own:
                    self._exact[original.lower()] = pseudonyms.of(kind, original)
        self._exact |= {uuid.lower(): pseudonyms.uuid(uuid) for uuid in uuids if uuid}
        longest_first = sorted(self._exact, key=len, reverse=True)
        words = "|".join(map(re.escape, longest_first))
        self._names = re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])", re.IGNORECASE) if words else None
        self.text = lru_cache(maxsize=100_000)(self._text)

    def value(self, value: Any) -> Any:
        """The same for values of JSON's types, including the keys of dicts."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(str(key)): self.value(item) for key, item in value.items()}
            case list():
                return [self.value(item) for item in value]
            case tuple():
                return tuple(self.value(item) for item in value)
            case _:
                return value

    def host(self, original: str) -> str:
        """A host's pseudonym, whatever the name."""
        return self._pseudonyms.of("host", original)

    def user(self, original: str) -> str:
        """A user's pseudonym, whatever the name."""
        return self._pseudonyms.of("user", original)

    def program(self, original: str) -> str:
        """A program's pseudonym, whatever the name."""
        return self._pseudonyms.of("program", original)

    def _process(self, found: re.Match[str]) -> str:
        name = None if found["name"] is None else self.program(found["name"])
        return process_text(int(found["pid"]), name, self.user(found["user"]))

    def _text(self, text: str) -> str:
        text = ASSIGNMENT.sub(self._assignment, text)
        text = PROCESS_TEXT.sub(self._process, text)
        text = UUID.sub(lambda found: self._pseudonyms.uuid(found[0]), text)
        text = PATH.sub(self._path, text)
        text = HOME.sub(lambda found: f"/home/{self._pseudonyms.of('user', found[1])}", text)
        if self._names is not None:
            text = self._names.sub(lambda found: self._exact[found[0].lower()], text)
        text = MAC.sub(lambda found: self._pseudonyms.of("address", found[0]), text)
        text = IPV4.sub(self._address, text)
        return IPV6.sub(self._address, text)

    @staticmethod
    def _assignment(found: re.Match[str]) -> str:
        return found[0] if found[1] in ENVIRONMENT_SHOWN else f"{found[1]}={ENVIRONMENT_HIDDEN}"

    def _address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found[0].partition("%")[0])
        except ValueError:
            return found[0]
        if address.is_loopback or address.is_unspecified:
            return found[0]
        return self._pseudonyms.of("address", str(address))

    def _path(self, found: re.Match[str]) -> str:
        """A path of this machine: a pseudonym for its folder, and its last part if that is a file."""
        path = PurePosixPath(found[0])
        if any(path.is_relative_to(root) for root in KNOWN_ROOTS) and not HOME.match(found[0]):
            return found[0]
        if len(path.parts) > 2 and path.suffix:
            return f"{self._pseudonyms.of('folder', str(path.parent))}/{path.name}"
        return self._pseudonyms.of("folder", str(path))


def _hidden(name: str, value: str) -> bool:
    """Whether a variable's value must be removed, and is long enough not to occur by chance."""
    if name in ENVIRONMENT_SHOWN:
        return False
    return len(value) >= (SECRET_LENGTH_MIN if SECRET.search(name) else VALUE_LENGTH_MIN)
