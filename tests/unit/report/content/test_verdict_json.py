import json
from dataclasses import replace

import pytest

from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.content.verdict_json import criterion_json, write_verdict


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2345)


@pytest.fixture
def written(tmp_path):
    """The text of the file with a result."""

    def write(result):
        write_verdict(tmp_path / "verdict.json", result)
        return (tmp_path / "verdict.json").read_text()

    return write


def test_the_file_has_the_promised_keys(tmp_path, result, written):
    content = json.loads(written(result))
    assert content["schema_version"] == 1
    assert content["run_id"] == "20260102T030405Z-lab-a1b2c3"
    assert content["verdict"] == "REJECTED"
    assert content["simulated"] is False
    assert content["interrupted"] is False
    assert content["exit_status"] == 1
    assert content["level"] == "quick"
    assert content["started_at"] == "2026-01-02T03:04:05Z"
    assert content["elapsed_s"] == 61.234 or content["elapsed_s"] == 61.235
    assert content["counts"] == {
        "pass": 3, "warn": 1, "fail": 1, "not_measured": 1, "not_applicable": 1, "no_limit": 1,
    }  # fmt: skip
    assert content["rig"]["name"] == "lab"
    (node,) = content["rig"]["nodes"]
    assert (node["name"], node["driver_version"], node["torch_version"]) == ("pc1", "580.65.06", "2.13.0")
    assert [gpu["uuid"][:5] for gpu in node["gpus"]] == ["GPU-0", "GPU-1"]
    assert content["criteria"][3] == {
        "criterion": "thermal.core_temperature",
        "subject": "pc1/gpu1",
        "outcome": "fail",
        "measured": 84,
        "limit": 80,
        "direction": "at_most",
        "unit": "°C",
        "limit_source": "hwprofiles/rigs/lab.toml",
        "detail": "",
        "remedy": "clean the heatsink or raise the fan curve",
        "from_s": 41.2,
        "length_s": 14.8,
    }
    assert "from_s" not in content["criteria"][0]
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]


@pytest.mark.parametrize("number", [0, 1, 1000, 1001])
def test_the_layout_is_that_of_json_with_an_indent(result, written, number):
    remark = Event(0.1, "open_cluster", "rig", 'no "token" é', data={})
    result.recording.add(remark)
    some = [replace(result.verdicts[place % 8], subject=f"pc{place}") for place in range(number)]
    text = written(replace(result, verdicts=some))
    content = json.loads(text)
    assert content["criteria"] == [criterion_json(verdict) for verdict in some]
    assert text == json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    assert list(content)[-2:] == ["criteria", "remarks"]


def test_numbers_that_json_lacks_become_null(result, written):
    strange = replace(result, verdicts=[Verdict("c.x", "n", Outcome.NOT_MEASURED, measured=float("nan"))])
    text = written(replace(strange, elapsed_s=float("inf")))
    content = json.loads(text, parse_constant=pytest.fail)
    assert (content["elapsed_s"], content["criteria"][0]["measured"]) == (None, None)


@pytest.mark.parametrize(
    ("decision", "interrupted", "status"),
    [
        (Decision.ACCEPTED, False, 0),
        (Decision.REJECTED, False, 1),
        (Decision.INCOMPLETE, False, 6),
        (Decision.INCOMPLETE, True, 2),
    ],
)
def test_the_exit_status_is_that_of_the_command(result, decision, interrupted, status):
    assert replace(result, decision=decision, interrupted=interrupted).exit_status == status


def test_a_storage_error_is_in_the_file(result, written):
    assert "write_error" not in json.loads(written(result))
    assert json.loads(written(replace(result, write_error="disk full")))["write_error"] == "disk full"


def test_what_else_than_the_rig_kept_it_from_being_accepted_comes_before_the_criteria(result, written):
    assert "problems" not in json.loads(written(result))
    content = json.loads(written(replace(result, problems=("report.html: not written", "and more"))))
    assert content["problems"] == ["report.html: not written", "and more"]
    assert list(content).index("problems") == list(content).index("verdict") + 1


def test_a_failed_write_leaves_the_old_file(tmp_path, result, monkeypatch):
    path = tmp_path / "verdict.json"
    write_verdict(path, result)
    before = path.read_text()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rigproof.records.disk.durable.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_verdict(path, replace(result, decision=Decision.ACCEPTED))
    assert path.read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == ["verdict.json"]


def test_a_verdict_without_a_moment_has_no_moment():
    assert "length_s" not in criterion_json(Verdict("c.x", "n", Outcome.PASS))


@pytest.mark.parametrize("number", [1, 1001])
def test_figures_and_text_that_json_lacks_leave_the_file_whole(result, written, number):
    odd = Verdict("a.b", "s", Outcome.FAIL, measured=float("inf"), detail="\udcff é")
    content = json.loads(written(replace(result, verdicts=(odd,) * number, write_error="\udcff")))
    assert content["write_error"] == "?"
    assert len(content["criteria"]) == number
    assert {(one["measured"], one["detail"]) for one in content["criteria"]} == {(None, "? é")}
