"""The transport that speaks to slurmrestd."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.backends.api import EngineRefused
from rota.backends.slurm import commands
from rota.backends.slurm.inner import NOWHERE, engine_error
from rota.backends.slurm.records import of_accounting, of_controller
from rota.core.facts.states import Blame
from rota.slurmrest.client import SlurmRest
from rota.slurmrest.verdicts import ALREADY_DONE, UNKNOWN_JOB, SlurmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.backends.slurm.inner import SlurmRequest
    from rota.backends.slurm.records import SlurmRecord
    from rota.backends.slurm.settings import SlurmSettings

#: From here on numbers may be missing, and lists are lists.
NEWER = 39
#: Slurm wants some environment; the attempt's own is in the script.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class ByRest:
    """One slurmrestd. A node is named by a feature, or with ``scontrol`` where that is here."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._rest = SlurmRest(
            settings.rest_url,
            user=settings.rest_user,
            token_file=settings.token_file,
            limit_s=settings.limit_s,
        )
        self.user = settings.rest_user
        self._feature = settings.node_feature
        self._limit_s = settings.limit_s
        self.places = bool(self._feature) or shutil.which("scontrol") is not None
        # Whether the token can is known to Slurm alone: it answers so at a submit.
        self.acts_for_all = settings.rest_user in ("root", "slurm")

    async def open(self) -> None:
        with _told():
            await self._rest.open()
            await self._rest.ask("slurm", "ping")

    async def close(self) -> None:
        await self._rest.close()

    async def submit(self, wish: SlurmRequest) -> str:
        held = bool(wish.on) and not self._feature
        job = described(wish, self._rest.number, self._feature)
        if held:
            job["hold"] = True
        body = {"script": wish.script, "job": job}
        with _told():
            number = str(await self._rest.submit(body, user=wish.user))
        if held:
            await self._place(number, wish.on)
        return number

    async def _place(self, number: str, nodes: str) -> None:
        """The interface has no key for it. Held until then, it starts nowhere else."""
        try:
            await commands.scontrol(["update", f"JobId={number}", f"ReqNodeList={nodes}"])
            await commands.scontrol(["release", number])
        except EngineRefused as error:
            await self.cancel(number)
            raise EngineRefused(str(error), Blame.NODE) from None

    async def jobs(self) -> list[SlurmRecord]:
        with _told():
            answer = await self._rest.ask("slurm", "jobs")
        return [of_controller(job) for job in answer.get("jobs") or ()]

    async def past(self, since_s: float) -> list[SlurmRecord]:
        if "slurmdb" not in self._rest.versions:
            return []
        moment = f"{'' if self._rest.number >= NEWER else 'uts'}{int(since_s)}"
        with _told():
            answer = await self._rest.ask("slurmdb", "jobs", start_time=moment, skip_steps="true")
        return [of_accounting(job) for job in answer.get("jobs") or ()]

    async def nodes(self) -> list[dict[str, Any]]:
        with _told():
            answer = await self._rest.ask("slurm", "nodes")
        return list(answer.get("nodes") or ())

    async def comment(self, number: str) -> str | None:
        with _told():
            try:
                answer = await self._rest.ask("slurm", f"job/{number}")
            except SlurmError as error:
                if error.code == UNKNOWN_JOB:
                    return None
                raise
        jobs = answer.get("jobs") or ()
        return of_controller(jobs[0]).comment if jobs else None

    async def signal(self, number: str, signal: int) -> None:
        await self._delete(number, signal=str(signal))

    async def cancel(self, number: str) -> None:
        await self._delete(number)

    async def _delete(self, number: str, **query: str) -> None:
        with _told():
            try:
                await self._rest.tell("DELETE", "slurm", f"job/{number}", **query)
            except SlurmError as error:
                if error.code not in (UNKNOWN_JOB, ALREADY_DONE):
                    raise


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SlurmError as error:
        raise engine_error(error) from None


def described(wish: SlurmRequest, number: int, feature: str = "") -> dict[str, Any]:
    """The job as that version of the interface wants it described."""
    newer = number >= NEWER
    job: dict[str, Any] = {
        "name": wish.name,
        "comment": wish.comment,
        "current_working_directory": "/",
        "standard_input": NOWHERE,
        "standard_output": NOWHERE,
        "standard_error": NOWHERE,
        "tasks": wish.tasks,
        "tasks_per_node": wish.tasks_per_node,
        "cpus_per_task": wish.cpus_per_task,
        "nodes": f"{wish.nodes}-{wish.nodes}" if newer else [wish.nodes, wish.nodes],
        "environment": [f"{k}={v}" for k, v in _ENVIRONMENT.items()] if newer else _ENVIRONMENT,
    }
    # ``requeue: false`` is taken by the older ones without a word, and does nothing.
    job |= {"requeue": False} if newer else {"no_requeue": True}
    named = {
        "partition": wish.partition,
        "account": wish.account,
        "qos": wish.qos,
        "reservation": wish.reservation,
        "time_limit": wish.minutes,
        "memory_per_node": wish.memory_mib_per_node,
        "constraints": _constraints(wish.on, feature) if feature and wish.on else "",
        "gres": "" if newer else wish.gres,
        "tres_per_node": f"gres/{wish.gres}" if newer and wish.gres else "",
    }
    return job | {key: value for key, value in named.items() if value}


def _constraints(nodes: str, feature: str) -> str:
    """Of several nodes, one with each of their features."""
    features = [feature.replace("{node}", node) for node in nodes.split(",")]
    if len(features) == 1:
        return features[0]
    return f"[{'&'.join(f'{word}*1' for word in features)}]"
