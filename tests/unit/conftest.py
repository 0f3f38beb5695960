"""How hypothesis runs here: a busy host must not decide about a test."""

from hypothesis import settings

from support import alone  # noqa: F401 - sets the environment

settings.register_profile("any-host", deadline=None)
settings.load_profile("any-host")
