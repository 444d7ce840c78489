"""What a pool is told and what it answers, and which sites it leaves to the pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rota.core.facts.policy import Backfill, BackfillRules, Estimates, OrderRules, Policy
from rota.scheduling.later.promising import MANY_PROMISES
from rota.scheduling.order.orderings import DUE
from rota.sim.history import SiteHistory
from rota.sim.settings import SimOverrun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.scheduling.api import Entry
    from rota.sim.machine import SimMachine
    from rota.sim.settings import SimSettings
    from rota.sim.trace import Trace

#: Orderings that ask for nothing but a job's size, its length and its wait.
ORDERS = frozenset({"fifo", "sjf", "saf", "wfp3", "unicef", "f1"})
#: Of these the ones whose keys never change while a job waits.
FIXED = frozenset({"fifo", "sjf", "saf"})
KINDS = frozenset({Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE})
INFINITE = float("inf")


class PoolStart(NamedTuple):
    """A decision: the job starts now. ``held`` is the set of its nodes where these have names."""

    job: int
    held: int = 0


class PoolDecision(NamedTuple):
    """Who starts now, in order, and who must stop first to make room for them."""

    starts: list[PoolStart]
    evictions: Sequence[int] = ()
    #: Somebody is to start then even if nothing happens before.
    wake_s: float = INFINITE


class Pool(Protocol):
    """Equal processors behind one line. Jobs are told by number, once each."""

    def arrive(
        self,
        job: int,
        size: int,
        run_s: float,
        entry: Entry | None = None,
        stay_s: float = 0.0,
    ) -> None:
        """A job waits from now on. ``entry`` is what orderings but ``fifo`` look at.

        ``stay_s``: how long it is taken to hold its room once it runs; 0: as long as it runs.
        """

    def leave(self, job: int) -> None:
        """A running job is over."""

    def withdraw(self, job: int) -> None:
        """A waiting job waits no longer."""

    def expect(self, job: int, end_s: float) -> None:
        """A running job is now taken to end then."""

    def decide(self, now_s: float) -> PoolDecision:
        """A pass."""


def refusal(trace: Trace, machine: SimMachine, policy: Policy, settings: SimSettings) -> str:
    """Why a pool would not decide what the pass decides; empty: it would.

    One thing is a rule of the pool alone, with nothing in the pass to compare it with: promises
    that bind the lowest numbers of numbered processors.
    """
    if machine.nodes:
        return "the machine has nodes"
    if isinstance(trace, SiteHistory):
        return "the jobs and the site have particulars"
    if any(job.request is not None for job in trace.jobs):
        return "jobs ask for more than a number of processors"
    order, backfill = policy.order, policy.backfill
    extends = settings.overrun is SimOverrun.EXTEND
    if order.primary == DUE:
        return _refusal_of_dues(policy, machine, extends=extends)
    if not {order.primary, order.secondary} <= ORDERS:
        return "the order asks for more than size, length and wait"
    if backfill.kind not in KINDS or policy != _rules_known(order, backfill):
        return "the policy has rules that a pool does not know"
    moves = order.primary != "fifo" and not {order.primary, order.secondary} <= FIXED
    if extends and (moves or backfill.estimates is Estimates.PREDICTED):
        return "the order moves whenever a job outstays its estimate"
    if backfill.kind is Backfill.CONSERVATIVE:
        return _refusal_of_promises(order, backfill, settings, len(trace.jobs))
    return ""


def _refusal_of_dues(policy: Policy, machine: SimMachine, *, extends: bool) -> str:
    """The order ``due`` is known with its own kind of backfill, and where limits end jobs."""
    order = OrderRules(
        primary=DUE,
        secondary="fifo",
        wait_max_s=policy.order.wait_max_s,
        due_factor=policy.order.due_factor,
        due_max_s=policy.order.due_max_s,
        share_s=policy.order.share_s,
    )
    backfill = BackfillRules(
        kind=Backfill.EASY,
        estimates=policy.backfill.estimates,
        trust_s=policy.backfill.trust_s,
        spare=policy.backfill.spare,
        shortest=True,
    )
    known = Policy(order=order, backfill=backfill)
    if extends or machine.pinned or policy != known:
        return "the policy has rules that a pool does not know"
    return ""


def _refusal_of_promises(
    order: OrderRules, backfill: BackfillRules, settings: SimSettings, jobs: int
) -> str:
    """Promises that stand from pass to pass: it matters in which order they were made."""
    if order.primary != "fifo" or order.strict or backfill.shortest or not backfill.spare:
        return "conservative backfill has a rule beside the order of submission"
    if (backfill.depth or MANY_PROMISES) < jobs:
        return "not every job that waits has a promise"
    if backfill.estimates is Estimates.PREDICTED:
        return "promises rest on what was learned"
    if settings.overrun is SimOverrun.EXTEND:
        return "promises break whenever a job outstays its estimate"
    return ""


def _rules_known(order: OrderRules, backfill: BackfillRules) -> Policy:
    """The policy with nothing in it but what a pool looks at."""
    return Policy(
        order=OrderRules(
            primary=order.primary, secondary=order.secondary, strict=order.strict, wait_max_s=0
        ),
        backfill=BackfillRules(
            kind=backfill.kind,
            depth=backfill.depth if backfill.kind is Backfill.CONSERVATIVE else 0,
            shortest=backfill.shortest,
            spare=backfill.spare,
            estimates=backfill.estimates,
            rebuild=backfill.rebuild,
            stretch=False,
        ),
    )
