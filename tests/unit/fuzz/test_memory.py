"""The worst file of each kind that is not refused by its size takes a bounded amount of memory and time."""

import pytest

from rigproof.records.limits import LINE_VALUES_MAX, PROFILE_BYTES_MAX, VALUES_MAX
from support.acceptance import python
from support.readers import READERS

MOST_MIB = 1024
CHILD = """
import re, sys
from pathlib import Path
from support.readers import READERS
for folder in sorted(Path(sys.argv[1]).iterdir()):
    READERS[folder.name.partition("-of-")[0]].look(folder)
    # Not ru_maxrss, in which is what the process held that started this one.
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    print(folder.name, int(peak[1]) // 1024)
"""


def filled(head, tail, unit=b"[],", values=VALUES_MAX):
    """As many of `unit` as a document can have."""
    return head + unit * (values // sum(map(unit.count, (b",", b"[", b"{"))) - 10) + unit[:-1] + tail


def worst():
    return {
        "history-of-benchmarks": filled(b'{"datetime":"x","benchmarks":[', b"]}", b"{},"),
        "gpu-champions-of-figures": filled(b'{"figures":[', b"]}", b"{},"),
        "gpu-champions-of-keys": b"{" + b",".join(b'"%d":1' % key for key in range(VALUES_MAX - 1)) + b"}",
        "recording-of-lists": filled(
            b'{"type":"run","schema_version":1,"rig":{"a":[', b"]}}\n", values=LINE_VALUES_MAX
        ),
        "profile-of-nodes": filled(b"nodes = [", b"]\n", b"{},", PROFILE_BYTES_MAX // 2),
        "profile-of-dots": b"a" + b".a" * (PROFILE_BYTES_MAX // 2 - 10) + b" = 1",
    }


def test_the_worst_files_stay_under_a_gigabyte(tmp_path):
    files = worst()
    for name, content in files.items():
        path = tmp_path / name / READERS[name.partition("-of-")[0]].place
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    done = python("-c", CHILD, tmp_path, patience_s=600)
    assert done.returncode == 0, done.stderr
    peaks = {name: int(peak) for name, peak in map(str.split, done.stdout.splitlines())}
    assert peaks.keys() == files.keys()
    assert all(peak < MOST_MIB for peak in peaks.values()), peaks


@pytest.mark.parametrize("name", ["history", "gpu-champions", "verdict", "recording"])
def test_more_values_than_a_document_can_have_are_refused_before_they_are_read(tmp_path, name, monkeypatch):
    (sample, *_) = READERS[name].samples()
    READERS[name].read(tmp_path, sample)  # what it needs besides is there now
    monkeypatch.setattr("rigproof.records.limits.VALUES_MAX", 50)
    monkeypatch.setattr("rigproof.records.disk.reading.LINE_VALUES_MAX", 50)
    monkeypatch.setattr("rigproof.records.limits.len", lambda _: 1000, raising=False)
    found = READERS[name].read(tmp_path, sample)
    assert found is None or name in ("history", "verdict")
