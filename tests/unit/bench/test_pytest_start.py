"""bench/pytest_start.py: all arms start, and their times are told. How long they take decides no test."""

import json

from support.acceptance import CHECKOUT, python


def test_each_arm_is_started_and_told(tmp_path):
    out = tmp_path / "start.json"
    done = python(CHECKOUT / "bench" / "pytest_start.py", "--turns", "1", "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    assert figures["turns"] == 1
    for kind in ("cpu_ms", "wall_ms"):
        assert set(figures[kind]) == {"with", "without", "bare", "added", "ratio"}
        assert figures[kind]["without"] > 0
