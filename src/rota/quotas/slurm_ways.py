"""Two ways to a Slurm's accounts: its commands on this machine, and slurmrestd."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Protocol

from rota.core.facts.errors import Rejected
from rota.core.facts.resources import NOTHING
from rota.quotas.api import QuotaAway, QuotaRefused, SeenProject
from rota.quotas.tres import (
    GPU,
    SlurmAccount,
    amount_of,
    format_tres,
    least,
    limits_of,
    parse_assoc_mgr,
    parse_tres,
    whole,
)
from rota.slurmrest.client import SlurmRest, number_of
from rota.slurmrest.verdicts import SlurmAway, SlurmError, SlurmUnsure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rota.core.facts.tenant import Limits
    from rota.settings.quotas import QuotaSettings

LIMIT_S = 20.0
NEEDED = ("scontrol", "sacctmgr")
#: What the commands may read of our environment: no options of ours by accident.
_KEPT = ("PATH", "SLURM_CONF", "SLURM_CLUSTERS", "LD_LIBRARY_PATH")
#: ``sacctmgr`` has no other sign of a slurmdbd that is away.
_AWAY = ("connection refused", "unable to contact", "persistinit", "timed out", "no route")
#: A job in one of these counts under the limits of its account.
_COUNTED = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT"})
_MADE_BY = "made by Rota"


class SlurmWay(Protocol):
    """Every call is bounded in time, and raises ``QuotaAway`` or ``QuotaRefused``."""

    def accounts(self) -> dict[str, SlurmAccount]: ...

    def set_limits(
        self, account: str, parent: str, limits: Limits, known: SlurmAccount | None
    ) -> None: ...

    def add_user(self, account: str, user: str) -> None: ...


class QuotasByCommands:
    """Limits and use come from slurmctld in one call, so that slurmdbd is needed to write only."""

    def __init__(self) -> None:
        for name in NEEDED:
            if shutil.which(name) is None:
                raise Rejected(
                    f"quota_provider slurm: {name}: no such command on this machine; install it, "
                    "or set quotas.slurm_rest_url"
                )

    def accounts(self) -> dict[str, SlurmAccount]:
        try:
            return parse_assoc_mgr(
                _called("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
            )
        except QuotaRefused as error:
            raise QuotaAway(str(error)) from None

    def set_limits(
        self, account: str, parent: str, limits: Limits, known: SlurmAccount | None
    ) -> None:
        tres = f"GrpTRES={format_tres(limits)}"
        if known is not None:
            _called("sacctmgr", "-i", "modify", "account", account, "set", tres)
        else:
            made = (f"Description={_MADE_BY}", "Organization=rota", f"Parent={parent or 'root'}")
            _called("sacctmgr", "-i", "add", "account", account, *made, tres)

    def add_user(self, account: str, user: str) -> None:
        _called("sacctmgr", "-i", "add", "user", user, f"Account={account}")


def _called(*words: str) -> str:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            env={**kept, "LC_ALL": "C"},
            cwd="/",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise QuotaAway(f"{words[0]}: no answer within {LIMIT_S:g} s") from None
    except OSError as error:
        raise QuotaAway(f"{words[0]}: {(error.strerror or str(error)).lower()}") from None
    if done.returncode == 0:
        return done.stdout
    said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    text = said[-1].strip().removeprefix(f"{words[0]}: ") if said else f"status {done.returncode}"
    text = f"{words[0]}: {text.removeprefix('error: ')}"
    kind = QuotaAway if any(word in text.lower() for word in _AWAY) else QuotaRefused
    raise kind(text)


class QuotasByRest:
    """Limits are those of a QOS that is called as the account and is the default of its users.

    slurmrestd of 22.05 makes an account with limits, but takes every later change of them without
    a word and without effect; of a QOS it changes them. Use comes from the jobs that run, as it
    tells none of accounts.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings

    def accounts(self) -> dict[str, SlurmAccount]:
        found: dict[str, SlurmAccount] = self._do(_read)
        return found

    def set_limits(
        self, account: str, parent: str, limits: Limits, known: SlurmAccount | None
    ) -> None:
        kept = whole(limits)
        total = [
            _tres("cpu", "", _count(kept.cpu_milli, 1000)),
            _tres("mem", "", _count(kept.memory_mib, 1)),
            _tres("gres", "gpu", _count(kept.device_milli, 1000)),
        ]
        made = {"name": account, "description": _MADE_BY, "organization": "rota"}
        qos = {"name": account, "limits": {"max": {"tres": {"total": total}}}}
        users = sorted(known.seen.users or ()) if known is not None else ()

        async def write(rest: SlurmRest) -> None:
            cluster = await self._cluster(rest)
            await rest.tell("POST", "slurmdb", "qos", {_qos_key(rest): [qos]})
            if known is None:
                await rest.tell("POST", "slurmdb", "accounts", {"accounts": [made]})
                above = {"parent_account": parent or "root"}
                await _associate(rest, cluster, account, None, above)
            for user in users:
                await _associate(rest, cluster, account, user)

        self._do(write)

    def add_user(self, account: str, user: str) -> None:
        async def write(rest: SlurmRest) -> None:
            await _associate(rest, await self._cluster(rest), account, user)

        self._do(write)

    async def _cluster(self, rest: SlurmRest) -> str:
        if self._settings.slurm_cluster:
            return self._settings.slurm_cluster
        answer = await rest.ask("slurmdb", "clusters")
        names = sorted(str(cluster.get("name")) for cluster in answer.get("clusters") or ())
        if len(names) != 1:
            raise QuotaRefused(
                f"slurmdbd knows the clusters {', '.join(names) or '(none)'}; name one in "
                "quotas.slurm_cluster"
            )
        return names[0]

    def _do(self, work: Callable[[SlurmRest], Awaitable[Any]]) -> Any:  # noqa: ANN401 - its answer
        settings = self._settings

        async def call() -> Any:  # noqa: ANN401 - what ``work`` gives
            rest = SlurmRest(
                settings.slurm_rest_url,
                user=settings.slurm_rest_user,
                token=settings.slurm_auth_token,
                token_file=settings.slurm_token_file,
                limit_s=LIMIT_S,
            )
            try:
                await rest.open()
                return await work(rest)
            finally:
                await rest.close()

        try:
            return asyncio.run(call())
        except (SlurmAway, SlurmUnsure) as error:
            raise QuotaAway(str(error)) from None
        except SlurmError as error:
            raise QuotaRefused(str(error)) from None


#: Where none is offered, the next call says so.
_OLD = "v0.0.38"


def _qos_key(rest: SlurmRest) -> str:
    """In capitals up to 0.0.39."""
    return "QOS" if number_of(rest.versions.get("slurmdb", _OLD)) < 40 else "qos"


def _tres(kind: str, name: str, count: int) -> dict[str, object]:
    return {"type": kind, "count": count, **({"name": name} if name else {})}


def _count(amount: int | None, size: int) -> int:
    """-1 takes a limit away; what is not named stays as it is."""
    return -1 if amount is None else amount // size


async def _associate(
    rest: SlurmRest,
    cluster: str,
    account: str,
    user: str | None,
    more: dict[str, str] | None = None,
) -> None:
    # For the account itself the user is null: an empty name would make a user without one.
    entry: dict[str, object] = {"account": account, "cluster": cluster, "user": user}
    entry |= {"default": {"qos": account}, "qos": [account], **(more or {})}
    await rest.tell("POST", "slurmdb", "associations", {"associations": [entry]})


async def _read(rest: SlurmRest) -> dict[str, SlurmAccount]:
    told = await rest.ask("slurmdb", "associations")
    qos = await rest.ask("slurmdb", "qos")
    jobs = await rest.ask("slurm", "jobs")
    return accounts_of(
        told.get("associations") or (),
        qos.get("QOS") or qos.get("qos") or (),
        jobs.get("jobs") or (),
    )


def accounts_of(
    associations: Iterable[dict[str, Any]],
    qos: Iterable[dict[str, Any]],
    jobs: Iterable[dict[str, Any]],
) -> dict[str, SlurmAccount]:
    """What slurmdb and slurmctld say together."""
    of_qos = {str(one.get("name")): limits_of(_totals(one)) for one in qos}
    found: dict[str, SlurmAccount] = {}
    users: dict[str, set[str]] = {}
    for one in associations:
        name, user = str(one.get("account")), one.get("user")
        if user:
            users.setdefault(name, set()).add(str(user))
        elif not one.get("partition"):
            limits = [limits_of(_totals(one)), *([of_qos[name]] if name in of_qos else [])]
            seen = SeenProject(least(limits), NOTHING)
            found[name] = SlurmAccount(seen, str(one.get("parent_account") or ""))
    used = dict.fromkeys(found, NOTHING)
    for job in jobs:
        if _is_counted(job.get("job_state")):
            amount = amount_of(parse_tres(str(job.get("tres_alloc_str") or "")))
            for name in _line(found, str(job.get("account"))):
                used[name] = used[name].plus(amount)
    return {
        name: account._replace(
            seen=SeenProject(account.seen.limits, used[name], frozenset(users.get(name, ())))
        )
        for name, account in found.items()
    }


def _line(accounts: dict[str, SlurmAccount], name: str) -> Sequence[str]:
    """An account and those above it."""
    line: list[str] = []
    while name in accounts and name not in line:
        line.append(name)
        name = accounts[name].parent
    return line


def _is_counted(state: object) -> bool:
    """Newer versions tell a list of states."""
    states = state if isinstance(state, list) else [state]
    return any(one in _COUNTED for one in states)


def _totals(entry: dict[str, Any]) -> dict[str, float]:
    limits = (entry.get("max") or entry.get("limits", {}).get("max") or {}).get("tres") or {}
    total = limits.get("total") or ()
    names = {("gres", "gpu"): GPU}
    return {
        names.get((one.get("type"), one.get("name")), str(one.get("type"))): float(one["count"])
        for one in total
        if one.get("type") != "gres" or one.get("name") == "gpu"
    }
