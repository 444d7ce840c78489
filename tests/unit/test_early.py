"""Jobs that are handed to an engine before there is room: which, how many, and their return."""

import pytest
from msgspec.structs import replace

from rota.controller.commands import commands as cmd
from rota.controller.engine import Asked
from rota.core.changes.compare import differences, fold
from rota.core.changes.invariants import violations
from rota.core.facts.node import NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.states import Blame, Cause, QueueState
from rota.core.facts.tenant import Limits, Queue, Quota, User
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import ADMIN, ALICE, BOB, OPERATOR, Scene
from rota.testing.stage import Stage, spec

FEATURES = ("gangs", "signals", "stdin", "streams", "ulimits")


def machine(name: str = "n1.hpc", *, cpus: int = 2, early: int = 2) -> NodeSpec:
    return NodeSpec(name, cpus * 1000, 8000, engine="hpc", features=FEATURES, early=early)


def site(*nodes: NodeSpec, busy: int = 2) -> Scene:
    """An engine whose CPUs all have a job of their own: ``r0``, ``r1``, and so on."""
    scene = Scene(nodes=0, starts=False)
    for node in nodes or (machine(),):
        scene.add_node(node)
    for number in range(busy):
        scene.submit(f"r{number}")
        begin(scene, f"r{number}")
    return scene


def say(scene: Scene, job: str, sighting: Sighting, **more) -> None:
    attempt = scene.job(job).live_attempts[0]
    scene.report(Seen(attempt.uid, sighting, **more), node=attempt.allocation.node)


def begin(scene: Scene, job: str) -> None:
    say(scene, job, Sighting.RUNNING, started_s=scene.now_s)


def end(scene: Scene, job: str) -> None:
    say(scene, job, Sighting.ENDED, started_s=scene.now_s, ended_s=scene.now_s, exit_code=0)


def came_back(scene: Scene, job: str) -> str:
    """Why its first attempt was taken out of the engine, at no cost to the job."""
    found = scene.job(job)
    assert (found.retries_used, found.preemptions) == (0, 0)
    first = found.tasks[0].attempts[0]
    assert (first.cause, first.started_s) == (Cause.PREEMPTED, 0.0)
    return first.detail


def limit_cpus(scene: Scene, cpus: int) -> None:
    limits = Quota(hard=Limits(cpu_milli=cpus * 1000))
    scene.ask(cmd.SetUser(actor=ADMIN, user=User("alice", quota=limits)))


def free_cpus(scene: Scene, node: str = "n1.hpc") -> int:
    return scene.cluster.nodes[node].headroom().cpu_milli // 1000


def test_an_engine_gets_as_many_jobs_early_as_it_has_places_in_the_order_of_the_queue():
    scene = site()

    for number in range(4):
        scene.submit(f"j{number}")

    assert scene.states("j0", "j1", "j2", "j3") == ["scheduled", "scheduled", "queued", "queued"]
    assert scene.launch("j0").order is not None
    assert free_cpus(scene) == 0
    assert scene.why("j0") == "waiting inside hpc on n1.hpc: next in turn"


def test_without_early_places_nothing_is_handed_in_before_there_is_room():
    scene = site(machine(early=0))

    scene.submit("next")

    assert scene.state("next") == "queued"


def test_a_job_goes_where_there_is_room_before_it_goes_where_it_has_to_wait():
    scene = site(machine(), machine("n2.hpc"), busy=2)

    scene.submit("next")

    busy = scene.job("r0").live_attempts[0].allocation.node
    assert scene.job("next").live_attempts[0].allocation.node != busy
    assert not scene.job("next").live_attempts[0].allocation.early


def test_the_room_of_one_that_leaves_is_for_the_one_that_waits_inside():
    scene = site()
    for name in ("a", "b", "c"):
        scene.submit(name)

    end(scene, "r0")

    assert scene.states("a", "b", "c") == ["scheduled", "scheduled", "queued"]

    begin(scene, "a")

    assert free_cpus(scene) == 0
    assert scene.states("a", "b", "c") == ["running", "scheduled", "scheduled"]
    assert violations(scene.cluster) == []


def test_the_engine_may_begin_any_of_them_and_tell_of_it_before_it_tells_who_left():
    scene = site()
    scene.submit("a")
    scene.submit("b")

    begin(scene, "b")

    assert violations(scene.cluster) == []
    end(scene, "r1")
    assert free_cpus(scene) == 0
    assert scene.states("a", "b") == ["scheduled", "running"]


def test_a_more_urgent_job_brings_back_what_waits_inside_and_goes_first():
    scene = site(machine(early=1))
    scene.submit("plain")
    submitted_s = scene.job("plain").submitted_s

    scene.submit("urgent", priority=60)

    assert scene.states("urgent", "plain") == ["scheduled", "queued"]
    assert came_back(scene, "plain").endswith("is more urgent")
    assert scene.job("plain").submitted_s == submitted_s


def test_what_waits_inside_comes_back_before_anybody_gives_way():
    scene = site(machine(early=2))
    rules = {"preempt_enabled": True, "preempt_only_willing": False, "preempt_min_runtime_s": 0}
    scene.set_policy(**rules)
    scene.submit("a")
    scene.submit("b")

    scene.submit("urgent", priority=75)

    assert came_back(scene, "a") == came_back(scene, "b")
    assert scene.job("r0").preemptions + scene.job("r1").preemptions == 1
    assert not scene.job("urgent").live_attempts[0].allocation.early


def test_one_that_came_back_is_handed_in_before_younger_ones_of_its_kind():
    scene = site(machine(early=2), machine("n2.hpc", early=2), busy=4)
    for name in ("a", "b", "c"):
        scene.submit(name)
    older = scene.job("a").live_attempts[0].allocation.node

    scene.resize(machine(older, early=0))

    assert came_back(scene, "a").endswith(f"few jobs end on {older}")
    inside = [job for job in ("a", "b", "c") if scene.state(job) == "scheduled"]
    assert inside == ["a", "b"]


def test_equally_urgent_jobs_leave_what_waits_inside_where_it_is():
    scene = site(machine(early=1))
    scene.submit("first")

    scene.submit("second")

    assert scene.job("first").live_attempts[0].stop_cause is None


def test_a_quota_that_falls_brings_back_what_waits_inside():
    scene = site()
    scene.submit("a")

    limit_cpus(scene, 2)

    assert scene.state("a") == "queued"
    assert came_back(scene, "a").endswith("a quota was lowered")


def test_what_waits_inside_counts_under_its_quota():
    scene = site()
    limit_cpus(scene, 3)

    scene.submit("a")
    scene.submit("b")

    assert scene.states("a", "b") == ["scheduled", "queued"]


def test_where_few_jobs_end_those_that_came_last_come_back():
    scene = site()
    scene.submit("a")
    scene.submit("b")

    scene.resize(machine(early=1))

    assert scene.states("a", "b") == ["scheduled", "queued"]
    assert came_back(scene, "b").endswith("few jobs end on n1.hpc")


def test_a_held_job_comes_back_and_is_held():
    scene = site()
    scene.submit("a")

    scene.hold("a")

    assert scene.state("a") == "held"


def test_a_cancelled_job_is_taken_out_of_the_engine():
    scene = site()
    scene.submit("a")

    scene.cancel("a")

    assert scene.state("a") == "cancelled"


@pytest.mark.parametrize("wish", [{"cpus": 2}, {"mem": 4000}])
def test_all_that_wait_on_one_node_ask_for_the_same(wish):
    scene = site()
    scene.submit("small")

    scene.submit("other", **wish)

    assert scene.states("small", "other") == ["scheduled", "queued"]


def test_nothing_goes_early_where_room_is_promised_to_a_job_that_came_before():
    scene = site(machine(cpus=2))
    scene.submit("small")
    scene.submit("large", cpus=2)

    scene.submit("late")

    assert scene.states("small", "large", "late") == ["scheduled", "queued", "queued"]


def test_places_that_come_up_go_to_the_jobs_in_front_and_not_to_others_behind_them():
    scene = site(machine(early=1))
    for number in range(4):
        scene.submit(f"a{number}", time_limit_s=100)
    scene.submit("other")

    scene.resize(machine(early=3))

    assert scene.states("a0", "a1", "a2") == ["scheduled"] * 3
    assert scene.states("a3", "other") == ["queued", "queued"]


def test_nothing_goes_early_before_a_job_that_cannot():
    names = ("n1.hpc", "n2.hpc", "n3.hpc")
    scene = site(*[machine(name) for name in names], busy=6)
    scene.submit("gang", cpus=2, tasks=2)

    scene.submit("small")

    assert scene.states("gang", "small") == ["queued", "queued"]


def test_nothing_goes_early_before_a_job_that_has_no_turn_in_the_same_pass():
    scene = site(machine(cpus=2), machine("n2.hpc", cpus=3), busy=5)
    scene.submit("promised", cpus=3, priority=70)
    scene.submit("wide", cpus=2, priority=60)

    scene.submit("small")

    assert scene.states("promised", "wide", "small") == ["queued", "queued", "queued"]


def test_one_that_the_engine_gives_back_says_nothing_about_its_node():
    scene = site()
    scene.submit("a")

    why = {"cause": Cause.START_FAILED, "fault": Blame.NODE, "detail": "it waited inside hpc"}
    say(scene, "a", Sighting.ENDED, ended_s=scene.now_s, **why)

    node = scene.cluster.nodes["n1.hpc"]
    assert (node.failed_starts, node.closures) == ((), ())
    assert scene.job("a").retries_used == 0


def test_what_waits_inside_is_in_the_log_and_survives_a_restart():
    scene = site()
    scene.submit("a")
    scene.submit("b")
    end(scene, "r0")
    begin(scene, "a")

    folded = fold(scene.store.all_events(), scene.cluster.ids.cluster_id)
    assert differences(folded, scene.cluster) == []

    scene.restart()

    node = scene.cluster.nodes["n1.hpc"]
    assert node.early == [scene.job("b").live_attempts[0].uid]
    assert violations(scene.cluster) == []


def test_a_drained_node_gives_back_what_waits_there_before_there_is_room():
    scene = site(machine(), machine("n2.hpc"), busy=4)
    scene.submit("a")
    name = scene.job("a").live_attempts[0].allocation.node

    scene.ask(cmd.DrainNode(actor=OPERATOR, node=name, drained=True))

    assert scene.job("a").live_attempts[0].allocation.node != name


def test_a_pool_in_which_jobs_end_gets_more_although_some_wait_there():
    pool = replace(machine(), pool=True, inside_max=1)
    scene = site(pool)
    scene.submit("a")
    say(scene, "a", Sighting.WAITING, detail="Resources")

    scene.submit("b")

    assert scene.state("b") == "scheduled"
    assert scene.why("a") == "waiting inside hpc on n1.hpc: Resources, next in turn"


def test_a_job_goes_early_only_where_any_one_that_leaves_makes_room_for_it():
    scene = site(machine(cpus=4), busy=2)
    scene.submit("long", cpus=2, time_limit_s=86400)
    begin(scene, "long")

    scene.submit("wide", cpus=2, time_limit_s=60)

    assert scene.state("wide") == "queued"


def test_a_held_array_gets_its_elements_back_that_wait_inside():
    scene = site()
    array = scene.submit("many", array="0-2")
    inside = [job for job in scene.cluster.jobs.values() if job.array_id == array]
    assert [str(job.state) for job in inside] == ["scheduled", "scheduled"]

    scene.hold("many")

    assert [scene.state(job.id) for job in inside] == ["held", "held"]


def test_those_that_came_last_are_the_same_after_a_restart():
    scene = site(machine(early=1))
    scene.submit("older", time_limit_s=100)
    scene.hold("older")
    scene.submit("younger")
    scene.pass_time(1.0)
    scene.resize(machine(early=2))
    scene.release("older")
    assert scene.states("older", "younger") == ["scheduled", "scheduled"]

    scene.restart()
    scene.resize(machine(early=1))

    assert len(scene.job("older").tasks[0].attempts) > 2
    assert len(scene.job("younger").tasks[0].attempts) == 1


def test_one_that_waits_inside_begins_as_soon_as_any_other_has_ended():
    nodes = [machine("n1.hpc", cpus=4, early=4), machine("n2.hpc", cpus=4, early=4)]
    stage, longest_s = Stage(nodes), 9.0
    jobs = [stage.submit(spec(), runs_s=1.0 + number * 7 % 9) for number in range(80)]

    stage.play()

    began_s = [stage.ended_s[job] - 1.0 - at * 7 % 9 for at, job in enumerate(jobs)]
    slips_s = [mine - min(began_s[at:]) for at, mine in enumerate(began_s)]
    assert 0.0 < max(slips_s) <= longest_s
    assert any(held.early for _, plan in stage.plans for s in plan.starts for held in s.allocations)


def submit_together(scene: Scene, **wishes: dict) -> None:
    """Jobs that one pass is the first to see."""
    jobs = tuple(scene.submission(name, **wish) for name, wish in wishes.items())
    answer = scene.ask(cmd.Submit(actor=ALICE, submissions=jobs))
    scene.names |= dict(zip(wishes, answer.ids, strict=True))


def test_a_job_goes_early_where_most_places_are_left():
    scene = site(machine(early=1), machine("n2.hpc", early=3), busy=4)

    scene.submit("a")

    assert scene.job("a").live_attempts[0].allocation.node == "n2.hpc"


def test_behind_a_job_with_a_promise_elsewhere_all_that_the_engine_has_places_for_go_early():
    scene = site(machine(early=2))
    scene.add_node(NodeSpec("box", 4000, 8000))
    scene.set_policy("easy")
    scene.submit("hog", cpus=4, time_limit_s=3600)
    begin(scene, "hog")
    scene.submit("big", cpus=4, time_limit_s=3600, priority=60)

    submit_together(scene, one={"time_limit_s": 60}, two={"time_limit_s": 50})

    assert scene.states("big", "one", "two") == ["queued", "scheduled", "scheduled"]


@pytest.mark.parametrize(
    ("younger", "inside"), [({}, ["a"]), ({"actor": BOB}, ["b"])], ids=["own lane", "another's"]
)
def test_one_that_came_back_takes_the_place_of_a_younger_job_of_its_lane_only(younger, inside):
    scene = site(machine(early=1), machine("n2.hpc", early=1), busy=4)
    scene.submit("a")
    scene.submit("b", **younger)
    older = scene.job("a").live_attempts[0].allocation.node

    scene.resize(machine(older, early=0))

    assert [job for job in ("a", "b") if scene.state(job) == "scheduled"] == inside
    if inside == ["a"]:
        assert came_back(scene, "b").endswith(f"job {scene.names['a']} came before")


def test_a_queue_that_starts_no_jobs_has_those_back_that_wait_inside():
    scene = site()
    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue("side")))
    scene.submit("a", queue="side")

    scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue("side", state=QueueState.PAUSED)))

    assert scene.state("a") == "queued"
    assert came_back(scene, "a").endswith("queue side starts no jobs")


def test_a_job_that_wants_a_node_to_itself_does_not_go_early():
    scene = site()

    scene.submit("own", placement=Placement(exclusive=True))

    assert scene.state("own") == "queued"


def test_nodes_that_close_together_give_back_what_waits_on_any_of_them():
    scene = site(NodeSpec("box", 1000, 8000), machine(), busy=3)
    scene.submit("a")
    scene.pass_time(1)
    assert scene.state("a") == "scheduled"

    scene.tick(
        Asked(1, cmd.DrainNode(actor=OPERATOR, node="box", drained=True)),
        Asked(2, cmd.DrainNode(actor=OPERATOR, node="n1.hpc", drained=True)),
    )

    assert scene.state("a") == "queued"
    assert came_back(scene, "a").endswith("n1.hpc takes no jobs")
