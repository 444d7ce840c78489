"""``/slurmdb`` with POST and DELETE: accounts, users, associations and QOS, as sacctmgr has them.

Every user may name every account here, so what an association limits is the user, or without one
the account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.rest.changes import decode, run_command
from rota.slurm.rest.errors import RestRefusal, RestRequest, error_entry, unknown_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.slurm.call.command import Answer

#: What the documents of slurmrestd hold, so that they may be sent back as they came.
_OF_ACCOUNT = {"associations", "coordinators", "description", "flags", "name", "organization"}
_OF_USER = {"administrator_level", "associations", "coordinators", "default", "flags", "name"}
_OF_ASSOCIATION = {"account", "cluster", "default", "flags", "is_default", "max", "min", "qos"} | {
    *("parent_account", "partition", "priority", "shares_raw", "usage", "user"),
}
_OF_QOS = {"description", "flags", "id", "limits", "name", "preempt", "priority"} | {
    *("usage_factor", "usage_threshold"),
}
_UNCHANGED = (1900, "Data has not changed since time specified")


async def post_accounts(asked: RestRequest) -> dict[str, Any]:
    for one in _entries(asked, "accounts", _OF_ACCOUNT):
        await _add(asked, "account", _name(one, "slurmdb_accounts_add"))
    return {}


async def post_users(asked: RestRequest) -> dict[str, Any]:
    for one in _entries(asked, "users", _OF_USER):
        await _add(asked, "user", _name(one, "slurmdb_users_add"))
    return {}


async def post_associations(asked: RestRequest) -> dict[str, Any]:
    source = "slurmdb_associations_add"
    projects = asked.context.host.cluster.accounts.projects
    for one in _entries(asked, "associations", _OF_ASSOCIATION):
        account, user = str(one.get("account") or ""), str(one.get("user") or "")
        if account not in projects:
            raise RestRefusal(error_entry(f"there is no account {account}", -1, source=source), 400)
        if user:
            await _add(asked, "user", user, f"account={account}")
        settings = list(_settings(one))
        if settings:
            kind, name = ("user", user) if user else ("account", account)
            _check(await _sacctmgr(asked, "modify", kind, name, "set", *settings), source)
    return {}


async def post_qos(asked: RestRequest) -> dict[str, Any]:
    source = "slurmdb_qos_add"
    for one in _entries(asked, "QOS", _OF_QOS):
        name = _name(one, source)
        settings = [f"priority={one['priority']}"] if one.get("priority") is not None else []
        limits = _at(one, "limits", "max")
        per = _at(limits, "jobs", "active_jobs", "per")
        for key, field in (("maxjobspu", "user"), ("maxjobspa", "account")):
            if per.get(field) is not None:
                settings.append(f"{key}={per[field]}")
        if total := _tres(_at(limits, "tres").get("total")):
            settings.append(f"grptres={total}")
        if name in asked.context.host.cluster.queues:
            words = ("modify", "qos", name, "set", *settings)
            _check(await _sacctmgr(asked, *words) if settings else None, source)
        else:
            _check(await _sacctmgr(asked, "add", "qos", name, *settings), source)
    return {}


async def delete_account(asked: RestRequest) -> dict[str, Any]:
    """As slurmrestd, 200 even where there was nothing: the errors say so."""
    answer = await _sacctmgr(asked, "delete", "account", asked.name)
    if answer.stdout == " Nothing deleted\n":
        raise RestRefusal(error_entry("", *_UNCHANGED, "slurmdb_accounts_remove"), 200)
    _check(answer, "slurmdb_accounts_remove")
    return {"removed_associations": [asked.name]}


async def delete_user(asked: RestRequest) -> dict[str, Any]:
    answer = await _sacctmgr(asked, "delete", "user", asked.name)
    if answer.stdout == " Nothing deleted\n":
        raise RestRefusal(error_entry("", *_UNCHANGED, "slurmdb_users_remove"), 304)
    _check(answer, "slurmdb_users_remove")
    return {"removed_users": [asked.name]}


async def delete_qos(asked: RestRequest) -> dict[str, Any]:
    answer = await _sacctmgr(asked, "delete", "qos", asked.name)
    if answer.stdout == " Nothing deleted\n":
        entry = error_entry("Nothing found", 9003, "Nothing found with query", "slurmdb_qos_remove")
        raise RestRefusal(entry)
    _check(answer, "slurmdb_qos_remove")
    return {"removed_qos": [asked.name]}


def _entries(asked: RestRequest, key: str, known: set[str]) -> Iterator[dict[str, Any]]:
    """What stands below a key of the body; a field that is none would be lost silently."""
    found = decode(asked).get(key)
    if not isinstance(found, list):
        text = "Query parameter not found"
        raise RestRefusal(error_entry(text, 9200, "Unable to resolve path", key), 400)
    for one in found:
        if not isinstance(one, dict):
            raise RestRefusal(error_entry(f"{key}: expected objects", 9000, "Invalid request"), 400)
        if unknown := sorted(one.keys() - known):
            raise unknown_key(unknown[0])
        yield one


def _name(one: dict[str, Any], source: str) -> str:
    name = one.get("name")
    if not isinstance(name, str) or not name:
        raise RestRefusal(error_entry("Missing required field 'name'", -1, source=source), 400)
    return name


def _at(value: Any, *keys: str) -> dict[str, Any]:  # noqa: ANN401 - anything that JSON can hold
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _settings(one: dict[str, Any]) -> Iterator[str]:
    if one.get("shares_raw") is not None:
        yield f"fairshare={one['shares_raw']}"
    limits = _at(one, "max")
    if (jobs := _at(limits, "jobs").get("active")) is not None:
        yield f"grpjobs={jobs}"
    if (queued := _at(limits, "jobs", "per").get("submitted")) is not None:
        yield f"grpsubmit={queued}"
    if total := _tres(_at(limits, "tres").get("total")):
        yield f"grptres={total}"


def _tres(entries: object) -> str:
    """``cpu=8,gres/gpu=4`` of a list of types, names and counts."""
    parts = []
    for one in entries if isinstance(entries, list) else ():
        if isinstance(one, dict):
            name = f"/{one['name']}" if one.get("name") else ""
            parts.append(f"{one.get('type', '')}{name}={one.get('count', '')}")
    return ",".join(parts)


async def _add(asked: RestRequest, kind: str, name: str, *words: str) -> None:
    """One that exists already stays as it is."""
    answer = await _sacctmgr(asked, "add", kind, name, *words)
    if answer.stdout != " Nothing new added.\n":
        _check(answer, f"slurmdb_{kind}s_add")


async def _sacctmgr(asked: RestRequest, *words: str) -> Answer:
    return await run_command(asked, "sacctmgr", ["-i", *words])


def _check(answer: Answer | None, source: str) -> None:
    if answer is not None and answer.code:
        text = (answer.stderr or str(answer.stdout)).strip()
        number, reason = -1, "Unspecified error"
        if text.endswith("Access/permission denied"):
            number, reason = 2002, "Access/permission denied"
        raise RestRefusal(error_entry(text, number, reason, source))
