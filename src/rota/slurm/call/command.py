"""What a Slurm command is asked and what it answers; which part of Rota answers which command."""

from __future__ import annotations

import errno
import importlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rota.api.people import PEOPLE
from rota.core.facts.tenant import Actor
from rota.digits import is_digits
from rota.pretended import REMARK
from rota.slurm.call.people import knowing, users_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rota.api.context import Context
    from rota.slurm.call.wire import Stream

    Handler = Callable[["Call"], Awaitable["Answer"]]

T = TypeVar("T")

#: The release whose behaviour is copied, as ``-V`` prints it.
VERSION_LINE = "slurm-wlm 22.05.8\n"

#: Program -> where its function is. Imported on first use: a server that nobody asks for Slurm
#: commands carries none of them.
PROGRAMS = {
    "sbatch": "rota.slurm.submit.sbatch:sbatch",
    "srun": "rota.slurm.submit.srun:srun",
    "salloc": "rota.slurm.submit.salloc:salloc",
    "sbcast": "rota.slurm.submit.sbcast:sbcast",
    "sattach": "rota.slurm.submit.sattach:sattach",
    "slurmstepd": "rota.slurm.steps.stand_in:stand_in",
    "scancel": "rota.slurm.control.scancel:scancel",
    "scontrol": "rota.slurm.control.scontrol:scontrol",
    "squeue": "rota.slurm.lists.squeue:squeue",
    "sinfo": "rota.slurm.lists.sinfo:sinfo",
    "sacct": "rota.slurm.lists.sacct:sacct",
    "sacctmgr": "rota.slurm.accounting.sacctmgr:sacctmgr",
    "sprio": "rota.slurm.lists.sprio:sprio",
    "sshare": "rota.slurm.accounting.sshare:sshare",
    "sdiag": "rota.slurm.lists.sdiag:sdiag",
    "sstat": "rota.slurm.lists.sstat:sstat",
    "sreport": "rota.slurm.accounting.sreport:sreport",
}
#: Keyword of ``scontrol`` -> where its function is; it is given the words behind the keyword.
SCONTROL = {
    "show": "rota.slurm.control.scontrol_show:show",
    "ping": "rota.slurm.control.scontrol_show:ping",
    "token": "rota.slurm.control.scontrol_token:token",
}


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a command, as the relay saw it."""

    program: str
    #: Without the name of the program.
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = "/"
    umask: int = 0o022
    actor: Actor
    #: Of the caller, where the kernel or the user database knows it; else -1.
    uid: int = -1
    #: The width of the caller's terminal; 0: there is none.
    columns: int = 0
    #: The machine that the command was called on.
    host: str = ""
    #: Fields of a request of Rota's own, which win over the options.
    job: dict[str, Any] = {}
    #: One job is wanted, and no array.
    alone: bool = False

    def path(self, name: str) -> str:
        """Relative ones begin where the command was called."""
        return name if name.startswith("/") else f"{self.cwd.rstrip('/')}/{name}"


class Answer(msgspec.Struct, frozen=True):
    """What the command prints, and its exit code."""

    stdout: str | bytes = ""
    stderr: str = ""
    code: int = 0


class CommandFailed(Exception):
    """Ends a command: what goes to stderr, with its line end, and the exit code."""

    def __init__(self, stderr: str, code: int = 1, stdout: str = "") -> None:
        super().__init__(stderr)
        self.answer = Answer(stdout, stderr, code)


class NotServed(CommandFailed):
    """What was well said and cannot be had; a caller may name the exit code in a variable.

    Scripts tell by it what Slurm refused from what their own programs made of it.
    """

    def __init__(self, stderr: str, variable: str = "SLURM_EXIT_ERROR") -> None:
        super().__init__(stderr, 1)
        self._variable = variable

    def answer_to(self, call: Call) -> Answer:
        text = call.env.get(self._variable, "")
        if not text:
            return self.answer
        code = int(text) & 0xFF if is_digits(text) and len(text) < 10 else 0
        if code:
            return msgspec.structs.replace(self.answer, code=code)
        said = f"{call.request.program}: error: {self._variable} has zero value\n"
        return msgspec.structs.replace(self.answer, stderr=said + self.answer.stderr)


class CallerLine:
    """The line back to the caller, for commands that need more than their arguments.

    This one is for callers without a relay: all that they have is what they sent.
    """

    def __init__(self, stdin: bytes = b"", path: str = "/dev/stdin") -> None:
        self._stdin = stdin
        self._path = path
        #: Where both sides can speak at any time; only a relay has such a line.
        self.stream: Stream | None = None
        self.shown: list[tuple[str, bytes]] = []

    async def read_file(self, path: str) -> bytes | int:
        """The content of a file of the caller, or the errno with which it could not be read."""
        return self._stdin if path == self._path else errno.ENOENT

    async def read_stdin(self) -> bytes:
        return self._stdin

    async def read_line(self) -> str:
        """One line of what the caller types."""
        line, mark, self._stdin = self._stdin.partition(b"\n")
        return (line + mark).decode(errors="replace")

    async def write_file(self, path: str, body: bytes) -> int:
        """Write a file where the command was called; the errno if it could not be."""
        return errno.EROFS

    async def show(self, stdout: str = "", stderr: str = "") -> None:
        """Print something before the answer is complete."""
        self.shown += [("stdout", stdout.encode()), ("stderr", stderr.encode())]


class Call:
    """A request, the line to its caller, and the server that it is about."""

    def __init__(self, request: CallRequest, line: CallerLine, context: Context) -> None:
        self.request = request
        self.line = line
        self.context = context

    @property
    def actor(self) -> Actor:
        return self.request.actor

    @property
    def env(self) -> dict[str, str]:
        return self.request.env


async def run(call: Call) -> Answer:
    """Answer one command."""
    place = PROGRAMS.get(call.request.program)
    if place is None:
        return Answer("", f"{call.request.program}: not a command of Slurm\n", 127)
    handler: Handler = load(place)
    answer = await handled(call, handler)
    if call.context.settings.pretended:
        warned = f"{call.request.program}: {REMARK}\n{answer.stderr}"
        answer = msgspec.structs.replace(answer, stderr=warned)
    return answer


async def handled(call: Call, handler: Callable[[Call], Awaitable[T]]) -> T | Answer:
    """What a part of a command makes of a call. What goes wrong is text and a code."""
    try:
        # What a command that changes something needs: it does not begin twice.
        await PEOPLE.look_up(
            [call.actor.user, *([call.request.uid] if call.request.uid >= 0 else [])]
        )
        return await knowing(lambda: handler(call), lambda: users_of(call.context.host.cluster))
    except NotServed as refused:
        return refused.answer_to(call)
    except CommandFailed as failed:
        return failed.answer


def load(place: str) -> Any:  # noqa: ANN401 - any function
    """The function behind ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
