"""Bad input is refused before any load: one clear message, exit status 4, no traceback, nothing recorded."""

import socket

import pytest

from support.acceptance import python

GPU = '[[nodes]]\nname = "here"\n[[nodes.gpus]]\nsku = "rtx-3090"\n'

BAD_PROFILES = {
    "typo": (
        'name = "lab"\n[limits]\ncore_temprature_c = 80\n' + GPU,
        ["limits.core_temprature_c", "core_temperature_c"],
    ),
    "wrong type": (
        'name = "lab"\n[limits]\ncore_temperature_c = "warm"\n' + GPU,
        ["limits.core_temperature_c", "warm"],
    ),
    "not toml": ('name = "lab\n', ["line 1"]),
    "unknown sku": ('name = "lab"\n' + GPU.replace("3090", "3900"), ["rtx-3900", "rtx-3090"]),
    "no nodes": ('name = "lab"\n', ["nodes"]),
    "band upside down": (
        'name = "lab"\n[cpu]\nband_percent = [85, 70]\n' + GPU,
        ["cpu.band_percent", "[70, 85]"],
    ),
    "vram over the card": (
        'name = "lab"\n' + GPU + "workers = 4\nvram_gib_per_worker = 7.0\n",
        ["vram_gib_per_worker"],
    ),
    "shares over one gpu": ('name = "lab"\n' + GPU + "workers = 7\ngpu_share = 0.6\n", ["gpu_share"]),
    "cpus over the node": (
        'name = "lab"\n'
        + GPU.replace('"here"\n', '"here"\ncpus = 4\n')
        + "workers = 2\ncpus_per_worker = 8\n",
        ["cpus"],
    ),
    "floor that cannot fail": (
        'name = "lab"\n' + GPU + "[nodes.gpus.floors]\ngemm_bf16_tflops = 2\n",
        ["gemm_bf16_tflops"],
    ),
    "unknown parent": ('name = "lab"\nextends = "nobody"\n' + GPU, ["extends", "nobody"]),
}


def refused(result, tmp_path):
    assert result.returncode == 4, result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert not list(tmp_path.glob("reports/runs/*"))
    return result.stdout + result.stderr


@pytest.mark.parametrize("case", BAD_PROFILES)
def test_bad_profile_is_refused_by_file_key_and_way_out(hardware, tmp_path, case):
    text, parts = BAD_PROFILES[case]
    profile = tmp_path / "lab.toml"
    profile.write_text(text)
    output = refused(hardware(f"--hwprofile={profile}"), tmp_path)
    assert "lab.toml" in output
    for part in parts:
        assert part in output


def test_cyclic_extends_is_refused(hardware, tmp_path):
    for name, parent in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\nextends = "./{parent}.toml"\n' + GPU)
    output = refused(hardware(f"--hwprofile={tmp_path / 'a.toml'}"), tmp_path)
    assert "extends" in output
    assert "b.toml" in output


def test_missing_profile_names_what_there_is(hardware, tmp_path):
    output = refused(hardware("--hwprofile=dual-3090-3080"), tmp_path)
    assert "dual-3090-3070" in output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--hw-level", "thorough"], "quick, standard, extended, soak"),
        (["--hw-duration", "-3"], "-3"),
        (["--hw-duration", "nan"], "nan"),
        (["--hw-duration", "0.01"], "0.05 at least"),
        (["--hw-ray-address", "pc1"], "HOST:PORT"),
        (["--hw-profile="], "its value is empty, as that of a variable that is not set"),
        (["--hw-report-dir="], "its value is empty, as that of a variable that is not set"),
    ],
)
def test_bad_option_is_refused(hardware, tmp_path, options, expected):
    assert expected in refused(hardware(*options), tmp_path)


def test_unreachable_cluster_is_refused_with_the_line_to_type(hardware, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    output = refused(hardware("--hw-ray-address", address), tmp_path)
    assert address in output
    assert "rigproof cluster up RIG" in output


def test_a_folder_for_the_lock_that_is_not_there_is_refused(hardware, tmp_path, two_nodes, monkeypatch):
    """Nothing would keep the run of another container away, which the variable is for."""
    monkeypatch.setenv("RIGPROOF_LOCK_DIR", "/nonexistent")
    output = refused(hardware(f"--hwprofile={two_nodes}"), tmp_path)
    assert "RIGPROOF_LOCK_DIR = /nonexistent: No such file or directory; no other run could be kept" in output


def test_report_folder_that_is_a_file_is_refused(hardware, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    output = refused(hardware(f"--hw-report-dir={taken}"), tmp_path)
    assert str(taken) in output
    assert taken.read_text() == "mine"


def test_require_gpu_of_a_profile_without_one_is_refused(hardware, tmp_path):
    profile = tmp_path / "cpu.toml"
    profile.write_text(
        'name = "lab"\n[[nodes]]\nname = "here"\nram_gib = 8\ncpus = 2\n'
        '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\n'
    )
    assert "--hw-require-gpu" in refused(hardware(f"--hwprofile={profile}", "--hw-require-gpu"), tmp_path)


def test_an_old_ray_is_refused_before_anything_else(tmp_path):
    """The version that the installation states, read before Ray is imported, is too old here."""
    metadata = tmp_path / "site" / "ray-2.51.2.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.51.2\n")

    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    )
    result = python(
        *("-c", code, tmp_path / "site", "-p", "no:cacheprovider", "-m", "hardware"),
        f"--hw-report-dir={tmp_path / 'reports'}",
    )
    output = refused(result, tmp_path)
    assert "Ray 2.51.2 has no token authentication" in output
    assert "ray>=2.52" in output
