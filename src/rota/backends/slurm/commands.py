"""The transport that calls Slurm's own commands, as the user where it is about a user's job.

A command that does not end in time is killed. Of ``sbatch`` nobody knows then whether it arrived.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from rota.backends.api import EngineAway, EngineError, EngineRefused, Unsure
from rota.backends.slurm.inner import NOWHERE, code_of, engine_error
from rota.backends.slurm.records import SACCT_FIELDS, SQUEUE_FIELDS, of_sacct, of_squeue
from rota.slurmrest.verdicts import ALREADY_DONE, UNKNOWN_JOB, SlurmError, verdict_of_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.backends.slurm.inner import SlurmRequest
    from rota.backends.slurm.records import SlurmRecord
    from rota.backends.slurm.settings import SlurmSettings

NEEDED = ("sbatch", "squeue", "sinfo", "scancel")
LIMIT_S = 30.0
#: What a command of Slurm may read of our environment: no options of ours by accident.
_KEPT = ("PATH", "SLURM_CONF", "SLURM_CLUSTERS", "LD_LIBRARY_PATH")
_NO_ACCOUNTING = "accounting storage is disabled"
_SETTLED = (UNKNOWN_JOB, ALREADY_DONE)


class ByCommands:
    """Slurm's commands on this machine. As root it submits for everybody."""

    def __init__(self, settings: SlurmSettings) -> None:
        self._limit_s = settings.limit_s
        self.places = True
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.acts_for_all = os.geteuid() == 0

    async def open(self) -> None:
        for name in NEEDED:
            if shutil.which(name) is None:
                raise EngineRefused(
                    f"{name}: no such command on this machine; set rest_url, or install it"
                )
        await self._ask("sinfo", "--version")

    async def close(self) -> None:
        """Nothing is kept open."""

    async def submit(self, wish: SlurmRequest) -> str:
        output = await called(
            ["sbatch", *options(wish)], wish.script.encode(), wish.user, self._limit_s, order=True
        )
        number = output.strip().partition(";")[0]
        if not number.isdecimal():
            raise Unsure(f"sbatch answers without the number of a job: {output[:100]!r}")
        return number

    async def jobs(self) -> list[SlurmRecord]:
        mark = f"<{secrets.token_hex(8)}>"
        fields = ",".join(f"{name}:{mark}" for name in SQUEUE_FIELDS)
        listed = ("--all", "--states=all", "--noheader", f"--Format={fields}")
        return list(of_squeue(await self._ask("squeue", *listed), mark))

    async def past(self, since_s: float) -> list[SlurmRecord]:
        if shutil.which("sacct") is None:
            return []
        mark = f"<{secrets.token_hex(8)}>"
        try:
            output = await self._ask(
                *("sacct", "--allusers", "--allocations", "--noheader", "--parsable2"),
                *(f"--delimiter={mark}", f"--format={SACCT_FIELDS}"),
                f"--starttime=now-{max(1, int(time.time() - since_s))}seconds",
            )
        except EngineRefused as error:
            if _NO_ACCOUNTING in str(error):
                return []
            raise EngineAway(str(error)) from None
        return list(of_sacct(output, mark))

    async def nodes(self) -> list[dict[str, Any]]:
        """``sinfo`` tells of each node up to 22.05, and of groups of them from 23.02 on."""
        answer = _decoded(await self._ask("sinfo", "--json"), "sinfo")
        if "nodes" not in answer:
            answer = _decoded(await self._ask("scontrol", "show", "nodes", "--json"), "scontrol")
        found = answer.get("nodes")
        if not isinstance(found, list):
            raise EngineAway("neither sinfo nor scontrol lists the nodes one by one")
        return found

    async def comment(self, number: str) -> str | None:
        try:
            # One without a comment is shown as (null).
            return (await self._ask("squeue", "-h", "-t", "all", "-j", number, "-o", "%k")).strip()
        except EngineRefused as error:
            if code_of(error) in _SETTLED:
                return None
            raise

    async def signal(self, number: str, signal: int) -> None:
        # With --full it reaches the script and its children, each once.
        await self._tell("scancel", "--full", f"--signal={signal}", number)

    async def cancel(self, number: str) -> None:
        await self._tell("scancel", number)

    async def shorten(self, number: str, minutes: int, user: str) -> None:
        words = ("scontrol", "update", f"JobId={number}", f"TimeLimit={minutes}")
        await called(words, user=user, limit_s=self._limit_s, order=True)

    async def _ask(self, *words: str) -> str:
        return await called(words, limit_s=self._limit_s)

    async def _tell(self, *words: str) -> None:
        try:
            await called(words, limit_s=self._limit_s, order=True)
        except EngineRefused as error:
            if code_of(error) not in _SETTLED:
                raise


async def scontrol(words: Sequence[str]) -> None:
    """Change a job, as ourselves."""
    await called(["scontrol", *words], order=True)


def options(wish: SlurmRequest) -> list[str]:
    """What ``sbatch`` is told. Its own small environment goes with it, and no limits.

    Without any, slurmd would run a login shell of the user to find one, which takes a second.
    """
    words = [
        *("--parsable", "--no-requeue", "--export=ALL", "--propagate=NONE", "--chdir=/"),
        *(f"--input={NOWHERE}", f"--output={NOWHERE}", f"--error={NOWHERE}"),
        *(f"--comment={wish.comment}", f"--job-name={wish.name}", f"--nodes={wish.nodes}"),
        *(f"--ntasks={wish.tasks}", f"--ntasks-per-node={wish.tasks_per_node}"),
        f"--cpus-per-task={wish.cpus_per_task}",
    ]
    named = {
        "partition": wish.partition,
        "account": wish.account,
        "qos": wish.qos,
        "reservation": wish.reservation,
        "time": str(wish.minutes or ""),
        "mem": f"{wish.memory_mib_per_node}M" if wish.memory_mib_per_node else "",
        "gres": wish.gres,
        "nodelist": wish.on,
    }
    return words + [f"--{name}={value}" for name, value in named.items() if value]


async def called(
    words: Sequence[str],
    given: bytes = b"",
    user: str = "",
    limit_s: float = LIMIT_S,
    *,
    order: bool = False,
) -> str:
    """What a command prints. One that fails, or does not end in time, is an error."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env=surroundings() | ({} if order else {"SLURM_TIME_FORMAT": "%s"}),
            start_new_session=True,
            **await asyncio.to_thread(as_user, user),
        )
    except OSError as error:
        raise EngineAway(f"{words[0]}: {(error.strerror or str(error)).lower()}") from None
    try:
        async with asyncio.timeout(limit_s):
            output, said = await process.communicate(given)
    except TimeoutError:
        lost = Unsure if order else EngineAway
        raise lost(f"{words[0]}: no answer within {limit_s:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    text = output.decode(errors="replace")
    if process.returncode:
        raise _failed(words[0], process.returncode, said.decode(errors="replace"), order=order)
    return text


def surroundings() -> dict[str, str]:
    """The environment of a command of Slurm."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | {"LC_ALL": "C"}


def as_user(user: str) -> dict[str, Any]:
    """How a process is started as somebody else; only root has to."""
    if not user or os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise EngineRefused(f"user {user}: no such user on this machine") from None
    groups = os.getgrouplist(user, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


def _failed(command: str, status: int, said: str, *, order: bool) -> EngineError:
    """By the last line that it printed: those before it are warnings."""
    lines = [line for line in said.splitlines() if line.strip()]
    if not lines:
        if status < 0:
            return (Unsure if order else EngineAway)(f"{command}: ended by signal {-status}")
        return EngineRefused(f"{command}: ended with {status} and no word")
    text = lines[-1].removeprefix(f"{command}: ").removeprefix("error: ")
    text = text.removeprefix("Batch job submission failed: ")
    error: SlurmError = verdict_of_words(text, order=order)
    return engine_error(error)


def _decoded(output: str, command: str) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(output)
    except msgspec.DecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise EngineAway(f"{command} --json: not JSON; it needs Slurm 21.08 or newer")
    if answer.get("errors"):
        raise EngineAway(f"{command}: {answer['errors'][0]}")
    return answer
