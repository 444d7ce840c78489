"""Folders for saved work: whose they are, what is in them, and what is never followed."""

import os
from pathlib import Path

import pytest

from rota.agent.files import checkpoints
from rota.agent.files.spare_folders import SPARES_MAX, SpareFolders

STRANGER = (65_534, 65_534)


def test_a_folder_is_made_once_and_tells_whether_something_was_saved(tmp_path: Path):
    folder = str(tmp_path / "root" / "7-abc")

    first = checkpoints.make_folder(folder, None)
    again = checkpoints.make_folder(folder, None)
    Path(folder, "model").write_text("x")

    assert (first, again, checkpoints.make_folder(folder, None)) == (False, False, True)
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "root").st_mode & 0o777 == 0o711


def test_an_empty_folder_serves_the_next_job_and_is_private_again(tmp_path: Path):
    first, second = str(tmp_path / "7-abc"), str(tmp_path / "8-def")
    spares = SpareFolders()
    checkpoints.make_folder(first, None)
    os.chmod(first, 0o777)
    spares.keep_if_empty(first)
    assert not os.path.exists(first)
    assert checkpoints.listing(str(tmp_path)) == ()

    assert spares.take(second, None)

    assert os.stat(second).st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path) == ["8-def"]


def test_of_many_empty_folders_a_few_are_kept_and_the_next_agent_begins_anew(tmp_path: Path):
    spares = SpareFolders()
    for number in range(20):
        folder = str(tmp_path / f"{number}-abc")
        checkpoints.make_folder(folder, None)
        spares.keep_if_empty(folder)
    kept = len(os.listdir(tmp_path))

    taken = SpareFolders().take(str(tmp_path / "21-abc"), None)

    assert kept == SPARES_MAX
    assert not taken
    assert os.listdir(tmp_path) == []


def test_the_folder_of_a_job_that_has_one_is_never_replaced(tmp_path: Path):
    empty, used = tmp_path / "7-abc", tmp_path / "8-def"
    spares = SpareFolders()
    for folder in (empty, used):
        checkpoints.make_folder(str(folder), None)
    spares.keep_if_empty(str(empty))
    before = used.stat().st_ino

    assert not spares.take(str(used), None)

    assert used.stat().st_ino == before


def test_a_folder_with_saved_work_stays_and_serves_nobody_else(tmp_path: Path):
    first, second = tmp_path / "7-abc", tmp_path / "8-def"
    spares = SpareFolders()
    checkpoints.make_folder(str(first), None)
    (first / "model").write_text("x")

    spares.keep_if_empty(str(first))

    assert not spares.take(str(second), None)
    assert (first / "model").read_text() == "x"


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "7-abc").symlink_to(elsewhere)

    with pytest.raises(checkpoints.FolderFailed, match="not a folder of the job's owner"):
        checkpoints.make_folder(str(tmp_path / "7-abc"), None)


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(checkpoints.FolderFailed, match="not a directory"):
        checkpoints.make_folder(str(tmp_path / "file" / "root" / "7-abc"), None)


@pytest.mark.root
def test_a_folder_belongs_to_the_user_of_the_job(tmp_path: Path):
    folder = tmp_path / "7-abc"

    checkpoints.make_folder(str(folder), STRANGER)

    assert (folder.stat().st_uid, folder.stat().st_gid) == STRANGER
    with pytest.raises(checkpoints.FolderFailed):
        checkpoints.make_folder(str(folder), None)


def test_links_and_pipes_in_a_folder_are_no_saved_work(tmp_path: Path):
    folder = tmp_path / "7-abc"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "model").write_bytes(b"12345")
    (tmp_path / "secret").write_text("not yours")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")

    assert checkpoints.weight(str(folder))[:2] == (1, 5)


def test_the_list_has_the_folders_of_jobs_and_sizes_where_they_are_asked_for(tmp_path: Path):
    for name in ("7-abc", "8-def", "8-def.new", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model").write_bytes(b"123")

    names = [folder.name for folder in checkpoints.listing(str(tmp_path))]
    (one,) = checkpoints.listing(str(tmp_path), ["8-def"])

    assert names == ["7-abc", "8-def"]
    assert (one.name, one.files, one.size_bytes) == ("8-def", 1, 3)
    assert checkpoints.listing(str(tmp_path / "nowhere")) == ()


def test_what_is_no_longer_kept_is_removed_and_nothing_beyond_the_folder(tmp_path: Path):
    folder = tmp_path / "7-abc"
    (folder / "step-1").mkdir(parents=True)
    (folder / "step-1" / "model").write_text("old")
    (folder / "step-2").write_text("new")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("stays")
    (folder / "way").symlink_to(tmp_path / "other")

    for path in ("step-1", "../other/file", "way/file", "/etc/passwd", "missing", ""):
        checkpoints.drop_part(str(folder), path)

    assert sorted(entry.name for entry in folder.iterdir()) == ["step-2", "way"]
    assert (tmp_path / "other" / "file").read_text() == "stays"


def test_a_note_lies_beside_the_folder_and_goes_with_it(tmp_path: Path):
    folder = str(tmp_path / "7-abc")
    checkpoints.note(folder, b"nothing to note it for")
    checkpoints.make_folder(folder, None)

    checkpoints.note(folder, b'{"step": 3}')
    noted = (tmp_path / "7-abc.json").read_text()
    checkpoints.drop(folder)

    assert noted == '{"step": 3}'
    assert list(tmp_path.iterdir()) == []
