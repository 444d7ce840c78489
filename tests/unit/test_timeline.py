"""What stays free on a node over time."""

from rota.core.derived.lanes import shape_of
from rota.core.facts.node import Allocation
from rota.core.facts.policy import DEFAULT
from rota.core.facts.tenant import Reservation
from rota.core.words.presets import PRESETS
from rota.scheduling.later.timeline import OVERDUE_S, Asking, Claim, LeavingAttempt, Timeline
from rota.scheduling.place.node_index import Space
from rota.testing.stage import Stage, node, spec


def a_timeline(*held: tuple[float, int]) -> Timeline:
    """One node of four CPUs, and who holds how many of them until when."""
    cluster = Stage([node("a", cpus=4)]).cluster
    space = Space(DEFAULT)
    space.refresh(cluster, "a")
    timeline = Timeline(space)
    timeline.now_s = 0.0
    for number, (end_s, cpus) in enumerate(held):
        allocation = Allocation("a", cpus * 1000, 0)
        space.take("a", allocation)
        timeline.add(LeavingAttempt(end_s, "a", f"u{number}", allocation))
    return timeline


def asking(user: str = "alice", job: int = 9, run_s: float = 10.0) -> Asking:
    return Asking(job, user, "", shape_of(spec()), run_s)


def free(timeline: Timeline, from_s: float, until_s: float, who: Asking) -> int:
    return timeline.window("a", from_s, until_s, who).cpu_milli // 1000


def test_room_comes_back_when_somebody_leaves():
    timeline = a_timeline((10.0, 3), (20.0, 1))

    assert [free(timeline, at_s, at_s + 1, asking()) for at_s in (0, 10, 20)] == [0, 3, 4]


def test_a_window_offers_what_is_free_all_the_time():
    timeline = a_timeline((10.0, 2))
    timeline.claim("a", Claim(15.0, 25.0, Allocation("a", 3000, 0), job=1))

    assert free(timeline, 0, 5, asking()) == 2
    assert free(timeline, 10, 15, asking()) == 4
    assert free(timeline, 10, 16, asking()) == 1
    assert free(timeline, 0, 16, asking()) == 1
    assert free(timeline, 25, 30, asking()) == 4


def test_a_claim_does_not_bind_the_job_that_it_was_made_for():
    timeline = a_timeline()
    timeline.claim("a", Claim(0.0, 10.0, Allocation("a", 3000, 0), job=1))

    assert free(timeline, 0, 10, asking(job=1)) == 4
    assert free(timeline, 0, 10, asking(job=2)) == 1


def test_a_reservation_does_not_bind_its_owner():
    timeline = a_timeline()
    mine = Reservation(1, "bob", 0.0, 10.0, node="a")
    timeline.claim("a", Claim(0.0, 10.0, Allocation("a", 4000, 0), 0, mine))

    assert free(timeline, 0, 10, asking("bob")) == 4
    assert free(timeline, 0, 10, asking("alice")) == 0


def test_a_promise_that_is_taken_back_leaves_the_claims_of_others():
    timeline = a_timeline()
    timeline.claim("a", Claim(0.0, 10.0, Allocation("a", 1000, 0), job=1))
    timeline.claim("a", Claim(0.0, 10.0, Allocation("a", 1000, 0), job=2))

    timeline.unclaim_job(1)

    assert free(timeline, 0, 10, asking()) == 3


def test_who_outstays_his_time_is_taken_to_leave_soon():
    timeline = a_timeline((10.0, 4))
    timeline.now_s = 50.0

    assert timeline.end_s("a", "u0") == 50.0 + OVERDUE_S
    assert free(timeline, 50, 60, asking()) == 0
    assert free(timeline, 50 + OVERDUE_S, 55 + OVERDUE_S, asking()) == 4


def test_those_who_stay_are_still_known_after_a_node_was_looked_at_again():
    stage = Stage([node("a", gpus=2)], PRESETS["easy"])
    stage.submit(spec(gpus=1, time_limit_s=10))
    stage.submit(spec(gpus=1, time_limit_s=20))
    wide = stage.submit(spec(gpus=2, time_limit_s=10))
    stage.run()

    stage.step()

    assert [(p.job, p.start_s - stage.begin_s) for p in stage.plans[-1][1].promises] == [(wide, 20)]
