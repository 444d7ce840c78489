"""Named policies: what ``policy = "fifo"`` in the settings means.

A preset is the whole of which job comes first, what may pass a waiting job, what gives way and
how gangs start. How use is weighed, where jobs are put and plug-ins are not its business and stay
as they are; ``horizon`` alone sets the half-life of use, which stays when another preset follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import (
    DEFAULT,
    Backfill,
    BackfillRules,
    Estimates,
    GangRules,
    OrderRules,
    Policy,
    PreemptBy,
    PreemptMode,
    PreemptRules,
    ShareRules,
)
from rota.core.words.policy_text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The parts of a policy that a preset decides.
PARTS = ("order", "backfill", "preempt", "gang")

_SKIPS = BackfillRules(kind=Backfill.NONE)
_EASY = BackfillRules(kind=Backfill.EASY)
_CONSERVATIVE = BackfillRules(kind=Backfill.CONSERVATIVE)


#: After this wait nothing passes a job that could delay it. A rule that says whose work matters
#: more has its way for a week where the first job has a promise. Where the rule only says what is
#: quick, or no job has a promise, a day is long enough.
_DAY_S, _WEEK_S = 86400, 7 * 86400


def _rules(
    primary: str,
    secondary: str = "fifo",
    backfill: BackfillRules = _SKIPS,
    strict: bool = False,
    wait_max_s: int = _DAY_S,
) -> Policy:
    order = OrderRules(primary=primary, secondary=secondary, strict=strict, wait_max_s=wait_max_s)
    return Policy(order=order, backfill=backfill)


PRESETS: Mapping[str, Policy] = {
    "default": DEFAULT,
    # The higher priority, which grows with age, then the account that used less of its share.
    "priority-easy": Policy(),
    # Strict: nothing passes the first that does not fit.
    "fcfs": _rules("fifo", strict=True),
    # In order of submission; what does not fit is skipped and keeps its place.
    "fifo": _rules("fifo"),
    "priority": _rules("priority"),
    "fairshare": _rules("fairshare"),
    "fairshare-easy": _rules("fairshare", backfill=_EASY, wait_max_s=_WEEK_S),
    "easy": _rules("fifo", backfill=_EASY),
    # The shortest of the jobs that may pass the first is asked first.
    "easy-sjbf": _rules("fifo", backfill=BackfillRules(kind=Backfill.EASY, shortest=True)),
    "conservative": _rules("fifo", backfill=_CONSERVATIVE),
    "conservative-rebuild": _rules(
        "fifo", backfill=BackfillRules(kind=Backfill.CONSERVATIVE, rebuild=True)
    ),
    "aggressive": _rules("fifo", backfill=BackfillRules(kind=Backfill.AGGRESSIVE)),
    "deadline": _rules(
        "deadline", "priority", BackfillRules(kind=Backfill.DEADLINE), wait_max_s=_WEEK_S
    ),
    "sjf": _rules("sjf"),
    "sjf-easy": _rules("sjf", backfill=_EASY),
    "saf": _rules("saf"),
    "wfp3": _rules("wfp3", backfill=_EASY),
    "unicef": _rules("unicef", backfill=_EASY),
    "f1": _rules("f1", backfill=_EASY),
    "multifactor": _rules("multifactor", backfill=_EASY, wait_max_s=_WEEK_S),
    # Wide jobs get a promise each, and start with most of their tasks.
    "gang": Policy(
        order=OrderRules(primary="priority", secondary="fairshare", wait_max_s=_WEEK_S),
        backfill=_CONSERVATIVE,
        gang=GangRules(partial=0.8),
    ),
    "preemptive": Policy(
        order=OrderRules(primary="priority", secondary="fairshare", wait_max_s=_WEEK_S),
        backfill=_EASY,
        # A job that may be interrupted wants the time to save its work.
        preempt=PreemptRules(enabled=True, grace_s=300),
    ),
    # The shortest runs, and interrupts jobs that take more than twice as long; these save first.
    "lab": Policy(
        order=OrderRules(primary="sjf", secondary="fairshare", wait_max_s=_DAY_S),
        backfill=BackfillRules(kind=Backfill.NONE, estimates=Estimates.PREDICTED),
        preempt=PreemptRules(
            enabled=True,
            mode=PreemptMode.CHECKPOINT,
            by=PreemptBy.LENGTH,
            only_willing=False,
            max_per_job=10,
        ),
    ),
    # Bands do not mix with age, what was used yesterday counts half, and what is of the high band
    # keeps its place: only low and normal jobs fill the room in front of a job that waits.
    "horizon": Policy(
        order=OrderRules(
            primary="priority", secondary="fairshare", age_factor=1.0, wait_max_s=_WEEK_S
        ),
        backfill=BackfillRules(kind=Backfill.EASY, high=False),
        share=ShareRules(half_life_s=_DAY_S),
    ),
}

#: Other spellings that people use.
ALIASES: Mapping[str, str] = {
    "backfill": "easy",
    "due": "default",
    "fair_share": "fairshare",
    "fair-share": "fairshare",
    "fcfs-strict": "fcfs",
    "preempt": "preemptive",
}


def preset(name: str) -> Policy:
    """The policy of that name, or a refusal that names the nearest."""
    word = ALIASES.get(name, name)
    if word not in PRESETS:
        known = [*PRESETS, *ALIASES]
        raise Rejected(
            f"policy: {name!r} is not known; {nearest(name, known)}",
            field="policy",
            value=name,
            allowed=", ".join(known),
        )
    return PRESETS[word]


def with_preset(policy: Policy, name: str) -> Policy:
    """The policy with the parts that the preset decides taken from it."""
    chosen = preset(name)
    share, half_life_s = policy.share, chosen.share.half_life_s
    if half_life_s != DEFAULT.share.half_life_s:
        share = msgspec.structs.replace(share, half_life_s=half_life_s)
    parts = {part: getattr(chosen, part) for part in PARTS}
    return msgspec.structs.replace(policy, share=share, **parts)


def name_of(policy: Policy) -> str:
    """The preset that a policy is, as far as presets decide; else ``custom``."""
    for name, chosen in PRESETS.items():
        if all(getattr(policy, part) == getattr(chosen, part) for part in PARTS):
            return name
    return "custom"
