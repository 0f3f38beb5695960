"""Environments as users have them: with rigproof as its wheel installs it, or only with what it needs."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from functools import cache
from pathlib import Path

from support.acceptance import CHECKOUT, PATIENCE_S, PYTEST


@cache
def built(target: str) -> Path:
    """The wheel or the sdist of this checkout, built once; it goes with this process."""
    folder = tempfile.TemporaryDirectory(prefix="rigproof-built-")
    _kept.append(folder)
    return build(CHECKOUT, target, Path(folder.name))


_kept: list[tempfile.TemporaryDirectory[str]] = []


def build(checkout: Path, target: str, folder: Path) -> Path:
    """Build it from a checkout into an empty folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder]
    done = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.iterdir()
    return file


class Environment:
    """A virtual environment with everything that this one has, except rigproof."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True, with_pip=False)
        self.bin = folder / "bin"
        (self.site,) = folder.glob("lib/python3*/site-packages")
        for name in ("purelib", "platlib"):
            for path in Path(sysconfig.get_path(name)).iterdir():
                here = self.site / path.name
                if "rigproof" not in path.name and not here.exists():
                    here.symlink_to(path)

    def info(self, package: str) -> Path:
        """A package's metadata, in a folder with nothing in it that says that a user asked for it."""
        (info,) = self.site.glob(f"{package}-*.dist-info")
        if info.is_symlink():
            source = info.resolve()
            info.unlink()
            shutil.copytree(source, info, ignore=shutil.ignore_patterns("REQUESTED"))
        return info

    def install_rigproof(self) -> None:
        """As `pip install` does: what its wheel holds."""
        self.info("pytest_benchmark")
        with zipfile.ZipFile(built("wheel")) as wheel:
            wheel.extractall(self.site)

    def python(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Its interpreter, in a folder, without any path of this one's."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [self.bin / "python", *map(str, arguments)],
            cwd=cwd,
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def pytest(self, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """pytest as its user types it."""
        return self.python(*PYTEST, *arguments, cwd=cwd)
