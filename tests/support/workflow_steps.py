"""The shell steps of a workflow or composite action of GitHub, run as a runner does."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML


def steps(file: Path) -> list[dict[str, Any]]:
    """The steps of a workflow's only job, or of an action."""
    content = YAML(typ="safe").load(file.read_text())
    (job,) = content["jobs"].values() if "jobs" in content else (content["runs"],)
    return job["steps"]


def run_steps(
    file: Path, folder: Path, environment: Mapping[str, str], inputs: Mapping[str, str] | None = None
) -> Iterator[tuple[str, subprocess.CompletedProcess[str]]]:
    """Each script of it with how it ended; those behind one that failed are left out, but for `always()`."""
    failed = False
    for step in steps(file):
        if "run" not in step or (failed and "always()" not in step.get("if", "")):
            continue
        values = {f"${{{{ inputs.{name} }}}}": value for name, value in (inputs or {}).items()}
        own = {name: values.get(text, text) for name, text in step.get("env", {}).items()}
        assert "${{" not in step["run"], "a value would be run as a part of the script"
        done = subprocess.run(
            ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]),
            cwd=folder, env={**environment, **own}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        failed = failed or done.returncode != 0
        yield step["run"], done
