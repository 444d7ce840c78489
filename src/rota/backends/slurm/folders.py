"""What attempts leave behind: their output, and how they ended. Read as their user, never as root.

``FOLDER/USER/UID/`` has ``stdout`` and ``stderr``, or links to where the job wanted them, and the
file ``exit`` with one line: ``exit CODE``, ``signal NUMBER``, or ``start job|node WHY``. The file
``program`` says where it runs, and in ``progress`` the job says how far it is.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rota.as_user.children import OURSELVES, ErrandFailed, NotInTime, Readers, named
from rota.backends.api import EngineAway, EngineRefused
from rota.core.facts.states import Blame

LIMIT_S = 8.0
PART_BYTES_MAX = 1 << 20
_EXIT_BYTES_MAX = 4096


class Left(NamedTuple):
    """What an attempt wrote down of its end."""

    code: int | None = None
    signal: int = 0
    #: Why it did not start, and for whose sake.
    unstarted: str = ""
    fault: Blame | None = None


class Program(NamedTuple):
    """Where the program of a running attempt is: its job of Slurm, its node, its process there."""

    job: str
    node: str
    pid: int


class Folders:
    """The shared folder of one Slurm."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._root_user = os.geteuid() == 0
        self._readers = Readers()

    def close(self) -> None:
        self._readers.close()

    def of(self, user: str, uid: str) -> str:
        return str(self._root / user / uid)

    async def prepare(self, user: str) -> None:
        """The user's own folder, in which nobody else can plant anything.

        Root alone can make one for somebody else; without it, the user's script has to.
        """
        try:
            async with asyncio.timeout(LIMIT_S):
                await asyncio.to_thread(self._prepare, user)
        except TimeoutError:
            raise EngineAway(f"{self._root}: the file system does not answer") from None
        except KeyError:
            raise EngineRefused(f"user {user}: no such user on this machine") from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise EngineRefused(f"{error.filename or self._root}: {why}", Blame.NODE) from None

    def _prepare(self, user: str) -> None:
        if not self._root_user and user != pwd.getpwuid(os.geteuid()).pw_name:
            return
        own, entry = self._root / user, pwd.getpwnam(user)
        with suppress(FileNotFoundError):
            found = own.lstat()
            if found.st_uid != entry.pw_uid or not stat.S_ISDIR(found.st_mode):
                why = f"{own}: it is not a folder of user {user}'s own"
                raise EngineRefused(why, Blame.NODE)
            return
        self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = self._root / f".{user}.{os.getpid()}.{os.urandom(4).hex()}"
        draft.mkdir(mode=0o700)
        if self._root_user:
            os.chown(draft, entry.pw_uid, entry.pw_gid)
        try:
            draft.rename(own)
        except OSError:
            # Another submit was first; whatever else it is, its user's script will say.
            draft.rmdir()

    async def read(
        self, user: str, uid: str, stream: str, offset: int, limit: int, lines: int
    ) -> tuple[bytes, int]:
        """A part of what it printed, and how much there is; one without output has none."""
        limit = min(limit, PART_BYTES_MAX) if limit > 0 else PART_BYTES_MAX
        path = f"{self.of(user, uid)}/{stream}"
        asked = {"path": path, "offset": offset, "limit": limit, "lines": lines}
        try:
            told, body = await self._readers.ask(self._who(user), "read", LIMIT_S, **asked)
        except ErrandFailed as error:
            if error.missing:
                return b"", 0
            raise (EngineAway if isinstance(error, NotInTime) else EngineRefused)(
                str(error)
            ) from None
        return body, told["size"]

    async def left(self, user: str, uid: str) -> Left | None:
        """How it ended, by its own word; None: it has none yet, or it cannot be read."""
        asked = {"offset": 0, "limit": _EXIT_BYTES_MAX, "lines": 0}
        path = f"{self.of(user, uid)}/exit"
        try:
            _, body = await self._readers.ask(self._who(user), "read", LIMIT_S, path=path, **asked)
        except ErrandFailed:
            return None
        return parse_left(body.decode(errors="replace"))

    async def began(self, user: str, uid: str, number: str) -> bool:
        """Whether the script of this job of Slurm has run; where nobody can tell: that it has."""
        asked = {"offset": 0, "limit": _EXIT_BYTES_MAX, "lines": 0}
        path = f"{self.of(user, uid)}/job"
        try:
            _, body = await self._readers.ask(self._who(user), "read", LIMIT_S, path=path, **asked)
        except ErrandFailed as error:
            return not error.missing
        return body.strip() == number.encode()

    async def program(self, user: str, uid: str) -> Program | None:
        """Of an attempt that runs; None: it has not begun."""
        try:
            body, _ = await self.read(user, uid, "program", 0, _EXIT_BYTES_MAX, 0)
            number, node, pid = body.decode().split()
            return Program(number, node, int(pid))
        except ValueError:
            return None

    def _who(self, user: str) -> str:
        return named(user) if self._root_user else OURSELVES


def parse_left(text: str) -> Left | None:
    """The line of a file ``exit``; None: it is not one."""
    kind, _, rest = text.removesuffix("\n").partition(" ")
    if kind == "start":
        whose, _, why = rest.partition(" ")
        blame = {"job": Blame.JOB, "node": Blame.NODE}.get(whose)
        return Left(unstarted=why, fault=blame) if blame is not None else None
    if kind not in ("exit", "signal") or not rest.isdecimal() or int(rest) > 255:
        return None
    return Left(code=int(rest)) if kind == "exit" else Left(signal=int(rest))
