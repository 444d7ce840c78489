"""When a waiting job is told that it will start; what is kept for the answer is bounded."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.placing import Affinity, Placement
from rota.core.facts.policy import Backfill, BackfillRules, OrderRules, Policy
from rota.core.facts.states import Cause
from rota.core.facts.tenant import Limits, Quota, Reservation, User
from rota.core.words.presets import PRESETS
from rota.scheduling.later.timeline import OVERDUE_S
from rota.testing.stage import Stage, node, role, spec

HOUR_S = 3600


def a_stage(*nodes, kind: Backfill = Backfill.EASY, depth: int = 0) -> Stage:
    order = OrderRules(primary="fifo", secondary="fifo")
    return Stage(nodes, Policy(order=order, backfill=BackfillRules(kind=kind, depth=depth)))


def promises(stage: Stage) -> dict[int, float]:
    """What the last pass promised, in seconds from the beginning."""
    return {p.job: p.start_s - stage.begin_s for p in stage.plans[-1][1].promises}


def reserve(stage: Stage, start_s: float, end_s: float, *names: str) -> None:
    begin_s = stage.begin_s
    stage.reserve(Reservation(1000, "bob", begin_s + start_s, begin_s + end_s, nodes=names))


@pytest.mark.parametrize("kind", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_a_job_without_a_limit_is_promised_a_start_behind_a_reservation(kind):
    stage = a_stage(node("a"), kind=kind)
    reserve(stage, 36_000, 39_600, "a")
    stage.submit(spec(cpus=1, time_limit_s=18_600))
    wide = stage.submit(spec(cpus=4), runs_s=600)
    stage.submit_later(1_000, spec(cpus=3, time_limit_s=5 * HOUR_S))

    stage.run()
    first = promises(stage)
    stage.step()
    between = promises(stage)
    stage.play()

    assert first[wide] == between[wide] == 39_600
    assert stage.started_s[wide] == stage.begin_s + 39_600
    # Nothing is kept empty before the reservation for a job that may not start there.
    assert stage.started_s[wide + 1] == stage.begin_s + 1_000


def test_a_job_without_a_limit_is_promised_a_node_that_no_reservation_binds():
    stage = a_stage(node("a"), node("b"))
    reserve(stage, 10 * HOUR_S, 11 * HOUR_S, "a")
    stage.submit(spec(cpus=4, time_limit_s=1_000))
    other = stage.submit(spec(cpus=4, time_limit_s=2_000))
    wide = stage.submit(spec(cpus=4), runs_s=600)

    stage.run()
    on_b = other if stage.nodes_of(other) == ["b"] else other - 1
    stage.play()

    assert stage.started_s[wide] == stage.promised_s[wide] == stage.ended_s[on_b]


def test_a_short_estimate_does_not_let_a_job_be_promised_room_that_its_limit_outlasts():
    stage = a_stage(node("a", gpus=2))
    reserve(stage, 2 * HOUR_S, 3 * HOUR_S, "a")
    stage.submit(spec(gpus=2, time_limit_s=HOUR_S))
    wide = stage.submit(spec(gpus=2, estimate_s=60, time_limit_s=2 * HOUR_S), runs_s=60)

    stage.run()
    stage.play()

    assert stage.started_s[wide] == stage.promised_s[wide] == stage.begin_s + 3 * HOUR_S


def test_the_owner_of_a_reservation_is_promised_a_start_in_it_without_a_limit():
    stage = a_stage(node("a"))
    reserve(stage, HOUR_S, 9 * HOUR_S, "a")
    stage.submit(spec(cpus=4, time_limit_s=1_800))
    wide = stage.submit(spec(cpus=4, user="bob"), runs_s=600)

    stage.run()
    stage.play()

    assert stage.started_s[wide] == stage.promised_s[wide] == stage.begin_s + 1_800


def overstaying(stage: Stage, **wishes) -> None:
    """One attempt per node that is told to go, has ten seconds for it, and does not leave then."""
    for _ in stage.cluster.nodes:
        stage.submit(spec(time_limit_s=HOUR_S, grace_s=10, **wishes), runs_s=HOUR_S)
    stage.run()
    for uid, (job, task) in stage.cluster.live.where.items():
        cause = Cause.PREEMPTED
        stage.tell(ev.AttemptStopAsked(job=job, task=task, uid=uid, cause=cause))


@pytest.mark.parametrize(
    "wide",
    [
        {"cpus": 4, "tasks": 2},
        {"gpus": 2},
        {"gpus": 1, "tasks": 4},
        {"gpus": 1, "gpu_mem": 30_000, "tasks": 4},
        {"cpus": 1, "placement": Placement(exclusive=True)},
        {"cpus": 4},
    ],
)
def test_behind_an_attempt_that_outstays_its_time_a_start_is_promised_soon(wide):
    stage = a_stage(node("a", gpus=2), node("b", gpus=2))
    overstaying(stage, cpus=2, gpus=2)
    job = stage.submit(spec(**wide, time_limit_s=600))
    stage.submit_later(50, spec(cpus=4, gpus=2, time_limit_s=60))

    stage.run()
    on_time = promises(stage)
    while stage.now_s < stage.begin_s + 50:
        stage.step()

    assert on_time == {job: 10}
    assert promises(stage) == {job: 50 + OVERDUE_S}


def test_two_roles_wait_for_the_moment_at_which_both_have_room():
    stage = a_stage(node("a", gpus=2), node("b"))
    stage.submit(spec(gpus=2, time_limit_s=100))
    stage.submit(spec(cpus=4, time_limit_s=200))
    both = spec(role(name="trainer", gpus=2), role(name="loader", cpus=4), time_limit_s=60)

    stage.run()
    job = stage.submit(both)
    stage.run()

    assert promises(stage) == {job: 200}


@pytest.mark.parametrize("kind", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_all_roles_of_a_job_start_together_on_the_node_that_it_was_promised_for_itself(kind):
    stage = a_stage(node("a"), kind=kind)
    stage.submit(spec(cpus=1, time_limit_s=100))
    roles = (role(name="one", cpus=2), role(name="two", cpus=2))
    alone = stage.submit(spec(*roles, placement=Placement(exclusive=True), time_limit_s=60))
    stage.submit(spec(cpus=4, time_limit_s=60))

    stage.play()

    assert stage.started_s[alone] == stage.promised_s[alone] == stage.begin_s + 100


@pytest.mark.parametrize("kind", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_asking_when_jobs_will_start_changes_nothing_about_when_they_do(kind):
    started = []
    for asks in (False, True):
        stage = a_stage(node("a"), node("b", gpus=1), kind=kind, depth=1)
        for number in range(40):
            wishes = {"cpus": 1 + number % 4, "tasks": 1 + number % 2, "gpus": number % 3 == 2}
            stage.submit_later(number * 20.0, spec(**wishes, time_limit_s=90), 50 + number % 3 * 20)
        while stage.step():
            for job in stage.waiting if asks else ():
                stage.scheduler.promise_of(job)
        started.append(stage.started_s)

    assert len(started[0]) > 20
    assert started[0] == started[1]


@pytest.mark.parametrize("preset", ["default", "easy", "conservative", "fifo"])
def test_what_is_known_of_the_future_does_not_grow_with_jobs_that_are_over(preset):
    stage = Stage([node("a"), node("b", gpus=1)], PRESETS[preset], checked=False)
    # One job has to wait at first, so that what comes after it has something to add to.
    stage.submit(spec(cpus=4, tasks=2, time_limit_s=5))
    stage.submit(spec(cpus=4, tasks=2, time_limit_s=5))
    for number in range(1, 1_501):
        limit_s = 12 + number % 7
        stage.submit_later(number * 10.0, spec(cpus=1, gpus=number % 2, time_limit_s=limit_s), 9)

    stage.play()

    scheduler = stage.scheduler
    sizes: dict[str, int] = {}
    for part in (scheduler.timeline, scheduler.promises, scheduler._departures):
        _measure(part, sizes)
    assert {name: size for name, size in sizes.items() if size > 64} == {}


def _measure(part: object, sizes: dict[str, int]) -> None:
    """The largest of all containers below, by where they stand."""
    names = [*getattr(part, "__dict__", ()), *getattr(part, "__slots__", ())]
    for name in names:
        _add_up(getattr(part, name), f"{type(part).__name__}.{name}", sizes)


def _add_up(value: object, where: str, sizes: dict[str, int]) -> None:
    if isinstance(value, dict | list | tuple):
        sizes[where] = max(sizes.get(where, 0), len(value))
        for one in value.values() if isinstance(value, dict) else value:
            _add_up(one, where, sizes)
    elif type(value).__module__.startswith("rota.scheduling.later"):
        _measure(value, sizes)


def test_no_start_is_promised_beside_a_neighbour_that_the_job_avoids():
    stage = a_stage(node("a"), node("b"))
    stage.submit(spec(cpus=1, labels={"app": "web"}, time_limit_s=10 * HOUR_S))
    stage.submit(spec(cpus=3, time_limit_s=600))
    stage.submit(spec(cpus=4, time_limit_s=HOUR_S))
    apart = Placement(affinities=(Affinity("app", "web", apart=True),))
    job = stage.submit(spec(cpus=3, placement=apart, time_limit_s=60))

    stage.play()

    assert stage.promised_s[job] == stage.started_s[job] == stage.begin_s + HOUR_S


@pytest.mark.parametrize(
    "choice", [{"nodes": ("b",)}, {"exclude": ("a",)}, {"exclusive": True, "nodes": ("b",)}]
)
def test_a_start_is_promised_on_a_node_that_the_job_may_use(choice):
    stage = a_stage(node("a"), node("b"))
    for limit_s, name in ((600, "a"), (HOUR_S, "b")):
        stage.submit(spec(cpus=4, placement=Placement(nodes=(name,)), time_limit_s=limit_s))
    job = stage.submit(spec(cpus=4, placement=Placement(**choice), time_limit_s=60))

    stage.play()

    assert stage.promised_s[job] == stage.started_s[job] == stage.begin_s + HOUR_S


def test_nodes_that_are_too_large_for_a_quota_are_promised_to_no_job_alone():
    stage = a_stage(node("large", cpus=8), node("small"))
    stage.tell(ev.UserSet(user=User("bob", quota=Quota(hard=Limits(cpu_milli=4_000)))))
    for cpus, limit_s in ((8, 600), (4, HOUR_S)):
        stage.submit(spec(cpus=cpus, time_limit_s=limit_s))
    alone = Placement(exclusive=True)
    job = stage.submit(spec(cpus=2, user="bob", placement=alone, time_limit_s=60))

    stage.play()

    assert stage.promised_s[job] == stage.started_s[job] == stage.begin_s + HOUR_S


def test_another_scheduler_leaves_a_job_that_has_waited_too_long_with_its_nodes():
    policy = Policy(
        order=OrderRules(primary="fifo", secondary="fifo", wait_max_s=HOUR_S),
        backfill=BackfillRules(kind=Backfill.EASY),
    )
    found = []
    for anew in (False, True):
        stage = Stage([node("a"), node("b")], policy)
        stage.submit(spec(cpus=1, time_limit_s=2 * HOUR_S))
        late = stage.submit(spec(cpus=4, time_limit_s=3 * HOUR_S, grace_s=60))
        wide = stage.submit(spec(cpus=4, time_limit_s=HOUR_S))
        stage.run()
        stage.now_s += 1.8 * HOUR_S
        stage.cluster.rules_changed()
        stage.run()
        if anew:
            stage.scheduler = stage.scheduler.another()
        (attempt,) = stage.cluster.jobs[late].live_attempts
        cause = Cause.PREEMPTED
        stage.tell(ev.AttemptStopAsked(job=late, task=0, uid=attempt.uid, cause=cause))
        plan = stage.run()
        found += [(p.start_s - stage.begin_s, p.allocations) for p in plan.promises]

    assert [(at_s, held[0].node) for at_s, held in found] == [(2 * HOUR_S, "a")] * 2
    assert wide in stage.waiting
