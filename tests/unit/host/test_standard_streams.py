"""What is printed is the least of a run: nobody who does not read it changes how the run ends."""

import subprocess
import sys
from pathlib import Path

import pytest

PRINTING = """
import sys
from rigproof.host.standard_streams import outlive_readers
outlive_readers()
outlive_readers()
for number in range(20_000):
    print(number, flush=number % 1000 == 0)
print("told", file=sys.stderr)
sys.exit(6)
"""


def printing(**streams):
    return subprocess.run([sys.executable, "-c", PRINTING], check=False, timeout=60, **streams)


@pytest.fixture
def full():
    with Path("/dev/full").open("w") as file:
        yield file


def test_a_reader_that_has_gone_is_no_error_and_nothing_to_tell():
    shell = f"{sys.executable} -c '{PRINTING}' | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (6, "0\n", "told\n")


def test_a_full_disk_is_told_once(full):
    done = printing(stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 6
    said = b"rigproof: standard output cannot be written: No space left on device; the exit status holds\n"
    assert done.stderr == said + b"told\n"


def test_if_nothing_can_be_told_the_status_holds(full):
    assert printing(stdout=full, stderr=full).returncode == 6


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_one_that_nobody_reads(closed):
    shell = f"{sys.executable} -c '{PRINTING}' {closed}"
    done = subprocess.run(["bash", "-c", shell], stdout=subprocess.DEVNULL, check=False, timeout=60)
    assert done.returncode == 6


def test_what_is_read_arrives_whole_and_in_order():
    done = printing(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stdout.decode() == "".join(f"{number}\n" for number in range(20_000))
    assert done.stderr == b"told\n"
