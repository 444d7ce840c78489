"""Old jobs in files: what is in them says the same as what was in the database."""

import os

import pyarrow.parquet
import pytest

from rota.core.facts.errors import Rejected, Unavailable
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Access, Queue, Token
from rota.store import copying
from rota.store.api import Batch, JobFilter
from rota.store.archive import writing as archive
from rota.store.archive.reading import open_archive
from rota.store.open import open_store
from rota.store.stats import Cohort
from tests.store.builders import DAY_S, START_S, Log, array, job

OLD_S = START_S - 30 * DAY_S
BEFORE_S = START_S - 7 * DAY_S
TOKEN = Token("t", "digest", "ann", Access.USER, START_S)


def fill(store) -> Log:
    log = Log()
    family = array(100, 2, waiting_from=2, submitted_s=OLD_S, rows=(("1",), ("2",)))
    store.commit(log.array_submitted(family))
    old = [job(n, JobState.COMPLETED, at_s=OLD_S, project="vision") for n in range(1, 60)]
    store.commit(log.submitted(*old, job(60, JobState.RUNNING, at_s=OLD_S)))
    store.commit(log.submitted(job(61, JobState.FAILED)))
    store.commit(Batch(queues={"night": Queue("night")}, tokens={"t": TOKEN}))
    return log


def test_jobs_arrays_and_the_log_come_back_as_they_were(sql_place, tmp_path):
    store = sql_place.open()
    fill(store)
    while store.pack(START_S + DAY_S):
        pass

    written = archive.write(store, tmp_path / "archive", BEFORE_S)
    read = open_archive(tmp_path / "archive")

    assert written == (59, 1, 62)
    wanted = [store.job(number) for number in range(1, 60)]
    assert read.list_jobs(JobFilter(), limit=100) == wanted
    assert read.array(100) == store.array(100)
    assert [*read.all_events()] == [*store.all_events()]
    assert [queue.name for queue in read.load().queues] == ["night"]
    assert read.load().tokens == []
    assert read.job_sums(Cohort(0.0))[0].jobs == 59


def test_what_is_in_an_archive_is_not_written_again(sqlite_store, tmp_path):
    log = fill(sqlite_store)
    archive.write(sqlite_store, tmp_path, BEFORE_S)
    again = archive.write(sqlite_store, tmp_path, BEFORE_S)
    sqlite_store.commit(log.submitted(job(62, JobState.COMPLETED, at_s=OLD_S)))

    more = archive.write(sqlite_store, tmp_path, BEFORE_S)

    read = open_archive(tmp_path)
    assert (again, more) == ((0, 0, 0), (1, 0, 1))
    assert read.job(62) == sqlite_store.job(62)
    assert len([*read.all_events()]) == 63


def test_no_more_than_a_group_is_in_memory_however_much_there_is(sql_place, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "GROUP", 50)
    store, log = sql_place.open(), Log()
    every = [job(n, JobState.COMPLETED, at_s=OLD_S + n % 7) for n in range(1, 501)]
    store.commit(log.submitted(*every[:400:2]))
    archive.write(store, tmp_path, BEFORE_S)
    store.commit(log.submitted(*every[1:400:2], *every[400:]))
    read, sizes = store.driver.read, list[int]()

    def counted(text: str, values: object = ()) -> list[tuple[object, ...]]:
        found = read(text, values)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(store.driver, "read", counted)
    written = archive.write(store, tmp_path, BEFORE_S)

    assert written.jobs == 300
    assert max(sizes) < 100
    assert open_archive(tmp_path).list_jobs(JobFilter(), limit=1000) == every


def test_the_columns_can_be_read_by_any_program(sqlite_store, tmp_path):
    fill(sqlite_store)

    archive.write(sqlite_store, tmp_path, BEFORE_S)

    (file,) = archive.files_of(tmp_path, "jobs")
    table = pyarrow.parquet.read_table(file, columns=["id", "user_id", "state", "created_at"])
    assert table.num_rows == 59
    first = {"id": 1, "user_id": "ann", "state": "completed", "created_at": OLD_S}
    assert table.to_pylist()[0] == first
    assert file.stat().st_mode & 0o777 == 0o600


def test_an_archive_of_another_cluster_is_refused(sqlite_store, tmp_path):
    other = open_store(str(tmp_path / "other.db"))
    archive.write(other, tmp_path / "archive", BEFORE_S)
    other.close()

    with pytest.raises(Rejected, match="no other cluster"):
        archive.write(sqlite_store, tmp_path / "archive", BEFORE_S)


def test_a_folder_that_cannot_be_written_is_told_in_one_line(sqlite_store, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(Unavailable, match=r"cannot write the archive .*: (File exists|Not a dir)"):
        archive.write(sqlite_store, tmp_path / "file", BEFORE_S)


def test_a_write_that_breaks_leaves_nothing_behind(sqlite_store, tmp_path):
    fill(sqlite_store)
    sqlite_store.driver.write([("UPDATE jobs SET cpu_cores = 'many' WHERE id = 7", ())])

    with pytest.raises((TypeError, ValueError), match=r"many|str"):
        archive.write(sqlite_store, tmp_path / "archive", BEFORE_S)

    assert os.listdir(tmp_path / "archive") == []


def test_a_folder_that_is_no_archive_and_one_of_a_newer_rota_are_refused(
    sqlite_store, tmp_path, monkeypatch
):
    with pytest.raises(Rejected, match=r"no site\.parquet in"):
        open_archive(tmp_path)

    monkeypatch.setattr(archive, "FORMAT", 999)
    archive.write(sqlite_store, tmp_path, BEFORE_S)
    monkeypatch.undo()

    with pytest.raises(Rejected, match=r"written by a newer Rota \(rows 999"):
        open_archive(tmp_path)


@pytest.mark.parametrize("more", [0, 1, 5])
def test_an_archive_that_knows_more_than_a_backup_that_was_put_back_is_refused(tmp_path, more):
    file, copy = tmp_path / "rota.db", tmp_path / "copy.db"
    store = open_store(str(file))
    log = fill(store)
    archive.write(store, tmp_path / "archive", BEFORE_S)
    copying.take(str(file), copy)
    # What is dated as it was, and another job: the number alone says nothing.
    lost = [job(200 + n, JobState.COMPLETED, at_s=OLD_S, name="lost") for n in range(2)]
    store.commit(log.submitted(*lost))
    archive.write(store, tmp_path / "archive", BEFORE_S)
    store.close()

    again = open_store(str(copy))
    assert archive.write(again, tmp_path / "new", BEFORE_S).jobs == 59
    fresh = [job(200 + n, JobState.COMPLETED, at_s=OLD_S, name="fresh") for n in range(more)]
    again.commit(Log(first=63).submitted(*fresh))

    with pytest.raises(Rejected, match="a folder without the days after the backup"):
        archive.write(again, tmp_path / "archive", BEFORE_S)
    again.close()

    read = open_archive(tmp_path / "archive")
    assert [read.job(number).spec.name for number in (200, 201)] == ["lost", "lost"]


def test_an_archive_goes_on_where_the_log_was_forgotten(sqlite_store, tmp_path):
    log = Log()
    sqlite_store.commit(log.submitted(job(1, JobState.COMPLETED, at_s=OLD_S)))
    archive.write(sqlite_store, tmp_path, BEFORE_S)
    while sqlite_store.prune(BEFORE_S):
        pass
    assert [*sqlite_store.all_events()] == []

    sqlite_store.commit(log.submitted(job(2, JobState.COMPLETED, at_s=OLD_S)))

    assert archive.write(sqlite_store, tmp_path, BEFORE_S) == (1, 0, 1)
