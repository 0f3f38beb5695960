"""pytest's JUnit file in the form that Jenkins has a schema for."""

from xml.etree import ElementTree

import pytest

from rigproof.report.files.junit import FOUND, UNSAID, conclude_junit, finish_junit
from support.jenkins import refusals

OURS = f"""<properties><property name="outcome" value="warn"/>
<property name="{FOUND}" value="WARN: pc1/gpu0 memory.headroom: 0.3 GiB &lt; 0.5 GiB"/></properties>"""
THEIRS = '<properties><property name="ticket" value="7"/></properties>'
PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
errors="0" failures="0" skipped="0" tests="1" time="0.850" timestamp="2026-11-23T23:43:02" hostname="vm">
{suite}<testcase classname="tests.hardware.test_memory" name="test_headroom[pc1/gpu0]" time="0.3">{case}
</testcase></testsuite></testsuites>"""


@pytest.fixture
def finished(tmp_path):
    def finish(case, suite=""):
        path = tmp_path / "junit.xml"
        path.write_text(PYTEST.format(case=case, suite=suite))
        finish_junit(path, {"rig": "lab", "odd": "a\x00b\nc"})
        return ElementTree.parse(path).getroot()

    return finish


def test_what_a_test_found_is_its_output_and_the_run_is_described_by_the_suite(finished):
    root = finished(OURS)
    case, _ = root.iter("testcase")
    assert [child.tag for child in case] == ["system-out"]
    assert case.findtext("system-out") == "WARN: pc1/gpu0 memory.headroom: 0.3 GiB < 0.5 GiB"
    suite = root.find("testsuite")
    assert {one.get("name"): one.get("value") for one in suite.iter("property")} == {
        "rig": "lab",
        "odd": r"a\x00b\nc",
    }
    assert refusals(root) == []


def test_properties_that_the_suite_has_already_stay(finished):
    root = finished(OURS, '<properties><property name="shortened" value="for 6 s"/></properties>')
    assert [one.get("name") for one in root.iter("property")] == ["shortened", "rig", "odd"]
    assert refusals(root) == []


def test_a_test_that_is_none_of_ours_is_left_as_it_is(finished):
    case, _ = finished(THEIRS).iter("testcase")
    assert case.find("properties/property").get("name") == "ticket"


def _verdict(root):
    suite = root.find("testsuite")
    (case,) = (one for one in suite.iter("testcase") if one.get("name") == "verdict")
    errors = [one.get("message") for one in case.findall("error")]
    return case.findtext("system-out"), errors, suite.get("tests"), suite.get("errors"), refusals(root)


def test_only_an_accepted_run_is_green(finished, tmp_path):
    assert _verdict(finished(OURS)) == (UNSAID, [UNSAID], "2", "1", [])
    path = tmp_path / "junit.xml"
    for line, accepted in (("INCOMPLETE: so it is", False), ("REJECTED: so", False), ("ACCEPTED: fit", True)):
        conclude_junit(path, line, accepted=accepted)
        errors = [] if accepted else [line]
        expected = (line, errors, "2", str(len(errors)), [])
        assert _verdict(ElementTree.parse(path).getroot()) == expected


@pytest.mark.parametrize(
    ("case", "suite", "problem"),
    [
        (THEIRS, "", "testcase holds properties"),
        ("", "<testcase name='x' line='7'/>", "testcase has line"),
        ("", "<testcase/>", "testcase lacks name"),
        ("", "<verdict/>", "unknown element verdict"),
        ("", "stray", "testsuite holds text"),
    ],
)
def test_the_check_finds_what_jenkins_refuses(case, suite, problem):
    assert problem in refusals(ElementTree.fromstring(PYTEST.format(case=case, suite=suite).encode()))
