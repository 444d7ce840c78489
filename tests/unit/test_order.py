"""Which of the waiting jobs starts first: order, skipping, priorities, queues."""

from functools import partial

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.engine import Asked
from rota.core.changes.events import AttemptPlaced
from rota.core.facts.tenant import Queue
from rota.testing.scene import BOB, OPERATOR, Scene
from tests.support.effort import calls_of


def started(scene: Scene) -> list[int]:
    """The jobs in the order in which they were given room."""
    return [event.job for event in scene.log if isinstance(event, AttemptPlaced)]


def test_jobs_of_one_size_start_in_the_order_of_their_submission():
    scene = Scene(cpus=1)
    jobs = [scene.submit() for _ in range(5)]

    for job in jobs:
        scene.finish(job)

    assert started(scene) == jobs


def test_a_job_that_does_not_fit_lets_smaller_ones_behind_it_start():
    scene = Scene(cpus=4)
    scene.set_policy("fifo")
    scene.submit("runs", cpus=3, time_limit_s=60)

    scene.submit("too big for now", cpus=4)
    scene.submit("small", cpus=1, time_limit_s=3600)

    assert scene.states("too big for now", "small") == ["queued", "running"]


def test_a_skipped_job_keeps_its_place_before_later_ones_of_its_size():
    scene = Scene(cpus=4)
    scene.set_policy("fifo")
    scene.submit("runs", cpus=3)
    scene.submit("skipped", cpus=3)
    scene.submit("small", cpus=1)
    scene.submit("as big, but later", actor=BOB, priority=75, cpus=3)
    scene.submit("small, but later", actor=BOB, cpus=1)

    scene.finish("small")
    scene.finish("runs")

    turns = ("runs", "small", "small, but later", "skipped")
    assert started(scene) == [scene.names[name] for name in turns]
    assert scene.state("as big, but later") == "queued"


def test_after_the_room_is_given_back_the_skipped_job_comes_before_a_smaller_later_one():
    scene = Scene(cpus=2)
    scene.submit("runs", cpus=2)
    scene.submit("big", cpus=2)
    scene.submit("small", cpus=1)

    scene.finish("runs")

    assert scene.states("big", "small") == ["running", "queued"]


def test_jobs_placed_earlier_in_a_pass_reduce_the_room_of_later_ones():
    scene = Scene(cpus=4)
    batch = tuple(scene.submission(cpus=3) for _ in range(2))

    answer = scene.ask(cmd.Submit(actor=OPERATOR, submissions=batch))

    assert scene.states(*answer.ids) == ["running", "queued"]
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 1000


def test_a_higher_priority_starts_before_earlier_jobs():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("low", priority=25)
    scene.submit("normal", priority=50)
    scene.submit("high", priority=75)

    for name in ("runs", "high", "normal"):
        scene.finish(name)

    assert started(scene) == [scene.names[n] for n in ("runs", "high", "normal", "low")]


def test_a_job_of_high_priority_and_another_shape_still_comes_first():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=4)
    scene.submit("earlier", cpus=1)
    scene.submit("high", cpus=4, priority=75)

    scene.finish("runs")

    assert scene.states("high", "earlier") == ["running", "queued"]


def test_a_queue_of_higher_priority_goes_before_any_priority_in_a_lower_one():
    scene = Scene(cpus=1)
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="express", priority=90)))
    scene.submit("runs")
    scene.submit("high", priority=75)
    scene.submit("express", queue="express", priority=0)

    scene.finish("runs")

    assert scene.states("express", "high") == ["running", "queued"]


def test_a_changed_priority_moves_a_waiting_job():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("first")
    scene.submit("second")

    scene.update("second", priority=60)
    scene.finish("runs")

    assert scene.states("first", "second") == ["queued", "running"]


def test_a_job_that_shrinks_by_an_update_starts_at_once():
    scene = Scene(cpus=4)
    scene.submit("runs", cpus=3)
    scene.submit("big", cpus=2)

    scene.update("big", roles=scene.submission(cpus=1).spec.roles)

    assert scene.is_running("big")


def test_four_jobs_of_two_cpus_run_two_at_a_time_on_four_cpus():
    scene = Scene(cpus=4)
    jobs = [scene.submit(cpus=2) for _ in range(4)]
    first_pair = scene.states(*jobs)

    scene.pass_time(2)
    for job in jobs[:2]:
        scene.finish(job)

    assert first_pair == ["running", "running", "queued", "queued"]
    assert scene.states(*jobs) == ["completed", "completed", "running", "running"]


def test_more_starts_than_one_tick_may_decide_go_on_in_the_next_one():
    scene = Scene(cpus=600)

    array = scene.submit("many", array="0-499")

    assert len(scene.cluster.live.where) == 500
    assert started(scene) == [array + 1 + n for n in range(500)]


def work_of_tick(scene: Scene, *inbox: Asked) -> int:
    return calls_of(partial(scene.controller.tick, scene.now_s, inbox))


@pytest.mark.parametrize("shape", [{"cpus": 1}, {"cpus": 1, "array": "0-9"}])
def test_the_work_of_a_submit_does_not_grow_with_the_jobs_that_wait_already(shape):
    work = {}

    for waiting in (10, 2000):
        scene = Scene(cpus=1)
        scene.submit("runs")
        many = tuple(scene.submission(**shape) for _ in range(waiting))
        scene.ask(cmd.Submit(actor=OPERATOR, submissions=many))
        one = Asked(1, cmd.Submit(actor=OPERATOR, submissions=(scene.submission(cpus=1),)))
        work[waiting] = work_of_tick(scene, one)

    assert work[2000] <= work[10] + 5


def test_the_work_of_a_pass_does_not_grow_with_equal_jobs_that_wait_behind_the_first():
    work = {}

    for waiting in (10, 2000):
        scene = Scene(cpus=1)
        scene.submit("runs")
        many = tuple(scene.submission(cpus=1) for _ in range(waiting))
        scene.ask(cmd.Submit(actor=OPERATOR, submissions=many))
        scene.cluster.rules_changed()
        work[waiting] = work_of_tick(scene)

    assert work[2000] <= work[10] + 5


def test_shapes_that_no_eviction_helps_are_not_searched_for_when_a_job_ends():
    work = {}

    for shapes in (10, 110):
        scene = Scene(cpus=4)
        scene.set_policy("preemptive", preempt_min_runtime_s=0)
        scene.submit("stays", cpus=3, preemptible=True)
        scene.submit("ends", cpus=1, preemptible=True)
        many = tuple(scene.submission(cpus=4, mem=n) for n in range(1, shapes + 1))
        scene.ask(cmd.Submit(actor=OPERATOR, submissions=many))
        scene.cluster.rules_changed()
        scene.tick()
        before = scene.controller.scheduler.looks
        work[shapes] = calls_of(partial(scene.finish, "ends"))
        assert scene.controller.scheduler.looks > before

    assert work[110] - work[10] < 100 * 60


def test_what_victims_leave_is_offered_to_the_waiting_shapes_once_for_all_evictions():
    more = {}

    for urgent in (2, 7):
        work = []
        for shapes in (10, 60):
            scene = Scene(cpus=8)
            scene.set_policy("preemptive", preempt_min_runtime_s=0)
            for number in range(8):
                scene.submit(f"runs{number}", cpus=1, priority=25, preemptible=True)
            waiting = [scene.submission(cpus=8, mem=n, priority=25) for n in range(shapes)]
            scene.ask(cmd.Submit(actor=OPERATOR, submissions=tuple(waiting)))
            burst = tuple(scene.submission(cpus=1, priority=90) for _ in range(urgent))
            asked = partial(scene.ask, cmd.Submit(actor=OPERATOR, submissions=burst))
            work.append(calls_of(asked))
            first = 8 + shapes + 1
            assert scene.cluster.lanes.where.keys().isdisjoint(range(first, first + urgent))
        more[urgent] = work[1] - work[0]

    assert more[7] < 1.5 * more[2]


def test_lanes_that_may_pass_the_first_are_not_opened_to_be_put_in_order():
    work = {}

    for lanes in (20, 120):
        scene = Scene(cpus=8)
        scene.set_policy("default")
        scene.submit("stays", cpus=6, time_limit_s=86400)
        scene.submit("ends", cpus=2, time_limit_s=86400)
        scene.submit("wide", cpus=8, time_limit_s=60)
        narrow = [scene.submission(cpus=2, time_limit_s=600 + n) for n in range(lanes)]
        scene.ask(cmd.Submit(actor=OPERATOR, submissions=tuple(narrow)))
        work[lanes] = calls_of(partial(scene.finish, "ends"))
        assert started(scene)[-1] == 4

    assert work[120] - work[20] < 100 * 75


def test_a_tick_without_news_looks_at_no_waiting_job():
    scene = Scene(cpus=1)
    scene.submit("runs")
    many = tuple(scene.submission(mem=n) for n in range(100))
    scene.ask(cmd.Submit(actor=OPERATOR, submissions=many))

    first, second = work_of_tick(scene), work_of_tick(scene)

    assert not scene.controller.scheduler.waits.open
    assert first == second < 80
