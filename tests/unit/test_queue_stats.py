"""What a list of queues says: how many wait and run, for how long, for what and with what."""

from rota.core.changes import events as ev
from rota.core.facts.indices import parse_indices
from rota.core.facts.resources import NOTHING, Amount
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Limits, Queue
from rota.scheduling.answers.queue_stats import QueueStats, queue_stats
from rota.scheduling.scheduler import Scheduler
from tests.unit.books import Books, make_spec


def stats_of(books: Books) -> dict[str, QueueStats]:
    scheduler = Scheduler(books.cluster)
    scheduler.run(books.now_s)
    return {one.name: one for one in queue_stats(scheduler, books.now_s)}


def test_queues_are_listed_by_name_with_their_state_even_where_nothing_is_in_them():
    books = Books()
    books.tell(ev.QueueSet(queue=Queue("side", state=QueueState.PAUSED)))
    books.tell(ev.QueueSet(queue=Queue("alpha")))

    listed = queue_stats(Scheduler(books.cluster), books.now_s)

    assert [(one.name, one.state) for one in listed] == [
        ("alpha", "active"),
        ("default", "active"),
        ("side", "paused"),
    ]
    assert listed[2] == QueueStats("side", "paused")


def test_a_queue_counts_what_runs_and_what_waits_with_their_ages_and_amounts():
    books = Books(cpus=10, gpus=4)
    books.tell(ev.QueueSet(queue=Queue("side")))
    books.run(cpus=5, gpus=3, mem=100)
    books.run(cpus=2, mem=50)
    books.run(cpus=1, queue="side")
    books.wait(cpus=8, mem=10)
    books.now_s += 60
    books.wait(cpus=8, mem=10)
    books.wait(cpus=1, gpus=2)
    books.now_s += 30

    found = stats_of(books)

    default, side = found["default"], found["side"]
    assert (default.running, default.waiting) == (2, 3)
    assert default.held == Amount(7000, 150, 0, 3000)
    assert default.wanted == Amount(17000, 20, 0, 2000)
    assert default.oldest_wait_s == 90
    assert default.mean_wait_s == (90 + 30 + 30) / 3
    assert default.reasons == {"room": 3}
    assert (side.running, side.held, side.wanted) == (1, Amount(1000), NOTHING)
    assert (side.waiting, side.oldest_wait_s, side.mean_wait_s, side.reasons) == (0, 0, 0, {})


def test_an_array_counts_with_each_untouched_element():
    books = Books(cpus=2)
    books.run(cpus=2)
    array, (runs, _) = books.cluster.ids.next, parse_indices("0-4")
    spec = make_spec(user="alice", cpus=2)
    books.tell(
        ev.ArraySubmitted(array=array, uid="a", spec=spec, runs=runs, count=5, eligible=True)
    )
    books.tell(ev.ElementExpanded(array=array, position=0))
    books.now_s += 10
    books.wait(cpus=1)

    found = stats_of(books)["default"]

    assert found.waiting == 6
    assert found.wanted == Amount(11000)
    assert found.mean_wait_s == 50 / 6
    assert found.reasons == {"room": 6}


def test_jobs_are_counted_by_the_reason_that_decides():
    books = Books(cpus=4)
    books.user("alice", hard=Limits(jobs=1))
    books.run(cpus=4)
    books.wait(cpus=1)
    books.wait(cpus=1)
    books.wait("bob", cpus=1)
    held, spec = books.cluster.ids.next, make_spec(user="bob", cpus=1)
    books.tell(ev.JobSubmitted(job=held, uid="h", spec=spec, held=True))
    again = books.cluster.ids.next
    books.tell(ev.JobSubmitted(job=again, uid="i", spec=spec, held=True))

    found = stats_of(books)["default"]

    assert found.reasons == {"quota": 2, "room": 1, "held": 2}
    assert (found.waiting, found.running) == (5, 1)


def test_a_job_whose_wait_does_not_count_yet_is_as_old_as_its_submit():
    books = Books()
    held, spec = books.cluster.ids.next, make_spec(user="bob")
    books.tell(ev.JobSubmitted(job=held, uid="h", spec=spec, held=True))
    books.now_s += 40

    found = stats_of(books)["default"]

    assert (found.oldest_wait_s, found.mean_wait_s) == (40, 40)


def test_a_wait_is_never_negative_when_the_clock_was_set_back():
    books = Books(cpus=1)
    books.run(cpus=1)
    books.wait(cpus=1)
    books.now_s -= 100

    found = stats_of(books)["default"]

    assert (found.oldest_wait_s, found.mean_wait_s) == (0, 0)


def test_a_queue_that_jobs_name_and_nobody_made_is_unknown():
    books = Books(cpus=1)
    books.run(cpus=1)
    books.wait(cpus=1, queue="lost")

    found = stats_of(books)["lost"]

    assert (found.state, found.waiting) == ("unknown", 1)
