"""The node agent: one Ray actor per node, the only process there that opens NVML. It changes no setting."""

import dataclasses
import platform
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from importlib import metadata
from typing import Literal, Protocol

import rigproof
from rigproof.cluster.actors.gpu_readings import Counts, Silent, read_all
from rigproof.cluster.actors.host_load import HostLoadProcess
from rigproof.cluster.actors.messages import AgentDuty, AgentFacts, AgentReply
from rigproof.cluster.actors.remembering import Memory, Remembering, look_back
from rigproof.cluster.actors.sensing import Senses, Sensing
from rigproof.host import processes
from rigproof.host.addresses import free_ports
from rigproof.host.bounded import Background
from rigproof.host.cgroup import oom_kills
from rigproof.host.cpu_band import HostLoad
from rigproof.host.cpu_users import CpuUsers
from rigproof.host.offers import Offers, offers
from rigproof.host.processes import ProcessId
from rigproof.host.run_lock import Claim, HostLock
from rigproof.host.visible import parents_setting, visible_gpus
from rigproof.records.identity import GpuIdentity
from rigproof.records.measurements import Event, ForeignMemory, GpuCounters
from rigproof.records.processes import process_text
from rigproof.records.recording import Record, Sample
from rigproof.records.samples import GpuSample
from rigproof.records.verdict import count_of
from rigproof.telemetry.host import HostReader
from rigproof.telemetry.inventory import unlisted
from rigproof.telemetry.nvml.counters import read_counters, read_foreign_memory
from rigproof.telemetry.nvml.errors import NvmlUnavailable
from rigproof.telemetry.nvml.library import kernel_under_nvml
from rigproof.telemetry.nvml.session import Nvml, open_nvml


class Host(Protocol):
    """What an agent reports of its host's size."""

    def usable_cpus(self) -> float:
        """CPUs that may be used there."""

    def ram_gib(self) -> float:
        """RAM that may be used there, GiB."""

    def cpu_model(self) -> str:
        """The CPU's model."""


class NodeAgent:
    """Answers short calls one after another; slow calls and calls that may hang run in threads.

    `visible_devices` gives the CUDA_VISIBLE_DEVICES that applies here; by default the raylet's, whose child
    this process is, because Ray may have changed its own copy.
    """

    def __init__(self, visible_devices: Callable[[], str | None] = parents_setting) -> None:
        self._visible_devices = visible_devices
        self._process = processes.own_process()
        self._host: Host = HostReader()
        self._open = ExitStack()
        self._nvml: Nvml | None = None
        self._unavailable: NvmlUnavailable | None = None
        self._silent: Silent | None = None  # where there is NVML
        self._opening = Background(self._open_nvml, "nvml")
        self._duty: AgentDuty | None = None
        self._sensing: Senses | None = None
        self._load: HostLoadProcess | None = None
        self._load_reported = True
        self._records: list[Record | Sample] = []
        self._ours: set[ProcessId] = set()
        self._memory: Memory | None = None  # where it takes part in a run
        self._host_lock = HostLock()
        self._killed: int | None = None  # processes that the kernel's OOM killer ended here

    def clock(self) -> float:
        """This host's monotonic clock, s."""
        return time.monotonic()

    def facts(self, node: str, gpu_promised: bool, limit_s: float) -> AgentFacts:
        """The host's inventory. If NVML does not answer within `limit_s`, it is not called again.

        A missing NVIDIA driver is an error only if the profile promises a GPU.
        """
        gpus: tuple[GpuIdentity, ...] = ()
        listed: tuple[GpuIdentity, ...] = ()
        error: str | None = None
        visible_devices = self._visible_devices()
        if not self._opening.done(limit_s):
            error = (
                f"NVML did not answer within {limit_s:g} s: the driver hangs; see `sudo dmesg`, then reboot"
            )
        elif self._nvml is not None:
            nvml = self._nvml

            def look() -> tuple[tuple[GpuIdentity, ...], tuple[GpuIdentity, ...]]:
                found = nvml.gpus(node)
                return found, visible_gpus(found, visible_devices, nvml.parent_of)

            listing = Background(look, "gpus")
            if listing.done(limit_s):
                listed, gpus = listing.result(((), ()))
                error = str(listing.error) if listing.error is not None else None
            else:
                error = f"NVML did not list the GPUs within {limit_s:g} s; see `sudo dmesg`, then reboot"
        elif self._unavailable is not None and (gpu_promised or not self._unavailable.driver_missing):
            error = str(self._unavailable)
        elif self._opening.error is not None:
            error = (
                f"NVML could not be opened: {type(self._opening.error).__name__}: {self._opening.error}; "
                "run `nvidia-smi` there and see `sudo dmesg`"
            )
        return AgentFacts(
            process=self._process,
            hostname=socket.gethostname(),
            cpus=self._host.usable_cpus(),
            ram_gib=self._host.ram_gib(),
            os=platform.platform(),
            python_version=platform.python_version(),
            ray_version=_version("ray") or "",
            rigproof_version=rigproof.__version__,
            torch_version=_version("torch"),
            driver_version=self._nvml.driver_version if self._nvml is not None else None,
            nvml_error=error,
            gpus=gpus,
            hidden=tuple(gpu for gpu in listed if gpu not in gpus),
            visible_devices=visible_devices,
            unlisted=unlisted(kernel_under_nvml(), listed)
            if self._nvml is not None and error is None
            else None,
            cpu_model=self._host.cpu_model(),
            driver_cuda=self._nvml.driver_cuda if self._nvml is not None else None,
            offers=self._offers(),
        )

    def begin(self, duty: AgentDuty) -> frozenset[str]:
        """Sample from now on. Returns the subjects whose Xids are received."""
        self._opening.done(duty.stuck_s)  # an agent that takes over is not asked for facts first
        self._duty = duty
        self._sensing = self._sense(duty)
        self._sensing.start()
        if duty.run_id is not None:
            self._memory = self._remember(duty.node, duty.run_id)
            self._records += self._memory.begin()
            self._count_oom_kills()
        return self._sensing.supported

    def take_host(self, claim: Claim) -> Claim | str | None:
        """Take this host for a run while this process lives. Returns the run that has it; None if ours."""
        return self._host_lock.take(claim)

    def let_go_of_host(self) -> None:
        """Let other runs have this host."""
        self._host_lock.release()

    def poll(self) -> AgentReply:
        """Samples and events since the last poll."""
        if self._sensing is not None:
            self._records += self._sensing.drain()
        if self._load is not None and not self._load.alive and not self._load_reported:
            self._report_load("the CPU load ended by itself")
        if self._memory is not None:
            self._records += self._memory.problems()
            self._count_oom_kills()
        records, self._records = tuple(self._records), []
        return AgentReply(self._process, records)

    def mark(self, stage: str | None, since_s: float) -> None:
        """Note on the host's own disk which stage begins at this run time (None: that it has ended)."""
        if self._memory is not None:
            self._memory.mark(stage, since_s)

    def doing(self, steps: Mapping[str, str]) -> None:
        """Keep what each of these workers did in its latest round."""
        if self._memory is not None:
            self._memory.doing(steps)

    def came_back(self, node: str, run_id: str, t_s: float) -> tuple[Record, ...]:
        """The host's boot id after its node was lost and has returned, and events for runs that never ended.

        `t_s` is the present run time: this agent is a new one, whose clock has no known offset.
        """
        boot = self._remember(node, run_id).boot("after")  # its clock is another one than before
        return (dataclasses.replace(boot, t_s=t_s), *self._look_back(node, run_id, t_s))

    def counters(self, moment: Literal["before", "after"], limit_s: float) -> None:
        """Read every GPU's error counters and PCIe errors, and after the load the host's boot id.

        The records come with a later poll. So does how completely the processes of each GPU were watched.
        """
        if moment == "after" and self._memory is not None:
            self._records.append(self._memory.boot(moment))

        def read(nvml: Nvml, uuid: str, subject: str) -> GpuCounters:
            return read_counters(nvml.gpu(uuid, subject, self._now_s()), moment)

        self._read_all(read, f"counters {moment}", limit_s)
        if self._sensing is not None:
            self._records += self._sensing.watches()
            self._records += self._sensing.pcie_errors()

    def foreign_memory(self, own_pids: frozenset[int], limit_s: float) -> None:
        """Read how much VRAM other processes hold on each GPU; the records come with a later poll."""

        def read(nvml: Nvml, uuid: str, subject: str) -> ForeignMemory:
            return read_foreign_memory(nvml.gpu(uuid, subject, self._now_s()), own_pids)

        self._read_all(read, "foreign memory", limit_s)

    def free_ports(self, address: str, count: int) -> tuple[int, ...]:
        """Free ports at an address of this host. OSError if the address is not its own."""
        return free_ports(address, count)

    def adopt(self, process: ProcessId) -> None:
        """Register a worker of this host as ours: only registered workers are ever killed."""
        self._ours.add(process)

    def kill(self, process: ProcessId) -> bool:
        """SIGKILL one of our workers, even a frozen one. False for any other process."""
        return process in self._ours and processes.kill(process)

    def start_host_load(self, load: HostLoad) -> None:
        """Start to hold the host's CPUs at the load's target."""
        self.stop_host_load()
        self._load = HostLoadProcess(load)
        self._load_reported = False
        if self._users is not None:
            self._users.restart()
        report = self._load.report()
        message = (
            f"{load.primary_threads} primary and {load.secondary_threads} secondary threads "
            f"aim at {load.target_percent:g} % of the CPU"
        )
        self._records.append(Event(self._now_s(), "host_load", self._node(), message, data=report))

    def stop_host_load(self) -> None:
        """End the load, if there is one, and report what it did."""
        if self._load is not None:
            self._load.stop()
            if not self._load_reported:
                self._report_load("the CPU load has ended")
            self._load = None

    def finish(self, timeout_s: float) -> AgentReply:
        """End the CPU load, sampling and NVML. Returns the last records."""
        self.stop_host_load()
        last = self.poll().records
        if self._sensing is not None:
            self._sensing.stop(timeout_s)
            last += tuple(self._sensing.drain())
            self._sensing = None
        if self._memory is not None:
            self._memory.end()
            last += tuple(self._memory.problems())
            self._memory = None
        if self._opening.done():
            Background(self._open.close, "nvml-close").done(timeout_s)
        return AgentReply(self._process, last)

    def _count_oom_kills(self) -> None:
        """Record how many processes the kernel's OOM killer has ended: at first, and when there are more."""
        killed, node = self._oom_kills(), self._node()
        if killed is not None and killed != self._killed:
            self._killed = killed
            message = (
                f"the kernel's OOM killer has ended {count_of(killed, 'processes')} since {node} started"
            )
            self._records.append(Event(self._now_s(), "oom_kills", node, message, data={"killed": killed}))

    def _oom_kills(self) -> int | None:
        return oom_kills()

    def _offers(self) -> Offers:
        return offers()

    def _sense(self, duty: AgentDuty) -> Senses:
        return Sensing(duty, self._nvml, self._silent, HostReader(), self._now_s, own_pids=self._own_pids)

    def _own_pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in tuple(self._ours))

    def _remember(self, node: str, run_id: str, /) -> Memory:
        sensing = self._sensing
        latest = (lambda: sensing.latest) if sensing is not None else dict[str, GpuSample]
        return Remembering(node, run_id, self._now_s, latest)

    def _look_back(self, node: str, run_id: str, t_s: float, /) -> list[Event]:
        return look_back(node, run_id, t_s)[0]

    def _now_s(self) -> float:
        return time.monotonic() + (self._duty.clock_offset_s if self._duty is not None else 0.0)

    def _open_nvml(self) -> None:
        try:
            nvml = self._open.enter_context(open_nvml())
        except NvmlUnavailable as error:
            self._unavailable = error
        else:
            self._silent = Silent(nvml, self._now_s)
            self._nvml = nvml

    def _read_all(self, read: Callable[[Nvml, str, str], Counts], query: str, limit_s: float) -> None:
        if self._nvml is None or self._silent is None or self._duty is None:
            return
        self._records += read_all(
            self._duty.uuids,
            partial(read, self._nvml),
            query=query,
            limit_s=limit_s,
            silent=self._silent,
            now_s=self._now_s,
        )

    def _report_load(self, message: str) -> None:
        assert self._load is not None
        self._load_reported = True
        report = self._load.report()
        if self._users is not None:
            report["foreign"] = [
                f"{process_text(one.pid, one.name, one.user)} {one.percent:.0f} %"
                for one in self._users.hungriest()
            ]
        self._records.append(Event(self._now_s(), "host_load", self._node(), message, data=report))

    @property
    def _users(self) -> CpuUsers | None:
        return None if self._sensing is None else self._sensing.users

    def _node(self) -> str:
        return self._duty.node if self._duty is not None else socket.gethostname()


@cache  # it reads all that the package says about itself
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
