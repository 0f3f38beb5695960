"""Files that take a name in one step, and never by way of somebody's link."""

import pytest

from rigproof.records.disk.durable import replacing


def test_a_file_takes_its_name_when_it_is_whole(tmp_path):
    target = tmp_path / "verdict.json"
    target.write_text("old")
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_what_broke_off_before_is_no_hindrance(tmp_path):
    (tmp_path / "verdict.json.part").write_text("half")
    with replacing(tmp_path / "verdict.json") as file:
        file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["verdict.json"]


@pytest.mark.parametrize("name", ["verdict.json", "verdict.json.part"])
def test_a_link_is_replaced_and_not_written_through(tmp_path, name):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).symlink_to(outside)
    with replacing(folder / "verdict.json") as file:
        file.write(b"new")
    assert outside.read_text() == "mine"
    assert (folder / "verdict.json").read_text() == "new"
    assert not (folder / "verdict.json").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["verdict.json"]
