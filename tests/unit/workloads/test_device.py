import subprocess
import sys

import pytest

from rigproof.workloads.device import matrix_mib, open_device


def test_the_specs_and_the_device_s_protocol_need_no_torch():
    code = (
        "import sys, rigproof.workloads.device, rigproof.workloads.specs, rigproof.workloads.cpu_load; "
        + ("sys.exit(bool({'torch', 'numpy', 'psutil'} & set(sys.modules)))")
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(("precision", "mib"), [("fp32", 256), ("tf32", 256), ("fp16", 128), ("bf16", 128)])
def test_the_memory_of_a_matrix(precision, mib):
    assert matrix_mib(8192, precision) == mib


def test_the_cpu_is_opened_by_its_kind():
    device = open_device("cpu", cpu_threads=1)
    assert device.kind == "cpu"
    assert device.precisions == ("fp32", "bf16")
