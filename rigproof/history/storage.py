"""Where pytest-benchmark keeps a rig's history: files directly in `reports/history/<rig>/`.

This takes two steps, because pytest-benchmark's own `pytest_configure`, which reads its options, runs last:
`direct_storage` in ours, and `install_storage` once the session starts.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.storage.file import FileStorage
from pytest_benchmark.utils import safe_dumps

from rigproof.history.names import IMPORTED, SIMULATED
from rigproof.records.disk.durable import replacing
from rigproof.records.limits import HISTORY_BYTES_MAX, FileRefusedError, open_plain, require_inside

Keep = Callable[[Mapping[str, Any]], dict[str, Any]]
COMPARE = pytest.StashKey[Any]()  # the option --benchmark-compare
DEFAULT_STORAGE = "file://./.benchmarks"  # pytest-benchmark's own; any other one was chosen by the user


def history_folder(report_dir: Path, rig_name: str, *, simulated: bool = False) -> Path:
    """The folder of a rig's history, whatever machine and Python measured it; of a simulated rig its own."""
    return Path(report_dir) / (SIMULATED if simulated else "history") / rig_name


def remove_if_empty(folder: Path) -> None:
    """Remove a rig's folder, and the one of all rigs, as far as nothing is in them."""
    with suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


class RigStorage(FileStorage):  # type: ignore[misc]  # pytest-benchmark is not typed
    """Files named by number and run in one folder; only good measurements are stored.

    pytest-benchmark would use a folder named after the operating system and Python, so that an upgrade would
    hide them. A disk error must not end pytest: `problem` has the message.
    """

    def __init__(self, folder: Path, logger: Any, *, run_json: Path | None, keep: Keep) -> None:
        super().__init__(folder, logger, default_machine_id=None)
        self.problem: str | None = None
        self.saved: Path | None = None
        self._run_json = run_json
        self._keep = keep

    @property
    def location(self) -> str:
        """The folder, even outside the working directory."""
        return str(self.path)

    def query(self, *globs_or_files: str) -> list[Path]:
        """The files that pytest-benchmark may read. Others are left out, with a warning."""
        return [path for path in super().query(*globs_or_files) if self._fits(path)]

    def load(self, *globs_or_files: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """What pytest-benchmark compares with: where nothing is named, the last run, and nothing imported."""
        for path, content in super().load(*globs_or_files):
            if globs_or_files or IMPORTED not in path.name:
                yield path, content

    def _fits(self, path: Path) -> bool:
        try:
            require_inside(path, self.path)
            open_plain(path, HISTORY_BYTES_MAX).close()
        except FileRefusedError as refused:
            self.logger.warning(f"{path}: left out: {refused.reason}")
            return False
        return True

    def save(self, output_json: Mapping[str, Any], save: str) -> None:
        """Store the run's own copy with all rounds, and the good measurements in the history."""
        try:
            if self._run_json is not None:
                _write(self._run_json, output_json)
            kept = self._keep(output_json)
            if kept["benchmarks"]:
                self.path.mkdir(parents=True, exist_ok=True)  # pytest-benchmark's own hides why it failed
                target = Path(self.get(f"{self._next_num}_{save}.json"))
                _write(target, without_rounds(kept))
                self.saved = target
        except OSError as error:
            what = f"{error.filename or self.path}: the throughput history was not written"
            self.problem = f"{what}: {error.strerror or error}; free space or make it writable"


def direct_storage(config: pytest.Config, folder: Path, run_id: str) -> None:
    """Point pytest-benchmark's options at a rig's history, unless the user chose another place.

    To be called before pytest-benchmark configures itself. Does nothing if it is switched off.
    """
    option = config.option
    if not hasattr(option, "benchmark_storage"):
        return
    if not option.benchmark_compare:
        option.benchmark_quiet = True  # the verdict table shows the rates
    if option.benchmark_storage == DEFAULT_STORAGE:
        option.benchmark_storage = f"file://{folder}"
        # What is compared with is read by our storage: pytest-benchmark's own, which is configured first,
        # has no limits and fails outside the working directory.
        config.stash[COMPARE], option.benchmark_compare = option.benchmark_compare, None
    if not option.benchmark_save and not option.benchmark_autosave:
        option.benchmark_save = run_id
    option.benchmark_save_data = True  # for the run's own copy; the history leaves them out


def install_storage(
    config: pytest.Config, folder: Path, *, run_json: Path | None, keep: Keep
) -> RigStorage | None:
    """Make this session store through RigStorage; None if pytest-benchmark is off or stores elsewhere.

    To be called after pytest-benchmark configured itself. `run_json` is the run's benchmark.json; `keep`
    selects the good measurements, and is called when the session has ended.
    """
    session = getattr(config, "_benchmarksession", None)
    if session is None or config.option.benchmark_storage != f"file://{folder}":
        return None
    storage = RigStorage(folder, session.logger, run_json=run_json, keep=keep)
    session.storage = storage
    session.compare = config.stash.get(COMPARE, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")  # here the project's filters could make an error of one
        session.handle_loading()
    for one in caught:
        config.issue_config_time_warning(one.message, stacklevel=2)  # type: ignore[arg-type]  # no text
    return storage


def without_rounds(output_json: Mapping[str, Any]) -> dict[str, Any]:
    """The benchmarks' statistics alone, since single rounds are not compared."""
    benchmarks = [
        {**one, "stats": {key: value for key, value in one["stats"].items() if key != "data"}}
        for one in output_json["benchmarks"]
    ]
    return {**output_json, "benchmarks": benchmarks}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    text = safe_dumps(content, ensure_ascii=True, indent=1)
    with replacing(path) as file:
        file.write(text.encode())
