"""Whatever a file holds that others may have written: its reader reads it or says what is wrong with it.

No other exception, no endless message, no wait. The same inputs on each run (`derandomize`); bench/fuzz.py
goes further, guided by coverage.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.mutations import DEEP, mutated
from support.readers import READERS

ONE_IN = 40  # of the places at which a file is cut short
SAME_EACH_TIME = settings(
    max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
JSON = [name for name, reader in READERS.items() if reader.kind in ("json", "lines")]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """One folder for all inputs: each reader writes over what the one before it left."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture
def reading(folder, request):
    name = request.node.callspec.params["name"]

    def read(data):
        return READERS[name].read(folder / name, data)

    return read


@pytest.mark.parametrize("name", READERS)
def test_a_true_file_is_read(reading, name):
    for sample in READERS[name].samples():
        assert reading(sample) is not None


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_read_or_refused(reading, name):
    samples = READERS[name].samples()

    @SAME_EACH_TIME
    @given(mutated(READERS[name].kind, samples))
    def feed(data):
        reading(data)

    feed()


@pytest.mark.parametrize("name", READERS)
def test_random_bytes_are_refused(reading, name):
    @settings(SAME_EACH_TIME, max_examples=20)
    @given(st.binary(max_size=200))
    def feed(data):
        reading(data)

    feed()


@pytest.mark.parametrize("name", READERS)
def test_a_file_cut_short_at_any_place_is_read_or_refused(reading, name):
    sample = min(READERS[name].samples(), key=len)
    for length in {*range(0, len(sample), len(sample) // ONE_IN), *range(12), len(sample) - 1}:
        reading(sample[:length])


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("bracket", [b"[", b'{"a":', b'{"benchmarks":[', b'{"type":"run","rig":{"a":'])
def test_brackets_without_end_are_refused(reading, name, bracket):
    reading(bracket * DEEP)
    reading(bracket * DEEP + b"\n")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("put", ["folder", "pipe", "device", "nowhere", "itself"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, name, put):
    reader = READERS[name]
    path = tmp_path / reader.place
    path.parent.mkdir(parents=True, exist_ok=True)
    match put:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.symlink_to({"device": "/dev/zero", "nowhere": "/no/such", "itself": path.name}[put])
    found = reader.look(tmp_path)
    assert found is None or name in ("history", "verdict"), found
