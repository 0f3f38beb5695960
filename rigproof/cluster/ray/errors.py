"""What can keep a cluster from coming up. Each message ends in the way out."""


class ClusterError(Exception):
    """The cluster did not come up; nothing was loaded."""


class ClusterUnreachable(ClusterError):  # noqa: N818 - says what is the case
    """The cluster of `--ray-address` cannot be joined."""


class ClusterStartFailed(ClusterError):  # noqa: N818 - says what is the case
    """The local Ray did not start."""
