"""The line that foresight plans: who is in it, how much each asks for, what comes free and when."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.job import JobSpec
from rota.core.facts.placing import Operator, Placement, Selector
from rota.core.facts.resources import Amount
from rota.core.facts.tenant import Limits, Quota, User
from rota.scheduling.answers.line_play import LinePiece, Rule
from rota.scheduling.answers.waiting_line import (
    SOON_S,
    STEP,
    WaitingLine,
    line_in_steps,
    packed,
    waiting_line,
)
from rota.testing.scene import BOB, OPERATOR, Scene


def lasts_s(spec: JobSpec, ran_s: float) -> float:
    """Jobs last as long as they may, or a minute more than they ran."""
    return spec.time_limit_s or ran_s + 60.0


def line_of(scene: Scene) -> WaitingLine:
    return waiting_line(scene.controller.scheduler, scene.now_s, lasts_s)


def size(cpus: int, mem: int = 0, gpus: int = 0) -> int:
    return packed(Amount(cpus * 1000, mem, 0, gpus * 1000))


def full() -> Scene:
    scene = Scene(cpus=4, gpus=2)
    scene.submit("hog", cpus=3, gpus=2, mem=100, time_limit_s=600)
    scene.pass_time(0)
    return scene


def test_jobs_stand_in_the_order_of_the_policy_with_what_they_ask_for():
    scene = full()
    scene.submit("late", cpus=4, gpus=1, mem=50, time_limit_s=60)
    scene.submit("first", cpus=2, time_limit_s=120, priority=70)

    line = line_of(scene)

    assert line.jobs == [scene.names["first"], scene.names["late"]]
    assert line.pieces == [
        LinePiece(size(2), 120.0, 120.0, 120.0),
        LinePiece(size(4, 50, 1), 60.0, 60.0, 60.0),
    ]


def test_every_element_of_an_array_is_in_the_line():
    scene = full()
    array = scene.submit("array", array="0-2", cpus=2, time_limit_s=30)

    line = line_of(scene)

    assert line.jobs == [array + 1, array + 2, array + 3]
    assert line.pieces == [LinePiece(size(2), 30.0, 30.0, 30.0)] * 3


def test_what_runs_gives_back_what_it_holds_when_it_ends():
    scene = full()
    scene.start("hog")
    scene.pass_time(100)

    line = line_of(scene)

    assert line.running == [LinePiece(size(3, 100, 2), 500.0, 0.0, 500.0)]
    assert line.free == packed(
        Amount(1000, *(left(scene, kind) for kind in ("memory_mib", "disk_mib")), 0)
    )


def left(scene: Scene, kind: str) -> int:
    (node,) = scene.cluster.nodes.values()
    return getattr(node.spec, kind) - (100 if kind == "memory_mib" else 0)


def test_a_job_that_outlived_its_time_leaves_soon():
    scene = full()
    scene.start("hog")
    scene.pass_time(590)

    near_its_end = line_of(scene)
    beyond_it = waiting_line(scene.controller.scheduler, scene.now_s, lambda _spec, _ran: 60.0)

    assert [piece.run_s for piece in near_its_end.running] == [10.0]
    assert [piece.run_s for piece in beyond_it.running] == [SOON_S]


def test_a_job_that_has_not_started_yet_has_all_of_its_time_before_it():
    scene = full()

    assert [piece.run_s for piece in line_of(scene).running] == [600.0]


def test_a_node_that_takes_no_work_has_nothing_free():
    scene = Scene(cpus=4)
    before = line_of(scene).free
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True, note=""))

    assert before > 0
    assert line_of(scene).free == 0


def test_jobs_that_a_limit_holds_back_are_in_nobodys_way():
    scene = full()
    alice = User("alice", quota=Quota(hard=Limits(cpu_milli=3000)))
    scene.ask(cmd.SetUser(actor=OPERATOR, user=alice))
    scene.submit("capped", cpus=1, time_limit_s=60)
    scene.submit("waits", actor=BOB, cpus=2, time_limit_s=60)

    assert line_of(scene).jobs == [scene.names["waits"]]


def test_jobs_that_no_node_can_have_are_in_nobodys_way():
    scene = full()
    nowhere = Placement(selectors=(Selector("rack", Operator.EQ, ("nowhere",)),))
    scene.submit("placed nowhere", cpus=4, placement=nowhere)
    scene.submit("waits", cpus=2, time_limit_s=60)

    assert line_of(scene).jobs == [scene.names["waits"]]


def two_nodes() -> Scene:
    """``box1`` is taken for ten minutes, ``box2`` is idle."""
    scene = Scene(cpus=4, nodes=2)
    scene.submit("hog", cpus=4, time_limit_s=600, placement=Placement(nodes=("box1",)))
    scene.start("hog")
    return scene


def waits_s(scene: Scene) -> dict[str, float]:
    line = line_of(scene)
    names = {job: name for name, job in scene.names.items()}
    return dict(zip(map(names.__getitem__, line.jobs), line.play(), strict=True))


@pytest.mark.parametrize("bound", [{"nodes": ("box1",)}, {"exclude": ("box2",)}])
def test_a_job_waits_for_the_nodes_that_it_may_use_and_not_for_idle_ones_beside(bound):
    scene = two_nodes()
    scene.submit("bound", cpus=4, time_limit_s=60, placement=Placement(**bound))
    scene.submit("behind", cpus=4, time_limit_s=60, placement=Placement(**bound))

    assert waits_s(scene) == {"bound": 600.0, "behind": 660.0}


def test_what_is_bound_to_some_nodes_takes_their_room_from_jobs_that_may_use_more():
    scene = two_nodes()
    scene.submit("filler", cpus=4, time_limit_s=900)
    scene.submit("bound", cpus=4, time_limit_s=60, placement=Placement(nodes=("box1",)))
    scene.submit("free", cpus=4, time_limit_s=60)

    assert waits_s(scene) == {"bound": 600.0, "free": 660.0}


def test_what_runs_on_a_drained_node_leaves_no_room_when_it_ends():
    scene = two_nodes()
    scene.submit("filler", cpus=4, time_limit_s=900)
    scene.submit("waits", cpus=4, time_limit_s=60)
    scene.submit("bound", cpus=4, time_limit_s=60, placement=Placement(nodes=("box1",)))
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box1", drained=True, note=""))

    assert waits_s(scene) == {"waits": 900.0}


def test_of_parts_of_a_site_beyond_a_number_nothing_is_said(monkeypatch):
    monkeypatch.setattr("rota.scheduling.answers.waiting_line.PARTS_MAX", 2)
    scene = two_nodes()
    scene.submit("filler", cpus=4, time_limit_s=900)
    for number in (1, 2):
        at = Placement(nodes=(f"box{number}",))
        scene.submit(f"at {number}", cpus=4, time_limit_s=60, placement=at)

    assert waits_s(scene) == {"at 1": 600.0, "at 2": float("inf")}


def test_a_job_that_wants_a_node_to_itself_waits_for_all_of_one():
    scene = full()
    scene.start("hog")
    scene.submit("alone", cpus=1, time_limit_s=60, placement=Placement(exclusive=True))

    assert waits_s(scene) == {"alone": 600.0}


def test_the_plan_of_the_line_is_what_a_pass_would_do_on_one_node():
    scene = full()
    scene.start("hog")
    scene.submit("next", cpus=4, time_limit_s=60)
    scene.submit("last", cpus=4, time_limit_s=60)

    assert waits_s(scene) == {"next": 600.0, "last": 660.0}


def test_jobs_last_as_long_as_such_jobs_do_and_pass_by_what_the_policy_takes_them_to():
    scene = full()
    scene.submit("long", cpus=4, time_limit_s=60)

    line = waiting_line(scene.controller.scheduler, scene.now_s, lambda _spec, _ran: 7.0)

    assert line.rule is Rule.SHORTEST
    assert line.pieces == [LinePiece(size(4), 7.0, 60.0, 60.0)]
    assert [(piece.run_s, piece.stays_s) for piece in line.running] == [(7.0, 600.0)]


def test_a_long_line_is_looked_at_in_short_steps_while_jobs_start_and_leave():
    scene = full()
    array = scene.submit("array", array=f"0-{3 * STEP}", cpus=4, gpus=1, time_limit_s=30)
    scene.submit("behind", cpus=4, gpus=2, time_limit_s=60)
    asked = 0

    def counted(spec: JobSpec, ran_s: float) -> float:
        nonlocal asked
        asked += 1
        return lasts_s(spec, ran_s)

    steps = line_in_steps(scene.controller.scheduler, scene.now_s, counted)
    next(steps)
    most = asked
    scene.finish("hog")
    scene.cancel("behind")
    for _ in steps:
        most, asked = max(most, asked), 0

    assert 0 < most <= 2 * STEP
    assert line_of(scene).jobs[0] == array + 2


def test_a_line_in_steps_is_the_line():
    scene = full()
    for number in range(STEP + 5):
        scene.submit(f"job{number}", cpus=4, time_limit_s=60 + number % 7)
    steps, line = line_in_steps(scene.controller.scheduler, scene.now_s, lasts_s), None
    try:
        while True:
            next(steps)
    except StopIteration as done:
        line = done.value

    assert line == line_of(scene)
    assert len(line.jobs) == STEP + 5


def test_a_job_that_waits_lasts_as_long_as_one_that_has_not_begun():
    scene = full()
    scene.submit("waits", cpus=4)

    line = waiting_line(
        scene.controller.scheduler, scene.now_s, lambda spec, ran_s: 100.0 if not ran_s else 7.0
    )

    assert line.pieces[-1].run_s == 100.0
