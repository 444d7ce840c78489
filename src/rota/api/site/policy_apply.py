"""The route that changes the rules with a guard: tried on the past first, undone if wrong."""

from __future__ import annotations

import msgspec
from litestar import post

from rota.api.bodies.requests import Body
from rota.api.bodies.site_requests import ApplyRequest
from rota.api.context import Asking, actor_of, body_of, context_of
from rota.api.site.policy import PolicyView, policy_view, rules_of, tried
from rota.api.site.policy_replay import ReplayView, compared, replay_view
from rota.controller.chores.policy_guard import Guard
from rota.controller.commands.commands import SetPolicy
from rota.core.facts.errors import Conflict
from rota.core.words.policy_text import differences
from rota.core.words.presets import name_of

_body = Body(ApplyRequest)


class PolicyApplied(msgspec.Struct):
    """The rules that hold from now on, and what the replay foretold of them."""

    policy: PolicyView
    replay: ReplayView


@post(
    "/policy:apply",
    summary="Change the rules of scheduling with a guard",
    opt={"right": "administer", "body": ApplyRequest, "errors": (409, 429, 503)},
    status_code=200,
)
async def apply_policy(request: Asking) -> PolicyApplied:
    """Plays the jobs of the last days first, then changes the rules.

    While the guard watches, the change is undone when the jobs of a project wait longer on
    average than the replay foretold.
    """
    asked: ApplyRequest = await body_of(request, _body)
    context = context_of(request)
    host, before = context.host, context.host.cluster.policy
    after = tried(before, asked)
    found = differences(before, after)
    if not found:
        raise Conflict("nothing would change")
    foretold = await compared(host, after, asked)
    if host.cluster.policy != before:
        raise Conflict("the rules were changed while the past was played; try again")
    now_s = host.clock.now_s()
    guard = Guard(
        name=name_of(after),
        since_s=now_s,
        until_s=now_s + asked.guard_s,
        rules={key: msgspec.to_builtins(new) for key, (_, new) in found.items()},
        undo={key: msgspec.to_builtins(old) for key, (old, _) in found.items()},
        most_s={name: most_s for name, most_s in foretold.most_s.items() if name},
        others_s=foretold.most_s.get("", 0.0),
    )
    await context.guard.watch(guard)
    command = SetPolicy(actor=actor_of(request), preset=asked.policy, rules=rules_of(asked))
    policy = await host.ask(command)
    return PolicyApplied(policy_view(policy, guard), replay_view(policy, foretold))


ROUTES = [apply_policy]
