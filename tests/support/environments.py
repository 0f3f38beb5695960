"""Environments as users have them: with rigproof as its wheel installs it, or only with what it needs."""

import os
import shutil
import subprocess
import sysconfig
import tomllib
import venv
from pathlib import Path

from support.acceptance import CHECKOUT, PATIENCE_S, PYTEST


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
        """As `pip install` does of the wheel that pyproject.toml describes, and of what comes with it."""
        self.info("pytest_benchmark")
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
        wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
        folders = {name: name for name in wheel["packages"]} | wheel["force-include"]
        for source, target in folders.items():
            here, there = CHECKOUT / source, self.site / target
            if here.is_file():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(here, there)
            else:
                shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
        info = self.site / "rigproof-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rigproof\nVersion: 0\n")
        copied = [
            path.relative_to(self.site)
            for name in folders.values()
            for path in (self.site / name).rglob("*.py")
        ]
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in copied))
        points = project["project"]["entry-points"] | {"console_scripts": project["project"]["scripts"]}
        (info / "entry_points.txt").write_text(
            "\n".join(
                f"[{group}]\n" + "\n".join(f"{name} = {target}" for name, target in entries.items())
                for group, entries in points.items()
            )
        )

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
