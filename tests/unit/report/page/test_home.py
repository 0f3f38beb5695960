"""The page is written also for a user without a home, as many containers have one."""

import subprocess
import sys

WITHOUT_HOME = """
import os, pathlib, pwd
os.environ.pop("HOME", None)
def nobody(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = nobody
try:
    pathlib.Path.home()
except RuntimeError:
    import rigproof.report.page.page
    assert "HOME" not in os.environ
    print("imported")
"""


def test_the_page_needs_no_home():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOME], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "imported\n", done.stderr
