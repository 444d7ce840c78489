"""``sacctmgr add``, ``modify`` and ``delete``: projects, users with their quotas, and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rota.api.auth import require
from rota.api.site.quotas import with_quota, written_quota
from rota.controller.commands.commands import (
    RemoveProject,
    RemoveQueue,
    RemoveUser,
    SetProject,
    SetQueue,
    SetUser,
)
from rota.core.facts.errors import Forbidden, RotaError
from rota.core.facts.tenant import Limits, Project, Queue, Quota, User
from rota.digits import is_digits
from rota.slurm.accounting.sacctmgr_show import qos_list
from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.records.accounts import ROOT, association_tree, known_users
from rota.slurm.words.values import megabytes

if TYPE_CHECKING:
    from rota.controller.commands.commands import Command
    from rota.slurm.accounting.sacctmgr_order import AccountOrder
    from rota.slurm.call.command import Call
    from rota.slurm.call.view import SlurmView

#: What cannot be changed for one QOS, because Rota keeps such limits with projects and users.
_ELSEWHERE = "GrpTRES MaxTRES MaxTRESPU MaxTRESPerUser MaxWall MaxWallDurationPerJob Flags Preempt"
_NOTHING_NEW = " Nothing new added.\n"
#: What an entity is a record of.
_RECORDS = {"account": "project", "user": "user", "qos": "queue"}
QUESTION = "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): "


class AccountChange(msgspec.Struct):
    """What is to be done, and what is printed before it is."""

    commands: list[Any]
    text: str
    #: The words in front of a refusal.
    problem: str


async def change(call: Call, view: SlurmView, order: AccountOrder) -> Answer:
    """Carry out a change, after the question that ``-i`` leaves out."""
    ways = {
        ("add", "account"): _add_accounts,
        ("add", "user"): _add_users,
        ("add", "qos"): _add_qos,
        ("modify", "account"): _modify_accounts,
        ("modify", "user"): _modify_users,
        ("modify", "qos"): _modify_qos,
        ("delete", "account"): _delete_accounts,
        ("delete", "user"): _delete_users,
        ("delete", "qos"): _delete_qos,
    }
    way = ways.get((order.verb, order.entity))
    if way is None:
        raise CommandFailed(f"sacctmgr: error: {order.verb} {order.entity} is not possible here\n")
    planned = way(call, view, order)
    try:
        require(call.actor, "operate")
    except Forbidden:
        text = f" Problem {planned.problem}: Access/permission denied\n"
        raise CommandFailed(text, 1, planned.text) from None
    if "immediate" not in order.options and not await _confirmed(call, planned.text):
        return Answer("\n Changes Discarded\n")
    shown = planned.text if "immediate" in order.options else ""
    async with call.context.turns.of(_RECORDS[order.entity], *order.names):
        try:
            # Planned anew: what is changed may have been changed while the question stood.
            for command in way(call, view, order).commands:
                await call.context.host.ask(command)
        except RotaError as error:
            raise CommandFailed(f" Problem {planned.problem}: {error}\n", 1, shown) from None
    return Answer(shown)


async def _confirmed(call: Call, text: str) -> bool:
    await call.line.show(text + QUESTION)
    answer = await call.line.read_stdin()
    return answer.strip()[:1].lower() == b"y"


def _said(text: str) -> CommandFailed:
    """What goes to standard output, where tools that configure a site look for it."""
    return CommandFailed("", 1, text)


def _names(order: AccountOrder) -> list[str]:
    if not order.names:
        raise CommandFailed(f" Need name of {order.entity} to {order.verb}.\n")
    return order.names


def _add_accounts(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    cluster, values = view.cluster, order.values
    parent = values.get("parent", "")
    if parent and parent != ROOT and parent not in cluster.accounts.projects:
        raise CommandFailed(
            f" Parent account '{parent}' doesn't exist on cluster {view.cluster_name}\n"
            "        Contact your admin to add this account.\n No associations created.\n"
        )
    names = [name for name in _names(order) if name not in cluster.accounts.projects]
    if not names:
        raise _said(_NOTHING_NEW)
    made = [
        _changed_project(Project(name, "" if parent == ROOT else parent), order) for name in names
    ]
    text = " Adding Account(s)\n" + "".join(f"  {name}\n" for name in names) + " Settings\n"
    text += f"  Description     = {values.get('description', 'Account Name')}\n"
    text += f"  Organization    = {values.get('organization', 'Parent/Account Name')}\n"
    text += " Associations\n"
    text += "".join(f"  A = {name:<10} C = {view.cluster_name:<10}\n" for name in names)
    if parent:
        text += f" Settings\n  Parent        = {parent}\n"
    commands = [SetProject(actor=call.actor, project=project) for project in made]
    return AccountChange(commands, text, "adding accounts")


def _add_users(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    cluster = view.cluster
    account = order.values.get("account") or order.values.get("accounts") or ROOT
    if account != ROOT and account not in cluster.accounts.projects:
        raise CommandFailed(
            f" This account '{account}' doesn't exist.\n"
            "        Contact your admin to add this account.\n"
            " No associations or wckeys created.\n"
        )
    names = [name for name in _names(order) if name not in cluster.accounts.users]
    if not names:
        raise _said(_NOTHING_NEW)
    known = known_users(cluster)
    fresh = [name for name in names if name not in known]
    text = " Adding User(s)\n" + "".join(f"  {name}\n" for name in fresh) if fresh else ""
    text += " Associations =\n" + "".join(
        f"  U = {name:<9} A = {account:<10} C = {view.cluster_name:<10}\n" for name in names
    )
    text += " Non Default Settings\n"
    made = [_changed_user(User(name), order) for name in names]
    return AccountChange(
        [SetUser(actor=call.actor, user=user) for user in made], text, "adding users"
    )


def _add_qos(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    known = {one.name for one in qos_list(view.cluster)} | view.cluster.queues.keys()
    names = [name for name in _names(order) if name not in known]
    if not names:
        raise _said(_NOTHING_NEW)
    text = " Adding QOS(s)\n" + "".join(f"  {name}\n" for name in names) + " Settings\n"
    text += "".join(f"  Description    = {name}\n" for name in names)
    made = [_changed_queue(Queue(name), order) for name in names]
    commands = [SetQueue(actor=call.actor, queue=queue) for queue in made]
    return AccountChange(commands, text, "adding QOS")


def _modify_accounts(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    cluster = view.cluster
    projects = cluster.accounts.projects
    chosen = [projects[name] for name in order.names if name in projects]
    if not chosen:
        raise _said(" Nothing modified\n")
    commands: list[Command] = []
    text = " Modified account associations...\n"
    for project in chosen:
        made = _changed_project(project, order)
        commands.append(SetProject(actor=call.actor, project=made))
        parent = project.parent or ROOT
        text += f"  C = {view.cluster_name:<10} A = {project.name} of {parent}\n"
    return AccountChange(commands, text, "modifying accounts")


def _modify_users(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    cluster = view.cluster
    known = known_users(cluster)
    chosen = [name for name in order.names if name in known]
    if not chosen:
        raise _said(" Nothing modified\n")
    text = " Modified user associations...\n"
    text += "".join(
        f"  C = {view.cluster_name:<10} A = {place.account:<20} U = {place.user:<9}\n"
        for place in association_tree(cluster)
        if place.user in chosen
    )
    made = [_changed_user(cluster.accounts.users.get(name) or User(name), order) for name in chosen]
    return AccountChange(
        [SetUser(actor=call.actor, user=user) for user in made], text, "modifying users"
    )


def _modify_qos(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    queues = view.cluster.queues
    chosen = [queues[name] for name in order.names if name in queues]
    if not chosen:
        raise _said(" Nothing modified\n")
    text = " Modified qos...\n" + "".join(f"  {queue.name}\n" for queue in chosen)
    made = [_changed_queue(queue, order) for queue in chosen]
    commands = [SetQueue(actor=call.actor, queue=queue) for queue in made]
    return AccountChange(commands, text, "modifying QOS")


def _delete_accounts(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    chosen = [name for name in order.names if name in view.cluster.accounts.projects]
    return _deletion(
        [RemoveProject(actor=call.actor, project=name) for name in chosen], chosen, "accounts"
    )


def _delete_users(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    chosen = [name for name in order.names if name in view.cluster.accounts.users]
    return _deletion([RemoveUser(actor=call.actor, user=name) for name in chosen], chosen, "users")


def _delete_qos(call: Call, view: SlurmView, order: AccountOrder) -> AccountChange:
    chosen = [name for name in order.names if name in view.cluster.queues]
    return _deletion(
        [RemoveQueue(actor=call.actor, queue=name) for name in chosen], chosen, "QOS(s)"
    )


def _deletion(commands: list[Any], names: list[str], kind: str) -> AccountChange:
    if not names:
        raise CommandFailed("", stdout=" Nothing deleted\n")
    text = f" Deleting {kind}...\n" + "".join(f"  {name}\n" for name in names)
    return AccountChange(commands, text, f"deleting {kind.lower()}")


#: Keys that are taken and mean nothing here.
_IDLE = frozenset(
    {
        "account",
        "accounts",
        "adminlevel",
        "cluster",
        "clusters",
        "comment",
        "defaultaccount",
        "defaultqos",
        "description",
        "organization",
        "partition",
        "partitions",
        "qos",
        "qoslevel",
    }
)


def _unknown(key: str, value: str) -> CommandFailed:
    return CommandFailed(
        f" Unknown option: {key}={value}\n Use keyword 'where' to modify condition\n"
    )


def _changed_project(project: Project, order: AccountOrder) -> Project:
    quota = written_quota(project)
    shares, parent = project.shares, project.parent
    for key, value in order.values.items():
        plain = key.rstrip("+-")
        if plain in ("fairshare", "shares", "share"):
            shares = _whole(key, value, 1)
        elif plain == "parent":
            parent = "" if value == ROOT else value
        elif plain not in _IDLE:
            quota = _changed_quota(quota, key, value)
    made = with_quota(project, quota, None)
    return msgspec.structs.replace(made, shares=shares, parent=parent)


def _changed_user(user: User, order: AccountOrder) -> User:
    quota, shares = user.quota, user.shares
    for key, value in order.values.items():
        plain = key.rstrip("+-")
        if plain in ("fairshare", "shares", "share"):
            shares = _whole(key, value, 1)
        elif plain not in _IDLE:
            quota = _changed_quota(quota, key, value)
    return User(user.name, shares, quota)


def _changed_quota(quota: Quota, key: str, value: str) -> Quota:
    """The same quota with another hard limit; ``-1`` takes one away."""
    limits: dict[str, Any] = {}
    if key in ("grpjobs", "maxjobs"):
        limits["jobs"] = _ceiling(key, value)
    elif key in ("grpsubmit", "grpsubmitjobs", "maxsubmit", "maxsubmitjobs"):
        limits["queued"] = _ceiling(key, value)
    elif key in ("grptres", "maxtres", "maxtresperuser"):
        limits = _tres_limits(value)
    elif key == "grptresmins":
        minutes = _tres_limits(value).get("device_milli")
        limits["device_hours"] = None if minutes is None else minutes / 60_000
    else:
        raise _unknown(key, value)
    hard: Limits = msgspec.structs.replace(quota.hard, **limits)
    return msgspec.structs.replace(quota, hard=hard)


def _tres_limits(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        kind, _, amount = part.partition("=")
        if kind == "mem":
            found["memory_mib"] = _megabytes(amount)
            continue
        number = _ceiling(kind, amount)
        if kind == "cpu":
            found["cpu_milli"] = None if number is None else number * 1000
        elif kind == "gres/gpu":
            found["device_milli"] = None if number is None else number * 1000
        else:
            line = f"slurmdb_format_tres_str: no TRES known by type {kind}"
            raise CommandFailed(f"sacctmgr: error: {line}\n")
    return found


def _megabytes(text: str) -> int | None:
    if text == "-1":
        return None
    try:
        return megabytes(text)
    except ValueError:
        raise CommandFailed(f" Bad TRES value: mem={text}\n") from None


def _ceiling(key: str, value: str) -> int | None:
    return None if value == "-1" else _whole(key, value, 0)


def _whole(key: str, value: str, least: int) -> int:
    if not is_digits(value) or len(value) > 9 or int(value) < least:
        raise CommandFailed(
            f" Bad value for {key}: '{value}'; expected a whole number from {least} on\n"
        )
    return int(value)


def _changed_queue(queue: Queue, order: AccountOrder) -> Queue:
    changes: dict[str, Any] = {}
    fields = {
        "grpjobs": "max_running",
        "maxjobsperuser": "max_per_user",
        "maxjobspu": "max_per_user",
        "maxjobsperaccount": "max_per_project",
        "maxjobspa": "max_per_project",
    }
    elsewhere = {word.lower(): word for word in _ELSEWHERE.split()}
    for key, value in order.values.items():
        plain = key.rstrip("+-")
        if plain in fields:
            changes[fields[plain]] = _ceiling(key, value) or 0
        elif plain == "priority":
            changes["priority"] = min(_whole(key, value, 0), 100)
        elif plain in elsewhere:
            raise _kept_elsewhere(elsewhere[plain], value)
        elif plain not in _IDLE:
            raise _unknown(key, value)
    return msgspec.structs.replace(queue, **changes)


def _kept_elsewhere(name: str, value: str) -> CommandFailed:
    if "TRES" in name:
        # A kind that does not exist is the first thing that is wrong.
        _tres_limits(value)
    return CommandFailed(f" {name} is not kept per QOS here: set it for an account or a user\n")
