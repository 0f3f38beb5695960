"""Writes the table of docs/blame.md: how many rounds and tests it takes to find who is to blame. No GPU, 2 s.

PYTHONPATH=.:tests .venv/bin/python bench/who_is_to_blame.py
"""

from support.blamed_teams import PAGE, page


def main() -> None:
    """Write it anew into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
