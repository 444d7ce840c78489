"""How long a job waits at most under a policy, in words and in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rota.core.words.units import format_duration

if TYPE_CHECKING:
    from rota.core.facts.policy import Policy


class Bound(NamedTuple):
    """What a policy promises to every job that could run on the empty site."""

    #: After this wait nothing starts that could delay the job; None: that is never so.
    passed_s: int | None
    text: str


def bound_of(policy: Policy) -> Bound:
    """The bound that the policy states.

    On top comes the time of the jobs ahead of it: those that have waited longer, and those that
    run when its wait is over. Where these keep to what they are taken to last it starts with the
    end of the last one on its nodes, else at most three of the longest such runs later.
    """
    order = policy.order
    if order.strict and order.primary == "fifo":
        return Bound(0, "no job is passed by a later one")
    if not order.wait_max_s:
        return Bound(None, "none: a job may be passed for ever (order.wait_max_s is 0)")
    return Bound(
        order.wait_max_s,
        f"a job that has waited {format_duration(order.wait_max_s)} is passed no more, and starts "
        "when what runs then and what has waited longer is over",
    )
