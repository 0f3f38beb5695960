"""Strangers on a real GPU: each is named with pid and user, and what it did is not blamed on the card.

Two runs of about 40 s: in the first one a stranger dies of an illegal access and another one computes, in the
second one a stranger takes the memory that the plan wants.
"""

import getpass
import subprocess
import sys
import time

import pytest

from support.two_devices import needs_gpus

pytestmark = needs_gpus(1)

SUBJECT = "here/gpu0"
PLANNED_GIB, LEFT_GIB = 16, 8
THEIR_DOING = ("throughput.", "activity.gpu_active", "memory.", "health.xid")
PROFILE = """
name = "strangers"
[cpu]
enabled = false # this is about the card
[timeouts]
stall_s = 10
task_s = 60
start_s = 240 # a busy machine takes long to start a worker
[stages.gemm]
settle_s.quick = {settle_s}
measure_s.quick = 1
[stages.sustained]
settle_s.quick = {settle_s}
length_s.quick = 18
[stages.pattern]
length_s.quick = 0
[levels]
round_s.quick = 0.05
[[nodes]]
name = "here"
[[nodes.gpus]]
sku = "unknown"
gemm_size = 8192
vram_gib_per_worker = {planned_gib}
"""
# Each says "ready" before it touches the card, waits for a line, and says "there" once it has a context.
COMPUTES = """
import sys, torch
print("ready", flush=True)
sys.stdin.readline()
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
print("there", flush=True)
while True:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""
TAKES_MEMORY = """
import sys, torch
print("ready", flush=True)
sys.stdin.readline()
free = torch.cuda.mem_get_info()[0]
keep = torch.empty(free - int(float(sys.argv[1]) * 2**30), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("there", flush=True)
sys.stdin.read()
"""
# A kernel that writes to an address of nobody's, through the driver's own library.
CRASHES = """
import ctypes, sys, time
PTX = b'''
.version 7.0
.target sm_75
.address_size 64
.visible .entry wild()
{
    .reg .b64 %a;
    .reg .b32 %v;
    mov.u64 %a, 4096;
    mov.u32 %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
'''
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
module, function = ctypes.c_void_p(), ctypes.c_void_p()

def do(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name}: {code}"

print("ready", flush=True)
sys.stdin.readline()
do("cuInit", 0)
do("cuDeviceGet", ctypes.byref(device), 0)
do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
do("cuCtxSetCurrent", context)
do("cuModuleLoadData", ctypes.byref(module), PTX)
do("cuModuleGetFunction", ctypes.byref(function), module, b"wild")
print("there", flush=True)
time.sleep(3)  # so that whoever looks once a second has seen it
do("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
print("ended by", cuda.cuCtxSynchronize(), flush=True)
"""


class ForeignProcess:
    """A process of somebody else, which begins on request."""

    def __init__(self, code: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"ready\n"

    @property
    def expected_name(self) -> str:
        """How it has to be named."""
        return f"pid {self.process.pid} (python"

    def begin(self) -> None:
        """Let it come, and wait until it is there."""
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"there\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def stranger():
    """Makes strangers, and ends them."""
    made = []

    def make(code, *arguments):
        made.append(ForeignProcess(code, *arguments))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def begun(start_run, tmp_path):
    """A run on the first GPU that goes on."""

    def begin(settle_s):
        path = tmp_path / "strangers.toml"
        path.write_text(PROFILE.format(settle_s=settle_s, planned_gib=PLANNED_GIB))
        return start_run(f"--hwprofile={path}")

    return begin


def verdicts(run):
    return {one["criterion"]: one for one in run.verdict()["criteria"] if one["subject"] == SUBJECT}


def named(verdict, *strangers):
    user = f"user {getpass.getuser()})"
    return all(one.expected_name in verdict["detail"] for one in strangers) and user in verdict["detail"]


def test_one_that_computes_and_one_that_dies_of_its_error_are_named_and_the_card_is_not_blamed(
    begun, stranger
):
    computes, crashes = stranger(COMPUTES), stranger(CRASHES)
    run = begun(settle_s=1)
    run.wait_for_stage("sustained", inside_s=2)
    crashes.begin()
    crashes.process.wait(20)
    time.sleep(2)
    computes.begin()

    assert run.finish() == 6, run.text()

    found = verdicts(run)
    assert found["activity.undisturbed"]["outcome"] == "not_measured", run.text()
    assert named(found["activity.undisturbed"], computes, crashes), run.text()
    assert found["throughput.stability"]["outcome"] == "not_measured", run.text()
    assert named(found["throughput.stability"], computes)
    assert run.events("xid"), "the driver reported no Xid of the illegal access"
    assert found["health.xid"]["outcome"] == "not_measured", run.text()
    assert named(found["health.xid"], crashes)
    blamed = {name for name, one in found.items() if one["outcome"] in ("fail", "warn")}
    assert not {name for name in blamed if name.startswith(THEIR_DOING)}, run.text()
    assert computes.process.poll() is None  # nobody touched it
    run.check_recording()


def test_one_that_takes_the_memory_is_named_with_what_it_holds(begun, stranger):
    takes = stranger(TAKES_MEMORY, str(LEFT_GIB))
    run = begun(settle_s=8)  # long enough for it to take its part before the plan's turn
    run.wait_for_stage("gemm")
    takes.begin()
    assert not run.in_stage("sustained"), "the memory was taken too late"

    assert run.finish() == 6, run.text()

    found = verdicts(run)
    assert named(found["activity.undisturbed"], takes), run.text()
    assert found["memory.no_oom"]["outcome"] == "not_measured", run.text()
    assert named(found["memory.no_oom"], takes)
    assert f"{takes.expected_name}" in run.events("oom")[0]["message"]
    assert " holds " in run.events("oom")[0]["message"]
    assert found["memory.success_rate"]["outcome"] == "not_measured"
    assert takes.process.poll() is None
