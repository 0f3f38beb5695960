"""What a crash or another program leaves among a rig's history and champions costs only itself."""

import shutil

import pytest

from rigproof.history import champions as champion_files
from rigproof.history import reading
from rigproof.history.champions import ChampionError, gpu_file, read_champions
from rigproof.history.reading import read_history
from support.histories import listed
from support.readers import READERS, UUID


def sample(reader):
    (content,) = READERS[reader].samples()
    return content


@pytest.fixture
def history(tmp_path):
    folder = tmp_path / "history" / "lab"
    folder.mkdir(parents=True)
    (folder / "0001_run-1.json").write_bytes(sample("history"))
    return folder


@pytest.fixture
def champions(tmp_path):
    folder = tmp_path / "champions" / "lab"
    (folder / "gpus").mkdir(parents=True)
    gpu_file(folder, UUID).write_bytes(sample("gpu-champions"))
    return folder


def test_a_run_that_was_being_written_is_no_run_yet(history):
    (history / "0002_run-2.json.part").write_bytes(sample("history")[:100])
    found = read_history(history)
    assert found.problems == ()
    assert {one.file for one in found.rates} == {"0001_run-1.json"}


def test_history_that_goes_while_it_is_listed_is_no_traceback(history, monkeypatch):
    """A folder that is cleaned up, a disk that is unmounted."""

    def gone(path, limit):
        shutil.rmtree(history, ignore_errors=True)
        return real(path, limit)

    real = reading.read_document
    monkeypatch.setattr(reading, "read_document", gone)
    assert any("No such file or directory" in line for line in listed(history.parent))


def test_a_champion_that_was_being_written_leaves_the_one_before(champions):
    path = gpu_file(champions, UUID)
    path.with_name(f"{path.name}.part").write_bytes(sample("gpu-champions")[:100])
    assert set(read_champions(champions).gpus) == {UUID}


def test_a_champion_that_goes_while_all_are_read_is_reported_not_raised_as_an_error_of_the_system(
    champions, monkeypatch
):
    def gone(path, limit):
        path.unlink()
        return real(path, limit)

    real = champion_files.read_document
    monkeypatch.setattr(champion_files, "read_document", gone)
    with pytest.raises(ChampionError, match="No such file or directory; restore the file"):
        read_champions(champions)


def test_champions_of_a_run_that_broke_off_before_the_rigs_file_are_whole(champions):
    """A run writes its profile first, then each GPU's file, then the rig's; each is whole."""
    kept = read_champions(champions)
    assert kept.rig is None
    assert kept.gpus[UUID].figures
