"""Old finished jobs go; ids, and everything that somebody may still ask for, stay."""

from rota.core.facts.job import Outcome
from rota.core.facts.states import Cause, JobState
from rota.store.api import Batch, JobFilter
from tests.store.builders import DAY_S, START_S, Log, array, job

OLD_S = START_S - 30 * DAY_S
BEFORE_S = START_S - 7 * DAY_S


def old(number: int, state: JobState = JobState.COMPLETED, **changes):
    return job(number, state, at_s=OLD_S, **changes)


def prune_all(store, **options) -> int:
    total = 0
    while gone := store.prune(BEFORE_S, **options):
        total += gone
    return total


def test_old_finished_jobs_go_with_their_events(store):
    log = Log()
    store.commit(log.submitted(old(1), old(2, JobState.FAILED), job(3, JobState.COMPLETED)))

    gone = prune_all(store)

    assert gone == 2
    assert [one.id for one in store.list_jobs(JobFilter())] == [3]
    assert store.load().outcomes == [(3, JobState.COMPLETED)]
    assert [event.event.job for event in store.all_events()] == [3]
    assert store.job_by_uid("uid-1") is None


def test_unfinished_jobs_stay_however_old(store):
    store.commit(Log().submitted(old(1, JobState.QUEUED), old(2, JobState.RUNNING)))

    gone = prune_all(store)

    assert gone == 0
    assert len(store.load().jobs) == 2


def test_a_job_that_ended_lately_stays_however_long_ago_it_was_submitted(store):
    store.commit(Log().submitted(old(1, ended_s=START_S)))

    assert prune_all(store) == 0


def test_parents_that_somebody_waits_for_stay(store):
    store.commit(Log().submitted(old(1), old(2), old(3)))

    prune_all(store, keep={2})

    assert store.load().outcomes == [(2, JobState.COMPLETED)]
    assert [event.event.job for event in store.all_events()] == [2]


def test_a_job_whose_key_may_be_repeated_stays(store):
    log = Log()
    recent_s = START_S - DAY_S / 2
    done = job(1, JobState.COMPLETED, at_s=recent_s, ended_s=recent_s + 1, key="k")
    store.commit(log.submitted(done, job(2)))

    gone = store.prune(START_S)

    assert gone == 0
    assert store.load().keys == [("ann", "k", 1)]


def test_ids_and_event_numbers_are_never_used_again(place):
    store = place.open()
    log = Log()
    store.commit(log.submitted(*(old(number) for number in range(1, 8))))
    # Something newer, so that the last events are not the ones that go.
    assert store.load().next_id == 8

    prune_all(store)
    loaded = place.reopen().load()

    assert (loaded.next_id, loaded.next_seq) == (8, 8)
    assert loaded.outcomes == []


def test_ids_of_a_pruned_array_are_never_used_again(place):
    store = place.open()
    done = array(
        10,
        500,
        waiting_from=500,
        submitted_s=OLD_S,
        cut=[[0, 499]],
        cut_s=OLD_S,
        cut_outcome=Outcome(JobState.CANCELLED, Cause.CANCELLED),
    )
    store.commit(Log().array_submitted(done))

    prune_all(store)
    store = place.reopen()

    assert store.array(10) is None
    assert store.events(job=10) == []
    assert store.load().next_id == 511


def test_an_array_goes_after_its_last_element(store):
    log = Log()
    family = array(10, 2, waiting_from=2, submitted_s=OLD_S)
    store.commit(log.array_submitted(family))
    store.commit(log.submitted(old(11, array_id=10), old(12, JobState.RUNNING, array_id=10)))

    prune_all(store)
    with_one_left = store.array(10)
    store.commit(Batch(jobs=[old(12, array_id=10)]))
    prune_all(store)

    assert with_one_left == family
    assert store.array(10) is None


def test_an_array_with_waiting_elements_stays(store):
    store.commit(Log().array_submitted(array(10, 5, submitted_s=OLD_S)))

    assert prune_all(store) == 0


def test_what_nodes_said_long_ago_goes_and_the_rest_of_the_log_stays(store):
    log = Log()
    lines = [log.silent("box", at_s=OLD_S), log.silent("box", at_s=START_S), log.eligible(1)]
    store.commit(Batch(events=lines))

    prune_all(store)

    assert store.events() == lines[1:]


def test_a_round_drops_no_more_than_its_limit(store):
    store.commit(Log().submitted(*(old(number) for number in range(1, 31))))

    first = store.prune(BEFORE_S, limit=10)
    left = len(store.load().outcomes)

    assert (first, left) == (10, 20)
    assert prune_all(store, limit=10) == 20


def test_a_kept_job_does_not_stop_the_rounds_behind_it(store):
    store.commit(Log().submitted(*(old(number) for number in range(1, 21))))

    prune_all(store, limit=1, keep=set(range(1, 11)))

    assert [job_id for job_id, _ in sorted(store.load().outcomes)] == list(range(1, 11))
