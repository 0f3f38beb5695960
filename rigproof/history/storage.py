"""Where pytest-benchmark keeps a rig's history: files directly in `reports/history/<rig>/`.

Two steps, because pytest-benchmark reads its options in its own `pytest_configure`, which is the last:
`direct_storage` in ours, `install_storage` once the session starts.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.storage.file import FileStorage
from pytest_benchmark.utils import safe_dumps

from rigproof.records.disk.durable import replacing
from rigproof.records.limits import HISTORY_BYTES_MAX, FileRefusedError, require_inside

Keep = Callable[[Mapping[str, Any]], dict[str, Any]]
DEFAULT_STORAGE = "file://./.benchmarks"  # pytest-benchmark's own; another one is the user's wish


def history_folder(report_dir: Path, rig_name: str) -> Path:
    """Where the history of a rig is, whatever machine or Python measured it."""
    return Path(report_dir) / "history" / rig_name


class RigStorage(FileStorage):  # type: ignore[misc]  # pytest-benchmark is not typed
    """Files named by number and run in one folder; only good measurements are stored.

    pytest-benchmark would put them under the operating system's and Python's name, where an upgrade hides
    them. A disk that fails must not end pytest: `problem` says what happened.
    """

    def __init__(self, folder: Path, logger: Any, *, run_json: Path | None, keep: Keep) -> None:
        super().__init__(folder, logger, default_machine_id=None)
        self.problem: str | None = None
        self.saved: Path | None = None
        self._run_json = run_json
        self._keep = keep

    @property
    def location(self) -> str:
        """The folder, also where it is outside the working directory."""
        return str(self.path)

    def query(self, *globs_or_files: str) -> list[Path]:
        """The files that pytest-benchmark may read: one too large, or elsewhere, is left out and named."""
        return [path for path in super().query(*globs_or_files) if self._fits(path)]

    def _fits(self, path: Path) -> bool:
        try:
            require_inside(path, self.path)
            size = path.stat().st_size
        except FileRefusedError as refused:
            self.logger.warning(f"{path}: left out: {refused.reason}")
            return False
        except OSError:
            return True  # whoever opens it says why not
        if size > HISTORY_BYTES_MAX:
            self.logger.warning(
                f"{path}: left out: {size} bytes are more than the {HISTORY_BYTES_MAX} it can have"
            )
        return size <= HISTORY_BYTES_MAX

    def save(self, output_json: Mapping[str, Any], save: str) -> None:
        """Store the run's own copy with every round, and the good measurements in the history."""
        try:
            if self._run_json is not None:
                _write(self._run_json, output_json)
            kept = self._keep(output_json)
            if kept["benchmarks"]:
                target = Path(self.get(f"{self._next_num}_{save}.json"))
                _write(target, _without_rounds(kept))
                self.saved = target
        except OSError as error:
            self.problem = (
                f"{error.filename or self.path}: the throughput history was not written: "
                f"{error.strerror or error}; free space or make it writable"
            )


def direct_storage(config: pytest.Config, folder: Path, run_id: str) -> None:
    """Point pytest-benchmark's options at a rig's history, where the user did not point them elsewhere.

    To be called before pytest-benchmark configures itself. Does nothing where it is switched off.
    """
    option = config.option
    if not hasattr(option, "benchmark_storage"):
        return
    if option.benchmark_storage == DEFAULT_STORAGE:
        option.benchmark_storage = f"file://{folder}"
    if not option.benchmark_save and not option.benchmark_autosave:
        option.benchmark_save = run_id
    option.benchmark_save_data = True  # for the run's own copy; the history does without
    option.benchmark_quiet = not option.benchmark_verbose  # the verdict table says it


def install_storage(
    config: pytest.Config, folder: Path, *, run_json: Path | None, keep: Keep
) -> RigStorage | None:
    """Let this session store through RigStorage; None where pytest-benchmark is off or stores elsewhere.

    To be called after pytest-benchmark configured itself. `run_json` is the run's benchmark.json, `keep`
    what picks the good ones, called when the session has ended.
    """
    session = getattr(config, "_benchmarksession", None)
    if session is None or config.option.benchmark_storage != f"file://{folder}":
        return None
    storage = RigStorage(folder, session.logger, run_json=run_json, keep=keep)
    session.storage = storage
    return storage


def _without_rounds(output_json: Mapping[str, Any]) -> dict[str, Any]:
    """The same without each single round: the statistics are what is compared."""
    benchmarks = [
        {**one, "stats": {key: value for key, value in one["stats"].items() if key != "data"}}
        for one in output_json["benchmarks"]
    ]
    return {**output_json, "benchmarks": benchmarks}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    text = safe_dumps(content, ensure_ascii=True, indent=1)
    with replacing(path) as file:
        file.write(text.encode())
