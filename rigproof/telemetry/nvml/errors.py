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
    """NVML does not answer on this host at all. The message gives the reason and the remedy.

    `driver_missing` is True if no NVIDIA driver is installed, which is no error on a host without a GPU.
    """

    @property
    def not_there(self) -> bool:
        """Whether there is no driver here, as in a container that was given none."""
        return self.code in (Code.LIBRARY_NOT_FOUND, Code.DRIVER_NOT_LOADED)

    def __init__(self, message: str, code: int, driver_missing: bool = False) -> None:
        self.message = message
        self.code = code
        self.driver_missing = driver_missing
        super().__init__(message, code, driver_missing)  # all of them, so that it survives pickling

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


WAYS_OUT = {
    Code.LIBRARY_NOT_FOUND: (
        "libnvidia-ml.so.1 was not found: no NVIDIA driver is installed here; "
        "install one, or start the container with `--gpus all`"
    ),
    Code.DRIVER_NOT_LOADED: (
        "the NVIDIA kernel module is not loaded; try `sudo modprobe nvidia`, and see `dmesg` if that fails"
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
    code = error.code
    way_out = next((text for known, text in WAYS_OUT.items() if known == code), None)
    message = way_out or f"{error.text}; run `nvidia-smi` and see `dmesg`"
    return NvmlUnavailable(
        f"NVML does not answer (code {code}): {message}",
        code=code,
        driver_missing=code == Code.LIBRARY_NOT_FOUND,
    )
