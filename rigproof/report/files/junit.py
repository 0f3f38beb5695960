"""junit.xml: what pytest wrote, in the form that Jenkins' schema allows and its pages show.

pytest writes a test's properties into the test case, where Jenkins has no place for them, and a warning looks
like any pass. The properties of the run belong to the test suite; what a test found is its standard output.

A CI system takes a file without a failure for a green one. So one more test case, "verdict", is an error
unless the rig is ACCEPTED: what was not measured is skipped, and what the end of a run shows is in no other.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from rigproof.records.disk.durable import replacing
from rigproof.records.message_text import one_line

FOUND = "found"  # the property of a test that becomes its standard output
LINE = 2000  # characters
VERDICT = "verdict"  # the name of that test case
UNSAID = "INCOMPLETE: the run ended before its verdict"


def finish_junit(path: Path, run: Mapping[str, str]) -> None:
    """Rewrite pytest's file in one step. `run`: properties of the test suite. Raises OSError.

    Its verdict is an error until `conclude_junit` says which it is.
    """
    tree = ElementTree.parse(path)  # noqa: S314 - pytest has just written it
    for suite in tree.iter("testsuite"):
        properties = suite.find("properties")
        if properties is None:
            properties = ElementTree.Element("properties")
            suite.insert(0, properties)
        for name, value in run.items():
            ElementTree.SubElement(properties, "property", name=name, value=one_line(value, LINE))
        for case in suite.iter("testcase"):
            _finish_case(case)
        verdict = {"classname": "rigproof", "name": VERDICT, "time": "0.000"}
        _conclude(suite, ElementTree.SubElement(suite, "testcase", verdict), UNSAID, accepted=False)
        _count(suite, "tests", 1)
    _write(path, tree)


def conclude_junit(path: Path, line: str, *, accepted: bool) -> None:
    """Say which verdict it was: the last line of the run. Raises OSError."""
    tree = ElementTree.parse(path)  # noqa: S314 - this process has written it
    for suite in tree.iter("testsuite"):
        for case in suite.findall(f"testcase[@name='{VERDICT}'][@classname='rigproof']"):
            _count(suite, "errors", -len(case.findall("error")))
            case.clear()
            case.attrib.update(classname="rigproof", name=VERDICT, time="0.000")
            _conclude(suite, case, line, accepted=accepted)
    _write(path, tree)


def _conclude(suite: ElementTree.Element, case: ElementTree.Element, line: str, *, accepted: bool) -> None:
    said = one_line(line, LINE)
    if not accepted:
        ElementTree.SubElement(case, "error", type="rigproof", message=said)
        _count(suite, "errors", 1)
    ElementTree.SubElement(case, "system-out").text = said


def _count(suite: ElementTree.Element, what: str, more: int) -> None:
    suite.set(what, str(int(suite.get(what, "0")) + more))


def _write(path: Path, tree: "ElementTree.ElementTree[ElementTree.Element]") -> None:
    with replacing(path) as file:
        tree.write(file, encoding="utf-8", xml_declaration=True)


def _finish_case(case: ElementTree.Element) -> None:
    """Move what one of our tests found to its standard output. Other tests keep what they have."""
    properties = case.find("properties")
    if properties is None:
        return
    found = properties.find(f"property[@name='{FOUND}']")
    if found is not None:
        case.remove(properties)
        ElementTree.SubElement(case, "system-out").text = found.get("value")
