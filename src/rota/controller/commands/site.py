"""Commands about the site rather than about jobs: queues, groups, nodes, the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rota.controller.commands import (
    accounts,
    clusters,
    credentials,
    endpoints,
    enter_job,
    reserve,
    reserve_job,
    steps,
)
from rota.controller.commands import commands as cmd
from rota.controller.commands.access import require
from rota.controller.commands.change import own_job
from rota.controller.commands.gpu_findings import note_gpus
from rota.controller.tick import lifecycle, migrate
from rota.controller.tick.plugins import load_plugins
from rota.core.changes import events as ev
from rota.core.facts.errors import Conflict, NotFound, Rejected, named
from rota.core.facts.site.pilot import check as check_pilot
from rota.core.facts.states import ACTIVE, JobState
from rota.core.facts.tenant import Access, Group
from rota.core.words.placing_text import format_taint
from rota.core.words.policy_text import changed
from rota.core.words.presets import with_preset
from rota.hours import parse_hours, parse_zone, standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.controller.tick.scribe import Scribe
    from rota.core.facts.array import Array
    from rota.core.facts.job import Job
    from rota.core.facts.node import Node


#: Users do not have everything looked at again more often.
TRIGGER_S = 5.0


def perform(scribe: Scribe, command: cmd.Command) -> object:
    """Carry out one command; the answer is what it made or changed."""
    if rule := _OPEN.get(type(command)):
        return rule(scribe, command)
    if type(command) not in _OPERATED:
        raise AssertionError(f"no rule for {type(command).__name__}")
    require(command.actor, Access.ADMIN, Access.OPERATOR)
    return _OPERATED[type(command)](scribe, command)


def _trigger(scribe: Scribe, command: cmd.Trigger) -> None:
    """It costs a look at all that waits, so people share one with others who asked just now."""
    agenda = scribe.cluster.agenda
    shares = command.actor.access not in (Access.ADMIN, Access.OPERATOR)
    if shares and 0 <= scribe.now_s - agenda.triggered_s < TRIGGER_S:
        return
    agenda.triggered_s = scribe.now_s
    scribe.cluster.rules_changed()
    scribe.reopened = True


def _set_policy(scribe: Scribe, command: cmd.SetPolicy) -> object:
    """Everything is checked before anything changes; equal rules are no event."""
    require(command.actor, Access.ADMIN)
    before = scribe.cluster.policy
    after = with_preset(before, command.preset) if command.preset else before
    after = changed(after, command.rules)
    load_plugins(after)
    if after != before:
        scribe.emit(ev.PolicySet(policy=after))
    return after


def _checkpoint(scribe: Scribe, command: cmd.ReportCheckpoint) -> object:
    """The job's own word, or its owner's; a moment to come cannot be saved yet."""
    job = own_job(scribe, command.actor, command.job)
    if job.state not in ACTIVE:
        raise Conflict(
            f"job {job.id} is {job.state}; only a running job can report a checkpoint",
            field="id",
            value=job.id,
        )
    saved_s = command.saved_s or scribe.now_s
    if saved_s > scribe.now_s + 1.0:
        raise Rejected.because("saved_at", saved_s, f"{saved_s} is in the future")
    fresh = tuple(name for name in command.data if name not in job.made)
    if saved_s > job.checkpoint_s or fresh:
        saved_s = min(saved_s, scribe.now_s)
        attempt = max((attempt.number for attempt in job.round), default=0)
        record = replace(command.record, saved_s=saved_s, attempt=attempt)
        scribe.emit(
            ev.CheckpointReported(
                job=job.id, saved_s=saved_s, data=fresh, record=record, keep=command.keep
            )
        )
        lifecycle.news_of(scribe, job)
        migrate.after_report(scribe, job)
    return job


def _ask_save(scribe: Scribe, command: cmd.AskSave) -> object:
    """Only a job that said how it wants to be asked: another one might die of the signal."""
    job = own_job(scribe, command.actor, command.job)
    if job.state is not JobState.RUNNING or job.suspended_s:
        state = "suspended" if job.suspended_s else job.state
        raise Conflict(
            f"job {job.id} is {state}; only a running job can save its work",
            field="id",
            value=job.id,
        )
    if not job.spec.save_signal:
        raise Conflict(
            f"job {job.id} has no save signal; give it one: rota update {job.id} "
            "--save-signal USR2",
            field="id",
            value=job.id,
        )
    scribe.emit(ev.SaveAsked(job=job.id))
    return job


def _set_elsewhere(scribe: Scribe, command: cmd.SetElsewhere) -> None:
    """Put on record what changed of it."""
    for name in sorted(scribe.cluster.nodes):
        uuids = command.nodes.get(name, ())
        if scribe.cluster.nodes[name].elsewhere != uuids:
            scribe.emit(ev.DevicesElsewhere(node=name, devices=uuids))


def _set_group(scribe: Scribe, command: cmd.SetGroup) -> object:
    now = named(scribe.cluster.groups, "group", command.group.name)
    if now.owner != command.actor.user or command.actor.job:
        require(command.actor, Access.ADMIN, Access.OPERATOR)
    group = Group(now.name, now.owner, command.group.max_concurrent)
    scribe.emit(ev.GroupSet(group=group))
    return group


def _set_pilot(scribe: Scribe, command: cmd.SetPilot) -> object:
    """For admins: what runs in an allocation runs with the rights of this Rota."""
    require(command.actor, Access.ADMIN)
    pilot = command.pilot
    check_pilot(pilot)
    if scribe.cluster.pilots.get(pilot.name) != pilot:
        scribe.emit(ev.PilotSet(pilot=pilot))
    return pilot


def _remove_pilot(scribe: Scribe, command: cmd.RemovePilot) -> object:
    require(command.actor, Access.ADMIN)
    named(scribe.cluster.pilots, "pilot", command.pilot)
    scribe.emit(ev.PilotRemoved(pilot=command.pilot))
    return command.pilot


def _set_queue(scribe: Scribe, command: cmd.SetQueue) -> object:
    queue = command.queue
    for field, check in (("hours", parse_hours), ("zone", parse_zone)):
        try:
            check(getattr(queue, field))
        except ValueError as error:
            raise Rejected(f"{field}: {error}", field=field, value=getattr(queue, field)) from None
    queue = standing(queue, scribe.now_s)
    scribe.emit(ev.QueueSet(queue=queue))
    return queue


def _remove_queue(scribe: Scribe, command: cmd.RemoveQueue) -> object:
    cluster, name = scribe.cluster, command.queue
    named(cluster.queues, "queue", name)
    items: list[Job | Array] = [*cluster.jobs.values()]
    items += [array for array in cluster.arrays.values() if array.waiting]
    waiting = [item for item in items if item.spec.queue == name]
    if waiting or name == "default":
        raise Conflict(f"queue {name} is the default or still has jobs", field="queue", value=name)
    scribe.emit(ev.QueueRemoved(queue=name))
    return name


def _drain_node(scribe: Scribe, command: cmd.DrainNode) -> object:
    node = named(scribe.cluster.nodes, "node", command.node)
    if command.deadline_s and command.deadline_s <= scribe.now_s:
        raise Rejected.because(
            "deadline_at", command.deadline_s, "the moment is in the past; give a future time"
        )
    scribe.emit(
        ev.NodeDrained(
            node=command.node,
            drained=command.drained,
            note=command.note,
            migrate=command.migrate,
            deadline_s=command.deadline_s,
            by=command.actor.user,
        )
    )
    if command.migrate:
        migrate.empty(scribe, node)
    return node


def _mark_node(scribe: Scribe, command: cmd.MarkNode) -> object:
    """What the agent says about its machine stays: an operator can only speak louder."""
    node = named(scribe.cluster.nodes, "node", command.node)
    labels = dict(node.labels)
    for key, value in command.labels.items():
        if value is not None:
            labels[key] = value
        elif labels.pop(key, None) is None:
            raise _not_marked(node, "label", key, [*node.labels], key in node.spec.labels)
    taints = {(taint.key, taint.value): taint for taint in node.taints}
    for key in command.untaint:
        chosen = [pair for pair in taints if pair[0] == key]
        if not chosen:
            ours = any(taint.key == key for taint in node.spec.taints)
            raise _not_marked(node, "taint", key, [format_taint(t) for t in node.taints], ours)
        for pair in chosen:
            del taints[pair]
    taints |= {(taint.key, taint.value): taint for taint in command.taints}
    event = ev.NodeMarked(
        node=node.name,
        labels=labels,
        taints=tuple(taints.values()),
        closed=_closed(node, command.devices),
        ignored_pids=_ignored(node, command),
    )
    before = (node.labels, node.taints, node.closed, node.ignored_pids)
    if (event.labels, event.taints, event.closed, event.ignored_pids) != before:
        scribe.emit(event)
    return node


def _closed(node: Node, chosen: tuple[int, ...] | None) -> tuple[str, ...]:
    """The uuids that jobs are not given, when they may have these indices only."""
    if chosen is None:
        return node.closed
    devices = node.spec.devices
    known = {device.index for device in devices}
    if strange := [index for index in chosen if index not in known]:
        there = ", ".join(str(device.index) for device in devices) or "none"
        why = f"node {node.name} has no device {strange[0]}; it has {there}"
        raise Rejected.because("devices", strange[0], why)
    if not chosen:
        return ()
    return tuple(device.uuid for device in devices if device.index not in chosen)


def _ignored(node: Node, command: cmd.MarkNode) -> tuple[int, ...]:
    """Only of what is there: a pid that is to come may be anybody's."""
    there = dict.fromkeys(use.pid for use in node.foreign)
    for field, pids, known in (
        ("ignore", command.ignore, there),
        ("unignore", command.unignore, dict.fromkeys(node.ignored_pids)),
    ):
        if strange := [pid for pid in pids if pid not in known]:
            listed = ", ".join(map(str, known)) or "none"
            what = "processes outside Rota" if field == "ignore" else "ignored processes"
            why = f"{strange[0]} is none of the {what} on node {node.name}: {listed}"
            raise Rejected.because(field, strange[0], why)
    kept = [pid for pid in node.ignored_pids if pid not in command.unignore]
    return tuple(dict.fromkeys((*kept, *command.ignore)))


def _not_marked(node: Node, kind: str, key: str, known: list[str], of_agent: bool) -> Rejected:
    if of_agent:
        return Conflict(
            f"{kind}s: {key} of node {node.name} comes from its agent; change it in [agent] there",
            field=f"{kind}s",
            value=key,
        )
    return NotFound(
        f"{kind}s: node {node.name} has no {kind} {key}; it has {', '.join(known) or 'none'}",
        field=f"{kind}s",
        value=key,
    )


#: Rules that look themselves at who asks.
_OPEN: dict[type, Callable[[Scribe, Any], object]] = {
    cmd.SetGroup: _set_group,
    cmd.MakeToken: credentials.make_token,
    cmd.RevokeToken: credentials.revoke_token,
    cmd.Trigger: _trigger,
    cmd.ReportCheckpoint: _checkpoint,
    cmd.AskSave: _ask_save,
    cmd.SetEndpoint: endpoints.set_endpoint,
    cmd.EnterJob: enter_job.enter,
    cmd.BeginStep: steps.begin,
    cmd.EndStep: steps.end,
    cmd.SetPolicy: _set_policy,
    cmd.SetPilot: _set_pilot,
    cmd.RemovePilot: _remove_pilot,
}
#: For operators and admins.
_OPERATED: dict[type, Callable[[Scribe, Any], object]] = {
    cmd.SetQueue: _set_queue,
    cmd.RemoveQueue: _remove_queue,
    cmd.SetVdc: clusters.set_vdc,
    cmd.RemoveVdc: clusters.remove_vdc,
    cmd.SetProject: accounts.set_project,
    cmd.RemoveProject: accounts.remove_project,
    cmd.SetUser: accounts.set_user,
    cmd.RemoveUser: accounts.remove_user,
    cmd.ForgetUsage: accounts.forget_usage,
    cmd.AddReservation: reserve.add,
    cmd.ReserveForJob: reserve_job.add,
    cmd.SetElsewhere: _set_elsewhere,
    cmd.NoteGpus: note_gpus,
    cmd.SetQuotaProvider: accounts.set_quota_provider,
    cmd.SeeQuotas: accounts.see_quotas,
    cmd.NoteQuota: accounts.note_quota,
    cmd.RemoveReservation: reserve_job.remove,
    cmd.DrainNode: _drain_node,
    cmd.ApproveNode: credentials.approve_node,
    cmd.RenewNodeKey: credentials.renew_node_key,
    cmd.RemoveNode: credentials.remove_node,
    cmd.MarkNode: _mark_node,
}
