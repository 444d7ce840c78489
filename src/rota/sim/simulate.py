"""Policies over a trace, one after the other, each by what can play it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.sim.cluster_run import BEGIN_S, play
from rota.sim.history import History
from rota.sim.machine import as_tasks, one_node
from rota.sim.placing import place_list
from rota.sim.policies import RANKED, Player, player_of, rules_of
from rota.sim.pool_run import play_pool
from rota.sim.ranked_run import play_ranked
from rota.sim.settings import Estimates, Overrun

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.sim.machine import Machine
    from rota.sim.run import Run
    from rota.sim.settings import Settings
    from rota.sim.trace import Trace, TraceJob


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """For lists that are placed: who comes in which order, and which node comes first."""

    arrivals: list[str] | None = None
    nodes: list[str] | None = None


def simulate(
    trace: Trace,
    machine: Machine,
    name: str,
    settings: Settings,
    orders: Orders | None = None,
    progress: Callable[[int], object] | None = None,
) -> Run:
    """Play one policy; ``name`` is one that ``policies.check_name`` knows."""
    player = player_of(name, nodes=bool(machine.nodes))
    if player is Player.PLACING:
        orders = orders or Orders()
        if not machine.nodes:
            raise Rejected(
                f"policy: {name!r} places jobs on nodes; give --cluster FILE", field="policy"
            )
        run = place_list(trace, machine.nodes, name, orders.arrivals, orders.nodes)
    elif player is Player.RANKED:
        run = play_ranked(
            trace.jobs, machine.capacity, name, weighed=RANKED[name], progress=progress
        )
    elif player is Player.POOL:
        settings = msgspec.structs.replace(settings, pinned=machine.pinned)
        rules = rules_of(name, spare=settings.spare)
        run = play_pool(trace.jobs, machine.capacity, name, rules, settings, progress)
    else:
        run = _play_cluster(trace, machine, name, settings)
    run.policy, run.unit = name, trace.unit
    return run


def _play_cluster(trace: Trace, machine: Machine, name: str, settings: Settings) -> Run:
    if settings.estimates is Estimates.PREDICTED:
        raise Rejected(
            f"estimates: 'predicted' cannot be combined with policy {name!r} on this machine",
            field="estimates",
            value="predicted",
            allowed="user, exact",
        )
    nodes = machine.nodes or one_node(machine.capacity, gpus=trace.unit == "GPUs")
    jobs = [_told(as_tasks(job, trace.unit, machine.per_node), settings) for job in trace.jobs]
    past = trace if isinstance(trace, History) else None
    exact = settings.estimates is Estimates.EXACT
    run = play(
        jobs,
        nodes,
        rules_of(name, spare=settings.spare),
        name=name,
        events=settings.events,
        overrun=settings.overrun,
        begin_s=past.begin_s if past is not None else BEGIN_S,
        particulars=past.told(jobs, exact=exact) if past is not None else None,
        site=past.site if past is not None else (),
    )
    run.capacity = machine.capacity
    return run


def _told(job: TraceJob, settings: Settings) -> TraceJob:
    """The job with what is said about its length."""
    if settings.estimates is Estimates.EXACT:
        kills = settings.overrun is Overrun.KILL and job.estimate_s
        lasts_s = min(job.run_s, job.estimate_s) if kills else job.run_s
        return msgspec.structs.replace(job, run_s=lasts_s, estimate_s=lasts_s)
    return job if job.estimate_s else msgspec.structs.replace(job, estimate_s=job.run_s)
