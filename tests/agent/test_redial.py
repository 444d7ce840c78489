"""When an agent gives a connection up, and how long it waits before the next one."""

from rota.rpc.messages import BeatSeen, Welcome
from rota.session.lease import AgentLease
from rota.session.redial import BUSY_S_MAX, FIRST_S, LONGEST_S, MOST_S, Pauses


def connected() -> AgentLease:
    """Dialled at 100 s with a lease of 60 s."""
    lease = AgentLease()
    lease.on_dialled(100.0)
    lease.on_welcome(Welcome(7, "c", lease_s=60.0, beat_s=10.0), 100.0)
    return lease


def test_a_connection_without_answers_for_half_a_lease_is_given_up():
    lease = connected()
    lease.beat(110.0)
    lease.beat(120.0)

    assert not lease.is_unheard(139.0)
    assert lease.is_unheard(141.0)


def test_an_answer_of_the_last_moment_keeps_the_connection():
    lease = connected()
    lease.beat(110.0)
    lease.beat(120.0)

    lease.on_seen(BeatSeen(7, 2))

    assert not lease.is_unheard(149.0)


def test_without_a_lease_nobody_waits_for_answers():
    lease = AgentLease()
    lease.on_dialled(100.0)
    lease.on_welcome(Welcome(7, "c"), 100.0)

    assert not lease.is_unheard(10_000.0)


def test_pauses_grow_to_a_bound_and_begin_anew():
    pauses = Pauses()

    taken = [pauses.take_s() for _ in range(12)]
    pauses.reset()

    assert all(FIRST_S / 2 <= pause_s <= MOST_S for pause_s in taken)
    assert taken[0] <= FIRST_S < taken[3]
    assert min(taken[-3:]) >= MOST_S / 2
    assert pauses.take_s() <= FIRST_S


def test_agents_that_were_cut_off_together_do_not_come_back_as_one():
    agents = [Pauses() for _ in range(20)]

    moments = {sum(pauses.take_s() for _ in range(4)) for pauses in agents}

    assert len(moments) == len(agents)


def test_where_the_lease_is_long_pauses_grow_longer_and_are_always_a_small_part_of_it():
    most_s = {}
    for lease_s in (0.0, 10.0, 100.0, 300.0, 3600.0):
        pauses = Pauses()
        pauses.reset(lease_s)
        most_s[lease_s] = max(pauses.take_s() for _ in range(200))

    assert max(most_s[0.0], most_s[10.0]) <= MOST_S
    assert MOST_S < most_s[100.0] <= 5.0 < most_s[300.0] <= LONGEST_S
    assert most_s[3600.0] <= LONGEST_S


def test_a_controller_that_is_busy_is_left_alone_as_long_as_it_wants_or_up_to_twice_that():
    taken = [Pauses().take_s(busy_s=5.0) for _ in range(50)]

    assert 5.0 <= min(taken) < max(taken) <= 10.0 + FIRST_S
    assert max(Pauses().take_s(busy_s=1e9) for _ in range(5)) <= 2 * BUSY_S_MAX + FIRST_S
