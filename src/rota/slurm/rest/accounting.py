"""``/slurmdb``: what accounting knows, to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.accounting.sacctmgr_documents import (
    account_documents,
    association_document,
    cluster_documents,
    qos_documents,
    tres_documents,
    user_documents,
)
from rota.slurm.call.view import SlurmView
from rota.slurm.formats.account_documents import account_document
from rota.slurm.formats.long_documents import LongList
from rota.slurm.records.accounts import association_tree
from rota.slurm.records.gather import JobSieve, ended, unfinished
from rota.slurm.records.job_records import Recorder
from rota.slurm.records.job_refs import RefIndex, parse_ref
from rota.slurm.rest.errors import INVALID_JOB, RestRefusal, error_entry

if TYPE_CHECKING:
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
    return {"associations": [association_document(one, name) for one in _places(asked)]}


async def association(asked: RestRequest) -> dict[str, Any]:
    found = _places(asked)
    if len(found) > 1:
        text = "Ambiguous request: More than 1 association would have been dumped."
        entry = error_entry(text, EMPTY_QUERY, "Query empty or not RFC7320 compliant")
        raise RestRefusal(entry, 400, associations=[])
    name = SlurmView(asked.context).cluster_name
    return {"associations": [association_document(one, name) for one in found]}


async def accounts(asked: RestRequest) -> dict[str, Any]:
    return {"accounts": account_documents(asked.context.host.cluster, _cluster_name(asked))}


def _cluster_name(asked: RestRequest) -> str:
    return SlurmView(asked.context).cluster_name


async def account(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await accounts(asked))["accounts"] if one["name"] == asked.name]
    return {"accounts": _found(found, "accounts")}


async def users(asked: RestRequest) -> dict[str, Any]:
    return {"users": user_documents(asked.context.host.cluster, _cluster_name(asked))}


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
    return {"QOS": qos_documents(asked.context.host.cluster)}


async def one_qos(asked: RestRequest) -> dict[str, Any]:
    found = [one for one in (await qos(asked))["QOS"] if one["name"] == asked.name]
    return {"QOS": found}


async def tres(asked: RestRequest) -> dict[str, Any]:
    return {"TRES": tres_documents(asked.context.host.cluster)}


async def clusters(asked: RestRequest) -> dict[str, Any]:
    return {"clusters": cluster_documents(_cluster_name(asked))}
