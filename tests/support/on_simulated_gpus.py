"""`rigproof` as a user starts it, on a machine with two simulated cards: `FILE SCENARIO ARGUMENTS…`."""

import signal
import sys
import threading
from pathlib import Path

from rigproof.cli.main import main
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.protocol import Code


class Hang(threading.Event):
    """Never set; leaves the file `hung` in the working directory once somebody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        """Say so, and wait."""
        Path("hung").touch()
        return super().wait(timeout)


def _calm(_driver: SimulatedDriver) -> None:
    """All is well."""


def _hot(driver: SimulatedDriver) -> None:
    driver.gpus[0].core_temperature_c = 96
    driver.gpus[0].clock_event_reasons = 0x60


def _hung(driver: SimulatedDriver) -> None:
    driver.inject(Fault("nvmlInitWithFlags", hang=Hang()))


def _no_driver(driver: SimulatedDriver) -> None:
    driver.inject(Fault("nvmlInitWithFlags", code=Code.LIBRARY_NOT_FOUND))


SCENARIOS = {"calm": _calm, "hot": _hot, "hung": _hung, "no-driver": _no_driver}


def on_simulated_gpus(scenario: str) -> None:
    """Run the command line with the arguments in `sys.argv`."""
    cards = SimulatedDriver(
        [
            SimulatedGpu("GPU-a", utilization_percent=99, power_average_w=341.0),
            SimulatedGpu("GPU-b", name="NVIDIA GeForce RTX 3070", memory_total_mib=8192.0),
        ]
    )
    SCENARIOS[scenario](cards)
    with installed(cards):
        main()


if __name__ == "__main__":
    # A shell may have started the tests with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on_simulated_gpus(sys.argv.pop(1))
