"""The folder of reports that commands read."""

from pathlib import Path
from typing import Annotated

import typer

from rigproof.cli.refused import Refused

ReportDir = Annotated[Path | None, typer.Option(help="folder of runs and history; default: reports")]


def there(report_dir: Path | None) -> Path:
    """The folder that was named, which has to be there; else `reports`, which the first run makes."""
    if report_dir is not None and not report_dir.is_dir():
        raise Refused(
            f"--report-dir {report_dir}: no such folder; name the one that a run was given, or leave it out"
        )
    return report_dir or Path("reports")
