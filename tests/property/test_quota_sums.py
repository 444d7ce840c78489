"""Ceilings against plain sums: what all running jobs hold is added up anew for every question."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from rota.core.changes import events as ev
from rota.core.facts.tenant import NO_QUOTA, Group, Limits, Project, Queue, Quota, User
from rota.scheduling.limits.quota import GivenBack, Quotas, held_by
from rota.scheduling.limits.quota_rules import Dimension
from tests.unit.books import Books

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rota.core.facts.job import Job
    from rota.core.facts.resources import Amount

ABOVE = {"lab": ["lab"], "vision": ["vision", "lab"], "": [], "unknown": []}
TYPES = ("training", "inference")
DIMENSIONS = (
    Dimension.JOBS,
    Dimension.CPU_MILLI,
    Dimension.MEMORY_MIB,
    Dimension.DEVICE_MILLI,
)
Sum = tuple[float, ...]

limits = st.builds(
    Limits,
    jobs=st.sampled_from([None, None, 1, 2, 3]),
    cpu_milli=st.sampled_from([None, None, 2000, 4000]),
    memory_mib=st.sampled_from([None, None, 10, 25]),
    device_milli=st.sampled_from([None, None, 1000, 3000]),
)
quotas = st.one_of(
    st.just(NO_QUOTA),
    st.builds(
        Quota,
        hard=limits,
        soft=limits,
        borrow=st.sampled_from([True, True, False]),
        types=st.dictionaries(st.sampled_from(TYPES), limits, max_size=1),
    ),
)
caps = st.sampled_from([0, 0, 1, 2])
jobs = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "ben"]),
        "project": st.sampled_from(["lab", "vision", "", "unknown"]),
        "queue": st.sampled_from(["default", "side"]),
        "group": st.sampled_from(["", "g"]),
        "type": st.sampled_from(["", *TYPES]),
        "cpus": st.sampled_from([0, 1, 2]),
        "mem": st.sampled_from([0, 5, 10]),
        "gpus": st.sampled_from([0, 0, 1, 2]),
    }
)


@st.composite
def sites(draw: st.DrawFn) -> Books:
    books = Books()
    for name in ("ann", ""):
        books.tell(ev.UserSet(user=User(name, 1, draw(quotas))))
    for name, parent in (("lab", ""), ("vision", "lab")):
        books.tell(ev.ProjectSet(project=Project(name, parent, 1, draw(quotas))))
    queue = Queue(
        "side",
        max_running=draw(caps),
        max_per_user=draw(caps),
        max_per_project=draw(caps),
    )
    books.tell(ev.QueueSet(queue=queue))
    books.tell(ev.GroupSet(group=Group("g", "ann", draw(caps))))
    return books


def sum_of(amount: Amount, whole: int = 1) -> Sum:
    return whole, amount.cpu_milli, amount.memory_mib, amount.device_milli


class Ceiling(NamedTuple):
    scope: str
    at: Dimension
    limit: float
    hard: bool
    lent: bool
    #: Whether a job counts under it.
    counts: Callable[[Job], bool]


def ceilings(books: Books, job: Job) -> Iterator[Ceiling]:
    """All that bind a job, in no order."""
    spec, cluster = job.spec, books.cluster
    queue = cluster.queues[spec.queue]

    def same(*fields: str) -> Callable[[Job], bool]:
        return lambda other: all(
            getattr(other.spec, name) == getattr(spec, name) for name in fields
        )

    def cap(scope: str, limit: int, counts: Callable[[Job], bool]) -> Iterator[Ceiling]:
        if limit:
            yield Ceiling(scope, Dimension.JOBS, limit, True, False, counts)

    shown = spec.project or "(none)"
    yield from cap("queue side", queue.max_running, same("queue"))
    yield from cap(f"{spec.user} in queue side", queue.max_per_user, same("queue", "user"))
    yield from cap(
        f"project {shown} in queue side", queue.max_per_project, same("queue", "project")
    )
    if spec.group:
        yield from cap("group g", cluster.groups["g"].max_concurrent, same("group"))
    own = cluster.accounts.users.get(spec.user) or cluster.accounts.users[""]
    yield from of_quota(own.quota, f"user {spec.user}", spec.type, same("user"))
    for name in ABOVE[spec.project]:
        quota = cluster.accounts.projects[name].quota

        def below(other: Job, name: str = name) -> bool:
            return name in ABOVE[other.spec.project]

        yield from of_quota(quota, f"project {name}", spec.type, below)


def of_quota(
    quota: Quota, scope: str, kind: str, counts: Callable[[Job], bool]
) -> Iterator[Ceiling]:
    def of_type(other: Job) -> bool:
        return counts(other) and other.spec.type == kind

    yield from of_limits(quota.hard, Ceiling(scope, Dimension.JOBS, 0, True, False, counts))
    soft = Ceiling(scope, Dimension.JOBS, 0, False, quota.borrow, counts)
    yield from of_limits(quota.soft, soft)
    if kind in quota.types:
        typed = Ceiling(f"{scope} for {kind}", Dimension.JOBS, 0, True, False, of_type)
        yield from of_limits(quota.types[kind], typed)


def of_limits(limits: Limits, like: Ceiling) -> Iterator[Ceiling]:
    values = (limits.jobs, limits.cpu_milli, limits.memory_mib, limits.device_milli)
    for at, value in zip(DIMENSIONS, values, strict=True):
        if value is not None:
            yield like._replace(at=at, limit=value)


def used_under(ceiling: Ceiling, running: list[tuple[Job, Sum]]) -> float:
    return sum(held[ceiling.at] for job, held in running if ceiling.counts(job))


@given(books=sites(), running=st.lists(jobs, max_size=5), waiting=st.lists(jobs, min_size=1))
def test_every_ceiling_that_a_job_would_pass_is_found_with_what_is_held_under_it(
    books, running, waiting
):
    held = []
    for wish in running:
        job = books.cluster.jobs[books.run(**wish)]
        held.append((job, sum_of(held_by(books.cluster, job))))
    desk = Quotas(books.cluster, books.now_s)

    for wish in waiting:
        job = books.cluster.jobs[books.wait(**wish)]
        key, amount = books.cluster.lanes.where[job.id].key, job.spec.request.amount
        wanted = sum_of(amount)
        passed = {}
        for one in ceilings(books, job):
            used = used_under(one, held)
            if wanted[one.at] and used + wanted[one.at] > one.limit:
                passed[one.scope, one.at, one.hard, one.limit] = (used, one.lent)
        firm = {name: used for name, (used, lent) in passed.items() if not lent}
        shorts = desk.shorts(key, amount)
        first = desk.short(key, amount)

        assert {(s.scope, s.dimension, s.hard, s.limit): s.used for s in shorts} == firm
        assert [s.wanted for s in shorts] == [wanted[s.dimension] for s in shorts]
        assert [s.missing for s in shorts] == [s.used + s.wanted - s.limit for s in shorts]
        assert all(s.again_s == 0 for s in shorts)
        assert first == (shorts[0] if shorts else None)
        assert desk.borrowing(key, amount) == any(lent for _, lent in passed.values())
        desk.take(key, amount)
        held.append((job, wanted))


def less(rest: list[tuple[Job, Sum]], part: GivenBack) -> list[tuple[Job, Sum]]:
    return [*rest, (part.job, tuple(-one for one in sum_of(part.amount, part.whole)))]


def beyond(books: Books, held: list[tuple[Job, Sum]], job: Job) -> list[tuple[str, Dimension]]:
    """The soft limits of a job that are passed."""
    return [
        (one.scope, one.at)
        for one in ceilings(books, job)
        if one.lent and used_under(one, held) > one.limit
    ]


def can_be_reclaimed(
    books: Books,
    held: list[tuple[Job, Sum]],
    parts: Sequence[GivenBack],
    gone: Sequence[GivenBack] = (),
) -> bool:
    """Whether there is an order in which each part is of what is borrowed when it goes."""

    def is_borrowed(rest: list[tuple[Job, Sum]], part: GivenBack) -> bool:
        own = sum_of(part.amount, part.whole)
        return any(own[at] for _, at in beyond(books, rest, part.job))

    for part in gone:
        held = less(held, part)
    for order in permutations(parts):
        rest = held
        for part in order:
            if not is_borrowed(rest, part):
                break
            rest = less(rest, part)
        else:
            return True
    return False


@given(
    books=sites(),
    running=st.lists(jobs, min_size=2, max_size=5),
    whole=st.booleans(),
    gone=st.integers(0, 1),
)
def test_what_may_be_reclaimed_is_borrowed_in_some_order(books, running, whole, gone):
    held, parts = [], []
    for wish in running:
        job = books.cluster.jobs[books.run(**wish)]
        amount = held_by(books.cluster, job)
        held.append((job, sum_of(amount)))
        parts.append(GivenBack(job, amount, whole))
    desk = Quotas(books.cluster, books.now_s)
    victims, left = parts[:gone], parts[gone:]

    single = [desk.reclaimable(part) for part in parts]
    together = desk.all_reclaimable(left, victims)
    again = [desk.reclaimable(part) for part in parts]
    noted, expected = [], []
    left_over = held
    for part in victims:
        moves, turns = desk.moves, desk.turns
        before = beyond(books, left_over, part.job)
        desk.evict(part)
        left_over = less(left_over, part)
        noted.append((desk.moves > moves, desk.turns > turns))
        is_soft = any(one.lent for one in ceilings(books, part.job))
        expected.append((is_soft, is_soft and before != beyond(books, left_over, part.job)))

    assert single == [can_be_reclaimed(books, held, [part]) for part in parts]
    assert together == can_be_reclaimed(books, held, left, victims)
    assert again == single, "asking changes nothing"
    assert desk.all_reclaimable(left) == together
    assert noted == expected
    assert desk.lends == any(
        record.quota.borrow and record.quota.soft != Limits()
        for table in (books.cluster.accounts.users, books.cluster.accounts.projects)
        for record in table.values()
    )
