"""What is taken out of a text, and what is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.report.published.pseudonyms import Key, Pseudonyms
from rigproof.report.published.scrubbing import Scrubber

NAMES = Pseudonyms(Key(b"1" * 32))
UUID = "GPU-11111111-2222-3333-4444-555555555555"
ENVIRONMENT = {
    "HF_TOKEN": "hf_q",
    "PROJECT": "moonshot",
    "LEVEL": "standard",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "SHLVL": "1",
}


@pytest.fixture
def scrubber():
    return Scrubber(
        NAMES,
        hosts=["workshop", "workshop.lan", "gpu"],
        uuids=["GPU-odd/one"],
        users=["ada"],
        environment=ENVIRONMENT,
        own_words=["gpu", "standard", "gemm"],
    )


def host(name):
    return NAMES.of("host", name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workshop/gpu0#1", f"{host('workshop')}/gpu0#1"),
        ("on WORKSHOP.LAN, not workshops", f"on {host('workshop.lan')}, not workshops"),
        ("20260102T030405Z-workshop-a1b2c3", f"20260102T030405Z-{host('workshop')}-a1b2c3"),
        ("the head 192.168.1.10:6379", f"the head {NAMES.of('address', '192.168.1.10')}:6379"),
        ("fe80::1ff:fe23:4567:890a%eth0 is up", f"{NAMES.of('address', 'fe80::1ff:fe23:4567:890a')} is up"),
        ("mac 52:54:00:12:34:56", f"mac {NAMES.of('address', '52:54:00:12:34:56')}"),
        (f"card {UUID}", f"card {NAMES.uuid(UUID)}"),
        (f"card {UUID.lower()}", f"card {NAMES.uuid(UUID)}"),
        ("card GPU-odd/one", f"card {NAMES.uuid('GPU-odd/one')}"),
        ("--report-dir=/data/moon/x.toml", f"--report-dir={NAMES.of('folder', '/data/moon')}/x.toml"),
        ("in /home/eve/secret", f"in {NAMES.of('folder', '/home/eve/secret')}"),
        ("ada's run", f"{NAMES.of('user', 'ada')}'s run"),
        ("HF_TOKEN=hf_q and key hf_q", "HF_TOKEN=[not shown] and key [not shown]"),
        ("AWS_REGION=eu-west-1 elsewhere", "AWS_REGION=[not shown] elsewhere"),
        ("the moonshot job", "the [not shown] job"),
    ],
)
def test_what_identifies_is_replaced(scrubber, text, expected):
    assert scrubber.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "71.3 TFLOP/s at 84 °C, limit 80 °C (from t=92 s, 41 s long)",
        "127.0.0.1:6379, ::1 and 0.0.0.0",
        "driver 580.159.04, torch 2.13.0, vBIOS 94.02.42.80.5C",
        "00000000:01:00.0 at 12:30:45",
        "standard gemm on gpu, level 1",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "hwprofiles/gpus/rtx-3090.toml; see docs/criteria.md#thermal",
        "https://docs.ray.io/en/latest/index.html",
        "/dev/shm and /proc/self/statm",
        "ray::Worker died; std::bad_alloc",
    ],
)
def test_what_says_nothing_about_anybody_is_left(scrubber, text):
    assert scrubber.text(text) == text


def test_keys_and_nested_values_are_replaced_too(scrubber):
    data = {UUID: {"workshop": [("ada", 1.5, None, True)]}}
    assert scrubber.value(data) == {
        NAMES.uuid(UUID): {host("workshop"): [(NAMES.of("user", "ada"), 1.5, None, True)]}
    }


@given(st.text())
def test_no_text_stops_it(text):
    scrubber = Scrubber(NAMES, hosts=["workshop"], users=["ada"])
    assert "workshop" not in scrubber.text(f"{text} workshop {text}").lower().replace(text.lower(), "")


def test_without_anything_known_the_shapes_are_replaced():
    assert "10.1.2.3" not in Scrubber(NAMES).text("at 10.1.2.3")
