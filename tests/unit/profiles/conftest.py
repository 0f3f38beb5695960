from pathlib import Path

import pytest

from rigproof.profiles.errors import ProfileError
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.stages.registry import KINDS


class ProfileDesk:
    """Writes profiles into a folder of their own and loads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "lab.toml") -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, text: str, name: str = "lab.toml") -> LoadedRig:
        return load_rig(str(self.write(text, name)), KINDS)

    def lint(self, text: str) -> list[str]:
        """What lint says of lab.toml; every line begins with the file, and has it no more here."""
        found = lint_rig(self.load(text))
        assert all(line.startswith("lab.toml: ") for line in found)
        return [line.removeprefix("lab.toml: ") for line in found]

    def problems(self, text: str, name: str = "lab.toml") -> tuple[str, ...]:
        path = self.write(text, name)
        with pytest.raises(ProfileError) as caught:
            load_rig(str(path), KINDS)
        return tuple(line.replace(f"{self.folder}/", "") for line in caught.value.problems)


@pytest.fixture
def desk(tmp_path, monkeypatch) -> ProfileDesk:
    monkeypatch.chdir(tmp_path)
    return ProfileDesk(tmp_path)
