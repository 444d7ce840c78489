"""Jobs of several tasks: all or nothing, and one failure is everybody's."""

import pytest

from rota.core.facts.errors import Rejected
from rota.core.facts.job import Role
from rota.core.facts.placing import Placement
from rota.core.facts.resources import Request
from rota.core.facts.states import Cause
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import Scene


def test_a_gang_starts_only_when_there_is_room_for_all_of_it():
    scene = Scene(cpus=4)
    scene.submit("hog", cpus=2)
    scene.submit("gang", tasks=3, cpus=1)
    waiting = (scene.state("gang"), len(scene.cluster.live.where))

    scene.finish("hog")

    assert waiting == ("queued", 1)
    assert scene.is_running("gang")
    assert len(scene.cluster.live.where) == 3


def test_a_gang_that_waits_leaves_no_trace_in_the_room_of_others():
    scene = Scene(cpus=4)
    scene.submit("hog", cpus=2)
    scene.submit("gang", tasks=3, cpus=1)

    scene.submit("small", cpus=2)

    assert scene.is_running("small")


def test_a_gang_spreads_over_nodes_when_one_is_too_small():
    scene = Scene(nodes=2, cpus=2)

    scene.submit("gang", tasks=3, cpus=1)

    nodes = [task.attempts[0].allocation.node for task in scene.job("gang").tasks]
    assert nodes == ["box1", "box1", "box2"]


def test_a_gang_runs_as_soon_as_one_task_does_and_completes_with_the_last():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2)

    scene.finish("gang", task=0)
    between = scene.state("gang")
    scene.finish("gang", task=1)

    assert between == "running"
    assert scene.state("gang") == "completed"


def test_one_failing_task_stops_its_peers_and_is_named_as_the_cause():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=3)

    scene.finish("gang", code=5, task=1)
    asked = set(scene.stopping)
    scene.finish("gang", signal=15)

    uids = [task.attempts[0].uid for task in scene.job("gang").tasks]
    causes = [task.attempts[0].cause for task in scene.job("gang").tasks]
    assert asked == {uids[0], uids[2]}
    assert causes == [Cause.PEER_FAILED, Cause.EXIT, Cause.PEER_FAILED]
    assert scene.cause("gang") == "exit: exit code 5"
    assert scene.job("gang").tasks[0].attempts[0].detail == "task 1 failed"


def test_of_two_failures_that_are_heard_of_at_once_the_earlier_one_is_the_cause():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2)
    early, late = (task.attempts[0].uid for task in scene.job("gang").tasks)
    scene.pass_time(10)
    scene.alive.clear()

    scene.report(
        Seen(late, Sighting.ENDED, started_s=1000, ended_s=1009, exit_code=9),
        Seen(early, Sighting.ENDED, started_s=1000, ended_s=1003, exit_code=3),
        node="box",
    )

    assert scene.cause("gang") == "exit: exit code 3"
    assert [task.attempts[0].exit_code for task in scene.job("gang").tasks] == [3, 9]


def test_a_gang_is_retried_as_a_whole_under_the_next_number():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2, retries=1, backoff_s=0)

    scene.finish("gang", code=1, task=0)
    scene.finish("gang", signal=15)
    second_round = [a.uid for a in scene.job("gang").live_attempts]
    scene.finish("gang")

    assert second_round == ["u2.0.2", "u2.1.2"]
    assert scene.state("gang") == "completed"


def test_a_retried_gang_is_scheduled_until_a_task_of_the_new_round_starts():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2, retries=1, backoff_s=0)
    scene.starts = False
    scene.finish("gang", code=1)

    placed = (scene.state("gang"), scene.job("gang").started_s)
    scene.pass_time(5)
    scene.start("gang")

    assert placed == ("scheduled", 0.0)
    assert scene.job("gang").started_s == 1005.0


def test_an_end_that_is_reported_before_its_start_lets_the_gang_count_as_running():
    scene = Scene(cpus=4, starts=False)
    scene.submit("gang", tasks=2, time_limit_s=60)
    first = scene.job("gang").live_attempts[0].uid
    scene.pass_time(1)

    seen = Seen(first, Sighting.ENDED, started_s=1000.5, ended_s=1001, exit_code=0)
    scene.report(seen, node="box")

    assert scene.state("gang") == "running"
    assert scene.job("gang").started_s == 1000.5


def test_a_cancelled_gang_stops_every_task():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=3, retries=5)

    scene.cancel("gang")
    asked = len(scene.stopping)
    scene.finish("gang", signal=15)

    assert asked == 3
    assert scene.state("gang") == "cancelled"


def test_a_cancel_while_the_peers_of_a_failed_task_stop_prevents_the_retry():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2, retries=5, backoff_s=0)
    scene.finish("gang", code=1, task=0)

    scene.cancel("gang")
    scene.finish("gang", signal=15)

    assert scene.cause("gang") == "exit: exit code 1"


def test_a_gang_over_its_limit_stops_every_task():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2, time_limit_s=10)

    scene.pass_time(10)
    scene.finish("gang", signal=15)

    assert scene.state("gang") == "timeout"


def test_a_lost_task_takes_the_gang_with_it():
    scene = Scene(nodes=2, cpus=1)
    scene.submit("gang", tasks=2)
    scene.disconnect("box2")

    scene.connect("box2", boot_id="b2")
    scene.finish("gang", signal=15)

    assert scene.state("gang") == "node_failed"


def test_a_gang_counts_once_under_a_cap():
    scene = Scene(cpus=8)

    scene.submit("gang", tasks=3, group="g", group_cap=2)
    scene.submit("second", tasks=2, group="g")
    scene.submit("third", group="g")

    assert scene.states("gang", "second", "third") == ["running", "running", "queued"]


def test_a_gang_starts_with_most_of_its_tasks_where_the_policy_says_so_and_gets_the_rest_later():
    scene = Scene(cpus=5)
    scene.set_policy(gang_partial=0.8)
    scene.submit("other", cpus=1)
    scene.submit("gang", tasks=5)
    at_first = len(scene.job("gang").live_attempts)

    scene.finish("other")

    assert (at_first, len(scene.job("gang").live_attempts)) == (4, 5)


def test_a_policy_that_lets_gangs_start_in_part_concerns_those_that_wait_already():
    scene = Scene(cpus=5)
    scene.submit("other", cpus=1)
    scene.submit("gang", tasks=5)
    before = scene.state("gang")

    scene.set_policy(gang_partial=0.8)

    assert (before, scene.state("gang")) == ("queued", "running")


def test_a_gang_that_no_set_of_nodes_holds_is_refused_unless_its_least_size_fits():
    scene = Scene(cpus=4)

    with pytest.raises(Rejected, match="tasks: 5 tasks of this size do not fit"):
        scene.submit("gang", tasks=5)
    scene.submit("elastic", roles=(Role(count=5, min_count=2, request=Request()),))

    assert len(scene.job("elastic").live_attempts) == 4


def test_more_nodes_than_there_are_is_refused():
    scene = Scene(nodes=2)

    with pytest.raises(Rejected, match="nodes: 3 nodes asked for, but only"):
        scene.submit("wide", tasks=3, placement=Placement(node_count=3))


def test_roles_that_fit_one_by_one_but_not_together_are_refused():
    scene = Scene(cpus=4)
    roles = (
        Role(name="driver", request=Request(cpu_milli=3000)),
        Role(name="worker", count=2, request=Request(cpu_milli=2000)),
    )

    with pytest.raises(Rejected, match="tasks: the 3 tasks of its roles do not fit here together"):
        scene.submit("pair", roles=roles)
