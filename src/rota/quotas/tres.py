"""Slurm's words for limits and use: ``cpu=1000,mem=500G,gres/gpu=10``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from rota.core.facts.resources import Amount
from rota.core.facts.tenant import Limits
from rota.quotas.api import SeenProject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GPU = "gres/gpu"
#: Letters after a number, in MiB: Slurm's own unit of memory.
_UNITS = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)([KMGTP]?)")
#: One of ``cpu=4(2)`` in what ``scontrol show assoc_mgr`` prints; N: no limit.
_LIMIT_USED = re.compile(r"([\w/:.-]+)=(N|\d+)\((\d+)\)")
#: Decayed by Slurm's own half-life: in all, as a part, and as a part that counts.
_USAGE = "UsageRaw/Norm/Efctv"
_FIELD = re.compile(r"(\w[\w/]*)=(\S*)")


class SlurmAccount(NamedTuple):
    """One account, and the one above it."""

    seen: SeenProject
    parent: str


def parse_tres(text: str) -> dict[str, float]:
    """Amounts by name; memory in MiB. Without a unit memory is in MiB already."""
    found: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, amount = part.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if match is None:
            raise ValueError(f"{part!r} is not valid; expected such as cpu=4 or mem=16G")
        size = _UNITS[match[2]] if name == "mem" else _COUNTS[match[2]]
        found[name] = float(match[1]) * size
    return found


#: The same letters after a count.
_COUNTS = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4, "P": 1024.0**5}


def format_tres(limits: Limits) -> str:
    """As ``sacctmgr`` takes it: -1 takes a limit away."""
    wanted = whole(limits)
    amounts = {
        "cpu": None if wanted.cpu_milli is None else f"{wanted.cpu_milli // 1000}",
        "mem": None if wanted.memory_mib is None else f"{wanted.memory_mib}M",
        GPU: None if wanted.device_milli is None else f"{wanted.device_milli // 1000}",
    }
    return ",".join(f"{name}={amount or '-1'}" for name, amount in amounts.items())


def whole(limits: Limits) -> Limits:
    """Slurm counts whole CPUs and GPUs; a part of one is no use to anybody there."""

    def floor(milli: int | None) -> int | None:
        return None if milli is None else milli // 1000 * 1000

    return Limits(
        cpu_milli=floor(limits.cpu_milli),
        memory_mib=limits.memory_mib,
        device_milli=floor(limits.device_milli),
    )


def limits_of(tres: Mapping[str, float]) -> Limits:
    """Less than 0 is no limit."""

    def at(name: str, size: int) -> int | None:
        amount = tres.get(name, -1.0)
        return None if amount < 0 else round(amount * size)

    return Limits(cpu_milli=at("cpu", 1000), memory_mib=at("mem", 1), device_milli=at(GPU, 1000))


def amount_of(tres: Mapping[str, float]) -> Amount:
    return Amount(
        cpu_milli=round(1000 * tres.get("cpu", 0.0)),
        memory_mib=round(tres.get("mem", 0.0)),
        device_milli=round(1000 * tres.get(GPU, 0.0)),
    )


def least(limits: Iterable[Limits]) -> Limits:
    """All of them bind."""
    every = [*limits]

    def lowest(values: Iterable[int | None]) -> int | None:
        return min((value for value in values if value is not None), default=None)

    return Limits(
        cpu_milli=lowest(one.cpu_milli for one in every),
        memory_mib=lowest(one.memory_mib for one in every),
        device_milli=lowest(one.device_milli for one in every),
    )


def parse_assoc_mgr(text: str) -> dict[str, SlurmAccount]:
    """Accounts of what ``scontrol -o show assoc_mgr flags=assoc,qos`` prints.

    A QOS that is called as an account binds it as well: a site may keep its limits there.
    """
    accounts: dict[str, SlurmAccount] = {}
    users: dict[str, set[str]] = {}
    of_qos: dict[str, Limits] = {}
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if fields.get("Partition"):
            continue
        if "Account" in fields:
            name, user = fields["Account"], fields.get("UserName", "").partition("(")[0]
            if user:
                users.setdefault(name, set()).add(user)
            else:
                parent = fields.get("ParentAccount", "").partition("(")[0]
                seen = _limits_and_use(fields.get("GrpTRES", ""))
                accounts[name] = SlurmAccount(seen._replace(load=_load(fields)), parent)
        elif "QOS" in fields:
            name = fields["QOS"].partition("(")[0]
            of_qos[name] = _limits_and_use(fields.get("GrpTRES", "")).limits
    return {
        name: account._replace(
            seen=account.seen._replace(
                limits=least([account.seen.limits, of_qos.get(name, Limits())]),
                users=frozenset(users.get(name, ())),
            )
        )
        for name, account in accounts.items()
    }


def _load(fields: Mapping[str, str]) -> float | None:
    """What fair share in Slurm takes as the part of its use that an account has had."""
    try:
        return float(fields[_USAGE].split("/")[-1])
    except (KeyError, ValueError):
        return None


def _limits_and_use(text: str) -> SeenProject:
    limits: dict[str, float] = {}
    used: dict[str, float] = {}
    for name, limit, now in _LIMIT_USED.findall(text):
        used[name] = float(now)
        if limit != "N":
            limits[name] = float(limit)
    return SeenProject(limits_of(limits), amount_of(used))
