"""Routes about the rules of scheduling: show them, change them, try a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import get, patch, post

from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import PolicyRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.views.times import Moment, when
from rota.controller.commands.commands import SetPolicy
from rota.core.facts.policy import DEFAULT, Policy
from rota.core.words.bound import bound_of
from rota.core.words.policy_text import changed, differences, flatten, nest, unnest
from rota.core.words.presets import ALIASES, PRESETS, name_of, with_preset

if TYPE_CHECKING:
    from rota.controller.chores.policy_guard import Guard

_body = Body(PolicyRequest)


class Bar(msgspec.Struct):
    """The longest mean wait that was foretold of a project; an empty name: of all others."""

    project: str
    most_s: float


class GuardView(msgspec.Struct):
    """A change of the rules on trial. ``ended`` says why it is watched no more."""

    name: str
    since: Moment | None
    until: Moment | None
    bars: list[Bar]
    ended: str


class PolicyView(msgspec.Struct):
    """``name`` is the preset that the rules are, or ``custom``; ``changed`` what is not default;
    ``bound`` how long a job waits at most, in words; ``guard`` the last change with a guard."""

    name: str
    bound: str
    rules: dict[str, Any]
    changed: dict[str, Any]
    known: list[str]
    guard: GuardView | None = None


class RuleChange(msgspec.Struct):
    key: str
    before: Any
    after: Any


class PolicyTrial(msgspec.Struct):
    """What a change of the rules would mean."""

    name: str
    changes: list[RuleChange]


def guard_view(guard: Guard) -> GuardView:
    bars = [Bar(name, guard.most_s[name]) for name in sorted(guard.most_s) if name]
    return GuardView(
        guard.name,
        when(round(guard.since_s)),
        when(round(guard.until_s)),
        [*bars, Bar("", guard.others_s)],
        guard.ended,
    )


def policy_view(policy: Policy, guard: Guard | None = None) -> PolicyView:
    new = differences(DEFAULT, policy)
    return PolicyView(
        name=name_of(policy),
        bound=bound_of(policy).text,
        rules=nest(flatten(policy)),
        changed={key: after for key, (_, after) in new.items()},
        known=[*PRESETS, *ALIASES],
        guard=guard_view(guard) if guard is not None else None,
    )


def rules_of(asked: PolicyRequest) -> dict[str, Any]:
    """Rules by their keys, however they were written."""
    return unnest(asked.rules)


def tried(policy: Policy, asked: PolicyRequest) -> Policy:
    """The policy that a request asks for, with every name and value checked."""
    base = with_preset(policy, asked.policy) if asked.policy else policy
    return changed(base, rules_of(asked))


@get("/policy", summary="The rules of scheduling", opt={"right": "read"})
async def show_policy(request: Asking) -> PolicyView:
    """Every rule in its table, and which of them are not the default."""
    context = context_of(request)
    return policy_view(context.host.cluster.policy, context.guard.guard)


@patch(
    "/policy",
    summary="Change the rules of scheduling",
    opt={"right": "administer", "body": PolicyRequest, "errors": (429, 503)},
)
async def change_policy(request: Asking) -> PolicyView:
    """From the next pass on; kept over restarts, but what `rota.toml` names wins at each start."""
    asked: PolicyRequest = await body_of(request, _body)
    host = context_of(request).host
    tried(host.cluster.policy, asked)
    command = SetPolicy(actor=actor_of(request), preset=asked.policy, rules=rules_of(asked))
    policy: Policy = await host.ask(command)
    return policy_view(policy)


@post(
    "/policy:test",
    summary="What a change of the rules would mean",
    opt={"right": "read", "body": PolicyRequest},
    status_code=200,
)
async def test_policy(request: Asking) -> PolicyTrial:
    """Changes nothing."""
    asked: PolicyRequest = await body_of(request, _body)
    before = context_of(request).host.cluster.policy
    after = tried(before, asked)
    found = differences(before, after)
    return PolicyTrial(name_of(after), [RuleChange(k, *pair) for k, pair in found.items()])


ROUTES = [show_policy, change_policy, test_policy]
