"""Runs all of the suite's own tests: those that start real Rays, hosts and runs, and beside them the others.

The first ones wait for half of their time; the others use the CPU meanwhile, at a low priority, so that they
delay no run whose deadlines are tested. Arguments go to both commands. The exit status is 0 if all tests
passed.
"""

import subprocess
import sys
import tempfile

# The tests of a file share fixtures, so a file stays on one worker; the longest folders come first. A failed
# test is repeated once and printed as a rerun; if it fails twice, it fails. Every skip is printed with its
# reason. A test that hangs fails with its stacks, and the others continue.
BOTH = (
    *(sys.executable, "-m", "pytest", "-rsR", "--reruns=1", "--rerun-show-tracebacks"),
    *("-o", "faulthandler_timeout=600", "-o", "faulthandler_exit_on_timeout=true", "--no-loadscope-reorder"),
)
WAITING = (*BOTH, "-v", "-n4", "--dist=loadfile", "tests/cluster/hosts", "tests/faults", "tests/cluster")
COMPUTING = (*BOTH, "-q", "-n5", "--dist=loadscope", "tests/simulation", "tests/plugin", "tests/unit")
LOW = ("nice", "-n", "10")
NO_TESTS = 5  # pytest's exit status where -k or the like left none of one command


def main() -> int:
    """Run both; the output of the tests that compute comes last."""
    chosen = sys.argv[1:]
    with tempfile.TemporaryFile("w+") as output:
        computing = subprocess.Popen([*LOW, *COMPUTING, *chosen], stdout=output, stderr=output)
        try:
            statuses = [subprocess.run([*WAITING, *chosen], check=False).returncode, computing.wait()]
        finally:
            computing.kill()
            output.seek(0)
            sys.stdout.write(output.read())
    # A negative status is the signal that ended pytest.
    return max((abs(status) for status in statuses if status != NO_TESTS), default=NO_TESTS)


if __name__ == "__main__":
    raise SystemExit(main())
