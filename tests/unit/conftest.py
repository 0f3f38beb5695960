"""How hypothesis runs here: a busy host must not decide about a test."""

from hypothesis import Phase, settings

from support import alone  # noqa: F401 - sets the environment

settings.register_profile("any-host", deadline=None)
# For bench/mutants.py: that a test fails is enough; the smallest example that does takes minutes to find.
settings.register_profile(
    "first-failure", deadline=None, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("any-host")
