"""Nothing about a GPU, the kernel or another program is set: what is called and opened, looked at."""

import ast
import json
import os
import re
from pathlib import Path

import pytest

from support.acceptance import python

PACKAGE = Path(__file__).resolve().parents[3] / "rigproof"
# NVML's readers, its start and end, its event sets, which only listen, and the check of a checksum.
READS_ONLY = re.compile(
    r"nvml(DeviceValidateInforom|Init|InitWithFlags|Shutdown|ErrorString|DeviceRegisterEvents|EventSet(Create|Wait|Free)"
    r"|(System|Unit|Device)Get\w+)(_v\d+)?"
)
# A reader in a process of its own, so that no other test's files are among those that it opens.
READER = """
import json, os, sys, threading
opened, started = [], []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if (mode and set(mode) & set("wax+")) or (flags or 0) & WRITING:
            opened.append(os.fsdecode(path) if isinstance(path, (str, bytes)) else str(path))
    elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.kill", "os.rename"):
        started.append(event)

sys.dont_write_bytecode = True
from rigproof.telemetry.nvml.counters import read_counters
from rigproof.telemetry.nvml.counters import read_foreign_memory
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu
from rigproof.telemetry.host import HostReader
from rigproof.telemetry.nvml.session import open_nvml
sys.addaudithook(hook)
gpus = [SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2")]
with installed(SimulatedDriver(gpus)) as driver, open_nvml() as nvml:
    host = HostReader()
    for gpu in nvml.gpus("pc1"):
        read_counters(nvml.gpu(gpu.uuid, gpu.subject, 0.0), "before")
        read_foreign_memory(nvml.gpu(gpu.uuid, gpu.subject, 0.0), frozenset())
        read_sample(nvml.gpu(gpu.uuid, gpu.subject, 1.0), 0.0)
    listener = nvml.xids({"GPU-1": "pc1/gpu0"}, lambda: 2.0)
    host.sample("pc1", 1.0, (), 0.0)
    listener.stop()
print(json.dumps({"calls": driver.calls, "opened": opened, "started": started}))
"""


def test_reading_gpus_and_host_only_reads():
    done = python("-c", READER)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature"} <= found["calls"].keys()
    assert [name for name in found["calls"] if not READS_ONLY.fullmatch(name)] == []
    assert [path for path in found["opened"] if path != os.devnull] == []
    assert found["started"] == []


@pytest.fixture(scope="module")
def words() -> dict[Path, tuple[set[str], set[str]]]:
    """The texts and the names of attributes in each module of the package."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        texts = {one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        found[path.relative_to(PACKAGE)] = (
            texts,
            {one.attr for one in nodes if isinstance(one, ast.Attribute)},
        )
    return found


def names_in(words, beginning: str, *places: str) -> set[str]:
    """Every word of the code there, in strings and as attributes, that begins so."""
    inside = [found for path, found in words.items() if any(path.is_relative_to(one) for one in places)]
    return {
        word
        for texts, attributes in inside
        for word in texts | attributes
        if re.fullmatch(rf"{beginning}[A-Z]\w+", word)
    }


def test_no_function_of_nvml_that_sets_something_is_named_anywhere(words):
    folders = ("telemetry", "cluster", "devices", "monitor", "plugin", "stages", "cli")
    no_functions = {"nvmlReturn", "nvmlLib"}  # a field of its answers, and the library
    called = names_in(words, "nvml", *folders) - no_functions
    assert len(called) > 30
    assert [name for name in sorted(called) if not READS_ONLY.fullmatch(name)] == []


def test_cuda_s_driver_is_asked_who_the_card_is_and_nothing_else(words):
    called = names_in(words, "cu", "cluster/ray/gpu_probe.py")
    assert called == {"cuInit", "cuDeviceGet", "cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuGetErrorString"}


def test_the_search_knows_setters():
    for name in (
        "SetPowerManagementLimit",
        "ResetGpuLockedClocks",
        "ClearEccErrorCounts",
        "ModifyDrainState",
    ):
        assert not READS_ONLY.fullmatch(f"nvmlDevice{name}")
    for name in ("nvmlDeviceGetMemoryInfo_v2", "nvmlInitWithFlags", "nvmlEventSetWait_v2"):
        assert READS_ONLY.fullmatch(name)


def test_the_kernel_s_files_are_read_in_one_place(words):
    """/proc and /sys by `rigproof.host` alone, by whose functions tests can give another root."""
    naming = {
        path.parts[0]
        for path, (texts, _) in words.items()
        if any(re.fullmatch(r"/(proc|sys)(/\S*)?", text) for text in texts)
    }
    assert naming == {"host"}


def test_the_kernel_s_log_is_not_opened_by_anybody(words):
    """Xids come by NVML's events; `sudo dmesg` stands only in advice to the reader."""
    texts = set().union(*(texts for texts, _ in words.values()))
    assert not [text for text in texts if "kmsg" in text or "syslog" in text]
    assert not [text for text in texts if text in ("dmesg", "nvidia-smi", "journalctl", "sudo")]
