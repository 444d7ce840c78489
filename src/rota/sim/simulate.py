"""Policies over a trace, one after the other, each by what can play it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import Estimates as Sources
from rota.sim.cluster.run import play
from rota.sim.history import SiteHistory
from rota.sim.lengths import lasts_s, taken_s
from rota.sim.machine import as_tasks, plain_nodes
from rota.sim.placing import place_list
from rota.sim.policies import PLACINGS, RANKED, rules_of
from rota.sim.pool.api import refusal
from rota.sim.pool_run import play_pool
from rota.sim.ranked_run import play_ranked
from rota.sim.settings import BEGIN_S, SimEstimates

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.facts.policy import Policy
    from rota.sim.machine import SimMachine
    from rota.sim.run import Run
    from rota.sim.settings import SimSettings
    from rota.sim.trace import Trace, TraceJob


class PlacingOrders(msgspec.Struct, frozen=True, kw_only=True):
    """For lists that are placed: who comes in which order, and which node comes first."""

    arrivals: list[str] | None = None
    nodes: list[str] | None = None


def simulate(
    trace: Trace,
    machine: SimMachine,
    name: str,
    settings: SimSettings,
    orders: PlacingOrders | None = None,
    progress: Callable[[int], object] | None = None,
) -> Run:
    """Play one policy; ``name`` is one that ``policies.check_name`` knows."""
    if name in PLACINGS:
        orders = orders or PlacingOrders()
        if not machine.nodes:
            raise Rejected(
                f"policy: {name!r} places jobs on nodes; give --cluster FILE", field="policy"
            )
        run = place_list(trace, machine.nodes, name, orders.arrivals, orders.nodes)
    elif not trace.timed:
        known = ", ".join(PLACINGS)
        raise Rejected(
            f"policy: {name!r} needs a clock, and {trace.name} has no times; known: {known}",
            field="policy",
        )
    elif name in RANKED:
        run = play_ranked(
            trace.jobs, machine.capacity, name, weighed=RANKED[name], progress=progress
        )
    else:
        rules = rules_of(name, spare=settings.spare)
        run = play_rules(trace, machine, rules, settings, name, progress)
    run.policy, run.unit = name, trace.unit
    return run


def play_rules(
    trace: Trace,
    machine: SimMachine,
    rules: Policy,
    settings: SimSettings,
    name: str = "",
    progress: Callable[[int], object] | None = None,
) -> Run:
    """By a pool where the site is one, else by the pass: they decide the same."""
    rules = _measured(rules, settings)
    refused = refusal(trace, machine, rules, settings)
    if not refused:
        settings = msgspec.structs.replace(settings, pinned=machine.pinned)
        return play_pool(trace.jobs, machine.capacity, name, rules, settings, progress)
    return by_pass(trace, machine, rules, settings, name)


def _measured(rules: Policy, settings: SimSettings) -> Policy:
    """The rules with the source of run times that was asked for."""
    if settings.estimates is None:
        return rules
    predicts = settings.estimates is SimEstimates.PREDICTED
    source = Sources.PREDICTED if predicts else Sources.USER
    backfill = msgspec.structs.replace(rules.backfill, estimates=source)
    return msgspec.structs.replace(rules, backfill=backfill)


def by_pass(
    trace: Trace, machine: SimMachine, rules: Policy, settings: SimSettings, name: str = ""
) -> Run:
    """By the whole core, whatever the site."""
    rules = _measured(rules, settings)
    has_names = bool(machine.nodes) or any(job.request is not None for job in trace.jobs)
    # Where all that counts is a number, a promise must not bind devices that have names.
    unit = trace.unit if has_names else "processors"
    nodes = machine.nodes or plain_nodes(machine, gpus=unit == "GPUs")
    per_node = 1 if machine.pinned else machine.per_node
    jobs = [_told(as_tasks(job, unit, per_node), settings) for job in trace.jobs]
    past = trace if isinstance(trace, SiteHistory) else None
    exact = settings.estimates is SimEstimates.EXACT
    run = play(
        jobs,
        nodes,
        rules,
        name=name,
        events=settings.events,
        overrun=settings.overrun,
        begin_s=past.begin_s if past is not None else BEGIN_S,
        particulars=past.told(jobs, exact=exact) if past is not None else None,
        site=past.site if past is not None else (),
    )
    run.capacity = machine.capacity
    return run


def _told(job: TraceJob, settings: SimSettings) -> TraceJob:
    """The job with what is said about its length."""
    exact = settings.estimates is SimEstimates.EXACT
    run_s = lasts_s(job, settings) if exact else job.run_s
    return msgspec.structs.replace(job, run_s=run_s, estimate_s=taken_s(job, settings))
