import pytest

from rigproof.records.message_text import cause_and_step


@pytest.mark.parametrize(
    ("text", "cause", "step"),
    [
        ("NVML hangs; reboot", "NVML hangs", "reboot"),
        ("a; b; reboot", "a; b", "reboot"),
        ("NVML hangs", "NVML hangs", ""),
        ("", "", ""),
    ],
)
def test_a_message_has_its_next_step_behind_its_last_semicolon(text, cause, step):
    assert cause_and_step(text) == (cause, step)
