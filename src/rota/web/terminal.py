"""The terminal of a job in a page: its screen is kept here, and the page gets lines that changed.

``/web/terminal/12``. Binary frames from the page are what is typed, a text frame is its size. To
the page go text frames: the lines that changed, as runs of equal looks, and where the cursor is.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyte

from rota.api.visits import attach, visits

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.api.door.front import Identify
    from rota.controller.agents.visit_lines import TerminalLine

PREFIX = "/web/terminal/"
ROWS, COLUMNS = 24, 80
ROWS_MAX, COLUMNS_MAX = 100, 300
#: So much is drawn at a time, and then the loop has a pause: who prints faster shows less.
DRAWN_BYTES, PAUSE_S = 8 * 1024, 0.05
PLAIN = "default"


class Display:
    """The screen of one viewer."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)

    def feed(self, body: bytes) -> None:
        self._stream.feed(body)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(min(rows, ROWS_MAX), min(columns, COLUMNS_MAX))
        self.screen.dirty.update(range(self.screen.lines))

    def news(self) -> bytes:
        """The lines that changed since the last time, and the cursor."""
        screen = self.screen
        lines = {row: self._line(row) for row in sorted(screen.dirty) if row < screen.lines}
        screen.dirty.clear()
        cursor = None if screen.cursor.hidden else [screen.cursor.y, screen.cursor.x]
        size = [screen.lines, screen.columns]
        return msgspec.json.encode({"lines": lines, "cursor": cursor, "size": size})

    def _line(self, row: int) -> list[list[Any]]:
        """Runs of characters that look alike: text, colour, background, bold, reversed."""
        runs: list[list[Any]] = []
        cells = self.screen.buffer[row]
        for column in range(self.screen.columns):
            cell = cells[column]
            looks = [cell.fg, cell.bg, cell.bold, cell.reverse]
            if runs and runs[-1][1:] == looks:
                runs[-1][0] += cell.data
            else:
                runs.append([cell.data, *looks])
        return runs


async def serve(
    context: Context, identify: Identify, scope: Scope, receive: Receive, send: Send
) -> None:
    """One viewer, until it leaves or the terminal is gone."""
    path: str = scope["path"]
    named = {**scope, "path": f"{visits.BEGIN}{path.removeprefix(PREFIX)}{attach.END}"}

    async def opening() -> visits.Opened:
        actor = visits.required(identify(scope))
        line = await attach.open_line(context, actor, named)
        display = Display()
        sized = partial(_sized, display, line)
        talk = (attach.take_typing(line, receive, sized), _show(line, display, send))
        return visits.Opened(actor, *talk, partial(context.host.links.leave_terminal, line))

    await visits.serve(context, receive, send, opening)


def _sized(display: Display, line: TerminalLine, rows: int, columns: int) -> None:
    """The page has another size: the screen here, and the program, learn of it."""
    display.resize(rows, columns)
    line.type(rows=display.screen.lines, columns=display.screen.columns)


async def _show(line: TerminalLine, display: Display, send: Send) -> str:
    """What the job shows, to its end; why it ended, if that was not meant to be."""
    while True:
        output = await line.output.get()
        for begin in range(0, len(output.body), DRAWN_BYTES):
            part = output.body[begin : begin + DRAWN_BYTES]
            display.feed(part)
            line.took(len(part))
            if len(part) == DRAWN_BYTES:
                await asyncio.sleep(PAUSE_S)
        if line.output.empty() or output.over:
            await send({"type": "websocket.send", "text": display.news().decode()})
        if output.over:
            return output.error
