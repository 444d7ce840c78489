"""Cancel and requeue in every state, also while the job is on its way out for another reason."""

import pytest

from rota.controller.commands import commands as cmd
from rota.controller.commands.change import named_ids
from rota.core.facts.errors import Forbidden
from rota.core.facts.states import Cause
from rota.testing.scene import ALICE, BOB, OPERATOR, VIEWER, Scene


def test_a_waiting_job_is_cancelled_at_once_and_leaves_the_queue():
    scene = Scene(cpus=1)
    scene.submit("runs")
    job = scene.submit("waits")

    scene.cancel("waits")

    assert scene.cause("waits") == "cancelled: by alice"
    assert job not in scene.cluster.lanes.where
    assert scene.job("waits").ended_s == scene.now_s


def test_a_running_job_is_told_to_stop_and_keeps_its_room_until_it_has():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("next")

    scene.cancel("runs")
    stopping = scene.states("runs", "next")
    scene.finish("runs", signal=15)

    assert stopping == ["running", "queued"]
    assert scene.states("runs", "next") == ["cancelled", "running"]


def test_a_job_placed_and_not_started_is_cancelled_without_ever_running():
    scene = Scene(starts=False)
    scene.submit("job")

    scene.cancel("job")

    assert scene.state("job") == "cancelled"
    assert scene.job("job").started_s == 0.0
    assert not scene.cluster.live.where


def test_a_job_cancelled_while_its_node_is_away_is_stopped_when_the_node_is_back():
    scene = Scene()
    scene.submit("job")
    scene.disconnect("box")
    scene.cancel("job")

    scene.connect("box")
    scene.finish("job", signal=15)

    assert scene.state("job") == "cancelled"


def test_a_cancel_survives_a_restart_before_the_job_has_stopped():
    scene = Scene()
    scene.submit("job", retries=5)
    scene.cancel("job")

    scene.restart()
    scene.finish("job", signal=15)

    assert scene.state("job") == "cancelled"


def test_a_job_that_ended_by_itself_before_the_stop_reached_it_is_cancelled_all_the_same():
    scene = Scene()
    scene.submit("job")
    scene.cancel("job")

    scene.finish("job", code=0)

    assert scene.state("job") == "cancelled"


def test_cancelling_twice_is_harmless_and_cancelling_the_ended_is_refused():
    scene = Scene()
    scene.submit("job")
    scene.cancel("job")

    again = scene.cancel("job")
    scene.finish("job", signal=15)
    late = scene.cancel("job")

    assert again.changed == (scene.names["job"],)
    assert [refusal.reason for refusal in late.refused] == ["job 1 is cancelled already"]


def test_an_unknown_job_is_refused_and_the_others_are_cancelled():
    scene = Scene(cpus=1)
    scene.submit("runs")
    job = scene.submit("waits")

    answer = scene.cancel(99, job)

    assert answer.changed == (job,)
    assert answer.refused == (cmd.Refusal(99, "there is no job 99"),)


def test_parent_and_child_cancelled_in_one_command_are_both_reported_as_changed():
    scene = Scene(cpus=1)
    scene.submit("runs")
    parent = scene.submit("parent")
    child = scene.submit("child", after={"parent": "after-ok"})

    answer = scene.cancel(parent, child)

    assert answer == cmd.ChangedJobs((parent, child))


def test_a_requeued_job_stops_goes_back_to_its_place_and_runs_again():
    scene = Scene(cpus=1)
    scene.submit("first", retries=0)
    scene.submit("second")

    scene.requeue("first")
    scene.finish("first", signal=15)

    assert scene.states("first", "second") == ["running", "queued"]
    assert [a.cause for a in scene.job("first").tasks[0].attempts] == [Cause.REQUEUED, None]


def test_a_requeue_counts_retries_from_zero_again():
    scene = Scene()
    scene.submit("job", retries=1, backoff_s=0)
    scene.finish("job", code=1)
    scene.requeue("job")
    scene.finish("job", signal=15)

    scene.finish("job", code=1)

    assert scene.is_running("job")


def test_a_job_requeued_and_held_waits_for_its_release():
    scene = Scene()
    scene.submit("job")

    scene.requeue("job", hold=True)
    scene.finish("job", signal=15)
    held = scene.state("job")
    scene.release("job")

    assert held == "held"
    assert scene.is_running("job")


def test_a_waiting_job_cannot_be_requeued():
    scene = Scene(cpus=1)
    scene.submit("runs")
    scene.submit("waits")

    answer = scene.requeue("waits")

    assert "only a running job can be requeued" in answer.refused[0].reason


def test_a_cancel_while_a_job_is_being_requeued_wins():
    scene = Scene()
    scene.submit("job", retries=3, backoff_s=0)
    scene.requeue("job")

    scene.cancel("job")
    scene.finish("job", signal=15)

    assert scene.cause("job") == "cancelled: while it was being requeued"


def test_a_job_that_is_being_cancelled_cannot_be_requeued():
    scene = Scene()
    scene.submit("job")
    scene.submit("late")
    scene.cancel("job")
    scene.requeue("late")
    scene.cancel("late")

    answers = [scene.requeue("job"), scene.requeue("late")]

    assert all("being cancelled" in answer.refused[0].reason for answer in answers)


def test_a_cancel_while_a_job_is_stopped_for_its_limit_prevents_the_retry_and_keeps_the_cause():
    scene = Scene()
    scene.submit("job", retries=3, backoff_s=0, time_limit_s=10)
    scene.pass_time(10)

    scene.cancel("job")
    scene.finish("job", signal=15)

    assert scene.state("job") == "timeout"


def test_a_cancel_survives_a_restart_while_a_job_is_being_requeued():
    scene = Scene()
    scene.submit("job")
    scene.requeue("job")
    scene.cancel("job")

    scene.restart()
    scene.finish("job", signal=15)

    assert scene.state("job") == "cancelled"


def test_an_updated_number_of_tasks_counts_from_the_next_round_on():
    scene = Scene(cpus=4)
    scene.submit("job", tasks=2)
    scene.requeue("job", hold=True)
    scene.finish("job", signal=15)

    scene.update("job", roles=scene.submission(tasks=3).spec.roles)
    scene.release("job")
    grown = len(scene.cluster.live.where)
    scene.requeue("job", hold=True)
    scene.finish("job", signal=15)
    scene.update("job", roles=scene.submission(tasks=1).spec.roles)
    scene.release("job")
    shrunk = len(scene.cluster.live.where)
    scene.finish("job")

    assert (grown, shrunk) == (3, 1)
    assert scene.state("job") == "completed"


@pytest.mark.parametrize("command", [cmd.Cancel, cmd.Hold, cmd.Release, cmd.Requeue])
@pytest.mark.parametrize("actor", [BOB, VIEWER])
def test_nobody_but_the_owner_and_operators_may_change_a_job(command, actor):
    scene = Scene(cpus=1)
    scene.submit("runs")
    array = scene.submit("array", array="0-1", hold=True)

    for job in (scene.names["runs"], array, array + 1):
        answer = scene.ask(command(actor=actor, ids=(job,)))

        assert answer.changed == ()
        assert "belongs to alice" in answer.refused[0].reason
    assert scene.states("runs", array + 1) == ["running", "held"]


def test_a_viewer_may_not_change_even_a_job_under_his_own_name():
    scene = Scene()
    scene.submit("job")

    answer = scene.cancel("job", actor=cmd.Actor("alice", VIEWER.access))

    assert answer.changed == ()


def test_an_operator_may_cancel_anything():
    scene = Scene(cpus=1)
    scene.submit("a")
    scene.submit("b", actor=BOB)

    scene.cancel("b", actor=OPERATOR)

    assert scene.cause("b") == "cancelled: by olga"


def test_a_user_may_cancel_all_of_his_own_and_not_those_of_others():
    scene = Scene(cpus=1)
    scene.submit("hog", actor=BOB)
    mine = [scene.submit(), scene.submit("array", array="0-1")]

    with pytest.raises(Forbidden, match="the jobs of others"):
        scene.ask(cmd.Cancel(actor=ALICE, of_user="bob"))
    with pytest.raises(Forbidden, match="the jobs of others"):
        scene.ask(cmd.Cancel(actor=ALICE, of_user="*"))
    answer = scene.ask(cmd.Cancel(actor=ALICE, of_user="alice"))

    assert answer.changed == tuple(mine)
    assert scene.is_running("hog")


def test_a_command_on_all_jobs_of_a_user_looks_at_no_job_of_others():
    scene = Scene(cpus=1)
    runs = scene.submit("runs", actor=BOB)
    array = scene.submit("array", array="0-3", actor=BOB)
    for _ in range(50):
        scene.submit()
    looked: list[object] = []
    mine = named_ids(scene.cluster, cmd.Cancel(actor=BOB, of_user="bob"))

    class Watched(dict):
        def values(self):
            looked.append(self)
            return super().values()

        def __iter__(self):
            looked.append(self)
            return super().__iter__()

    scene.cluster.jobs = Watched(scene.cluster.jobs)
    scene.cluster.families.arrays = Watched(scene.cluster.families.arrays)
    again = named_ids(scene.cluster, cmd.Cancel(actor=BOB, of_user="bob"))

    assert mine == again == (runs, array)
    assert not looked
    assert named_ids(scene.cluster, cmd.Cancel(actor=OPERATOR, of_user="nobody")) == ()


def test_hold_of_everything_concerns_what_waits_and_release_what_is_held():
    scene = Scene(cpus=1)
    scene.submit("runs")
    waits = scene.submit("waits")
    array = scene.submit("array", array="0-3")

    held = scene.ask(cmd.Hold(actor=OPERATOR, of_user="*"))
    released = scene.ask(cmd.Release(actor=OPERATOR, of_user="*"))

    assert held == cmd.ChangedJobs((waits, array))
    assert released == cmd.ChangedJobs((waits, array))
