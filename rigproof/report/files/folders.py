"""The folder of a run, and the link `latest` to the newest one."""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rigproof.profiles.loading.files import shown_path
from rigproof.records.disk.durable import sync_folder

OWN_TEXT = b"runs/"  # what the file `latest` begins with where links are not possible
POINTER = re.compile(rb"runs/([^/\0\n]{1,255})\n?")  # all of it
FREE_MIB_MIN = 50  # a quick run writes about 3 MiB
# Of the samples of a device or a node in an hour, at 10 Hz. Measured: eight hours of two PCs with a GPU each
# are streams of 360 MiB and, while these are still there, tables of 80.
HOUR_MIB = 16


class ReportFolderError(Exception):
    """The folder for reports cannot be written; the message names the folder and the way out."""


def room_mib(subjects: int, length_s: float, rate_hz: float) -> float:
    """How much a run may write: of so many devices and nodes together, sampled at that rate."""
    return FREE_MIB_MIN + HOUR_MIB * subjects * length_s / 3600 * rate_hz / 10


def new_run_folder(reports_dir: Path, rig_name: str, now: datetime, needed_mib: float = FREE_MIB_MIN) -> Path:
    """Create `runs/<UTC timestamp>-<rig>-<random>` under `reports_dir`, and check that data can be written.

    The name sorts by time; two runs that start in the same second differ in the last part. Raises
    ReportFolderError if it is not a folder, not writable, has less than `needed_mib` free, or has a `latest`
    that could not point at the run, a history or champions that could not be written.
    """
    reports_dir = Path(reports_dir)
    _refuse_ways_out(reports_dir, rig_name)
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    rig = re.sub(r"[^A-Za-z0-9_.-]+", "-", rig_name).strip(".-")[:64] or "rig"
    runs = reports_dir / "runs"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        _refuse_fixed_latest(reports_dir)
        for path in _of_rig(reports_dir, rig_name):
            if why := unwritable(path, folder=True):
                raise ReportFolderError(
                    f"{path}: cannot be written ({why}); change its owner or mode, move it away, or give "
                    "another --hw-report-dir"
                )
        folder = runs / f"{stamp}-{rig}-{secrets.token_hex(3)}"
        folder.mkdir()
        _prove_writable(folder)
        free_mib = shutil.disk_usage(folder).free / 2**20
    except OSError as error:
        raise ReportFolderError(_problem(reports_dir, error)) from error
    if free_mib < needed_mib:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise ReportFolderError(
            f"--hw-report-dir {reports_dir}: only {free_mib:.0f} MiB are free there, a run needs "
            f"{needed_mib:.0f}; free some space, or give --hw-report-dir on another disk"
        )
    return folder


def unwritable(path: Path, *, folder: bool = False) -> str:
    """Why a file, or a folder with its files, could not be written; empty if it can. Nothing is left behind.

    Folders on the way that are not there can be made.
    """
    try:
        real = Path(os.path.realpath(path))  # a link to nothing is written through
        nearest = _nearest(real)
        if real.is_symlink():
            real.stat()  # a link to itself: raises what writing would
        if nearest == real and not real.is_dir():
            if folder:
                return f"{path} is a file, not a folder"
            if real.is_file():
                real.open("ab").close()
            return ""  # what is no file, such as /dev/null, shows it only when it is written
        if nearest == real and not folder:
            return f"{path} is a folder"
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that is there. Raises OSError for a path that cannot be."""
    for one in (path, *path.parents):
        try:
            one.lstat()
        except FileNotFoundError:
            continue
        return one
    return path


def short_name(run: Path) -> Path:
    """A run's folder as people type it: `reports/latest`, if that points at it, from the current folder."""
    latest = run.parent.parent / "latest"
    points_at_it = latest.is_symlink() and latest.resolve() == run.resolve()
    return Path(shown_path(latest if points_at_it else run))


def named_run(run: Path) -> Path:
    """The folder of a run; for the file `latest`, which is there where links are not possible, the newest.

    Anything else is returned as it is: reading it says what is wrong.
    """
    try:
        if not stat.S_ISREG(run.stat().st_mode):
            return run
        with run.open("rb") as file:
            found = POINTER.fullmatch(file.read(len(OWN_TEXT) + 257))
    except (OSError, ValueError):
        return run
    if found is None or found[1] in (b".", b".."):
        return run
    return run.parent / "runs" / os.fsdecode(found[1])


def own_folder(run: Path) -> Path:
    """The real folder of a recorded run, to write into.

    Raises ReportFolderError if `latest`, or a folder in `runs`, is a symbolic link that leads out of the
    report folder.
    """
    named = Path(run).absolute()
    reports_dir = named.parent.parent if named.parent.name == "runs" else named.parent
    real = _resolved(named)
    if not real.is_relative_to(_resolved(reports_dir)):
        raise ReportFolderError(
            f"{run}: a symbolic link leads out of {reports_dir}, and nothing is written through it; name the "
            f"folder itself, {real}, if it is yours"
        )
    return real


def _require_inside(folder: Path, path: Path) -> None:
    """Raise ReportFolderError if a symbolic link in `path` leads out of `folder`."""
    if not _resolved(path).is_relative_to(_resolved(folder)):
        raise ReportFolderError(
            f"{path}: a symbolic link leads out of {folder}, and nothing is written through it; remove the "
            "link, or give another --hw-report-dir"
        )


def _refuse_ways_out(reports_dir: Path, rig_name: str) -> None:
    """Raise ReportFolderError if a symbolic link leads out of a folder that a run writes into."""
    folders = [reports_dir / name for name in ("runs", "history", "history-simulated", "champions")]
    for path in [*folders, *_of_rig(reports_dir, rig_name)]:
        _require_inside(reports_dir, path)


def _of_rig(reports_dir: Path, rig_name: str) -> list[Path]:
    """The folders of a rig's history and of its champions, with those of single GPUs and of profiles."""
    if Path(rig_name).name != rig_name:
        return []
    champions = reports_dir / "champions" / rig_name
    histories = [reports_dir / name / rig_name for name in ("history", "history-simulated")]
    return [*histories, champions, champions / "gpus", champions / "profiles"]


def _refuse_fixed_latest(reports_dir: Path) -> None:
    """Raise ReportFolderError if `latest` cannot be replaced: who reads it would read another run's verdict.

    In a folder with the sticky bit, as /tmp has, only the owner of a name may replace it.
    """
    latest, folder, user = reports_dir / "latest", reports_dir.stat(), os.geteuid()
    way_out = "remove it, or give another --hw-report-dir"
    if not os.access(reports_dir, os.W_OK):
        raise ReportFolderError(
            f"--hw-report-dir {reports_dir}: not writable; change its mode, or give another"
        )
    try:
        link = latest.lstat()
    except FileNotFoundError:
        return
    if not _is_ours(latest, link.st_mode):
        kind = "folder" if stat.S_ISDIR(link.st_mode) else "file"
        raise ReportFolderError(
            f"{latest}: is a {kind}, where the link to the newest run has to be; {way_out}"
        )
    if folder.st_mode & stat.S_ISVTX and user not in (0, folder.st_uid, link.st_uid):
        owner = f"is of another user (uid {link.st_uid}), and {reports_dir} has the sticky bit"
        raise ReportFolderError(f"{latest}: {owner}, so it cannot point at this run; {way_out}")


def _is_ours(latest: Path, mode: int) -> bool:
    """Whether this is a link to a run, or the file that takes its place where links are not possible."""
    if not stat.S_ISREG(mode):
        return stat.S_ISLNK(mode)
    with latest.open("rb") as file:
        return file.read(len(OWN_TEXT)) == OWN_TEXT


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a link to itself
        raise ReportFolderError(f"{path}: {error}; remove the link") from None


def _prove_writable(folder: Path) -> None:
    """Write and sync a file: quotas, read-only mounts and full disks only show then."""
    probe = folder / ".probe"
    try:
        with probe.open("wb") as file:
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
        probe.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
            folder.rmdir()
        raise


def _problem(reports_dir: Path, error: OSError) -> str:
    place = f"--hw-report-dir {reports_dir}"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        name = error.filename or reports_dir
        return f"{place}: {name} is a file, not a folder; move it away, or give another one"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{place}: not writable ({error.strerror}); change its mode, or give another --hw-report-dir"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{place}: no space ({error.strerror}); free some, or give --hw-report-dir on another disk"
    return f"{place}: {error.strerror or error}; give another --hw-report-dir"


def pointed_at(reports_dir: Path) -> str | None:
    """The path from `reports_dir` that `latest` holds; None if it holds none."""
    latest = Path(reports_dir) / "latest"
    try:
        if not _is_ours(latest, latest.lstat().st_mode):
            return None
        return str(latest.readlink()) if latest.is_symlink() else latest.read_text("utf-8").removesuffix("\n")
    except (OSError, ValueError):
        return None


def point_latest(reports_dir: Path, target: Path | str) -> str | None:
    """Point `latest` in `reports_dir` at this run's folder, before it loads anything.

    Returns what went wrong, or None. It is a relative symbolic link, so that the reports can be moved, and
    replaced in one step, so that it can be read at any time; where links are not possible, a file with the
    path. It is on the disk when this returns: a crash must not bring back the run before. What else has that
    name is kept. `target` as text: what `pointed_at` gave.
    """
    reports_dir = Path(reports_dir)
    latest = reports_dir / "latest"
    target = target if isinstance(target, str) else os.path.relpath(target, reports_dir)
    part = reports_dir / f".latest-{secrets.token_hex(3)}"
    try:
        if os.path.lexists(latest) and not _is_ours(latest, latest.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            part.symlink_to(target, target_is_directory=True)
        except (OSError, NotImplementedError):
            with part.open("w", encoding="utf-8") as file:
                file.write(f"{target}\n")
                file.flush()
                os.fsync(file.fileno())
        part.replace(latest)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        return f"{latest}: does not point at {target}: {error.strerror or error}; remove what is there"
    sync_folder(reports_dir)
    return None


def point_back(reports_dir: Path, run_folder: Path, earlier: str | None) -> None:
    """Restore what `latest` pointed at before this run, which was refused. Another run's is kept."""
    if pointed_at(reports_dir) != os.path.relpath(run_folder, reports_dir):
        return
    if earlier is not None:
        point_latest(reports_dir, earlier)
    else:
        with contextlib.suppress(OSError):
            (Path(reports_dir) / "latest").unlink()


def keep_latest(reports_dir: Path, run_folder: Path) -> str | None:
    """Point `latest` at a run that has ended, unless it leads to one that began later.

    Returns what went wrong, or None.
    """
    pointed = pointed_at(reports_dir)
    if pointed is not None and Path(pointed).name > Path(run_folder).name:
        with contextlib.suppress(OSError, ValueError):
            if (Path(reports_dir) / pointed).is_dir():
                return None
    return point_latest(reports_dir, run_folder)
