"""What is found on a host, in this process over a simulated driver, and by the child process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rigproof.host import child
from rigproof.host.nvidia import KernelDriver
from rigproof.records.identity import HostInventory
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry import inventory as module
from rigproof.telemetry.inventory import Detection, detect, inventory, inventory_from, inventory_to_json
from rigproof.telemetry.nvml.protocol import Code


@pytest.fixture(autouse=True)
def _every_gpu_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)


CARDS = ("0000:17:00.0", "0000:65:00.0")


def two_gpus() -> SimulatedDriver:
    return SimulatedDriver([SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2", compute_capability=None)])


def test_the_host_and_all_its_gpus() -> None:
    with installed(two_gpus()):
        found = inventory()
    assert [gpu.subject for gpu in found.gpus] == [f"{found.hostname}/gpu0", f"{found.hostname}/gpu1"]
    assert (found.driver_version, found.nvml_error) == ("580.95.05", None)
    assert found.cpus > 0
    assert found.ram_gib > 0


def test_hidden_gpus_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with installed(two_gpus()):
        found = inventory()
    assert ([gpu.uuid for gpu in found.gpus], [gpu.uuid for gpu in found.hidden]) == (["GPU-2"], ["GPU-1"])
    assert (found.hidden_by, found.all_hidden, found.doubt) == ("CUDA_VISIBLE_DEVICES=1", False, None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with installed(two_gpus()):
        found = inventory()
    assert (found.gpus, len(found.hidden)) == ((), 2)
    assert (found.hidden_by, found.all_hidden, found.doubt) == ('CUDA_VISIBLE_DEVICES=""', True, None)


@pytest.mark.parametrize("setting", ["all", "cuda:0", "gpu0", "0;1", "00000000:65:00.0", "0,99", "1,1"])
def test_a_setting_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    with installed(two_gpus()):
        found = inventory()
    assert found.doubt == found.setting_error
    assert (found.doubt or "").startswith(f"CUDA_VISIBLE_DEVICES={setting}: ")
    assert not found.all_hidden


def test_a_driver_that_lists_no_gpu_is_not_a_machine_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimulatedDriver([], kernel=KernelDriver(True, CARDS, CARDS))
    with installed(driver):
        found = inventory()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        assert inventory().doubt == found.doubt
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        assert (inventory().doubt, inventory().hidden_by) == (None, "CUDA_VISIBLE_DEVICES=-1")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "void")  # as beside cards that came through CDI
        assert inventory().doubt == found.doubt
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "none")
        assert (inventory().doubt, inventory().hidden_by) == (None, "NVIDIA_VISIBLE_DEVICES=none")
    assert found.doubt == (
        "NVIDIA's driver is loaded, there are cards at 0000:17:00.0, 0000:65:00.0, and NVML lists no GPU: "
        "the driver could initialise none; look for NVRM in `sudo dmesg`, or "
        "set CUDA_VISIBLE_DEVICES=-1 to have the CPU tested"
    )
    with installed(SimulatedDriver([])):
        monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES")
        assert "no card that it drives is on the PCI bus" in (inventory().doubt or "")


def test_a_card_that_nvml_leaves_out_is_named_by_its_address() -> None:
    driver = SimulatedDriver(
        [SimulatedGpu("GPU-1", pci_bus_id="00000000:17:00.0")], kernel=KernelDriver(True, CARDS, CARDS)
    )
    with installed(driver):
        found = inventory()
        driver.kernel = KernelDriver(True, CARDS, CARDS[:1])  # a container that was given one of two
        assert inventory().doubt is None
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert found.doubt == (
        "NVIDIA's driver has a card at 0000:65:00.0 that NVML does not list: it could not be initialised; "
        "look for NVRM in `sudo dmesg`"
    )


def test_a_driver_in_the_kernel_without_its_library_is_not_a_machine_without_a_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = SimulatedDriver([], kernel=KernelDriver(True, CARDS[:1]))
    driver.inject(Fault("nvmlInitWithFlags", Code.LIBRARY_NOT_FOUND))
    with installed(driver):
        found = inventory()
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "void")
        assert (inventory().doubt, inventory().hidden_by) == (None, "NVIDIA_VISIBLE_DEVICES=void")
    assert (found.doubt or "").startswith(
        "NVIDIA's driver is loaded (cards at 0000:17:00.0), but libnvidia-ml.so.1 is not found; install "
    )


def test_a_setting_that_names_a_gpu_where_there_is_no_driver_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = SimulatedDriver([])
    driver.inject(Fault("nvmlInitWithFlags", Code.LIBRARY_NOT_FOUND))
    with installed(driver):
        assert (inventory().named_by, inventory().doubt) == (None, None)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,99")
        assert (inventory().named_by, inventory().doubt) == ("CUDA_VISIBLE_DEVICES=0,99", None)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        assert (inventory().named_by, inventory().hidden_by) == (None, "CUDA_VISIBLE_DEVICES=-1")


def test_no_driver_is_no_error_but_a_broken_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = two_gpus()
    fault = driver.inject(Fault("nvmlInitWithFlags", Code.LIBRARY_NOT_FOUND))
    with installed(driver):
        assert (inventory().nvml_error, inventory().gpus) == (None, ())
        fault.code = Code.LIB_RM_VERSION_MISMATCH
        found = inventory()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles")
        assert inventory().doubt is None
    assert "mismatch" in (found.nvml_error or "")
    assert (found.driver_version, found.gpus) == (None, ())


def test_a_lost_gpu_is_named_beside_those_that_answer() -> None:
    driver = two_gpus()
    driver.gpus[0].lost = True
    with installed(driver):
        found = inventory()
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-2"]
    assert f"{found.hostname}/gpu0" in (found.nvml_error or "")


def test_json_there_and_back() -> None:
    with installed(two_gpus()):
        found = inventory()
    assert inventory_from(json.loads(inventory_to_json(found))) == found


@pytest.mark.parametrize("entries", [{}, {"gpus": [{}]}, {"gpus": []}, {"gpus": None}, {"gpus": ["GPU-1"]}])
def test_what_is_no_inventory_is_refused(entries: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError)):
        inventory_from(entries)


def test_detection_by_a_child_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where the package is not
    found = detect(timeout_s=60)
    assert isinstance(found, HostInventory)
    assert found.hostname == os.uname().nodename
    assert found.nvml_error is None or "did not answer within" not in found.nvml_error


def fake_child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(child, "BOOT", code)


def test_a_child_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_child(monkeypatch, "import time; time.sleep(600)")
    found = detect(timeout_s=0.2)
    assert found.gpus == ()
    assert found.cpus > 0
    assert "did not answer within 0.2 s" in (found.nvml_error or "")
    assert "nvidia-smi" in (found.nvml_error or "")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11 (SIGSEGV): no output"),
        ("raise RuntimeError('driver trouble')", "status 1: RuntimeError: driver trouble"),
        ("print('no json')", "status 0: no output"),
        *((f"print({text!r})", "status 0: no output") for text in ("[]", "{}", '{"gpus": [{}]}', "null")),
    ],
)
def test_a_child_that_crashes_is_reported_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    fake_child(monkeypatch, code)
    found = detect(timeout_s=60)
    assert message in (found.nvml_error or "")
    assert (found.gpus, found.driver_version) == ((), None)


def test_the_child_loads_nothing_heavy() -> None:
    heavy = ("torch", "ray", "pyarrow", "pydantic", "numpy", "bokeh")
    code = f"{child.BOOT}; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    command = [sys.executable, "-c", f"import json; {code}", str(child.ROOT), module.MODULE]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=240)
    assert json.loads(done.stdout.splitlines()[-1]) == []


STAYING = """
import sys
sys.path.append(sys.argv[1])
module = sys.argv[2]
del sys.argv[1:3]
import runpy
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu
with installed(SimulatedDriver([SimulatedGpu("GPU-1")])):
    runpy.run_module(module, run_name="__main__")
"""


def test_what_is_looked_for_in_advance_is_found_and_the_child_stays_until_it_may_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    fake_child(monkeypatch, STAYING)
    detection = Detection()
    try:
        assert [gpu.uuid for gpu in detection.result(60).gpus] == ["GPU-1"]
        assert detection._child.alive
        detection.let_go()
        assert detection._child.wait(60) == 0
    finally:
        detection.stop()
