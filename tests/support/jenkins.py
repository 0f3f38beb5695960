"""What Jenkins' xUnit plugin accepts as JUnit, after its schema junit-10.xsd: elements, attributes, times."""

import re
from xml.etree import ElementTree

# By element: its required attributes, its optional ones, and the elements inside.
ELEMENTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {*["group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"]},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "skipped": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}
TEXT = {"skipped", "error", "failure", "system-out", "system-err"}
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


def refusals(root: ElementTree.Element) -> list[str]:
    """What that schema does not allow in a document; empty if it is valid."""
    if root.tag not in ("testsuites", "testsuite"):
        return [f"the root is {root.tag}"]
    return [problem for element in root.iter() for problem in _of(element)]


def _of(element: ElementTree.Element) -> list[str]:
    if element.tag not in ELEMENTS:
        return [f"unknown element {element.tag}"]
    required, optional, inside = ELEMENTS[element.tag]
    found = set(element.attrib)
    problems = [f"{element.tag} lacks {name}" for name in required - found]
    problems += [f"{element.tag} has {name}" for name in found - required - optional]
    problems += [f"{element.tag} holds {child.tag}" for child in element if child.tag not in inside]
    if element.tag not in TEXT and (element.text or "").strip():
        problems.append(f"{element.tag} holds text")
    if element.tag in ("testsuite", "testsuites") and not TIME.fullmatch(element.get("time", "")):
        problems.append(f"{element.tag} has the time {element.get('time')}")
    return problems
