"""What the command line refuses."""


class Refused(Exception):  # noqa: N818 - says what is the case
    """Bad input; the message names it and the remedy. Becomes exit status 4."""
