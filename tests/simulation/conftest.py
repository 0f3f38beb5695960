"""What these tests start from."""

from support import alone  # noqa: F401 - sets the environment
