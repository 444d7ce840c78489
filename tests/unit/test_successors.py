"""Short jobs are placed behind short ones on their node before these have ended."""

import msgspec
import pytest

from rota.controller import commands as cmd
from rota.core.changes.compare import differences, fold
from rota.core.derived.brisk import BRISK_S, ENOUGH
from rota.core.facts.job import Role
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import Placement, Taint
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.core.facts.tenant import Queue
from rota.rpc.messages import Seen, Sighting
from rota.scheduling.successors import LINE
from rota.testing.scene import ADMIN, ALICE, BOB, OPERATOR, Scene


def rush(count: int = 40, *, cpus: int = 2, lease_s: float = 0.0, **wishes: object) -> Scene:
    """A box, many equal jobs, and enough of them over at once for the rest to be trusted."""
    scene = Scene(cpus=cpus, gpus=2, lease_s=lease_s)
    for number in range(count):
        scene.submit(f"j{number}", **wishes)
    for number in range(ENOUGH):
        scene.finish(f"j{number}")
    return scene


def in_line(scene: Scene) -> list[str]:
    """The names of those who wait on the node for others to end, in the order of their coming."""
    return [name for name in scene.names if not _uids(scene, name).isdisjoint(scene.in_line)]


def _uids(scene: Scene, name: str) -> set[str]:
    job = scene.job(name)
    return {attempt.uid for task in job.tasks for attempt in task.attempts}


def test_short_jobs_stand_in_rows_behind_those_that_run() -> None:
    scene = rush()

    states = [scene.state(f"j{number}") for number in (4, 5, 6, 7)]
    assert states == ["running", "running", "scheduled", "scheduled"]
    assert in_line(scene) == [f"j{number}" for number in range(6, 6 + 2 * LINE)]
    assert scene.cluster.nodes["box"].headroom().cpu_milli == 0


def test_a_row_moves_up_as_its_first_ends_without_a_word_from_the_controller() -> None:
    scene = rush()

    scene.finish("j4")
    scene.finish("j5")

    assert [scene.state(f"j{n}") for n in (4, 5, 6, 7, 8)] == [
        *["completed"] * 2,
        *["running"] * 2,
        "scheduled",
    ]
    assert differences(fold(scene.store.all_events()), scene.cluster) == []


def test_all_of_a_rush_end_in_the_order_in_which_they_came() -> None:
    scene = rush(60)

    for number in range(ENOUGH, 60):
        assert scene.state(f"j{number}") == "running", number
        scene.finish(f"j{number}")

    assert not scene.cluster.jobs


@pytest.mark.parametrize(
    "wishes",
    [
        {"gpus": 1},
        {"tasks": 2},
        {"placement": Placement(exclusive=True)},
    ],
    ids=["with a device", "a gang", "alone on its node"],
)
def test_jobs_with_needs_of_their_own_wait_until_room_is_free(wishes: dict) -> None:
    scene = rush(12, **wishes)

    assert in_line(scene) == []


def test_nobody_stands_in_line_while_somebody_else_waits() -> None:
    scene = Scene(cpus=2)
    for number in range(20):
        scene.submit(f"j{number}")
    scene.submit("other", actor=BOB, priority=1)

    for number in range(8):
        scene.finish(f"j{number}")

    assert in_line(scene) == []


def test_jobs_that_take_longer_are_not_stood_in_line_behind() -> None:
    scene = Scene(cpus=2)
    for number in range(20):
        scene.submit(f"j{number}")
    for number in range(8):
        uid = scene.job(f"j{number}").tasks[0].attempts[-1].uid
        began_s, scene.now_s = scene.now_s, scene.now_s + 2 * BRISK_S
        scene.alive.pop(uid)
        ended = Seen(uid, Sighting.ENDED, started_s=began_s, ended_s=scene.now_s, exit_code=0)
        scene.report(ended, node="box")

    assert in_line(scene) == []


def test_nodes_with_a_lease_are_told_of_nothing_ahead() -> None:
    scene = rush(lease_s=60.0)

    assert in_line(scene) == []


def test_a_row_is_no_way_past_a_cap_or_a_quota() -> None:
    scene = Scene(cpus=4)
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="default", max_running=3)))
    for number in range(20):
        scene.submit(f"j{number}")
    for number in range(8):
        scene.finish(f"j{number}")
        active = [n for n in scene.names if scene.state(n) in ("running", "scheduled")]

        assert len(active) == 3


def test_a_launch_that_is_given_back_waits_again_and_uses_up_no_retry() -> None:
    scene = rush()
    late = in_line(scene)
    first = scene.job(late[0])

    uid = first.tasks[0].attempts[-1].uid
    del scene.in_line[uid]
    given = Seen(uid, Sighting.ENDED, ended_s=scene.now_s, cause=Cause.REQUEUED)
    scene.report(given, node="box")

    assert scene.state(late[0]) == "queued"
    assert (first.retries_used, first.eligible_s) == (0, first.submitted_s)
    assert first.restarts(2) == 0
    assert late[0] not in in_line(scene)


def test_whoever_is_cancelled_in_line_leaves_the_others_their_turn() -> None:
    scene = rush()
    late = in_line(scene)

    scene.cancel(late[0])

    assert scene.state(late[0]) == "cancelled"
    for number in range(ENOUGH, 40):
        if f"j{number}" != late[0]:
            scene.finish(f"j{number}")
    assert not scene.cluster.jobs


def test_a_new_controller_knows_who_stands_in_line() -> None:
    scene = rush()
    late = in_line(scene)

    scene.restart()

    assert in_line(scene) == late
    for number in range(ENOUGH, 40):
        scene.finish(f"j{number}")
    assert not scene.cluster.jobs


def test_a_new_controller_keeps_rows_in_which_an_older_job_stands_behind_younger_ones() -> None:
    scene = Scene(cpus=2)
    scene.submit("held", hold=True)
    for number in range(60):
        scene.submit(f"j{number}")
    for number in range(6):
        scene.finish(f"j{number}")
    scene.release("held")
    left = iter(range(6, 60))
    while scene.state("held") == "queued":
        scene.finish(f"j{next(left)}")

    scene.restart()

    for number in left:
        scene.finish(f"j{number}")
        assert len(scene.alive) <= 2


def test_a_node_that_is_tainted_gets_nobody_new_in_line() -> None:
    scene = rush(80)
    there = {*scene.cluster.live.where}

    scene.ask(cmd.MarkNode(actor=ADMIN, node="box", taints=(Taint("broken"),)))
    while scene.alive:
        scene.end(next(iter(scene.alive)), 0, 0)
        assert {*scene.cluster.live.where} <= there

    assert [scene.state(f"j{number}") for number in (22, 79)] == ["queued", "queued"]


def test_room_that_others_leave_is_used_and_not_only_stood_in_line_for() -> None:
    scene = Scene(cpus=4)
    scene.submit("other", cpus=3)
    for number in range(60):
        scene.submit(f"j{number}")
    for number in range(6):
        scene.finish(f"j{number}")

    scene.finish("other")
    for number in range(6, 30):
        scene.finish(f"j{number}")

    assert len(scene.alive) == 4


def test_nobody_stands_in_line_where_jobs_may_be_evicted() -> None:
    scene = Scene(cpus=2)
    scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive"))
    for number in range(20):
        scene.submit(f"j{number}")
    for number in range(8):
        scene.finish(f"j{number}")

    assert in_line(scene) == []


def test_nobody_stands_in_line_while_a_gang_may_grow_into_the_room() -> None:
    scene = Scene(cpus=6)
    scene.set_policy(gang_grow=True)
    scene.submit("wide", cpus=5)
    gang = scene.submission("gang")
    role = Role(count=3, min_count=1, request=Request(cpu_milli=1000))
    spec = msgspec.structs.replace(gang.spec, roles=(role,))
    gang = msgspec.structs.replace(gang, spec=spec)
    scene.ask(cmd.Submit(actor=ALICE, submissions=(gang,), key=""))
    for number in range(20):
        scene.submit(f"j{number}", cpus=2)
    scene.add_node(NodeSpec("second", 2000, 16384, 10240, cpus=(0, 1)))
    for number in range(ENOUGH):
        scene.finish(f"j{number}")

    scene.finish("wide")

    box = scene.cluster.nodes["box"]
    assert in_line(scene) == []
    assert sum(box.live[uid].cpu_milli for uid in scene.alive if uid in box.live) <= 6000


def test_rows_end_with_those_whom_a_node_has_outgrown() -> None:
    scene = Scene(cpus=2)
    scene.set_policy(place_overcommit_cpu=2)
    for number in range(80):
        scene.submit(f"j{number}")
    for number in range(8):
        scene.finish(f"j{number}")
    there = {*scene.cluster.live.where}

    scene.set_policy(place_overcommit_cpu=1)
    while there & scene.alive.keys():
        scene.end(next(iter(scene.alive)), 0, 0)

    assert scene.alive
    assert scene.cluster.nodes["box"].headroom().cpu_milli >= 0
