"""The door for the Slurm commands: one exchange with a relay for each call of a command."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from rota.api.auth import LOCAL, require
from rota.api.errors import Malformed
from rota.api.people import PEOPLE
from rota.api.unread import UNSENT
from rota.core.facts.errors import RotaError
from rota.slurm.call import wire
from rota.slurm.call.command import Answer, Call, CallerLine, CallRequest, run
from rota.slurm.call.list_turns import lists_of
from rota.slurm.call.waiting import Stopping
from rota.slurm.steps.signalling import watch

if TYPE_CHECKING:
    from rota.api.asgi import Receive, Scope, Send
    from rota.api.context import Context
    from rota.core.facts.tenant import Actor

log = logging.getLogger("rota.slurm")

PATH = "/api/v1/slurm/run"
#: Output goes out in parts of this size, so that a long list does not hold up everybody else.
PART_BYTES = 256 * 1024
#: What a shell would say of a command that a signal ended.
GONE = 130
#: The right that a command needs, where that is more than to look. What scontrol and sacctmgr
#: change is checked with the change.
RIGHTS = {
    "sbatch": "submit",
    "srun": "submit",
    "salloc": "submit",
    "scancel": "change",
    "sbcast": "change",
    "sattach": "change",
    "slurmstepd": "change",
}


class RelayLine(CallerLine):
    """The line to a relay: it reads files and its standard input when it is asked to."""

    def __init__(self, stream: wire.Stream) -> None:
        super().__init__()
        self.stream: wire.Stream = stream

    async def read_file(self, path: str) -> bytes | int:
        await self.stream.write((wire.GET, path.encode()))
        frame = await self._expect(wire.FILE)
        number, body = frame[:4], frame[4:]
        return int.from_bytes(number, "big") or body

    async def read_stdin(self) -> bytes:
        await self.stream.write((wire.INPUT, b""))
        body = bytearray()
        while part := await self._expect(wire.INPUT):
            body += part
            if len(body) > wire.FRAME_MAX:
                raise Malformed(f"standard input has more than {wire.FRAME_MAX} bytes")
        return bytes(body)

    async def read_line(self) -> str:
        await self.stream.write((wire.LINE, b""))
        return (await self._expect(wire.INPUT)).decode(errors="replace")

    async def write_file(self, path: str, body: bytes) -> int:
        await self.stream.write((wire.PUT, path.encode() + b"\0" + body))
        return int.from_bytes(await self._expect(wire.FILE), "big")

    async def show(self, stdout: str = "", stderr: str = "") -> None:
        shown = ((wire.STDERR, stderr.encode()), (wire.STDOUT, stdout.encode()))
        await self.stream.write(*((kind, text) for kind, text in shown if text))

    async def _expect(self, kind: bytes) -> bytes:
        frame = await self.stream.read()
        if frame is None or frame.kind != kind:
            raise CallerGone
        return frame.body


class CallerGone(Exception):
    """The relay was ended before its command was done."""


async def serve(context: Context, actor: Actor, scope: Scope, receive: Receive, send: Send) -> None:
    """One command, from its request to its exit code."""
    stream = wire.Stream(receive, send)
    first = await stream.read()
    if first is None or first.kind != wire.REQUEST:
        raise Malformed("expected the request of a relay")
    asked = wire.decode_request(first.body)
    request = CallRequest(
        program=asked.program,
        argv=asked.argv,
        env=asked.env,
        cwd=asked.cwd,
        umask=asked.umask,
        actor=actor,
        uid=await uid_of(actor, scope),
        columns=asked.columns,
        host=asked.host,
    )
    if unsent := scope.get(UNSENT):
        context.unread.note(actor.user, unsent)
    async with lists_of(context, actor):
        try:
            answer = await answer_to(Call(request, RelayLine(stream), context))
        except CallerGone:
            answer = Answer("", "", GONE)
        except Stopping:
            await stream.hang_up()
            return
    stdout = answer.stdout.encode() if isinstance(answer.stdout, str) else answer.stdout
    with context.unread.holding(actor.user, len(stdout)) as left:
        await _finish(stream, answer, stdout, left)


async def answer_to(call: Call) -> Answer:
    """The answer, whatever happens: a bug of ours is one line with a number for the log."""
    program = call.request.program
    try:
        require(call.actor, RIGHTS.get(program, "read"))
        return await run(call)
    except (CallerGone, Stopping):
        raise
    except RotaError as error:
        return Answer("", f"{program}: error: {error}\n", 1)
    except Exception as error:
        name = secrets.token_hex(6)
        log.error("internal error %s in %s", name, program, exc_info=error)
        text = f"{program}: error: internal error {name}; the controller's log has it\n"
        return Answer("", text, 1)


async def _finish(stream: wire.Stream, answer: Answer, stdout: bytes, left: list[int]) -> None:
    """Errors come first: programs that read both streams as one take the last line for the id."""
    if answer.stderr:
        await stream.write((wire.STDERR, answer.stderr.encode()))
    last = max(0, len(stdout) - 1) // PART_BYTES * PART_BYTES
    for begin in range(0, last, PART_BYTES):
        await stream.write((wire.STDOUT, stdout[begin : begin + PART_BYTES]))
        left[0] = len(stdout) - begin
        # Nothing is on its way before others had their turn: a line that is full shows only then.
        await asyncio.sleep(0)
    shown = [(wire.STDOUT, stdout[last:])] if stdout else []
    await stream.write(*shown, (wire.EXIT, bytes([answer.code & 0xFF])), last=True)


async def uid_of(actor: Actor, scope: Scope) -> int:
    """The kernel's word on a local socket, the user database's elsewhere; -1: unknown."""
    client = scope.get("client")
    if actor.via == "local" and client and client[0].startswith(LOCAL):
        return int(client[0].removeprefix(LOCAL))
    await PEOPLE.look_up([actor.user])
    entry = PEOPLE.entry(actor.user)
    return entry.uid if entry is not None else -1


__all__ = ["PATH", "answer_to", "serve", "watch"]
