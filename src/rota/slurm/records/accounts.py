"""Accounts in Slurm's words: projects as accounts, users, and who may charge what to whom.

In Rota every user may name every project, so every pair of them is an association.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.tenant import NO_QUOTA, Limits, Quota
from rota.slurm.call.people import users_of
from rota.slurm.records.tres import FIRST_MODEL_ID, TRES_IDS, count_models

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.core.cluster import Cluster

#: The account above all others.
ROOT = "root"


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the tree: an account, or (with a user) somebody in it."""

    account: str
    user: str = ""
    parent: str = ""
    depth: int = 0
    shares: int = 1
    quota: Quota = NO_QUOTA


def association_tree(cluster: Cluster, more: Iterable[str] = ()) -> list[Association]:
    """Root first, then each account with its users (also with ``more``) and those below it."""
    people = sorted({*known_users(cluster), *more})
    found = [Association(account=ROOT), Association(account=ROOT, user="root", depth=1)]
    for name in _children(cluster, ""):
        found += _branch(cluster, name, ROOT, 1, people)
    return found


def _branch(
    cluster: Cluster, name: str, parent: str, depth: int, people: list[str]
) -> list[Association]:
    accounts, project = cluster.accounts, cluster.accounts.projects[name]
    quota = project.quota if project.quota != NO_QUOTA else project.unenforced
    found = [
        Association(account=name, parent=parent, depth=depth, shares=project.shares, quota=quota)
    ]
    found += [
        Association(
            account=name,
            user=user,
            depth=depth + 1,
            shares=accounts.user(user).shares if user in accounts.users else 1,
            quota=accounts.user(user).quota if user in accounts.users else NO_QUOTA,
        )
        for user in people
    ]
    for child in _children(cluster, name):
        found += _branch(cluster, child, name, depth + 1, people)
    return found


def _children(cluster: Cluster, parent: str) -> list[str]:
    projects = cluster.accounts.projects.values()
    return sorted(project.name for project in projects if project.parent == parent)


def known_users(cluster: Cluster) -> list[str]:
    """Those with a record, with use, or with unfinished jobs."""
    return sorted(users_of(cluster))


def is_known(cluster: Cluster, name: str) -> bool:
    """Whether Rota has ever heard of a user that may have no account on this machine."""
    accounts = cluster.accounts
    if name in accounts.users or any(token.user == name for token in accounts.tokens.values()):
        return True
    return name in known_users(cluster)


def default_account(cluster: Cluster, user: str) -> str:
    """Where somebody has used the most; else the first account there is."""
    known = cluster.accounts.usage.values()
    used = [usage for usage in known if usage.user == user and usage.project]
    if used:
        return max(used, key=lambda usage: usage.recent.cpu_s).project
    return next(iter(sorted(cluster.accounts.projects)), ROOT)


def grp_tres(limits: Limits) -> str:
    """``cpu=8,mem=16000M,gres/gpu=4``."""
    parts = []
    if limits.cpu_milli is not None:
        parts.append(f"cpu={limits.cpu_milli // 1000}")
    if limits.memory_mib is not None:
        parts.append(f"mem={limits.memory_mib}M")
    if limits.device_milli is not None:
        parts.append(f"gres/gpu={limits.device_milli // 1000}")
    return ",".join(parts)


def tres_kinds(cluster: Cluster) -> list[tuple[str, str, int]]:
    """Type, name and number of every kind; each model of device has one of its own."""
    kinds = [(*_split(kind), number) for kind, number in TRES_IDS.items() if kind != "gres/gpu"]
    devices = [device for node in cluster.nodes.values() for device in node.spec.devices]
    if devices:
        kinds.append(("gres", "gpu", TRES_IDS["gres/gpu"]))
        models = [model for model in count_models(devices) if model]
        kinds += [
            ("gres", f"gpu:{model}", number) for number, model in enumerate(models, FIRST_MODEL_ID)
        ]
    return kinds


def _split(kind: str) -> tuple[str, str]:
    type_, _, name = kind.partition("/")
    return type_, name
