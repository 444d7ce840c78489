"""Caps and quotas: who may take how much, in one pass and over many, and who borrows."""

import pytest

from rota.core.changes import events as ev
from rota.core.changes.invariants import violations
from rota.core.derived.lanes import LaneKey, shape_of
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.indices import parse_indices
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Amount
from rota.core.facts.tenant import Group, Limits, Queue
from rota.scheduling.limits.least import least_on
from rota.scheduling.limits.quota import GivenBack, Quotas, Short, held_by
from rota.scheduling.limits.quota_rules import Dimension
from rota.scheduling.limits.refusals import refuse_over_quota
from rota.scheduling.outcomes import Capped
from rota.scheduling.scheduler import Scheduler
from rota.testing.stage import Stage, node, spec
from tests.unit.books import DAY_S, Books, amount, make_spec


def key_of(books: Books, job: int) -> LaneKey:
    return books.cluster.lanes.where[job].key


def quotas(books: Books) -> Quotas:
    return Quotas(books.cluster, books.now_s)


def short(books: Books, job: int, **wish: float) -> Short | None:
    return quotas(books).short(key_of(books, job), amount(**wish))


def test_where_no_limit_is_set_nothing_is_short():
    books = Books()
    job = books.wait()
    books.run()

    assert short(books, job, cpus=10**6) is None
    assert not quotas(books).borrowing(key_of(books, job), amount(cpus=10**6))


@pytest.mark.parametrize(
    ("fields", "scope"),
    [
        ({"max_running": 2}, "queue side"),
        ({"max_per_user": 2}, "alice in queue side"),
        ({"max_per_project": 2}, "project vision in queue side"),
    ],
)
def test_a_queue_runs_no_more_than_its_caps_in_all_by_user_and_by_project(fields, scope):
    books = Books()
    books.tell(ev.QueueSet(queue=Queue("side", **fields)))
    job = books.wait("alice", "vision", queue="side")
    books.run("alice", "vision", queue="side")
    free = short(books, job)
    books.run("alice", "vision", queue="side")

    found = short(books, job)

    assert free is None
    assert found is not None
    assert (found.scope, found.used, found.limit) == (scope, 2, 2)
    assert str(found) == f"{scope} runs 2 of at most 2"


def test_a_cap_per_user_of_a_queue_leaves_other_users_and_queues_alone():
    books = Books()
    books.tell(ev.QueueSet(queue=Queue("side", max_per_user=1)))
    books.run("alice", queue="side")
    same, other, elsewhere = (
        books.wait("alice", queue="side"),
        books.wait("bob", queue="side"),
        books.wait("alice"),
    )

    assert [short(books, job) is None for job in (same, other, elsewhere)] == [False, True, True]


def test_groups_and_capped_arrays_count_their_running_members():
    books = Books()
    books.tell(ev.GroupSet(group=Group("g", "alice", 1)))
    grouped = books.wait(group="g")
    books.run(group="g")
    runs, cap = parse_indices("0-9%1")
    array = books.cluster.ids.next
    spec = make_spec(user="alice")
    books.tell(
        ev.ArraySubmitted(
            array=array, uid="a", spec=spec, runs=runs, count=10, cap=cap, eligible=True
        )
    )
    books.tell(ev.ElementExpanded(array=array, position=0))
    books.start(array + 1)

    assert str(short(books, grouped)) == "group g runs 1 of at most 1"
    assert str(short(books, array)) == f"array {array} runs 1 of at most 1"


def test_what_the_pass_gave_counts_for_everybody_under_the_same_limit():
    books = Books()
    books.user("alice", hard=Limits(jobs=3, device_milli=4000))
    small, large = books.wait(gpus=1), books.wait(gpus=2)
    desk = quotas(books)

    desk.take(key_of(books, small), amount(gpus=1))
    desk.take(key_of(books, large), amount(gpus=2))

    found = desk.short(key_of(books, large), amount(gpus=2))
    assert found is not None
    assert (found.scope, found.dimension) == ("user alice", Dimension.DEVICE_MILLI)
    assert (found.used, found.wanted, found.limit, found.missing) == (3000, 2000, 4000, 1000)
    assert str(found) == "user alice holds 3 of at most 4 devices, 2 wanted"
    assert desk.short(key_of(books, small), amount(gpus=1)) is None


@pytest.mark.parametrize(
    ("limits", "wish", "words"),
    [
        (Limits(jobs=1), {}, "user alice runs 1 of at most 1"),
        (Limits(cpu_milli=5000), {"cpus": 2}, "holds 4 of at most 5 CPUs, 2 wanted"),
        (Limits(memory_mib=4096), {"mem": 2048}, "holds 3 of at most 4 GiB of memory, 2 wanted"),
        (Limits(device_milli=2000), {"gpus": 0.5}, "holds 2 of at most 2 devices, 0.5 wanted"),
    ],
)
def test_every_dimension_of_a_users_quota_is_a_ceiling(limits, wish, words):
    books = Books()
    books.user("alice", hard=limits)
    job = books.wait()
    books.run(cpus=4, mem=3072, gpus=2)

    assert words in str(short(books, job, **wish))


def test_who_asks_for_nothing_of_a_dimension_is_not_kept_waiting_by_it():
    books = Books()
    books.run(gpus=4)
    books.user("alice", hard=Limits(device_milli=1000))
    job = books.wait()

    assert short(books, job, cpus=1) is None


def test_the_default_quota_is_for_everybody_who_has_no_record():
    books = Books()
    books.user("", hard=Limits(jobs=0))
    books.user("bob", hard=Limits(jobs=5))
    alice, bob = books.wait("alice"), books.wait("bob")

    assert str(short(books, alice)) == "user alice runs 0 of at most 0"
    assert short(books, bob) is None


def test_a_projects_quota_binds_all_projects_under_it_together():
    books = Books()
    books.project("lab", hard=Limits(device_milli=4000))
    books.project("vision", "lab")
    books.project("speech", "lab")
    books.run("ann", "vision", gpus=3)
    job = books.wait("cem", "speech", gpus=2)

    found = short(books, job, gpus=2)

    assert found is not None
    assert found.scope == "project lab"
    assert found.hard
    assert set(found.counters) == {("project", p) for p in ("lab", "vision", "speech")}


def test_a_lane_that_waits_for_a_quota_is_looked_at_again_when_something_is_given_back():
    books = Books()
    books.project("lab", hard=Limits(jobs=1))
    books.project("vision", "lab")
    running = books.run("ann", "vision")
    job = books.wait("cem", "lab")
    scheduler = Scheduler(books.cluster)
    scheduler.run(books.now_s)
    number = books.cluster.lanes.lanes[key_of(books, job)].number
    wait, looks = scheduler.waits.of(number), scheduler.looks
    scheduler.run(books.now_s)
    unchanged = scheduler.looks == looks

    books.end(running)
    scheduler.run(books.now_s)

    assert isinstance(wait, Capped)
    assert unchanged
    assert scheduler.looks == looks + 1
    assert short(books, job) is None


def test_limits_by_type_bind_jobs_of_that_type_alone():
    books = Books()
    books.project("lab", types={"training": Limits(device_milli=2000)})
    books.user("ann", types={"inference": Limits(jobs=1)})
    books.run("bob", "lab", gpus=2, type="training")
    books.run("ann", "lab", type="inference")
    training = books.wait("ann", "lab", type="training")
    inference = books.wait("ann", "lab", type="inference")
    plain = books.wait("ann", "lab")

    assert "project lab for training holds 2" in str(short(books, training, gpus=1))
    assert str(short(books, inference)) == "user ann for inference runs 1 of at most 1"
    assert short(books, plain, gpus=1) is None


def test_a_budget_of_device_hours_is_used_up_by_the_past_and_by_what_runs():
    books = Books()
    books.user("alice", hard=Limits(device_hours=10.0))
    job = books.wait(gpus=1, time_limit_s=3600)
    books.ran("alice", hours=3, gpus=2, ago_h=24)
    books.run(gpus=1, time_limit_s=3 * 3600, at_s=books.now_s - 2 * 3600)
    before = short(books, job, gpus=1)

    found = short(books, job, gpus=2)

    assert before is None
    assert str(found) == ("user alice has used or spoken for 9 of 10 device-hours, 2 wanted")
    assert found is not None
    assert found.counters == (("user", "alice"),), "a job that ends early gives back the rest"
    assert short(books, job, cpus=1) is None


def test_a_job_that_may_use_more_than_a_whole_budget_is_refused_and_told_to_name_a_limit():
    books = Books()
    books.user("alice", hard=Limits(device_hours=3.0))

    refuse_over_quota(books.cluster, make_spec(user="alice", gpus=1, time_limit_s=3 * 3600))
    with pytest.raises(Rejected, match=r"4 for 1 hours.*3 device-hours to spend"):
        refuse_over_quota(books.cluster, make_spec(user="alice", gpus=4, time_limit_s=3600))
    with pytest.raises(Rejected, match="1 for 4 hours, as no time limit is named"):
        refuse_over_quota(books.cluster, make_spec(user="alice", gpus=1))


def test_a_budget_comes_back_when_its_period_has_passed():
    books = Books()
    books.project("lab", hard=Limits(device_hours=5.0), period_s=7 * 86400)
    books.project("vision", "lab")
    books.ran("ann", "vision", hours=6, gpus=1)
    job = books.wait("cem", "lab", gpus=1)
    found = short(books, job, gpus=1)
    assert found is not None

    waits_s, books.now_s = found.again_s - books.now_s, found.again_s

    assert 6 * DAY_S < waits_s < 8 * DAY_S
    assert short(books, job, gpus=1) is None


def test_beyond_a_soft_limit_an_account_borrows_and_is_told_apart():
    books = Books()
    books.project("lab", soft=Limits(device_milli=4000), hard=Limits(device_milli=8000))
    job = books.wait("ann", "lab", gpus=3)
    books.run("ann", "lab", gpus=2)
    desk, key = quotas(books), key_of(books, job)

    assert not desk.borrowing(key, amount(gpus=2))
    assert desk.borrowing(key, amount(gpus=3))
    assert desk.short(key, amount(gpus=3)) is None
    desk.take(key, amount(gpus=3))
    assert desk.short(key, amount(gpus=4)) is not None


def test_a_soft_limit_that_may_not_be_borrowed_beyond_is_a_ceiling():
    books = Books()
    books.user("alice", soft=Limits(jobs=1), borrow=False)
    job = books.wait()
    books.run()

    found = short(books, job)

    assert found is not None
    assert not found.hard
    assert not quotas(books).borrowing(key_of(books, job), amount())


def test_only_what_was_borrowed_can_be_reclaimed():
    books = Books()
    for name in ("rich", "poor"):
        books.project(name, soft=Limits(device_milli=4000))
    borrowed = [books.run("ann", "rich", gpus=3), books.run("ann", "rich", gpus=3)]
    cpu_only, own = books.run("ann", "rich"), books.run("bob", "poor", gpus=2)
    desk = quotas(books)

    first, second, third, fourth = (
        GivenBack(books.cluster.jobs[job], held_by(books.cluster, books.cluster.jobs[job]))
        for job in (*borrowed, cpu_only, own)
    )

    assert [desk.reclaimable(part) for part in (first, second, third, fourth)] == [
        True,
        True,
        False,
        False,
    ]
    assert not desk.all_reclaimable([first, second])
    assert not desk.all_reclaimable([second], [first])
    assert desk.all_reclaimable([second]), "asking changes nothing"
    desk.evict(first)
    assert not desk.reclaimable(second)


def test_a_whole_job_gives_its_place_back_and_some_of_its_tasks_do_not():
    books = Books()
    books.project("rich", soft=Limits(jobs=1))
    job = books.cluster.jobs[books.run("ann", "rich")]
    books.run("ann", "rich")
    desk, held = quotas(books), held_by(books.cluster, job)

    assert desk.reclaimable(GivenBack(job, held))
    assert not desk.reclaimable(GivenBack(job, held, whole=False))


def test_parts_are_reclaimed_in_an_order_in_which_each_is_still_borrowed():
    books = Books()
    books.project("rich", soft=Limits(device_milli=4000))
    parts = []
    for gpus in (3, 2, 2):
        job = books.cluster.jobs[books.run("ann", "rich", gpus=gpus)]
        parts.append(GivenBack(job, held_by(books.cluster, job)))
    desk = quotas(books)

    large, small, other = parts

    assert desk.all_reclaimable([large, small]), "the small one first"
    assert desk.all_reclaimable([small, other])
    assert not desk.all_reclaimable([large, small, other])


def test_what_a_victim_holds_counts_until_it_has_gone():
    books = Books()
    books.user("alice", hard=Limits(jobs=1, device_milli=4000))
    running = books.run(gpus=4)
    job = books.wait(gpus=1)
    desk = quotas(books)

    desk.evict(GivenBack(books.cluster.jobs[running], amount(cpus=0, gpus=2), whole=False))

    found = desk.shorts(key_of(books, job), amount(gpus=3))
    assert [(s.dimension, s.used) for s in found] == [
        (Dimension.JOBS, 1),
        (Dimension.DEVICE_MILLI, 4000),
    ]


def test_a_submit_beyond_the_number_of_waiting_jobs_is_refused_by_element():
    books = Books()
    books.user("alice", hard=Limits(queued=12))
    runs, _ = parse_indices("0-9")
    spec = make_spec(user="alice")
    books.wait()
    books.tell(ev.ArraySubmitted(array=50, uid="a", spec=spec, runs=runs, count=10))

    refuse_over_quota(books.cluster, spec, 1)
    with pytest.raises(Conflict, match="may have 12 jobs waiting and has 11") as caught:
        refuse_over_quota(books.cluster, spec, 2)

    assert (caught.value.field, caught.value.value) == ("quota", 2)
    refuse_over_quota(books.cluster, make_spec(user="bob"), 100)


def test_waiting_jobs_of_all_projects_below_count_for_the_one_above():
    books = Books()
    books.project("lab", hard=Limits(queued=1))
    books.project("vision", "lab")
    books.wait("ann", "vision")

    with pytest.raises(Conflict, match="project lab may have 1 job waiting and has 1"):
        refuse_over_quota(books.cluster, make_spec(user="cem", project="lab"))


@pytest.mark.parametrize(
    ("quota", "wishes", "field", "value", "allowed"),
    [
        (
            {"hard": Limits(device_milli=2000)}, {"gpus": 3},
            "resources.gpus", 3, "user alice may hold at most 2 devices",
        ),
        (
            {"hard": Limits(cpu_milli=8000)}, {"cpus": 3, "tasks": 3},
            "resources.cpus", 9, "user alice may hold at most 8 CPUs",
        ),
        (
            {"hard": Limits(memory_mib=1024)}, {"mem": 2048},
            "resources.memory_mib", 2048, "user alice may hold at most 1 GiB of memory",
        ),
        (
            {"hard": Limits(jobs=0)}, {},
            "tasks", 1, "user alice may run at most 0 jobs",
        ),
        (
            {"hard": Limits(device_hours=0)}, {"gpus": 1, "time_limit_s": 3600},
            "resources.gpus", "1 for 1 hours", "user alice has 0 device-hours to spend",
        ),
        (
            {"soft": Limits(device_milli=0), "borrow": False}, {"gpus": 1},
            "resources.gpus", 1, "user alice may hold at most 0 devices",
        ),
        (
            {"types": {"training": Limits(jobs=0)}}, {"type": "training"},
            "tasks", 1, "user alice for training may run at most 0 jobs",
        ),
        (
            {"hard": Limits(cpu_milli=99_000)}, {"placement": Placement(exclusive=True)},
            "exclusive", "true",
            "user alice may not hold a whole node: "
            "the smallest that suits has 100 CPUs and 10 devices",
        ),
        (
            {"hard": Limits(device_milli=9000)}, {"placement": Placement(exclusive=True)},
            "exclusive", "true",
            "user alice may not hold a whole node: "
            "the smallest that suits has 100 CPUs and 10 devices",
        ),
    ],
)  # fmt: skip
def test_a_request_that_a_quota_can_never_allow_is_refused_at_submit(
    quota, wishes, field, value, allowed
):
    books = Books()
    books.user("alice", **quota)

    with pytest.raises(Rejected) as caught:
        refuse_over_quota(books.cluster, make_spec(user="alice", **wishes))

    assert caught.value.field == field
    assert caught.value.value == value
    assert caught.value.detail.endswith(allowed)


@pytest.mark.parametrize(
    ("wishes", "least"),
    [
        ({}, Amount(1000, 100, 0, 0)),
        ({"placement": Placement(exclusive=True)}, Amount(4000, 200, 10, 1000)),
        ({"placement": Placement(exclusive=True, nodes=("b",))}, Amount(4000, 300, 20, 1000)),
        ({"placement": Placement(exclusive=True, exclude=("b",))}, Amount(8000, 200, 10, 2000)),
        ({"placement": Placement(exclusive=True), "cpus": 4}, Amount(4000, 200, 10, 1000)),
        ({"placement": Placement(exclusive=True), "cpus": 5}, Amount(8000, 200, 10, 2000)),
        ({"placement": Placement(exclusive=True), "mem": 200}, Amount(4000, 200, 10, 1000)),
        ({"placement": Placement(exclusive=True), "mem": 201}, Amount(4000, 300, 20, 1000)),
        ({"placement": Placement(exclusive=True), "gpus": 1}, Amount(4000, 200, 10, 1000)),
        ({"placement": Placement(exclusive=True), "gpus": 2}, Amount(8000, 200, 10, 2000)),
        ({"placement": Placement(exclusive=True), "tasks": 7}, Amount(7000, 700, 10, 1000)),
        ({"placement": Placement(exclusive=True), "cpus": 9}, Amount(9000, 100, 0, 0)),
    ],
)
def test_a_job_with_nodes_of_its_own_holds_at_least_the_smallest_that_suits(wishes, least):
    stage = Stage(
        [
            node("a", cpus=8, mem=200, disk=10, gpus=2),
            node("b", cpus=4, mem=300, disk=20, gpus=1),
        ]
    )

    wish = spec(**({"cpus": 1, "mem": 100} | wishes))

    assert least_on(stage.cluster, shape_of(wish)) == least


def test_a_job_may_have_a_whole_node_that_is_just_within_its_quota():
    books = Books()
    whole = Limits(cpu_milli=100_000, memory_mib=102400, device_milli=10_000)
    books.user("alice", hard=whole)

    refuse_over_quota(books.cluster, make_spec(user="alice", placement=Placement(exclusive=True)))


def test_a_request_within_its_quota_or_within_what_may_be_borrowed_is_taken():
    books = Books()
    books.user("alice", hard=Limits(device_milli=4000), soft=Limits(device_milli=1000))

    refuse_over_quota(books.cluster, make_spec(user="alice", gpus=4))
    with pytest.raises(Rejected):
        refuse_over_quota(books.cluster, make_spec(user="alice", gpus=5))


def test_counts_of_waiting_jobs_follow_them_through_their_lives():
    books = Books()
    waiting = books.cluster.accounts.waiting
    first, second = books.wait("ann", "p", type="training"), books.wait("ann", "q")
    counts = [waiting.get(("user", "ann"))]
    books.start(first)
    counts.append(waiting.get(("user", "ann")))
    books.tell(ev.JobHeld(job=second))
    counts.append(waiting.get(("user", "ann")))
    books.tell(ev.JobUpdated(job=second, spec=make_spec(user="ann", project="r")))
    books.end(first)

    assert counts == [2, 1, 1]
    assert waiting.of == {("user", "ann"): 1, ("project", "r"): 1, ("queue", "default"): 1}
    assert not [line for line in violations(books.cluster) if "counts" in line]
