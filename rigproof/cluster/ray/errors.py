"""What can prevent a cluster from starting. Each message ends with the remedy."""


class ClusterError(Exception):
    """The cluster did not start; nothing was loaded."""


class ClusterUnreachable(ClusterError):  # noqa: N818 - named for the condition
    """The cluster of `--hw-ray-address` cannot be joined."""


class ClusterStartFailed(ClusterError):  # noqa: N818 - named for the condition
    """The local Ray did not start."""
