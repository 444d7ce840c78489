"""A pool decides what the pass decides, or refuses the site: one core, two speeds."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.changes import events as ev
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.policy import (
    Backfill,
    BackfillRules,
    OrderRules,
    PlaceRules,
    Policy,
    PreemptRules,
    ShareRules,
)
from rota.core.facts.tenant import Group, Project, Queue, Reservation, User
from rota.core.words.presets import PRESETS
from rota.sim.cluster.cast import Particulars
from rota.sim.history import SiteHistory
from rota.sim.machine import SimMachine, machine_for
from rota.sim.policies import rules_of
from rota.sim.pool.api import refusal
from rota.sim.settings import Events, SimEstimates, SimOverrun, SimSettings
from rota.sim.simulate import by_pass, play_rules
from rota.sim.trace import Trace, TraceJob
from tests.property import sites

ORDERS = ("fifo", "fifo", "sjf", "saf", "wfp3", "unicef", "f1")
TIMES = st.sampled_from([0, 0.5, 1, 2, 2.25, 3, 5, 10, 20, 60])


class Site(NamedTuple):
    """All that the simulator is told."""

    trace: Trace
    machine: SimMachine
    rules: Policy
    settings: SimSettings = SimSettings()


@st.composite
def logs(draw: st.DrawFn, total: int, most: int = 16) -> list[TraceJob]:
    """Jobs in bursts; estimates that are too long, too short, exact or absent."""
    jobs, now_s = [], 0.0
    for number in range(1, draw(st.integers(2, most)) + 1):
        now_s += draw(st.sampled_from([0, 0, 0.5, 1, 2, 5, 20]))
        run_s = draw(TIMES)
        told_s = draw(st.sampled_from([0, 1.5, 10, 10, run_s, run_s + 7, run_s * 4, run_s / 2]))
        jobs.append(
            TraceJob(
                number,
                now_s,
                run_s,
                draw(st.integers(1, total + (number == 3))),
                told_s,
                user=draw(st.sampled_from("aaab")),
                group=draw(st.sampled_from(["", "", "vision"])),
                queue=draw(st.sampled_from(["", "side"])),
                priority=draw(st.sampled_from([10, 50, 50, 50])),
            )
        )
    return jobs


def policies() -> st.SearchStrategy[Policy]:
    """Rules that a pool may know, with at most one that it does not, and the presets."""
    known = st.builds(
        Policy,
        order=st.builds(
            OrderRules,
            primary=st.sampled_from(ORDERS),
            secondary=st.sampled_from(ORDERS),
            strict=st.sampled_from([False, False, False, True]),
            wait_max_s=st.just(0),
        ),
        backfill=st.builds(
            BackfillRules,
            kind=st.sampled_from([Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE]),
            shortest=st.sampled_from([False, False, True]),
            spare=st.sampled_from([True, True, False]),
            rebuild=st.sampled_from([False, False, True]),
            stretch=st.just(False),
        ),
    )
    presets = st.sampled_from([rules_of(name) for name in PRESETS])
    with_more = st.builds(lambda rules, more: replace(rules, **more), known, st.sampled_from(MORE))
    return st.one_of(known, known, known, presets, with_more)


#: One rule each that no pool knows.
MORE = (
    {"order": OrderRules(primary="fifo", secondary="fifo", wait_max_s=30)},
    {"order": OrderRules(primary="priority", secondary="fifo", wait_max_s=0)},
    {"order": OrderRules(primary="fairshare", secondary="fifo", wait_max_s=0)},
    {"share": ShareRules(soft_ratio=0.5)},
    {"share": ShareRules(hard_ratio=0.5)},
    {"backfill": BackfillRules(stretch=True)},
    {"backfill": BackfillRules(stretch=False, depth=2)},
    {"backfill": BackfillRules(stretch=False, look_ahead=1)},
    {"backfill": BackfillRules(stretch=False, horizon_s=10)},
    {"backfill": BackfillRules(stretch=False, kind=Backfill.AGGRESSIVE)},
    {"backfill": BackfillRules(stretch=False, kind=Backfill.DEADLINE)},
    {"place": PlaceRules(overcommit_cpu=2.0)},
    {"preempt": PreemptRules(enabled=True, min_runtime_s=0, only_willing=False)},
)

agreed = st.builds(
    SimSettings,
    events=st.sampled_from(list(Events)),
    estimates=st.sampled_from(
        [None, SimEstimates.USER, SimEstimates.EXACT, SimEstimates.PREDICTED]
    ),
    overrun=st.sampled_from(list(SimOverrun)),
)


@st.composite
def counting(draw: st.DrawFn) -> Site:
    """A number of processors or GPUs, or equal nodes with so many each."""
    total = draw(st.integers(1, 8))
    trace = Trace("log", draw(logs(total)), unit=draw(st.sampled_from(["processors", "GPUs"])))
    rules = draw(policies())
    if draw(st.integers(0, 5)) == 0:
        return Site(trace, machine_for(trace, nodes=2, per_node=total), rules, draw(agreed))
    # Which numbers a promise binds is a rule of the pool alone.
    promises = rules.backfill.kind is not Backfill.NONE and not rules.order.strict
    numbered = not promises and draw(st.booleans())
    return Site(trace, SimMachine(capacity=total, pinned=numbered), rules, draw(agreed))


@st.composite
def varied(draw: st.DrawFn) -> Site:
    """Nodes of several kinds with GPUs, labels and taints, and requests that name them."""
    trace = Trace("list", draw(logs(4, most=8)), unit="GPUs")
    trace.jobs = [replace(job, request=draw(sites.requests)) for job in trace.jobs]
    nodes = draw(sites.nodes()) if draw(st.booleans()) else ()
    machine = SimMachine(capacity=8, nodes=nodes)
    return Site(trace, machine, draw(policies()), draw(agreed))


@st.composite
def recorded(draw: st.DrawFn) -> Site:
    """What an installation recorded: parents, begin times, exclusive jobs, caps, reservations."""
    log = draw(logs(6, most=8))
    told = {}
    for job in log:
        spec = draw(sites.specs())
        if job.id > 1 and draw(st.booleans()):
            parent = Dependency(DependencyKind.AFTER_ANY, job.id - 1)
            spec = replace(spec, dependencies=(parent,))
        spec = replace(spec, queue="side" if job.queue else "default", group="few")
        told[job.id] = Particulars(spec=spec, eligible_s=draw(st.sampled_from([0.0, 0.0, 30.0])))
    facts = [
        ev.QueueSet(queue=Queue("side", max_running=2)),
        ev.GroupSet(group=Group("few", "alice", 2)),
        ev.ProjectSet(project=Project("vision", "", 4)),
        ev.UserSet(user=User("bob", 3)),
        ev.ReservationSet(reservation=Reservation(900, "bob", 1020.0, 1060.0, nodes=("n0",))),
    ]
    begin_s = 1000.0
    history = SiteHistory("past", log, particulars=told, site=facts, begin_s=begin_s)
    nodes = draw(sites.nodes()) if draw(st.booleans()) else ()
    machine = SimMachine(capacity=6, nodes=nodes)
    return Site(history, machine, draw(policies()), draw(agreed))


def assert_played_alike(site: Site) -> None:
    found = play_rules(*site)
    right = by_pass(*site)

    assert [job.id for job in found.jobs] == [job.id for job in right.jobs]
    assert found.start_s == right.start_s
    assert found.end_s == right.end_s


@settings(max_examples=400)
@given(site=counting())
def test_a_site_that_counts_is_refused_or_played_to_the_second_as_by_the_pass(site: Site):
    assert_played_alike(site)


@settings(max_examples=60)
@given(site=st.one_of(varied(), recorded()))
def test_a_site_with_more_to_it_than_a_number_is_left_to_the_pass(site: Site):
    assert refusal(*site)
    assert_played_alike(site)


@pytest.mark.parametrize("rule", MORE)
def test_a_rule_that_no_pool_knows_is_refused(rule: dict[str, object]):
    plain = rules_of("easy")
    site = Site(Trace("log", [TraceJob(1, 0, 1, 1)]), SimMachine(capacity=4), plain)

    refused = refusal(*site._replace(rules=replace(plain, **rule)))

    assert not refusal(*site)
    assert refused


def test_the_default_and_the_presets_that_need_no_account_are_played_by_a_pool():
    site = Site(Trace("log", [TraceJob(1, 0, 1, 1)]), SimMachine(capacity=4), Policy())

    pooled = [name for name in PRESETS if not refusal(*site._replace(rules=rules_of(name)))]

    assert pooled == [
        *("default", "fcfs", "fifo", "easy", "easy-sjbf", "conservative", "conservative-rebuild"),
        *("sjf", "sjf-easy", "saf", "wfp3", "unicef", "f1"),
    ]


def test_more_jobs_than_a_site_promises_a_start_are_left_to_the_pass():
    rules = Policy(
        order=OrderRules(primary="fifo", secondary="fifo", wait_max_s=0),
        backfill=BackfillRules(kind=Backfill.CONSERVATIVE, stretch=False, depth=2),
    )
    trace = Trace("log", [TraceJob(number, 0, 1, 1) for number in (1, 2)])
    site = Site(trace, SimMachine(capacity=4), rules)

    few = refusal(*site)
    trace.jobs.append(TraceJob(3, 0, 1, 1))

    assert not few
    assert refusal(*site) == "not every job that waits has a promise"


#: Where the two once parted: how large, the rules, what is agreed, and the jobs.
SAF = OrderRules(primary="saf", secondary="saf", wait_max_s=0)
EASY = BackfillRules(stretch=False)
PARTED = {
    "equal areas fall to the shorter limit that is played": Site(
        Trace("log", [
            TraceJob(1, 0, 10, 5, 10), TraceJob(2, 1, 60, 5, 240),
            TraceJob(3, 2, 3, 6), TraceJob(4, 2, 60, 5, 67),
        ]),
        SimMachine(capacity=8),
        Policy(order=SAF, backfill=EASY),
        SimSettings(estimates=SimEstimates.EXACT),
    ),
    "numbered processors are given out in strict order": Site(
        Trace("log", [
            TraceJob(1, 20, 10, 3, 40), TraceJob(2, 20, 2, 4), TraceJob(3, 22, 20, 1, 20),
        ]),
        SimMachine(capacity=5, pinned=True),
        rules_of("fcfs"),
    ),
    "without backfill no number is promised": Site(
        Trace("log", [
            TraceJob(1, 1, 5, 2, 5), TraceJob(2, 2, 1, 7, 1), TraceJob(3, 3, 5, 3, 10),
        ]),
        SimMachine(capacity=7, pinned=True),
        rules_of("sjf"),
    ),
    "GPUs that are only counted have no names": Site(
        Trace("log", [
            TraceJob(1, 0, 5, 2), TraceJob(2, 2, 2, 2), TraceJob(3, 3, 20, 1), TraceJob(4, 3, 3, 1),
            TraceJob(5, 3, 10, 3), TraceJob(6, 5, 1, 1), TraceJob(7, 5, 10, 2),
        ], unit="GPUs"),
        SimMachine(capacity=3),
        rules_of("sjf-easy"),
    ),
    "a second rule that moves says nothing beside the order of submission": Site(
        Trace("log", [TraceJob(1, 0, 10, 3), TraceJob(2, 0, 10, 4), TraceJob(3, 1, 5, 1)]),
        SimMachine(capacity=4),
        Policy(
            order=OrderRules(primary="fifo", secondary="wfp3", wait_max_s=0),
            backfill=BackfillRules(kind=Backfill.CONSERVATIVE, stretch=False),
        ),
    ),
    "a job that ends as it is taken to leaves its room to arrivals": Site(
        Trace("log", [TraceJob(1, 20, 20, 2), TraceJob(2, 30, 3, 3), TraceJob(3, 40, 1, 1)]),
        SimMachine(capacity=3),
        rules_of("easy"),
        SimSettings(events=Events.SINGLE, estimates=SimEstimates.EXACT, overrun=SimOverrun.EXTEND),
    ),
    "a part of a second is taken for a whole one": Site(
        Trace("log", [
            TraceJob(1, 0, 10, 3, 10.5), TraceJob(2, 1, 5, 4, 5), TraceJob(3, 2, 8.75, 1, 8.75),
        ]),
        SimMachine(capacity=4),
        rules_of("easy"),
    ),
    "a job without length is taken for a second": Site(
        Trace("log", [TraceJob(1, 0, 4, 2, 4), TraceJob(2, 0, 5, 4, 5), TraceJob(3, 1, 0, 2)]),
        SimMachine(capacity=4),
        rules_of("easy"),
    ),
    "a job that comes behind another of its lane moves no order": Site(
        Trace("log", [
            TraceJob(1, 2, 20, 1, 20), TraceJob(2, 4, 5, 4, 40), TraceJob(3, 5, 5, 2, 40),
            TraceJob(4, 10, 1, 4, 40), TraceJob(5, 11, 20, 3, 5), TraceJob(6, 16, 1, 3, 5),
        ]),
        SimMachine(capacity=4),
        rules_of("unicef"),
    ),
    "the clock begins at nothing": Site(
        Trace("log", [
            TraceJob(1, 1, 60, 8, 60), TraceJob(2, 2, 60, 8, 60), TraceJob(3, 9, 5, 2, 5),
        ]),
        SimMachine(capacity=8),
        rules_of("f1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTED)
def test_where_pool_and_pass_once_parted_they_agree(name: str):
    site = PARTED[name]

    assert not refusal(*site)
    assert_played_alike(site)


def test_time_alone_calls_for_no_pass_under_an_order_that_moves():
    # At 11 a timer rings for a promise that was kept at 5: the order of then decides nothing.
    jobs = [
        *(TraceJob(1, 2, 2, 4, 1), TraceJob(2, 3, 2, 2, 8), TraceJob(3, 5, 20, 2, 27)),
        *(TraceJob(4, 5, 20, 4, 20), TraceJob(5, 5, 1, 2, 1)),
    ]
    rules = rules_of("wfp3")
    strict = replace(rules, order=replace(rules.order, strict=True))

    run = by_pass(Trace("log", jobs), SimMachine(capacity=4), strict, SimSettings())

    assert run.start_s == [2, 3, 5, 26, 25]
    assert_played_alike(Site(Trace("log", jobs), SimMachine(capacity=4), strict))


def habits(count: int) -> list[TraceJob]:
    """Two users who ask for an hour. Jobs of one take a minute, those of the other all of it."""
    jobs = []
    for number in range(1, count + 1):
        user, run_s = ("quick", 60.0) if number % 3 else ("slow", 3600.0)
        procs = 1 + number * 7 % 4
        jobs.append(TraceJob(number, number * 500.0, run_s, procs, 3600, user=user))
    return jobs


@pytest.mark.parametrize("name", ["default", "multifactor", "easy-sjbf"])
def test_learned_run_times_change_what_is_decided_by_pool_and_pass(name: str):
    site = Site(Trace("log", habits(120)), SimMachine(capacity=4), rules_of(name))
    by_users, learned = (
        play_rules(*site._replace(settings=SimSettings(estimates=source)))
        for source in (SimEstimates.USER, SimEstimates.PREDICTED)
    )

    assert learned.start_s != by_users.start_s
    assert learned.extra["coverage"] > 0.5


@pytest.mark.parametrize("share_s", [0, 10_800])
@pytest.mark.parametrize("wait_max_s", [3_000, 604_800])
def test_the_default_with_shares_and_learned_run_times_is_the_same_by_pool_and_pass(
    share_s: int, wait_max_s: int
):
    rules = rules_of("default")
    order = replace(rules.order, share_s=share_s, wait_max_s=wait_max_s, due_max_s=20_000)
    backfill = replace(rules.backfill, trust_s=2_000)
    rules = replace(rules, order=order, backfill=backfill)
    site = Site(Trace("log", habits(400)), SimMachine(capacity=5), rules)

    assert not refusal(*site)
    assert_played_alike(site)
