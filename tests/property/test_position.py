"""How many jobs wait ahead of one: the same as by comparing it with each of the others."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rota.core.changes import events as ev
from rota.core.derived.holdings import least_of
from rota.core.facts.indices import parse_indices
from rota.core.facts.policy import OrderRules
from rota.core.facts.tenant import Queue
from rota.scheduling.answers.explain import Inquiry
from rota.scheduling.scheduler import Scheduler
from tests.unit.books import HOUR_S, Books, make_spec

orders = st.builds(
    OrderRules,
    primary=st.sampled_from(["priority", "fifo", "fairshare", "sjf", "multifactor", "wfp3"]),
    secondary=st.sampled_from(["fairshare", "fifo"]),
    age_after_s=st.sampled_from([0, 600]),
    age_factor=st.just(1.5),
    wait_max_s=st.sampled_from([0, 1500]),
)
#: A job, or an array of some elements, of which one has a record of its own.
wishes = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["alice", "bob"]),
        "queue": st.sampled_from(["default", "default", "express"]),
        "priority": st.sampled_from([40, 50, 60]),
        "cpus": st.sampled_from([1, 2]),
        "gpus": st.sampled_from([0, 0, 1]),
        "elements": st.sampled_from([0, 0, 0, 1, 4]),
        "wait_s": st.sampled_from([0.0, 0.0, 400.0, 900.0]),
    }
)


def fill(books: Books, lines: list[dict]) -> list[int]:
    """The ids of all jobs that wait, elements of arrays too."""
    waiting = []
    for line in lines:
        rest = dict(line)
        elements, wait_s = rest.pop("elements"), rest.pop("wait_s")
        if not elements:
            waiting.append(books.wait(**rest))
        else:
            array, spec = books.cluster.ids.next, make_spec(**rest)
            runs, _ = parse_indices(f"0-{elements - 1}")
            books.tell(
                ev.ArraySubmitted(
                    array=array, uid="a", spec=spec, runs=runs, count=elements, eligible=True
                )
            )
            if elements > 2:
                books.tell(ev.ElementExpanded(array=array, position=1))
            waiting += [array + 1 + position for position in range(elements)]
        books.now_s += wait_s
    return waiting


@given(order=orders, lines=st.lists(wishes, min_size=2, max_size=9))
def test_the_jobs_ahead_are_those_with_a_smaller_key(order, lines):
    books = Books()
    policy = msgspec.structs.replace(books.cluster.policy, order=order)
    books.tell(ev.PolicySet(policy=policy))
    books.tell(ev.QueueSet(queue=Queue("express", priority=90)))
    books.ran("alice", hours=3, cpus=20)
    waiting = fill(books, lines)
    books.now_s += HOUR_S / 4
    scheduler = Scheduler(books.cluster)
    scheduler.catch_up(books.now_s)
    inquiry = Inquiry(scheduler, books.now_s)

    def key_of(job: int) -> tuple[float, ...]:
        entry = inquiry.entry_of(inquiry.find(job), job)
        return inquiry.this.keys.of(entry, least_of(entry.shape))

    keys = {job: key_of(job) for job in waiting}
    for job in waiting:
        ahead = inquiry.tree(job).ahead
        before = sorted((key, other) for other, key in keys.items() if key < keys[job])
        named = [keys[other] for other in ahead.first]
        assert ahead.jobs == len(before)
        assert ahead.first[:1] == tuple(other for _, other in before[:1])
        assert len(named) <= 3
        assert named == sorted(key for key in named if key < keys[job])
