"""The rules of a pass, as one value: a fact like any other, so that every replay obeys it.

The controller takes it from ``rota.toml`` and from ``rota policy set``; the simulator and the
what-if bring their own. Names of rules are looked up in ``rota.scheduling.registry``.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rota.core.facts.site.clusters import Vdc
from rota.core.facts.site.prices import PriceRules

#: The low band of priorities ends here, the high band begins there; between them is normal.
LOW_MAX, HIGH_MIN = 33, 67


class Mixing(StrEnum):
    """Whether a job that asks for no device may sit on a node that has some."""

    NEVER = "never"
    AVOID = "avoid"
    ALLOW = "allow"


class Backfill(StrEnum):
    """What may pass a job that does not fit yet."""

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    AGGRESSIVE = "aggressive"
    DEADLINE = "deadline"


class Estimates(StrEnum):
    """Where it is known from how long a job will run."""

    USER = "user"
    PREDICTED = "predicted"


class Overrun(StrEnum):
    """What happens to a backfilled job that is still there when its window ends."""

    STOP = "stop"
    EXTEND = "extend"


class PreemptMode(StrEnum):
    """How a victim gives way."""

    REQUEUE = "requeue"
    CHECKPOINT = "checkpoint"
    SUSPEND = "suspend"
    CANCEL = "cancel"


class PreemptBy(StrEnum):
    """What entitles a job to the room of another."""

    #: Its priority is higher by ``preempt.gap``.
    PRIORITY = "priority"
    #: It is taken to run less than half as long, with a gap of 100; a quarter with 200.
    LENGTH = "length"


class OrderRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which job comes first. ``primary`` decides, ``secondary`` among equals, then the lower id."""

    primary: str = "priority"
    secondary: str = "fairshare"
    #: Nothing passes a job that does not fit, whatever the backfill says.
    strict: bool = False
    #: Factors on the priority of the low, normal and high band.
    boost_low: float = 0.5
    boost_normal: float = 1.0
    boost_high: float = 2.0
    #: After this wait the priority grows by ``age_factor`` per further period, up to the cap.
    age_after_s: int = 3600
    age_factor: float = 1.1
    priority_max: int = 1000
    #: A job that has waited this long comes before all that have not, the oldest of them first,
    #: and only jobs that their limits end in time pass it, whatever the rules say: no job waits
    #: for ever. 0: never.
    wait_max_s: int = 7 * 86400
    #: Weight of the bonus for a (short) time limit in the sum; 0 leaves it to break ties.
    limit_bonus_weight: float = 0.0
    #: Weight of fair share in the sum of the rule ``multifactor``.
    share_weight: float = 500.0
    #: Under the rule ``due`` a job is due after this many times its run time, but at the latest
    #: after this wait; an account far beyond its share is set back by up to ``share_s``.
    due_factor: float = 20.0
    due_max_s: int = 2 * 86400
    share_s: int = 3 * 3600


class ShareRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How use is remembered and weighed."""

    #: What projects have used: ``rota``, or ``provider``: by the accounting of the program that has
    #: the quotas, where it tells.
    source: str = "rota"
    #: ``half-life`` or ``window``.
    memory: str = "half-life"
    half_life_s: int = 7 * 86400
    window_s: int = 168 * 3600
    #: ``dominant`` (use over target), or ``simple`` for weight / (usage + 1) in GPU-hours.
    form: str = "dominant"
    weight_cpu: float = 1.0
    weight_memory: float = 1.0
    weight_device: float = 1.0
    #: What is held now against what was used before.
    live_weight: float = 1.0
    past_weight: float = 1.0
    #: Beyond this multiple of its target an account comes after all that are below it; 0: no limit.
    soft_ratio: float = 0.0
    #: Beyond this multiple of its target an account starts nothing while others wait; 0: no limit.
    hard_ratio: float = 0.0


class BackfillRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: Backfill = Backfill.EASY
    #: Waiting jobs with a promise of their own; 0: what the kind says (1, conservative 256).
    depth: int = 0
    #: Candidates looked at behind the first job that waits; 0: all.
    look_ahead: int = 0
    #: Reservations further ahead than this are not made; 0: no limit.
    horizon_s: int = 0
    #: How much later than first computed an aggressive pass may let the head start.
    delay_max_s: int = 3600
    overrun: Overrun = Overrun.EXTEND
    #: Estimates of an account whose runs outlived theirs are stretched.
    stretch: bool = True
    #: ``predicted``: waiting jobs are measured by what such jobs took before.
    estimates: Estimates = Estimates.USER
    #: A job with a promise that has waited this long is passed only by jobs that their limits end
    #: in time, whatever these are taken to run; 0: from ``order.wait_max_s`` on.
    trust_s: int = 0
    #: Behind the first job that waits, the one that is taken to run the shortest is asked first;
    #: under the order ``due`` its wait counts as well.
    shortest: bool = False
    #: A job that stays longer than until a promise begins may use what that leaves over.
    spare: bool = True
    #: Jobs of the high band pass a job that was promised a start as others do; False: only low and
    #: normal ones do.
    high: bool = True
    #: When a job leaves early, all promises are made anew instead of each brought forward.
    rebuild: bool = False
    #: Promises rest on limits alone: every job is taken to stay for as long as it may.
    limits_only: bool = False
    #: Assumed for jobs that name neither a limit nor an estimate.
    estimate_device_s: int = 4 * 3600
    estimate_cpu_s: int = 3600


class PlaceRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    #: ``score``, ``first-fit``, ``best-fit``, ``spread``, ``fgd``, ``dotprod``, ``gpu-packing``.
    strategy: str = "score"
    weight_fit: int = 30
    weight_affinity: int = 20
    weight_load: int = 20
    weight_locality: int = 20
    weight_cost: int = 10
    #: ``score``: the emptiest nodes first. Services are spread in any case.
    spread: bool = False
    cpu_jobs_on_gpu_nodes: Mixing = Mixing.AVOID
    #: ``sequential``, ``numa`` or ``random`` (seeded by the job's id).
    devices: str = "numa"
    overcommit_cpu: float = 1.0
    overcommit_memory: float = 1.0


class PreemptRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    enabled: bool = False
    mode: PreemptMode = PreemptMode.REQUEUE
    by: PreemptBy = PreemptBy.PRIORITY
    #: The preemptor's priority must be higher by this much (on the scale of 0 to 1000).
    gap: int = 100
    min_runtime_s: int = 300
    max_per_job: int = 3
    grace_s: int = 60
    #: Only jobs that said ``--preemptible`` (or are best-effort) are victims.
    only_willing: bool = True
    #: A pass that has evicted this many jobs looks for no more victims until a while later, so that
    #: a burst cannot empty the cluster. A single job may have as many as it needs.
    max_per_pass: int = 16


class GangRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    #: A gang that says nothing itself starts with this share of its tasks; 1: all of them.
    partial: float = 1.0
    #: All members must have started this long after they were placed; 0: no limit.
    assembly_timeout_s: int = 600
    #: Running elastic gangs grow when there is room.
    grow: bool = True


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All rules. ``DEFAULT`` is what a shared GPU box wants."""

    order: OrderRules = OrderRules()
    share: ShareRules = ShareRules()
    backfill: BackfillRules = BackfillRules()
    place: PlaceRules = PlaceRules()
    preempt: PreemptRules = PreemptRules()
    gang: GangRules = GangRules()
    prices: PriceRules = PriceRules()
    #: What a job may ask for between TERM and KILL: as much longer than its lease a node that fell
    #: silent keeps it from starting elsewhere. 0: no bound.
    grace_max_s: int = 3600
    #: Jobs must name a project that exists.
    known_projects: bool = False
    #: What the site has of things that jobs hold and no node owns: ``matlab:5``.
    licenses: tuple[str, ...] = ()
    #: Where the members of gangs meet: one of these ports of the first member's node, from here.
    port_first: int = 20_000
    port_count: int = 10_000
    #: Plug-ins by point: ``filters``, ``scorers``, ``victims`` -> names or ``module:Name``.
    filters: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    #: A plug-in that takes longer than this in one pass is switched off for it.
    plugin_budget_ms: int = 50
    #: Virtual data centres. They are made one by one, not written as a rule.
    vdcs: tuple[Vdc, ...] = ()

    def vdc(self, name: str) -> Vdc | None:
        """The virtual data centre of that name."""
        return next((vdc for vdc in self.vdcs if vdc.name == name), None)


#: What a site does unless told otherwise. The parts have defaults of their own, so that a policy
#: on record stays what it was.
DEFAULT = Policy(
    order=OrderRules(primary="due", secondary="fifo"),
    backfill=BackfillRules(estimates=Estimates.PREDICTED, trust_s=10 * 3600, shortest=True),
)
