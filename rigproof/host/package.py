"""The path of this package, for children of other interpreters and for the files in the package."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent  # what has to be on the path of an interpreter that imports it
