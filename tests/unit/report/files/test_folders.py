import os
import shutil
from collections import namedtuple
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.report.files.folders import (
    ReportFolderError,
    keep_latest,
    named_run,
    new_run_folder,
    own_folder,
    point_back,
    point_latest,
    pointed_at,
    room_mib,
    short_name,
)
from rigproof.report.files.folders import unwritable as why

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_run_folder_is_named_by_time_rig_and_chance(tmp_path):
    there = NOW.astimezone(timezone(timedelta(hours=9)))
    first, second = (new_run_folder(tmp_path / "reports", "lab", moment) for moment in (NOW, there))
    assert second.name.startswith("20260102T030405Z-lab-")
    assert first.parent == tmp_path / "reports" / "runs"
    assert first.name.startswith("20260102T030405Z-lab-")
    assert first != second
    assert list(first.iterdir()) == []


@pytest.mark.parametrize(
    ("rig", "part"),
    [("../../etc", "-etc-"), ("a b/c", "-a-b-c-"), ("...", "-rig-"), ("x" * 300, "x" * 64 + "-")],
)
def test_a_rig_name_cannot_lead_out_of_the_folder(tmp_path, rig, part):
    folder = new_run_folder(tmp_path, rig, NOW)
    assert folder.parent == tmp_path / "runs"
    assert part in folder.name


def test_a_file_where_the_folder_should_be_is_named(tmp_path):
    (tmp_path / "reports").write_text("")
    with pytest.raises(ReportFolderError, match="is a file, not a folder; move it away"):
        new_run_folder(tmp_path / "reports", "lab", NOW)


def test_a_folder_without_permission_is_named(unwritable):
    with pytest.raises(
        ReportFolderError, match=r"not writable .*; change its mode, or give another --hw-report-dir"
    ):
        new_run_folder(unwritable, "lab", NOW)


@pytest.mark.parametrize(
    ("number", "words"),
    [(13, "not writable"), (30, "not writable"), (28, "no space"), (5, "give another --hw-report-dir")],
)
def test_what_the_disk_says_is_passed_on_with_the_way_out(tmp_path, monkeypatch, number, words):
    def failing(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("rigproof.report.files.folders.os.fsync", failing)
    with pytest.raises(ReportFolderError, match=words) as caught:
        new_run_folder(tmp_path, "lab", NOW)
    assert str(tmp_path) in str(caught.value)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("length_s", "subjects", "needed"), [(60, 2, 51), (180, 4, 53), (8 * 3600, 4, 562), (8 * 3600, 9, 1202)]
)
def test_too_little_space_is_refused_before_the_run(tmp_path, monkeypatch, length_s, subjects, needed):
    usage = namedtuple("usage", "total used free")(1, 1, 49 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ReportFolderError, match=f"only 49 MiB are free there, a run needs {needed};"):
        new_run_folder(tmp_path, "lab", NOW, room_mib(subjects, length_s, 10))
    assert list((tmp_path / "runs").iterdir()) == []


def test_latest_points_at_the_newest_run_also_after_a_move(tmp_path):
    reports = tmp_path / "reports"
    for _ in range(2):
        run = new_run_folder(reports, "lab", NOW)
        assert point_latest(reports, run) is None
    assert (reports / "latest").resolve() == run.resolve()
    reports.rename(tmp_path / "moved")
    assert (tmp_path / "moved" / "latest").resolve().name == run.name
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["latest", "runs"]


def test_latest_is_a_file_where_links_are_not_possible(tmp_path, monkeypatch):
    def impossible(*_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.symlink_to", impossible)
    run = new_run_folder(tmp_path, "lab", NOW)
    assert point_latest(tmp_path, run) is None
    assert (tmp_path / "latest").read_text() == f"runs/{run.name}\n"
    newer = new_run_folder(tmp_path, "lab", NOW)
    assert point_latest(tmp_path, newer) is None
    assert (tmp_path / "latest").read_text() == f"runs/{newer.name}\n"
    assert named_run(tmp_path / "latest") == newer


@pytest.mark.parametrize("earlier", [None, "runs/gone"])
@pytest.mark.parametrize("links", [True, False], ids=["link", "file"])
def test_a_refused_run_leaves_latest_as_it_was(tmp_path, monkeypatch, earlier, links):
    if not links:
        monkeypatch.setattr("pathlib.Path.symlink_to", lambda *_, **__: Path("/").mkdir())
    run, other = (new_run_folder(tmp_path, "lab", NOW) for _ in range(2))
    if earlier is not None:
        assert point_latest(tmp_path, earlier) is None
    assert pointed_at(tmp_path) == earlier
    assert point_latest(tmp_path, run) is None
    point_back(tmp_path, run, earlier)
    assert pointed_at(tmp_path) == earlier
    assert os.path.lexists(tmp_path / "latest") is (earlier is not None)
    point_latest(tmp_path, other)
    point_back(tmp_path, run, earlier)
    assert pointed_at(tmp_path) == f"runs/{other.name}", "another run has begun meanwhile"


def test_a_run_that_ends_does_not_hide_one_that_began_later(tmp_path):
    """If that one dies, the verdict of the earlier one must not stand for it."""
    first, second = (new_run_folder(tmp_path, "lab", NOW + timedelta(hours=hour)) for hour in range(2))
    point_latest(tmp_path, first)
    point_latest(tmp_path, second)
    assert keep_latest(tmp_path, first) is None
    assert pointed_at(tmp_path) == f"runs/{second.name}"
    assert keep_latest(tmp_path, second) is None
    assert pointed_at(tmp_path) == f"runs/{second.name}"
    second.rmdir()  # it was refused after all, or somebody removed it
    assert keep_latest(tmp_path, first) is None
    assert pointed_at(tmp_path) == f"runs/{first.name}"


def test_what_took_the_place_of_latest_during_a_run_is_neither_read_nor_replaced(tmp_path):
    run = new_run_folder(tmp_path, "lab", NOW)
    os.mkfifo(tmp_path / "latest")
    assert pointed_at(tmp_path) is None
    assert "remove what is there" in keep_latest(tmp_path, run)


@pytest.mark.parametrize(
    "text", ["", "runs/", "runs/..", "runs/../x", "runs/a/b", "/etc", "runs/x\nmore", "x"]
)
def test_a_file_that_names_no_run_is_not_followed(tmp_path, text):
    (tmp_path / "latest").write_text(text)
    assert named_run(tmp_path / "latest") == tmp_path / "latest"


def test_a_run_is_its_own_name(tmp_path):
    run = new_run_folder(tmp_path, "lab", NOW)
    point_latest(tmp_path, run)
    assert [named_run(one) for one in (run, tmp_path / "latest")] == [run, tmp_path / "latest"]
    assert named_run(tmp_path / "nowhere") == tmp_path / "nowhere"


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_else_has_the_name_latest_is_refused_before_a_run_and_left_alone_after_it(tmp_path, kind):
    latest, run = tmp_path / "latest", new_run_folder(tmp_path, "lab", NOW)
    latest.mkdir() if kind == "folder" else latest.touch()
    mine = latest / "mine" if kind == "folder" else latest
    mine.write_text("my notes\n")
    with pytest.raises(ReportFolderError, match=rf"latest: is a {kind}, .* remove it, or give another"):
        new_run_folder(tmp_path, "lab", NOW)
    assert list((tmp_path / "runs").iterdir()) == [run]
    assert "remove what is there" in point_latest(tmp_path, run)
    assert mine.read_text() == "my notes\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "runs"]


@pytest.mark.parametrize(("user", "refused"), [(0, False), (1001, True), (1002, False), (1003, False)])
def test_a_latest_that_only_another_user_may_replace_is_refused_before_the_run(
    tmp_path, monkeypatch, user, refused
):
    owners = {tmp_path / "latest": 1002, tmp_path: 1003}
    (tmp_path / "latest").symlink_to("runs")
    tmp_path.chmod(0o1777)

    def owned(look):
        def stat(path, **more):
            found = look(path, **more)
            return SimpleNamespace(st_mode=found.st_mode, st_uid=owners[path]) if path in owners else found

        return stat

    monkeypatch.setattr("pathlib.Path.stat", owned(Path.stat))
    monkeypatch.setattr("pathlib.Path.lstat", owned(Path.lstat))
    monkeypatch.setattr("os.geteuid", lambda: user)
    if refused:
        with pytest.raises(ReportFolderError, match=r"latest: is of another user \(uid 1002\)"):
            new_run_folder(tmp_path, "lab", NOW)
    else:
        assert new_run_folder(tmp_path, "lab", NOW).is_dir()


@pytest.mark.parametrize("name", ["runs", "history", "champions", "history/lab", "champions/lab"])
def test_a_folder_that_is_a_link_out_is_refused_before_anything_is_written(tmp_path, name):
    outside, reports = tmp_path / "outside", tmp_path / "reports"
    outside.mkdir()
    (reports / name).parent.mkdir(parents=True)
    (reports / name).symlink_to(outside)
    with pytest.raises(ReportFolderError, match=f"{name}: a symbolic link leads out of {reports}"):
        new_run_folder(reports, "lab", NOW)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["history", "history/lab", "champions/lab", "champions/lab/gpus", "champions/lab/profiles"]
)
def test_what_is_only_written_at_the_end_is_proved_before_the_run(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with pytest.raises(ReportFolderError, match=f"{name}.*move it away, or give another --hw-report-dir"):
        new_run_folder(tmp_path, "lab", NOW)
    path.unlink()
    path.mkdir()
    before = sorted(tmp_path.rglob("*"))
    run = new_run_folder(tmp_path, "lab", NOW)
    assert {*tmp_path.rglob("*")} - {*before} <= {run, run.parent}


def test_a_folder_of_another_user_is_named(unwritable):
    assert why(unwritable, folder=True) == "Permission denied"
    assert why(unwritable / "more" / "file") == "Permission denied"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("new", ""),
        ("new/folder/file", ""),
        ("file", ""),
        ("link-to-new", ""),
        ("file/below", "Not a directory"),
        (".", "{path} is a folder"),
        ("x" * 300, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_whether_a_file_can_be_written_is_found_out_without_a_trace(tmp_path, path, said):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link-to-new").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(tmp_path.iterdir())
    found = why(tmp_path / path)
    assert said.format(path=tmp_path) in found
    assert bool(said) == bool(found)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "kept"


def test_a_device_is_written_without_a_trial():
    assert why(Path("/dev/null")) == ""


def test_a_link_inside_the_report_folder_and_one_to_it_are_taken(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "reports").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "big").mkdir()
    (tmp_path / "disk" / "runs").symlink_to("big")
    assert new_run_folder(tmp_path / "reports", "lab", NOW).is_dir()


def test_a_link_that_leads_to_itself_is_refused(tmp_path):
    (tmp_path / "runs").symlink_to("runs")
    with pytest.raises(ReportFolderError, match="runs"):
        new_run_folder(tmp_path, "lab", NOW)


def test_the_newest_run_is_found_by_its_link_and_none_outside_is(tmp_path):
    reports, outside = tmp_path / "reports", tmp_path / "outside"
    outside.mkdir()
    folder = new_run_folder(reports, "lab", NOW)
    point_latest(reports, folder)
    assert own_folder(reports / "latest") == folder
    assert own_folder(folder) == folder
    assert own_folder(outside) == outside
    (reports / "runs" / "elsewhere").symlink_to(outside)
    for link in (reports / "runs" / "elsewhere", reports / "latest"):
        if link.name == "latest":
            link.unlink()
            link.symlink_to(outside)
        with pytest.raises(
            ReportFolderError, match=f"a symbolic link leads out of .*name the folder itself, {outside}"
        ):
            own_folder(link)


def test_a_latest_that_leads_out_is_replaced_and_not_followed(tmp_path):
    outside, folder = tmp_path / "outside", new_run_folder(tmp_path / "reports", "lab", NOW)
    outside.mkdir()
    (tmp_path / "reports" / "latest").symlink_to(outside)
    assert point_latest(tmp_path / "reports", folder) is None
    assert (tmp_path / "reports" / "latest").resolve() == folder
    assert list(outside.iterdir()) == []


def test_a_run_is_named_by_latest_as_long_as_that_points_at_it(tmp_path, monkeypatch):
    first, second = (new_run_folder(tmp_path / "reports", "lab", NOW) for _ in range(2))
    assert short_name(first) == first  # there is no `latest` yet
    point_latest(tmp_path / "reports", first)
    assert short_name(first) == tmp_path / "reports" / "latest"
    assert short_name(second) == second
    monkeypatch.chdir(tmp_path)
    assert short_name(first) == Path("reports/latest")
    assert short_name(second) == Path("reports/runs") / second.name


def test_a_run_is_named_by_its_folder_where_latest_is_no_link(tmp_path):
    run = new_run_folder(tmp_path, "lab", NOW)
    (tmp_path / "latest").write_text(f"runs/{run.name}\n")
    assert short_name(run) == run
