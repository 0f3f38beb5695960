"""Writes all files of a run. The failure of one writer does not affect the others."""

from collections.abc import Callable
from pathlib import Path

from rigproof.records.message_text import error_text
from rigproof.report.content.result import RunResult
from rigproof.report.content.verdict_json import write_verdict

Writer = Callable[[Path, RunResult], None]
PAGE = "report.html"
FILES = ("verdict.json", "summary.md", "metrics.prom", PAGE)


def write_reports(folder: Path, result: RunResult) -> list[str]:
    """Write FILES into a run's folder; returns a sentence for each that failed.

    Never raises: if a writer fails, the others still write.
    """
    folder = Path(folder)
    problems = []
    for name in FILES:
        path = folder / name
        try:
            _writer(name)(path, result)
        except OSError as error:
            problems.append(f"{path}: not written: {error.strerror or error}; free space or make it writable")
        except Exception as error:  # a bug in one writer must not cost the other files
            problems.append(
                f"{path}: not written: {error_text(error)}; "
                f"the recording is complete, so `rigproof report {folder}` can write it again"
            )
    return problems


def load_writers() -> None:
    """Import what the writers need, so that `write_reports` does not have to."""
    for name in FILES:
        _writer(name)


def _writer(name: str) -> Writer:
    """The writer of a file, imported only when needed: some load large libraries."""
    if name == "summary.md":
        from rigproof.report.files.summary_md import write_summary  # noqa: PLC0415

        return write_summary
    if name == "metrics.prom":
        from rigproof.report.files.metrics import write_metrics  # noqa: PLC0415

        return write_metrics
    if name == "report.html":
        from rigproof.report.page.page import write_page  # noqa: PLC0415

        return write_page
    return write_verdict
