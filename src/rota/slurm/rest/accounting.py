"""``/slurmdb``: what accounting knows, to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.accounting.sacctmgr_show import qos_list
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.account_documents import account_document, tres_list
from rota.slurm.formats.long_documents import LongList
from rota.slurm.records.accounts import (
    ROOT,
    association_tree,
    default_account,
    grp_tres,
    known_users,
    tres_kinds,
)
from rota.slurm.records.gather import JobSieve, ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref
from rota.slurm.rest.errors import INVALID_JOB, RestRefusal, error_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.slurm.accounting.sacctmgr_show import Qos
    from rota.slurm.records.accounts import Association
    from rota.slurm.records.job_refs import JobRef
    from rota.slurm.records.records import JobRecord
    from rota.slurm.rest.errors import RestRequest

EMPTY_QUERY = 9000
DAY_S = 86400


async def jobs(asked: RestRequest) -> dict[str, Any]:
    """Everything that was there within the last day."""
    view = SlurmView(asked.context)
    found = await _records(asked, view, None, view.now_s - DAY_S)
    name, now_s = view.cluster_name, view.now_s
    return {"jobs": LongList(found, lambda one: account_document(one, name, now_s))}


async def job(asked: RestRequest) -> dict[str, Any]:
    view, ref = SlurmView(asked.context), parse_ref(asked.name)
    found = await _records(asked, view, ref, 0.0) if ref is not None else []
    if not found:
        entry = error_entry(
            f"Unable to find JobId={asked.name}", INVALID_JOB, "Invalid job id specified"
        )
        raise RestRefusal(entry, jobs=[])
    return {"jobs": [account_document(one, view.cluster_name, view.now_s) for one in found]}


async def _records(
    asked: RestRequest, view: SlurmView, ref: JobRef | None, since_s: float
) -> list[JobRecord]:
    context = asked.context
    recorder = Recorder(context, view.now_s, actor=asked.actor, steps=True)
    wanted = JobSieve(refs=RefIndex(() if ref is None else (ref,)), steps=True)
    found = {one.shown_id: one for one in await unfinished(context.host, wanted, recorder)}
    await context.host.on_disk()
    over = await ended(context.host, wanted, recorder, since_s)
    found |= {one.shown_id: one for one in over}
    return sorted(found.values(), key=lambda one: one.job_id)


def _places(asked: RestRequest) -> list[Association]:
    query = asked.query
    return [
        place
        for place in association_tree(asked.context.host.cluster)
        if query.get("account") in (None, place.account) and query.get("user") in (None, place.user)
    ]


async def associations(asked: RestRequest) -> dict[str, Any]:
    name = SlurmView(asked.context).cluster_name
    return {"associations": [_association(place, name) for place in _places(asked)]}


async def association(asked: RestRequest) -> dict[str, Any]:
    found = _places(asked)
    if len(found) > 1:
        text = "Ambiguous request: More than 1 association would have been dumped."
        entry = error_entry(text, EMPTY_QUERY, "Query empty or not RFC7320 compliant")
        raise RestRefusal(entry, 400, associations=[])
    name = SlurmView(asked.context).cluster_name
    return {"associations": [_association(place, name) for place in found]}


def _association(place: Association, cluster: str) -> dict[str, Any]:
    limits = place.quota.hard
    return {
        "account": place.account,
        "cluster": cluster,
        "default": {"qos": "normal"},
        "flags": [],
        "max": {
            "jobs": {
                "per": {
                    "count": None,
                    "accruing": None,
                    "submitted": limits.queued,
                    "wall_clock": None,
                },
                "active": limits.jobs,
                "accruing": None,
                "total": None,
            },
            "tres": {
                "total": tres_list(grp_tres(limits)),
                "minutes": {"per": {"job": []}, "total": []},
                "group": {"minutes": [], "active": []},
                "per": {"job": [], "node": []},
            },
            "per": {"account": {"wall_clock": None}},
        },
        "is_default": 0,
        "min": {"priority_threshold": None},
        "parent_account": place.parent or None,
        "partition": None,
        "priority": None,
        "qos": ["normal"],
        "shares_raw": place.shares,
        "usage": None,
        "user": place.user or None,
    }


async def accounts(asked: RestRequest) -> dict[str, Any]:
    members = _grouped(asked, lambda one: one.account)
    places = [one for one in association_tree(asked.context.host.cluster) if not one.user]
    return {"accounts": [_account(one, members[one.account]) for one in places]}


def _grouped(
    asked: RestRequest, key: Callable[[Association], str]
) -> dict[str, list[dict[str, Any]]]:
    """All associations, by the account or by the user."""
    name = SlurmView(asked.context).cluster_name
    found: dict[str, list[dict[str, Any]]] = {}
    for one in association_tree(asked.context.host.cluster):
        found.setdefault(key(one), []).append(_place(one, name))
    return found


async def account(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await accounts(asked))["accounts"] if one["name"] == asked.name]
    return {"accounts": _found(found, "accounts")}


def _place(place: Association, cluster: str) -> dict[str, Any]:
    user = place.user or None
    return {"account": place.account, "cluster": cluster, "partition": None, "user": user}


def _account(place: Association, members: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "associations": members,
        "coordinators": [],
        "description": place.account,
        "name": place.account,
        "organization": place.parent or place.account,
        "flags": [],
    }


async def users(asked: RestRequest) -> dict[str, Any]:
    cluster = asked.context.host.cluster
    places = _grouped(asked, lambda one: one.user)
    return {
        "users": [
            {
                "administrator_level": "Administrator" if name == "root" else "None",
                "associations": places.get(name, []),
                "coordinators": [],
                "default": {"account": default_account(cluster, name), "wckey": ""},
                "flags": [],
                "name": name,
            }
            for name in known_users(cluster)
        ]
    }


async def user(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await users(asked))["users"] if one["name"] == asked.name]
    return {"users": _found(found, "users")}


def _found(items: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    if not items:
        source = f"slurmdb_{kind}_get"
        entry = error_entry("Nothing found", 9003, "Nothing found with query", source)
        raise RestRefusal(entry, 500, **{kind: []})
    return items


async def qos(asked: RestRequest) -> dict[str, Any]:
    known = qos_list(asked.context.host.cluster)
    return {"QOS": [_qos(one, number) for number, one in enumerate(known, 1)]}


async def one_qos(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await qos(asked))["QOS"] if one["name"] == asked.name]
    return {"QOS": found}


def _qos(one: Qos, number: int) -> dict[str, Any]:
    return {
        "description": one.name,
        "flags": [],
        "id": number,
        "limits": {
            "grace_time": 0,
            "max": {
                "active_jobs": {"accruing": None, "count": one.max_jobs or None},
                "tres": {
                    "total": [],
                    "minutes": {"per": {"qos": [], "job": [], "account": [], "user": []}},
                    "per": {"account": [], "job": [], "node": [], "user": []},
                },
                "wall_clock": {"per": {"qos": None, "job": None}},
                "jobs": {
                    "active_jobs": {
                        "per": {
                            "account": one.max_jobs_account or None,
                            "user": one.max_jobs_user or None,
                        }
                    },
                    "per": {"account": None, "user": None},
                },
                "accruing": {"per": {"account": None, "user": None}},
            },
            "factor": None,
            "min": {"priority_threshold": None, "tres": {"per": {"job": []}}},
        },
        "name": one.name,
        "preempt": {"list": [], "mode": [], "exempt_time": None},
        "priority": one.priority,
        "usage_factor": 1.0,
        "usage_threshold": None,
    }


async def tres(asked: RestRequest) -> dict[str, Any]:
    kinds = tres_kinds(asked.context.host.cluster)
    plain = [kind for kind in kinds if kind[2] < 1000]
    devices = [kind for kind in kinds if kind[2] > 1000]
    rows = [*plain, ("dynamic_offset", "", 1000), *devices]
    return {
        "TRES": [
            {"type": type_, "name": name or None, "id": number, "count": 0}
            for type_, name, number in rows
        ]
    }


async def clusters(asked: RestRequest) -> dict[str, Any]:
    name = SlurmView(asked.context).cluster_name
    return {
        "clusters": [
            {
                "controller": {"host": "127.0.0.1", "port": 6817},
                "flags": [],
                "name": name,
                "nodes": None,
                "select_plugin": "select/cons_tres",
                "associations": {"root": {"account": ROOT, "cluster": name, "user": "root"}},
                "rpc_version": 9728,
                "tres": [],
            }
        ]
    }
