"""Reservations and maintenance windows as a pass sees them."""

import pytest

from rota.core.changes import events as ev
from rota.core.facts.policy import Backfill, BackfillRules, OrderRules, Policy
from rota.core.facts.tenant import Reservation
from rota.testing.stage import Stage, node, spec

HOUR_S = 3600
FIFO = OrderRules(primary="fifo", secondary="fifo")
KINDS = [Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE]


def a_stage(kind: Backfill = Backfill.NONE, *, nodes: int = 1, gpus: int = 0) -> Stage:
    policy = Policy(order=FIFO, backfill=BackfillRules(kind=kind))
    return Stage([node(f"n{number}", gpus=gpus) for number in range(nodes)], policy)


def reserve(stage: Stage, start_h: float, end_h: float, owner: str = "bob", **what) -> int:
    number = stage.cluster.ids.next
    start_s, end_s = (stage.begin_s + hours * HOUR_S for hours in (start_h, end_h))
    stage.reserve(Reservation(number, owner, start_s, end_s, **what))
    return number


def hours(count: float, **wishes):
    return spec(time_limit_s=int(count * HOUR_S), **wishes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_whose_limit_reaches_into_a_reservation_of_another_waits_until_it_is_over(kind):
    stage = a_stage(kind)
    reserve(stage, 2, 4, node="n0")
    long = stage.submit(hours(3))
    short = stage.submit(hours(2))

    stage.play()

    assert stage.started_s[short] == stage.begin_s
    assert stage.started_s[long] == stage.begin_s + 4 * HOUR_S


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_without_a_limit_never_starts_in_front_of_a_reservation_of_another(kind):
    stage = a_stage(kind)
    reserve(stage, 200, 204, node="n0")
    endless = stage.submit(spec(estimate_s=60))

    stage.run()

    assert endless in stage.waiting


@pytest.mark.parametrize("kind", KINDS)
def test_the_owner_starts_in_his_reservation_and_it_is_free_when_it_begins(kind):
    stage = a_stage(kind)
    reserve(stage, 2, 4, node="n0")
    for _ in range(6):
        stage.submit(hours(1.5, cpus=4))
    stage.submit_later(2 * HOUR_S, hours(2, cpus=4, user="bob"))

    stage.play()

    assert stage.started_s[8] == stage.begin_s + 2 * HOUR_S


def test_a_reservation_may_belong_to_a_project():
    stage = a_stage()
    reserve(stage, 0, 4, owner="", project="vision", node="n0")
    other = stage.submit(hours(1))
    member = stage.submit(hours(1, project="vision"))

    stage.run()

    assert member in stage.started_s
    assert other in stage.waiting


def test_nobody_runs_in_a_maintenance_window():
    stage = a_stage(nodes=2)
    reserve(stage, 1, 3, owner="", nodes=("n0",))
    for _ in range(4):
        stage.submit(hours(2, cpus=4))

    stage.play()

    starts = sorted((at_s - stage.begin_s) / HOUR_S for at_s in stage.started_s.values())
    assert starts == [0, 2, 3, 4]


def test_reserved_devices_keep_others_off_and_leave_the_rest_of_the_node_open():
    stage = a_stage(gpus=2)
    reserve(stage, 0, 4, node="n0", devices=(0,))
    jobs = [stage.submit(hours(1, gpus=1)) for _ in range(2)]

    stage.run()

    assert stage.waiting == jobs[1:]
    held = [a.allocation.devices for a in stage.cluster.jobs[jobs[0]].live_attempts]
    assert held == [(1,)]


def test_a_reservation_by_count_holds_against_the_sum_of_all_others():
    stage = a_stage(nodes=2, gpus=2)
    reserve(stage, 1, 4, device_count=3)
    long = [stage.submit(hours(3, gpus=1)) for _ in range(4)]

    stage.run()

    assert stage.running == long[:1]


def test_a_reservation_by_count_asks_for_no_more_than_its_owner_lacks():
    stage = a_stage(nodes=2, gpus=2)
    mine = [stage.submit(hours(9, gpus=1, user="bob")) for _ in range(2)]
    stage.run()
    reserve(stage, 1, 4, device_count=3)
    others = [stage.submit(hours(9, gpus=1)) for _ in range(2)]

    stage.run()

    assert stage.running == [*mine, others[0]]


def test_a_reservation_by_count_means_devices_of_its_type():
    policy = Policy(order=FIFO, backfill=BackfillRules(kind=Backfill.NONE))
    fleet = [node("a", gpus=2, model="A100"), node("l", gpus=2, model="L4")]
    stage = Stage(fleet, policy)
    reserve(stage, 0, 4, device_count=2, device_type="A100")
    picky = stage.submit(hours(1, gpus=1, gpu_type="A100"))
    any_card = stage.submit(hours(1, gpus=2))

    stage.run()

    assert picky in stage.waiting
    assert stage.nodes_of(any_card) == ["l"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reservation_that_is_removed_holds_nobody_up(kind):
    stage = a_stage(kind)
    number = reserve(stage, 1, 400, node="n0")
    job = stage.submit(hours(3))
    stage.run()
    assert job in stage.waiting

    stage.tell(ev.ReservationRemoved(reservation=number))
    stage.run()

    assert job in stage.started_s


def test_a_promise_is_made_around_a_reservation():
    stage = a_stage(Backfill.EASY)
    reserve(stage, 2, 4, node="n0")
    stage.submit(hours(1, cpus=4))
    late = stage.submit(hours(2, cpus=4))

    stage.run()

    assert stage.promised_s == {late: stage.begin_s + 4 * HOUR_S}


def test_a_gang_waits_for_the_end_of_a_window_on_one_of_its_nodes():
    stage = a_stage(Backfill.EASY, nodes=2)
    reserve(stage, 1, 3, owner="", nodes=("n1",))
    gang = stage.submit(hours(2, cpus=4, tasks=2))

    stage.play()

    assert stage.started_s[gang] == stage.begin_s + 3 * HOUR_S


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_without_a_limit_takes_the_gpu_beside_one_that_is_reserved(kind):
    stage = a_stage(kind, gpus=2)
    reserve(stage, 0, 4, node="n0", devices=(1,))
    endless = stage.submit(spec(gpus=1, estimate_s=60))

    stage.run()

    assert endless not in stage.waiting


def test_a_reservation_by_count_means_idle_devices_before_those_that_others_use():
    stage = a_stage(nodes=1, gpus=2)
    first = stage.submit(hours(9, gpus=1))
    stage.run()
    reserve(stage, 1, 4, device_count=1)
    second = stage.submit(hours(9, gpus=1))
    mine = stage.submit(hours(2, gpus=1, user="bob"))

    stage.run()

    assert stage.running == [first, mine]
    assert second in stage.waiting
