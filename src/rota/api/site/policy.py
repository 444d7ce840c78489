"""Routes about the rules of scheduling: show them, change them, try a change."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import get, patch, post

from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import PolicyRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.controller.commands.commands import SetPolicy
from rota.core.facts.policy import DEFAULT, Policy
from rota.core.words.bound import bound_of
from rota.core.words.policy_text import changed, differences, flatten, nest, unnest
from rota.core.words.presets import ALIASES, PRESETS, name_of, with_preset

_body = Body(PolicyRequest)


class PolicyView(msgspec.Struct):
    """``name`` is the preset that the rules are, or ``custom``; ``changed`` what is not default;
    ``bound`` how long a job waits at most, in words."""

    name: str
    bound: str
    rules: dict[str, Any]
    changed: dict[str, Any]
    known: list[str]


class RuleChange(msgspec.Struct):
    key: str
    before: Any
    after: Any


class PolicyTrial(msgspec.Struct):
    """What a change of the rules would mean."""

    name: str
    changes: list[RuleChange]


def policy_view(policy: Policy) -> PolicyView:
    new = differences(DEFAULT, policy)
    return PolicyView(
        name=name_of(policy),
        bound=bound_of(policy).text,
        rules=nest(flatten(policy)),
        changed={key: after for key, (_, after) in new.items()},
        known=[*PRESETS, *ALIASES],
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
    return policy_view(context_of(request).host.cluster.policy)


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
