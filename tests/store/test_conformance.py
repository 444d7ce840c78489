"""What every store does: in memory, on SQLite, on PostgreSQL."""

import msgspec
import pytest

from rota.core.changes.events import BlobStored, JobEligible, JobUpdated, Recorded
from rota.core.facts.site.audit import Audited
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Access, Group, Project, Queue, Reservation, Secret, Token
from rota.store.api import AuditFilter, Batch, JobFilter, Snapshot
from rota.store.errors import Contradiction
from tests.store.builders import GPU_ROLE, Log, array, job, node


def as_plain(snapshot: Snapshot) -> object:
    return msgspec.to_builtins(snapshot)


def test_a_fresh_store_is_empty_and_names_its_cluster(store):
    snapshot = store.load()

    assert snapshot.cluster_id
    assert snapshot == Snapshot(cluster_id=snapshot.cluster_id, next_id=1, next_seq=1)


def test_a_reopened_store_keeps_its_cluster_id(place):
    before = place.open().load().cluster_id

    after = place.reopen().load().cluster_id

    assert after == before


def test_a_bookmark_is_kept_until_it_is_moved(place):
    place.open().set_bookmark("reader", "12")
    store = place.reopen()
    store.set_bookmark("other", "1")

    before = store.bookmark("reader")
    store.set_bookmark("reader", "13")

    assert (before, place.reopen().bookmark("reader")) == ("12", "13")
    assert place.reopen().bookmark("nobody") == ""


def test_an_answer_is_kept_until_it_is_old_or_forgotten(place):
    store = place.open()
    store.set_answer("old", 10.0, b"first", before_s=0.0)
    store.set_answer("new", 20.0, b"second", before_s=10.0)
    store = place.reopen()
    kept = [store.answer(key) for key in ("old", "new", "never")]

    store.set_answer("next", 30.0, b"third", before_s=15.0)
    store.set_answer("next", 30.0, b"another", before_s=15.0)
    store.set_answer("new", 31.0, None, before_s=15.0)

    store = place.reopen()
    assert kept == [b"first", b"second", None]
    assert [store.answer(key) for key in ("old", "new", "next")] == [None, None, b"another"]


def test_a_secret_is_kept_until_it_is_removed_and_needs_no_event(place):
    secret = Secret("ann", "KEY", b"sealed", 5.0)
    place.open().commit(Batch(secrets={secret.key: secret}))
    kept = place.reopen().load().secrets

    place.reopen().commit(Batch(secrets={secret.key: None}))

    assert kept == [secret]
    assert place.reopen().load().secrets == []


def test_the_audit_is_read_back_newest_first_and_by_user_action_object_and_time(place):
    store = place.open()
    ann = Audited(1.0, "ann", "token ab", "10.0.0.1", "submit", "job 1")
    bob = Audited(2.0, "bob", "local", "", "cancel", "job 1", "job 1 belongs to ann")
    late = Audited(3.0, "ann", "local", "", "logs", "job 2")
    store.commit(Batch(audit=[ann, bob]))
    store.commit(Batch(audit=[late]))
    store = place.reopen()

    found = store.audit(AuditFilter())

    assert [msgspec.structs.replace(record, seq=0) for record in found] == [late, bob, ann]
    assert store.audit(AuditFilter(), before=found[1].seq) == found[2:]
    assert store.audit(AuditFilter(), limit=1) == found[:1]
    assert store.audit(AuditFilter(user="ann")) == [found[0], found[2]]
    assert store.audit(AuditFilter(action="cancel")) == [found[1]]
    assert store.audit(AuditFilter(object="job 1", since_s=1.5)) == [found[1]]


def test_everything_alive_is_loaded_after_a_restart_as_it_was_committed(place):
    log = Log()
    jobs = [
        job(number, state)
        for number, state in enumerate(
            (
                JobState.QUEUED,
                JobState.HELD,
                JobState.SCHEDULED,
                JobState.RUNNING,
                JobState.PREEMPTED,
            ),
            start=1,
        )
    ]
    jobs[0].parameters = {"lr": "0.1", "name": "gr\u00fc\u00df \U0001f680"}
    batch = log.submitted(*jobs)
    batch.arrays = [array(10, 5, waiting_from=2)]
    batch.nodes = {"box": node("box", note="up", seen_s=5.5)}
    batch.queues = {"fast": Queue("fast", priority=70)}
    batch.groups = {"ann/g": Group("g", "ann", 3)}
    batch.projects = {"vision": Project("vision", "", 4)}
    batch.reservations = {7: Reservation(7, "ann", 1.0, 2.0, "box", (0, 1))}
    batch.tokens = {"t1": Token("t1", "d" * 64, "ann", Access.USER, 3.0)}
    store = place.open()
    cluster_id = store.load().cluster_id

    store.commit(batch)
    loaded = place.reopen().load()

    assert as_plain(loaded) == as_plain(
        Snapshot(
            cluster_id=cluster_id,
            next_id=16,
            next_seq=6,
            jobs=jobs,
            arrays=batch.arrays,
            nodes=[node("box", note="up", seen_s=5.5)],
            queues=[Queue("fast", priority=70)],
            groups=[Group("g", "ann", 3)],
            projects=[Project("vision", "", 4)],
            reservations=[Reservation(7, "ann", 1.0, 2.0, "box", (0, 1))],
            tokens=[Token("t1", "d" * 64, "ann", Access.USER, 3.0)],
        )
    )


def test_a_finished_job_is_loaded_as_its_outcome_only(place):
    store = place.open()
    log = Log()
    store.commit(log.submitted(job(1), job(2), job(3)))

    store.commit(Batch(jobs=[job(1, JobState.COMPLETED), job(3, JobState.TIMEOUT)]))
    loaded = place.reopen().load()

    assert [waiting.id for waiting in loaded.jobs] == [2]
    assert sorted(loaded.outcomes) == [(1, JobState.COMPLETED), (3, JobState.TIMEOUT)]


def test_a_finished_job_that_is_requeued_is_loaded_as_alive_again(store):
    store.commit(Log().submitted(job(1, JobState.FAILED)))

    store.commit(Batch(jobs=[job(1, JobState.QUEUED)]))
    loaded = store.load()

    assert [waiting.id for waiting in loaded.jobs] == [1]
    assert loaded.outcomes == []


def test_the_last_of_several_versions_of_a_row_in_one_batch_counts(store):
    batch = Log().submitted(job(1))
    batch.jobs = [job(1), job(1, JobState.RUNNING)]
    batch.arrays = [array(5), array(5, waiting_from=3)]

    store.commit(batch)

    assert store.job(1).state is JobState.RUNNING
    assert store.array(5).waiting == [[3, 9]]


def test_a_committed_object_may_change_afterwards_without_changing_the_store(store):
    live = job(1)
    store.commit(Log().submitted(live))

    live.held = True

    assert store.job(1).held is False


def test_a_batch_that_fails_in_the_middle_changes_nothing(place):
    store = place.open()
    store.commit(Log().submitted(job(1)))
    before = as_plain(store.load())
    bad = Log(first=1).submitted(job(2), job(3))
    bad.blobs = {"d1": b"script"}
    bad.nodes = {"box": node("box")}

    with pytest.raises(Contradiction):
        store.commit(bad)

    assert as_plain(store.load()) == before
    assert store.job(2) is None
    assert store.blob("d1") is None
    assert as_plain(place.reopen().load()) == before


def test_a_store_works_on_after_a_batch_that_failed(store):
    log = Log()
    store.commit(log.submitted(job(1)))
    with pytest.raises(Contradiction):
        store.commit(Log(first=1).submitted(job(2)))

    store.commit(log.submitted(job(2)))

    assert [waiting.id for waiting in store.load().jobs] == [1, 2]


def test_a_uid_that_is_taken_is_refused(store):
    store.commit(Log().submitted(job(1)))
    twin = job(2)
    twin.uid = "uid-1"

    with pytest.raises(Contradiction):
        store.commit(Batch(jobs=[twin]))

    assert store.job(2) is None


def test_what_cannot_be_encoded_fails_before_anything_is_written(store):
    bad = job(2, name="lone \ud800 surrogate")

    with pytest.raises(UnicodeEncodeError):
        store.commit(Batch(jobs=[job(1), bad]))

    assert store.load().jobs == []


def test_an_empty_batch_is_no_work(store):
    store.commit(Batch())

    assert store.load().next_seq == 1


def test_removed_rows_are_gone_after_a_restart(place):
    store = place.open()
    store.commit(
        Batch(
            nodes={"a": node("a"), "b": node("b")},
            queues={"q": Queue("q")},
            reservations={1: Reservation(1, "ann", 1.0, 2.0)},
            tokens={"t": Token("t", "d", "ann", Access.USER, 1.0)},
        )
    )

    store.commit(
        Batch(nodes={"a": None}, queues={"q": None}, reservations={1: None}, tokens={"t": None})
    )
    loaded = place.reopen().load()

    assert [left.name for left in loaded.nodes] == ["b"]
    assert (loaded.queues, loaded.reservations, loaded.tokens) == ([], [], [])


def test_removing_what_is_not_there_is_no_error(store):
    store.commit(Batch(nodes={"a": None}, reservations={9: None}))

    assert store.load().nodes == []


def test_a_blob_is_kept_under_its_digest_and_stored_once(place):
    store = place.open()
    store.commit(Batch(blobs={"d1": b"\x00\xffbytes", "d2": b""}))

    store.commit(Batch(blobs={"d1": b"\x00\xffbytes"}))
    store = place.reopen()

    assert store.blob("d1") == b"\x00\xffbytes"
    assert store.blob("d2") == b""
    assert store.blob("d3") is None


def test_the_log_does_not_hold_a_second_copy_of_a_blob(store):
    event = BlobStored(digest="d1", body=b"large" * 1000)

    store.commit(Batch(events=[Recorded(1, 1.0, "ann", event)], blobs={"d1": event.body}))

    (kept,) = store.events()
    assert kept.event == BlobStored(digest="d1")
    assert store.blob("d1") == event.body


def test_a_job_is_found_by_id_and_by_uid(store):
    store.commit(Log().submitted(job(1), job(2)))

    assert store.job(2) == job(2)
    assert store.job_by_uid("uid-2") == job(2)
    assert store.job(3) is None
    assert store.job_by_uid("uid-3") is None


def test_text_that_holds_a_null_character_is_kept_in_full(store):
    odd = job(1, name="a\0b", command=("echo", "\0"), workdir="/\0")

    store.commit(Batch(jobs=[odd]))

    assert store.job(1) == odd


def test_the_largest_numbers_are_kept_exactly(store):
    big = job(2**53 + 1, at_s=1_999_999_999.123456)

    store.commit(Batch(jobs=[big]))

    assert store.job(2**53 + 1) == big
    assert store.load().next_id == 2**53 + 2


def test_the_columns_follow_an_updated_spec(store):
    log = Log()
    store.commit(log.submitted(job(1)))
    changed = job(1, queue="slow", project="vision", name="late", priority=90, roles=(GPU_ROLE,))

    event = log.record(JobUpdated(job=1, spec=changed.spec))
    store.commit(Batch(events=[event], jobs=[changed]))

    for wanted in (
        JobFilter(queue="slow"),
        JobFilter(project="vision"),
        JobFilter(name="late"),
    ):
        assert store.list_jobs(wanted) == [changed]
    assert store.list_jobs(JobFilter(queue="default")) == []


def test_a_large_batch_is_one_commit(store):
    log = Log()
    batch = log.submitted(*(job(number) for number in range(1, 1501)))
    batch.events += [log.record(JobEligible(job=number)) for number in range(1, 1501)]

    store.commit(batch)

    loaded = store.load()
    assert [one.id for one in loaded.jobs] == list(range(1, 1501))
    assert loaded.next_seq == 3001
