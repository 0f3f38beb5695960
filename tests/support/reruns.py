"""Repeats of failed tests, counted by each of pytest-xdist's processes for itself.

pytest-rerunfailures asks a server in the first process before every test how often it has failed, so that a
test whose process crashed could be repeated elsewhere; `loadscope` and `loadfile` repeat none of those. Each
answer takes 40 ms (a second small packet waits until the first one is acknowledged), and the server reads it
byte by byte.
"""

import pytest


@pytest.hookimpl(trylast=True)  # after the plugin's own
def pytest_configure(config: pytest.Config) -> None:
    """Let a process that runs tests ask itself."""
    shared = getattr(config, "failures_db", None)
    if hasattr(config, "workerinput") and hasattr(shared, "sock"):  # each conftest.py that has this hook asks
        from pytest_rerunfailures import StatusDB  # noqa: PLC0415 - not in every environment

        shared.sock.close()
        config.failures_db = StatusDB()
