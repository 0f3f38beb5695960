"""junit.xml: what pytest wrote, in the form that Jenkins' schema allows and its pages show.

pytest writes a test's properties into the test case, where Jenkins has no place for them, and a warning looks
like any pass. The properties of the run belong to the test suite; what a test found is its standard output.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from rigproof.records.disk.durable import replacing
from rigproof.records.message_text import one_line

FOUND = "found"  # the property of a test that becomes its standard output
LINE = 2000  # characters


def finish_junit(path: Path, run: Mapping[str, str]) -> None:
    """Rewrite pytest's file in one step. `run`: properties of the test suite. Raises OSError."""
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
