import subprocess
import sys

from rigproof.devices.opening import open_device


def test_the_specs_and_the_device_s_protocol_need_no_torch():
    code = "import sys, rigproof.devices.device, rigproof.devices.specs, rigproof.host.cpu_load; " + (
        "sys.exit(bool({'torch', 'psutil'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240, check=False).returncode == 0


def test_the_cpu_is_opened_by_its_kind():
    device = open_device("cpu", cpu_threads=1)
    assert device.kind == "cpu"
    assert device.precisions == ("fp32", "bf16")
