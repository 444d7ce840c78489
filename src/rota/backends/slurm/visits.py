"""Going into a running job of Slurm: a step beside it, by ``srun`` on this machine, as its user.

It works with REST as well as with commands, for neither starts steps by itself. A terminal here
lets ``srun`` tell the node of the visitor's window; a port is reached by a few lines of perl in the
step, so what listens on the node's own address is reached, too.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import struct
import termios
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from rota.backends.api import EngineAway, EngineRefused
from rota.backends.slurm.commands import as_user, surroundings
from rota.core.facts.states import Blame

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable

    from rota.backends.slurm.folders import Program

PIECE_BYTES = 64 * 1024
#: The most of what ``srun`` itself says that is heard.
WORDS_BYTES = 4096
#: So long a step has to end when its visitor has gone.
LEAVE_S = 5.0
_SRUN = (
    *("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none", "--quiet"),
    *("--chdir=/", "--job-name=rota-visit"),
)
#: Becomes the program with what the job's own program began with, in the folder that it is in now.
BESIDE = r"""
mapfile -d "" -t given 2>/dev/null <"/proc/$1/environ"
[ ${#given[@]} -gt 0 ] || { echo "rota: the job's program has ended" >&2; exit 1; }
cd -- "$(readlink -- "/proc/$1/cwd")" 2>/dev/null || cd /
shift
exec env -i -- "${given[@]}" "$@"
"""
#: Bytes between the step and a port of its node, each half ended by itself.
RELAY = r"""
use Socket;
my $port = shift;
my $far;
for (1) {
    socket($far, PF_INET, SOCK_STREAM, 0);
    last if connect($far, sockaddr_in($port, INADDR_LOOPBACK));
    socket($far, PF_INET6, SOCK_STREAM, 0);
    last if connect($far, pack_sockaddr_in6($port, Socket::IN6ADDR_LOOPBACK));
    print STDERR "nothing listens on port $port of the job's node\n";
    exit 1;
}
my %to = (fileno(STDIN) => $far, fileno($far) => \*STDOUT);
my %from = (fileno(STDIN) => \*STDIN, fileno($far) => $far);
while ($from{fileno($far)}) {
    my $ready = "";
    vec($ready, $_, 1) = 1 for keys %from;
    next if select($ready, undef, undef, undef) < 0;
    for my $number (keys %from) {
        next unless vec($ready, $number, 1);
        my $count = sysread($from{$number}, my $body, 65536);
        if (!$count) {
            shutdown($far, 1) if $number == fileno(STDIN);
            delete $from{$number};
            next;
        }
        for (my $at = 0; $at < $count;) {
            my $put = syswrite($to{$number}, $body, $count - $at, $at);
            exit 1 unless $put;
            $at += $put;
        }
    }
}
"""


def can_enter(*, acts_for_all: bool) -> bool:
    """Whether steps can be started from this machine, as the users whose jobs there are."""
    return shutil.which("srun") is not None and (os.geteuid() == 0 or not acts_for_all)


async def enter(user: str, program: Program, argv: tuple[str, ...]) -> SlurmTerminal:
    """Run this beside the program of a job, on a terminal."""
    master, slave = os.openpty()
    words = [*_step(program), "--pty", "bash", "-c", BESIDE, "bash", str(program.pid), *argv]
    try:
        process = await _started(words, user, slave)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return SlurmTerminal(process, master)


async def reach(user: str, program: Program, port: int) -> SlurmTunnel:
    """A connection to a port of the node of a job."""
    near, far = socket.socketpair()
    words = [*_step(program), "--unbuffered", "perl", "-e", RELAY, str(port)]
    with far:
        process = await _started(words, user, far.fileno())
    return SlurmTunnel(process, *await asyncio.open_connection(sock=near))


def _step(program: Program) -> list[str]:
    return [*_SRUN, f"--jobid={program.job}", f"--nodelist={program.node}"]


async def _started(words: list[str], user: str, stream: int) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=stream,
            stdout=stream,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env=surroundings(),
            start_new_session=True,
            **await asyncio.to_thread(as_user, user),
        )
    except OSError as error:
        raise EngineAway(f"{words[0]}: {(error.strerror or str(error)).lower()}") from None


class _Visit(ABC):
    """A step, as long as its ``srun`` lives."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._shown = False
        # Read to its end, so that srun never waits for us.
        self._words = asyncio.create_task(self._listen())

    async def _listen(self) -> bytes:
        heard, words = b"", self._process.stderr
        while words is not None and (piece := await words.read(WORDS_BYTES)):
            heard = (heard + piece)[:WORDS_BYTES]
        return heard

    async def read(self) -> bytes:
        body = await self._read()
        self._shown = self._shown or bool(body)
        if not body and not self._shown and await self._process.wait():
            lines = (await self._words).decode(errors="replace").strip().splitlines()
            text = lines[0].removeprefix("srun: ").removeprefix("error: ") if lines else ""
            raise EngineRefused(text or f"srun ended with {self._process.returncode}", Blame.NODE)
        return body

    @abstractmethod
    async def _read(self) -> bytes:
        """The next piece of what the step shows; empty: there is no more."""

    async def close(self) -> None:
        """``srun`` ends its step when it is told to end."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
        self._words.cancel()

    def _signal(self, number: int) -> None:
        """Past the methods of ``Process``, which would take the exit status from ``wait``."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


class SlurmTerminal(_Visit):
    def __init__(self, process: Process, master: int) -> None:
        super().__init__(process)
        os.set_blocking(master, False)
        self._master = master

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._master, PIECE_BYTES)
            except BlockingIOError:
                await _once(self._master, loop.add_reader, loop.remove_reader)
            except OSError:
                return b""  # Nobody holds the other end any more.

    async def write(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        while body:
            try:
                body = body[os.write(self._master, body) :]
            except BlockingIOError:
                await _once(self._master, loop.add_writer, loop.remove_writer)
            except OSError:
                return  # Told by what comes.

    async def end(self) -> None:
        """A terminal goes on."""

    async def resize(self, rows: int, columns: int) -> None:
        with suppress(OSError):
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)
        self._signal(signal.SIGWINCH)

    async def close(self) -> None:
        await super().close()
        os.close(self._master)


async def _once(
    number: int, add: Callable[[int, Callable[[], object]], object], remove: Callable[[int], object]
) -> None:
    """Wait until it can be read, or written."""
    ready = asyncio.Event()
    add(number, ready.set)
    try:
        await ready.wait()
    finally:
        remove(number)


class SlurmTunnel(_Visit):
    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(process)
        self._reader, self._writer = reader, writer

    async def _read(self) -> bytes:
        with suppress(OSError):
            return await self._reader.read(PIECE_BYTES)
        return b""

    async def write(self, body: bytes) -> None:
        with suppress(OSError):  # Told by what comes.
            self._writer.write(body)
            await self._writer.drain()

    async def end(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def resize(self, rows: int, columns: int) -> None:
        """A port has no window."""

    async def close(self) -> None:
        await super().close()
        self._writer.close()
