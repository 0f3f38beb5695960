"""Where people read what a criterion measures, and where its limit comes from."""

from pathlib import Path

from rigproof.host.package import PACKAGE, ROOT
from rigproof.profiles.loading.files import shown_path

PAGE = Path("docs") / "criteria.md"


def criteria_page() -> str:
    """The page about all criteria, in the checkout or in the wheel, as a path that exists here."""
    checkout = ROOT / PAGE
    return shown_path(checkout if checkout.is_file() else PACKAGE / PAGE)
