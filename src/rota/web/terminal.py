"""The terminal of a job in a page: its screen is kept here, and the page gets lines that changed.

``/web/terminal/12``. Binary frames from the page are what is typed, a text frame is its size. To
the page go text frames: the lines that changed, as runs of equal looks, and where the cursor is.
The screen is a process of its own (``screen``): what a job prints is not worked through in ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rota.api.visits import attach, visits
from rota.core.facts.errors import Conflict
from rota.web.room import room_of
from rota.web.screen import ANSWER, COLUMNS, COLUMNS_MAX, ORDER, ROWS, ROWS_MAX

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify
    from rota.controller.agents.visit_lines import TerminalLine

PREFIX = "/web/terminal/"
PROGRAM = str(Path(__file__).with_name("screen.py"))
#: The most that is drawn at a time, before a pause: a program that prints faster shows less.
DRAWN_BYTES, PAUSE_S = 8 * 1024, 0.05
#: No piece takes longer to draw.
DRAW_S = 5.0
#: One user has no more of them open.
SCREENS_MAX = 16
TOO_MUCH = "what the job shows is too much for a page; try rota attach"


class ScreenEnded(Exception):
    """It was not done in time, or it is gone."""


class Screen:
    """A process that draws, for one viewer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout
        self.size = self._drawn_size = (ROWS, COLUMNS)

    async def draw(self, body: bytes) -> None:
        if self.size != self._drawn_size:
            self._drawn_size = self.size
            await self._order(b"s", json.dumps(self.size).encode())
        await self._order(b"d", body)

    async def news(self) -> str:
        return (await self._order(b"n")).decode()

    async def _order(self, kind: bytes, body: bytes = b"") -> bytes:
        try:
            async with asyncio.timeout(DRAW_S):
                self._to.write(ORDER.pack(kind, len(body)) + body)
                await self._to.drain()
                (length,) = ANSWER.unpack(await self._from.readexactly(ANSWER.size))
                return await self._from.readexactly(length)
        except (TimeoutError, OSError, EOFError):
            raise ScreenEnded from None

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """One viewer, until it leaves or the terminal is gone."""
    path: str = scope["path"]
    named = {**scope, "path": f"{visits.BEGIN}{path.removeprefix(PREFIX)}{attach.END}"}
    screens = room_of(context).screens

    async def opening() -> visits.Opened:
        actor = visits.required(identify(scope))
        if screens[actor.user] >= SCREENS_MAX:
            raise Conflict(f"{actor.user} has {SCREENS_MAX} terminals open in pages; close one")
        with ExitStack() as leaving:
            screens[actor.user] += 1
            leaving.callback(screens.subtract, [actor.user])
            line = await attach.open_line(context, actor, named)
            leaving.callback(context.host.links.leave_terminal, line)
            screen = await _start()
            leaving.callback(screen.end)
            sized = partial(_sized, screen, line)
            talk = (attach.take_typing(line, receive, sized), _show(line, screen, send))
            return visits.Opened(actor, *talk, leaving.pop_all().close)

    await visits.serve(context, receive, send, opening)


async def _start() -> Screen:
    pipe = asyncio.subprocess.PIPE
    # Nothing is imported from the folder in which the server was started.
    command = (sys.executable, "-P", PROGRAM)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd="/")
    return Screen(process)


def _sized(screen: Screen, line: TerminalLine, rows: int, columns: int) -> None:
    """The page has another size: the screen, and the program, learn of it."""
    screen.size = (min(rows, ROWS_MAX), min(columns, COLUMNS_MAX))
    line.type(rows=screen.size[0], columns=screen.size[1])


async def _show(line: TerminalLine, screen: Screen, send: Send) -> str:
    """What the job shows, to its end; why it ended, if that was not meant to be."""
    while True:
        output = await line.output.get()
        try:
            for begin in range(0, len(output.body), DRAWN_BYTES):
                part = output.body[begin : begin + DRAWN_BYTES]
                await screen.draw(part)
                line.took(len(part))
                if len(part) == DRAWN_BYTES:
                    await asyncio.sleep(PAUSE_S)
            if line.output.empty() or output.over:
                await send({"type": "websocket.send", "text": await screen.news()})
        except ScreenEnded:
            return TOO_MUCH
        if output.over:
            return output.error
