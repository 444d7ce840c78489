"""Accounts, users and their kin as slurmrestd and ``sacctmgr --json`` write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.slurm.accounting.sacctmgr_show import qos_list
from rota.slurm.call.command import CommandFailed
from rota.slurm.formats.account_documents import tres_list
from rota.slurm.formats.later import later_place, later_qos, later_user
from rota.slurm.records.accounts import (
    ROOT,
    association_tree,
    default_account,
    grp_tres,
    known_users,
    tres_kinds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.cluster import Cluster
    from rota.slurm.accounting.sacctmgr_order import AccountOrder
    from rota.slurm.accounting.sacctmgr_show import Qos
    from rota.slurm.call.command import Answer
    from rota.slurm.call.view import SlurmView
    from rota.slurm.formats.shown_document import DocumentShape
    from rota.slurm.records.accounts import Association


async def show_document(view: SlurmView, order: AccountOrder, shape: DocumentShape) -> Answer:
    """``sacctmgr show ENTITY`` as a document."""
    cluster, name = view.cluster, view.cluster_name
    if order.entity == "association":
        tree = association_tree(cluster)
        of = shape.item(later_place)
        found = [of(association_document(one, name)) for one in tree if _meant(one, order)]
        return await shape.answer("associations", found, command="show")
    if order.entity == "qos":
        key, items = ("qos" if shape.is_later else "QOS"), qos_documents(cluster)
        of = shape.item(later_qos)
    elif order.entity == "user":
        key, items, of = "users", user_documents(cluster, name), shape.item(later_user)
    elif order.entity in _PLAIN:
        key, documents = _PLAIN[order.entity]
        items, of = documents(cluster, name), shape.item(dict)
    else:
        raise CommandFailed(f"sacctmgr: error: there is no document of {order.entity}\n")
    names = set(order.names) | set(filter(None, order.where.get("names", "").split(",")))
    found = [of(one) for one in items if not names or one["name"] in names]
    return await shape.answer(key, found, command="show")


def _meant(place: Association, order: AccountOrder) -> bool:
    """Whether conditions such as ``user=ada account=lab`` mean this association."""
    conditions = (("user", place.user), ("account", place.account))
    wanted = ((order.where.get(k) or order.where.get(f"{k}s"), v) for k, v in conditions)
    return all(not names or value in names.split(",") for names, value in wanted)


def association_document(place: Association, cluster: str) -> dict[str, Any]:
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


def account_documents(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    members = _grouped(cluster, name, lambda one: one.account)
    places = [one for one in association_tree(cluster) if not one.user]
    return [_account(one, members[one.account]) for one in places]


def _grouped(
    cluster: Cluster, name: str, key: Callable[[Association], str]
) -> dict[str, list[dict[str, Any]]]:
    """All associations, by the account or by the user."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in association_tree(cluster):
        found.setdefault(key(one), []).append(_place(one, name))
    return found


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


def user_documents(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    places = _grouped(cluster, name, lambda one: one.user)
    return [
        {
            "administrator_level": "Administrator" if user == "root" else "None",
            "associations": places.get(user, []),
            "coordinators": [],
            "default": {"account": default_account(cluster, user), "wckey": ""},
            "flags": [],
            "name": user,
        }
        for user in known_users(cluster)
    ]


def qos_documents(cluster: Cluster) -> list[dict[str, Any]]:
    return [_qos(one, number) for number, one in enumerate(qos_list(cluster), 1)]


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


def tres_documents(cluster: Cluster) -> list[dict[str, Any]]:
    kinds = tres_kinds(cluster)
    plain = [kind for kind in kinds if kind[2] < 1000]
    devices = [kind for kind in kinds if kind[2] > 1000]
    rows = [*plain, ("dynamic_offset", "", 1000), *devices]
    return [
        {"type": type_, "name": name or None, "id": number, "count": 0}
        for type_, name, number in rows
    ]


def cluster_documents(name: str) -> list[dict[str, Any]]:
    return [
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


#: Entity -> the key of its list, and the list.
_PLAIN: dict[str, tuple[str, Callable[[Cluster, str], list[dict[str, Any]]]]] = {
    "account": ("accounts", account_documents),
    "cluster": ("clusters", lambda _cluster, name: cluster_documents(name)),
    "tres": ("TRES", lambda cluster, _name: tres_documents(cluster)),
}
