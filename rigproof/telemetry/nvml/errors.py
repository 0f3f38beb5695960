"""What can go wrong with NVML as a whole, or with one GPU as a whole."""

from rigproof.telemetry.nvml.protocol import Code


class NvmlError(Exception):
    """An NVML call that returned something other than success."""

    def __init__(self, query: str, code: int, text: str) -> None:
        self.query = query
        self.code = code
        self.text = text
        super().__init__(query, code, text)

    def __str__(self) -> str:
        return f"{self.query}: {self.text} (NVML code {self.code})"


class NvmlUnavailable(Exception):  # noqa: N818 - named for the condition
    """NVML does not answer on this host at all. The message gives the reason and the remedy."""

    def __init__(self, message: str, code: int) -> None:
        self.message = message
        self.code = code
        super().__init__(message, code)  # both, so that it survives pickling

    @property
    def driver_missing(self) -> bool:
        """Whether no NVIDIA driver is installed, which is no error on a host without a GPU."""
        return self.code == Code.LIBRARY_NOT_FOUND

    @property
    def not_there(self) -> bool:
        """Whether there is no driver here, as in a container that was given none."""
        return self.code in (Code.LIBRARY_NOT_FOUND, Code.DRIVER_NOT_LOADED)

    def __str__(self) -> str:
        return self.message


class GpuLost(Exception):  # noqa: N818 - named for the condition
    """A GPU no longer answers; no further NVML call is made for it."""

    def __init__(self, subject: str, uuid: str, reason: str) -> None:
        self.subject = subject
        self.uuid = uuid
        self.reason = reason
        super().__init__(subject, uuid, reason)

    def __str__(self) -> str:
        return f"{self.subject} does not answer: {self.reason}"


WAYS_OUT: dict[int, str] = {
    Code.LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found: no NVIDIA driver is installed here; "
        "install one, or start the container with `--gpus all`"
    ),
    Code.DRIVER_NOT_LOADED: (
        "the NVIDIA kernel module is not loaded; try `sudo modprobe nvidia`, see `sudo dmesg` if that fails"
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        "driver/library version mismatch: the loaded kernel module does not match the installed driver, "
        "as after an update; reboot, or reload the nvidia kernel modules"
    ),
    Code.NO_PERMISSION: (
        "this user may not open the NVIDIA devices; check the permissions of /dev/nvidia* and /dev/nvidiactl"
    ),
}


def unavailable(error: NvmlError) -> NvmlUnavailable:
    """The reason why NVML could not be started, in words."""
    message = WAYS_OUT.get(error.code, f"{error.text}; run `nvidia-smi` and see `sudo dmesg`")
    return NvmlUnavailable(f"NVML does not answer (code {error.code}): {message}", error.code)
