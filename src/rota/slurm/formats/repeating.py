"""``-i``: the same listing again and again, until its reader has had enough."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.slurm.call.command import Answer, CommandFailed
from rota.slurm.call.list_turns import made
from rota.slurm.call.waiting import unless_stopping
from rota.slurm.words.amounts import Moments, zone_of
from rota.slurm.words.values import whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.slurm.call.command import Call

_REFUSALS = {
    "squeue": "squeue: error: --iterate={}\n\n",
    "sinfo": "sinfo: error: Error: invalid entry for --iterate={}\n",
}


async def repeated(
    call: Call, asked: dict[str, str], once: Callable[[], Awaitable[Answer]]
) -> Answer:
    """Each round below its date, an empty line behind it."""
    every_s = _seconds(call, asked["iterate"])
    if call.line.stream is None:
        # A caller without a relay could not be shown a second round.
        return await once()
    leaving = asyncio.ensure_future(call.line.stream.read())
    try:
        while True:
            answer = await once()
            stdout = answer.stdout if isinstance(answer.stdout, str) else answer.stdout.decode()
            made()
            with call.context.unread.holding(call.actor.user, len(stdout)):
                await call.line.show(_date(call, asked) + stdout + "\n", answer.stderr)
            pause = asyncio.wait({leaving}, timeout=every_s)
            await unless_stopping(call.context, pause)
            if leaving.done():
                return Answer()
    finally:
        leaving.cancel()


def _date(call: Call, asked: dict[str, str]) -> str:
    """A long listing has the date by itself."""
    if "noheader" in asked or "long" in asked:
        return ""
    moments = Moments(call.context.host.clock.now_s(), zone_of(call.env.get("TZ", "")), "")
    return moments.date_line() + "\n"


def _seconds(call: Call, text: str) -> int:
    try:
        return whole(text, 1)
    except ValueError:
        said = _REFUSALS[call.request.program]
        raise CommandFailed(said.format(text), 1) from None
