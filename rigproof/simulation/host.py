"""One simulated host: its CPUs, memory and wake-up delays, and what detection would find there."""

import math
import random
from collections.abc import Sequence

from rigproof.host.offers import Offers
from rigproof.profiles.loading.load import load_sku
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.identity import GpuIdentity, HostInventory
from rigproof.records.samples import HostSample
from rigproof.simulation.faults.injected import InjectedFault, StageWindow

# Of a node whose profile states none; RAM at least so many times the VRAM of its GPUs.
DEFAULT_CPUS, DEFAULT_RAM_GIB, RAM_PER_VRAM = 16.0, 64.0, 1.25
IDLE_PERCENT, FEEDING_PERCENT = 8.0, 45.0
# Mean wake-up delay of a quiet host; the mean extra delay of one in STRAGGLER_EVERY; the minimum when no CPU
# is free. Measured on hosts of H200s, some 15,000 each: median 0.07 to 0.09 ms, 99th percentile 0.35 to 0.46,
# 99.9th 1.2 to 1.6, longest 2.5 to 5.0 (reports/samples/h200-*).
QUIET_MS, STRAGGLER_MS, STRAGGLER_EVERY, LATE_MS = 0.1, 1.0, 300, 60.0
OWN_GIVEN_WAY = 4.0  # % of the CPU that the run's workers use while the load gives way to a hog
HOG = "pid 4711 (stress-ng, user other) 93 %"
LOST_OF_STOLEN = 0.45  # measured: a load that held 77.5 % was at 69.9 %, the stolen 17 % included
OTHERS_PERCENT = 3.0  # of the CPU, used by neither the run nor a hypervisor
LIMITED_SHARE = 0.25  # left of CPUs and RAM by the fault host-limited
SMALLER_SHARE = 0.5  # of the CPUs and RAM that its profile states, under the fault host-smaller
SMALL_SHM_GIB = 0.0625  # Docker's default
CUDA, TOO_NEW_CUDA = "13.0", "99.0"  # that torch was built for
SLEEP_S = 0.010  # of the responsiveness probe


def default_ram_gib(loaded: LoadedRig, node: str) -> float:
    """RAM of a simulated node whose profile states none: enough for its GPUs."""
    skus = [device.sku for device in loaded.devices() if device.node == node]
    return max(DEFAULT_RAM_GIB, RAM_PER_VRAM * sum(sku.memory_gib for sku in skus if sku is not None))


class SimulatedHost:
    """A node's host. `load_percent` is the CPU use that the CPU load maintains, None while there is none."""

    def __init__(self, loaded: LoadedRig, name: str, faults: Sequence[InjectedFault], *, seed: int) -> None:
        node = loaded.node(name)
        self._kinds = loaded.kinds
        self.name = name
        self.cpus = float(node.cpus or DEFAULT_CPUS)
        self._ram_gib = node.ram_gib or default_ram_gib(loaded, name)
        self.load_percent: float | None = None
        self._low_percent = loaded.cpu_of(name).band_percent[0]
        self._faults = {fault.name: fault for fault in faults}
        if "host-smaller" in self._faults:
            self.cpus, self._ram_gib = SMALLER_SHARE * self.cpus, SMALLER_SHARE * self._ram_gib
        self._random = random.Random(f"{seed}/{name}/host")  # noqa: S311 - noise, not a secret

    def usable_cpus(self) -> float:
        """The number of CPUs, or what a container leaves of them."""
        return self.cpus * self._left

    def ram_gib(self) -> float:
        """RAM, GiB, or what a container leaves of it."""
        return self._ram_gib * self._left

    @property
    def _left(self) -> float:
        return LIMITED_SHARE if "host-limited" in self._faults else 1.0

    def offers(self) -> Offers:
        """What it offers to programs."""
        return Offers(
            host_cpus=int(self.cpus),
            host_ram_gib=self._ram_gib,
            shm_gib=SMALL_SHM_GIB if "shm-small" in self._faults else self._ram_gib / 2,
            nouveau=False,
            torch_cuda=TOO_NEW_CUDA if "torch-too-new" in self._faults else CUDA,
        )

    def cpu_model(self) -> str:
        """The CPU's model; hosts with as many CPUs have the same."""
        return f"simulated CPU with {self.cpus:g} cores"

    def sample(self, t_s: float, step_s: float, stages: Sequence[StageWindow]) -> HostSample | None:
        """An agent's reading, `step_s` after the one before; None while the host is frozen."""
        frozen = self._faults.get("host-frozen")
        window = frozen.window(stages) if frozen is not None else None
        if window is not None and window[0] <= t_s < window[1]:
            return None
        delays = self._delays_ms(t_s, step_s, stages)
        if window is not None and window[1] <= t_s < window[1] + step_s:
            delays = (1000.0 * (window[1] - window[0]), *delays)
        stolen_percent = self._stolen_percent(t_s, stages)
        cpu_percent = self._cpu_percent(t_s, stages)
        own_percent = max(0.0, cpu_percent - stolen_percent - OTHERS_PERCENT)
        return HostSample(
            t_s=t_s,
            subject=self.name,
            cpu_percent=cpu_percent,
            load_1m=cpu_percent / 100 * self.cpus,
            ram_used_mib=0.3 * self._ram_gib * 1024,
            ram_available_mib=0.7 * self._ram_gib * 1024,
            swap_used_mib=0.0,
            cpu_temperature_c=45.0 + 0.3 * cpu_percent,
            wakeup_delays_ms=delays,
            stolen_percent=stolen_percent,
            throttled_percent=0.0,
            crowded_percent=0.0,
            pressure_percent=stolen_percent,
            own_percent=OWN_GIVEN_WAY if self._saturated(t_s, stages) else own_percent,
            own_waited_percent=100.0 - OWN_GIVEN_WAY if self._saturated(t_s, stages) else 0.0,
        )

    def _cpu_percent(self, t_s: float, stages: Sequence[StageWindow]) -> float:
        running = [stage.name for stage in stages if 0 <= t_s - stage.start_s <= stage.length_s]
        feeds = any(self._kinds[name].duty == "fed" for name in running)
        percent = self.load_percent or (FEEDING_PERCENT if feeds else IDLE_PERCENT)
        starved = self._faults.get("cpu-starved")
        if starved is not None and starved.acts(t_s, stages):
            percent = min(percent, starved.to or 0.45 * self._low_percent)
        if (
            self.load_percent is not None
        ):  # it gives way to what is stolen, and its threads lose as much again
            percent -= LOST_OF_STOLEN * self._stolen_percent(t_s, stages)
        if self._saturated(t_s, stages):
            percent = 99.0
        return min(100.0, max(0.0, percent + self._random.gauss(0, 0.8)))

    def _saturated(self, t_s: float, stages: Sequence[StageWindow]) -> bool:
        fault = self._faults.get("cpu-saturated")
        return fault is not None and fault.acts(t_s, stages)

    def _stolen_percent(self, t_s: float, stages: Sequence[StageWindow]) -> float:
        fault = self._faults.get("cpu-stolen")
        return 100 * (fault.by or 0.0) if fault is not None and fault.acts(t_s, stages) else 0.0

    def foreign(self) -> list[str]:
        """The foreign processes that used most of the CPU, as an agent reports them."""
        return [HOG] if "cpu-saturated" in self._faults else []

    def _delays_ms(self, t_s: float, step_s: float, stages: Sequence[StageWindow]) -> tuple[float, ...]:
        number = max(1, round(step_s / SLEEP_S))
        least_ms = LATE_MS if self._saturated(t_s, stages) else 0.0
        per_ms, random_share, log = 1 / QUIET_MS, self._random.random, math.log
        # Random.expovariate(per_ms), written out: most of a simulated host's time goes into these.
        delays_ms = [least_ms - log(1.0 - random_share()) / per_ms for _ in range(number)]
        straggler = int(STRAGGLER_EVERY * self._random.random())
        if straggler < number:
            delays_ms[straggler] += self._random.expovariate(1 / STRAGGLER_MS)
        return tuple(delays_ms)


IN_PLACE_OF_UNKNOWN = "rtx-3090"  # the card to simulate if a rig does not state which it is


def simulated_inventory(loaded: LoadedRig) -> HostInventory:
    """A host with the cards of a rig of one node; a card of an unknown SKU becomes an RTX 3090."""
    node = loaded.this_machine()
    gpus = []
    for device in loaded.devices():
        if node is None or device.node != node.name or device.gpu.device != "cuda":
            continue
        sku = device.sku or load_sku(IN_PLACE_OF_UNKNOWN, loaded.kinds)
        gpus.append(
            GpuIdentity(
                subject=device.subject,
                device="cuda",
                uuid=device.gpu.uuid or f"GPU-simulated-{device.index}",
                name=sku.nvml_names[0],
                index=device.index,
                memory_total_mib=sku.memory_gib * 1024,
            )
        )
    return HostInventory(
        hostname="simulated" if node is None else node.name,
        cpus=(node.cpus if node is not None else None) or DEFAULT_CPUS,
        ram_gib=DEFAULT_RAM_GIB if node is None else node.ram_gib or default_ram_gib(loaded, node.name),
        driver_version="580.95.05",
        nvml_error=None,
        gpus=tuple(gpus),
    )
