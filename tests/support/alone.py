"""What the suite's own tests start from; importing this makes it so. Acceptance runs do not."""

import atexit
import os
import shutil
import tempfile

# What a test starts is a user's own run: it must not take itself for a part of this one (pytest-xdist's
# variables switch pytest-benchmark off in it), nor take this terminal's size for that of its own, nor write
# longer lines where these tests run in CI.
_CALLERS = {"COLUMNS", "LINES", "CI", "BUILD_NUMBER"}
for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_") or name in _CALLERS]:
    del os.environ[name]

# A home of their own: Ray looks for its token there, and leaves one behind.
os.environ["HOME"] = tempfile.mkdtemp(prefix="rigproof-home-")
for name in ("XDG_STATE_HOME", "RIGPROOF_STATE_HOME"):  # hosts' last words go there
    os.environ.pop(name, None)
os.environ["RIGPROOF_LOCK_DIR"] = os.environ["HOME"]  # other tests' runs on this machine are no hindrance
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# A call to Ray without a Ray must fail, and not start one inside the tests' process, which would die with it.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"

# Ray starts its workers at nice 15. Tests beside theirs would leave them 3 % of a CPU.
UNYIELDING = {"RAY_worker_niceness": "0"}

# A Ray that several drivers join, one after the other, starts workers for each of them, mostly in vain.
NONE_IN_ADVANCE = {"RAY_prestart_worker_first_driver": "0"}
os.environ |= UNYIELDING
