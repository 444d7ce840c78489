"""The transport that speaks to slurmrestd."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rota.backends.api import EngineAway, EngineRefused
from rota.backends.slurm import commands
from rota.backends.slurm.inner import NOWHERE, engine_error
from rota.backends.slurm.records import ControllerJobs, of_accounting, of_controller
from rota.core.facts.states import Blame
from rota.slurmrest.client import SlurmRest
from rota.slurmrest.verdicts import ALREADY_DONE, UNKNOWN_JOB, SlurmError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.backends.slurm.inner import SlurmRequest
    from rota.backends.slurm.records import SlurmRecord
    from rota.backends.slurm.settings import SlurmSettings

#: From here on numbers may be missing, lists are lists, and a node can be named; from the other on
#: the script is a part of the job.
NEWER, SCRIPT_IN_JOB = 39, 41
#: Slurm wants some environment; the attempt's own is in the script.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class ByRest:
    """One slurmrestd. An older one has no key for a node: it is named by a feature, or with
    ``scontrol`` where that is here.
    """

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
        self._scontrol = shutil.which("scontrol") is not None
        # Whether the token can is known to Slurm alone: it answers so at a submit.
        self.acts_for_all = settings.rest_user in ("root", "slurm")

    @property
    def places(self) -> bool:
        """Known once it is open."""
        return bool(self._feature) or self._scontrol or self._names_nodes

    @property
    def _names_nodes(self) -> bool:
        return bool(self._rest.versions) and self._rest.number >= NEWER

    async def open(self) -> None:
        with _told():
            await self._rest.open()
            await self._rest.ask("slurm", "ping")

    async def close(self) -> None:
        await self._rest.close()

    async def submit(self, wish: SlurmRequest) -> str:
        held = bool(wish.on) and not self._feature and not self._names_nodes
        body = submitted(wish, self._rest.number, self._feature)
        if held:
            body["job"]["hold"] = True
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
            answer = await self._rest.ask_for("slurm", "jobs", ControllerJobs)
        return [of_controller(job) for job in _objects(answer, "jobs")]

    async def past(self, since_s: float) -> list[SlurmRecord]:
        if "slurmdb" not in self._rest.versions:
            return []
        moment = f"{'' if self._rest.number >= NEWER else 'uts'}{int(since_s)}"
        with _told():
            answer = await self._rest.ask("slurmdb", "jobs", start_time=moment, skip_steps="true")
        return [of_accounting(job) for job in _objects(answer, "jobs")]

    async def nodes(self) -> list[dict[str, Any]]:
        with _told():
            answer = await self._rest.ask("slurm", "nodes")
        return _objects(answer, "nodes")

    async def comment(self, number: str) -> str | None:
        with _told():
            try:
                answer = await self._rest.ask("slurm", f"job/{number}")
            except SlurmError as error:
                if error.code == UNKNOWN_JOB:
                    return None
                raise
        jobs = _objects(answer, "jobs")
        return of_controller(jobs[0]).comment if jobs else None

    async def signal(self, number: str, signal: int) -> None:
        await self._delete(number, signal=str(signal))

    async def cancel(self, number: str) -> None:
        await self._delete(number)

    async def shorten(self, number: str, minutes: int, user: str) -> None:
        body = {"time_limit": minutes}
        with _told():
            await self._rest.tell("POST", "slurm", f"job/{number}", body, user=user)

    async def _delete(self, number: str, **query: str) -> None:
        with _told():
            try:
                await self._rest.tell("DELETE", "slurm", f"job/{number}", **query)
            except SlurmError as error:
                if error.code not in (UNKNOWN_JOB, ALREADY_DONE):
                    raise


def _objects(answer: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """A list that is not there is no answer: an empty one says that there are none."""
    found = answer.get(key)
    if found is None and not answer:
        return []  # Nothing was found, says a newer version.
    if not isinstance(found, list):
        raise EngineAway(f"slurmrestd answers without {key}")
    return [one for one in found if isinstance(one, dict)]


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except SlurmError as error:
        raise engine_error(error) from error


def submitted(wish: SlurmRequest, number: int, feature: str = "") -> dict[str, Any]:
    """All that a submit says, in that version of the interface."""
    job = described(wish, number, feature)
    if number >= SCRIPT_IN_JOB:
        return {"job": job | {"script": wish.script}}
    return {"script": wish.script, "job": job}


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
    if newer and not feature and wish.on:
        job["required_nodes"] = wish.on.split(",")
    return job | {key: value for key, value in named.items() if value}


def _constraints(nodes: str, feature: str) -> str:
    """Of several nodes, one with each of their features."""
    features = [feature.replace("{node}", node) for node in nodes.split(",")]
    if len(features) == 1:
        return features[0]
    return f"[{'&'.join(f'{word}*1' for word in features)}]"
