"""Runs all of the suite's own tests: those that wait for real processes, and the others at a low priority.

Real Rays, hosts and acceptance runs mostly wait; the other tests use the CPU meanwhile. Arguments go to both
commands. The exit status is 0 if all tests passed.
"""

import subprocess
import sys
import tempfile

# A test that fails is run once more, and printed as a rerun; one that fails twice fails. A test that hangs
# fails with its stacks, and the others go on. Every skip is printed with its reason. What takes longest
# comes first.
BOTH = (
    *(sys.executable, "-m", "pytest", "-rsR", "--reruns=1", "--no-loadscope-reorder"),
    *("-o", "faulthandler_timeout=600", "-o", "faulthandler_exit_on_timeout=true"),
)
WAITING = (*BOTH, "-v", "-n4", "--dist=loadfile", "tests/cluster/hosts", "tests/faults", "tests/cluster")
# The tests of a file share what they prepared, so a file stays on one worker.
COMPUTING = (*BOTH, "-q", "-n3", "--dist=loadscope", "tests/simulation", "tests/plugin", "tests/unit")
NICENESS = "10"
NO_TESTS = 5  # pytest's exit status if -k or the like left none of one command


def main() -> int:
    """Run both; the output of the tests that compute comes last."""
    chosen = sys.argv[1:]
    with tempfile.TemporaryFile("w+") as output:
        nicely = ("nice", "-n", NICENESS)
        computing = subprocess.Popen([*nicely, *COMPUTING, *chosen], stdout=output, stderr=output)
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
