"""The agent's end: children that act as users, each bounded in time, all of a user's in number.

What waits for a child is a thread that does nothing else, never the agent's loop. A child that
does not answer in time is ended. One that cannot even be ended (it hangs in a file system) counts
against its user until it is gone: nobody else waits for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rota.as_user.frames import Broken, receive, send
from rota.rpc.visits import NOT_IN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

CHILD = Path(__file__).with_name("child.py")
#: The agent's own user.
OURSELVES = "-"
#: The most processes of one user that read or search at once; the next one waits for a turn.
AT_ONCE = 4
#: Threads that wait; there are only as many as are needed.
THREADS_MAX = 256
#: The kernel ends a child in time; this much later it is hung.
HUNG_S = 1.0
T = TypeVar("T")


class ErrandFailed(Exception):
    """The errand was not done; the text says why, the number which error it was of the system."""

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.number = number

    @property
    def missing(self) -> bool:
        """Its file is not there."""
        return self.number == ENOENT


class NotInTime(ErrandFailed):
    """It took too long, or others of the same user do."""

    def __init__(self, why: str = "") -> None:
        super().__init__(f"{NOT_IN_TIME}: {why}" if why else NOT_IN_TIME)


def named(user: str) -> str:
    """A user by name; without a name it is the agent's own."""
    return f"name:{user}" if user else OURSELVES


def _environment() -> dict[str, str]:
    """What Python may need to start; the agent's secrets are in the rest."""
    needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"LC_ALL": "C.UTF-8", **needed}


class Child:
    """One child. Its methods wait: they are for threads."""

    def __init__(self, who: str, kind: str, fds: tuple[int, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(CHILD), who, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            cwd="/",
            env=_environment(),
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self.pid = self._process.pid

    def order(self, errand: str, limit_s: float, **fields: Any) -> None:
        self.give(json.dumps({"errand": errand, "limit_s": limit_s} | fields).encode(), limit_s)

    def give(self, body: bytes, limit_s: float) -> None:
        send(self._to, body, limit_s + HUNG_S)

    def take(self, limit_s: float) -> bytes:
        return receive(self._from, limit_s + HUNG_S)

    def answer(self, limit_s: float) -> tuple[dict[str, Any], bytes]:
        """The end of an errand, or ``ErrandFailed``."""
        told: dict[str, Any] = json.loads(self.take(limit_s))
        body = self.take(limit_s)
        if told.get("error"):
            raise ErrandFailed(told["error"], told.get("number", 0))
        return told, body

    def end(self) -> bool:
        """Whether it is gone."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(HUNG_S)
        return self.is_gone()

    def is_gone(self) -> bool:
        return self._process.poll() is not None


def once(who: str, work: Callable[[Child], T], kind: str = "files", fds: tuple[int, ...] = ()) -> T:
    """A child for one errand. For threads."""
    child = Child(who, kind, fds)
    try:
        return work(child)
    except TimeoutError:
        raise NotInTime from None
    except Broken:
        # It may have said why before it stopped listening.
        with suppress(TimeoutError, Broken, ValueError):
            child.answer(HUNG_S)
        raise NotInTime from None
    finally:
        child.end()


def do(who: str, errand: str, limit_s: float, **fields: Any) -> dict[str, Any]:
    """One errand of the kind ``files`` in a child of its own. For threads."""

    def work(child: Child) -> dict[str, Any]:
        child.order(errand, limit_s, **fields)
        return child.answer(limit_s)[0]

    return once(who, work)


class Readers:
    """Children that read logs, kept for a while: who follows one asks often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[Child]] = {}
        self._hung: dict[str, list[Child]] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._threads = ThreadPoolExecutor(THREADS_MAX, "rota-reads")

    async def ask(
        self,
        who: str,
        errand: str,
        limit_s: float,
        **fields: Any,
    ) -> tuple[dict[str, Any], bytes]:
        """What the child answers; ``ErrandFailed`` where it cannot."""
        turn = self._turns.setdefault(who, asyncio.Semaphore(AT_ONCE))
        try:
            async with asyncio.timeout(limit_s):
                await turn.acquire()
        except TimeoutError:
            raise NotInTime("other reads of this user take long") from None
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: self._ask(who, errand, limit_s, fields)
            )
        finally:
            turn.release()

    def _ask(
        self, who: str, errand: str, limit_s: float, fields: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        began_s = time.monotonic()
        while (child := self._taken(who)) is not None:
            try:
                return self._asked(child, who, errand, limit_s, fields)
            except Broken:
                # Either its time was over, or it had just ended because nobody asked for a while.
                if time.monotonic() - began_s >= limit_s:
                    raise NotInTime from None
        try:
            return self._asked(Child(who, "logs"), who, errand, limit_s, fields)
        except Broken:
            raise NotInTime from None

    def _asked(
        self, child: Child, who: str, errand: str, limit_s: float, fields: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        try:
            child.order(errand, limit_s, **fields)
            answer = child.answer(limit_s)
        except ErrandFailed:
            self._keep(child, who)
            raise
        except TimeoutError:
            self._end(child, who)
            raise NotInTime from None
        except BaseException:
            self._end(child, who)
            raise
        self._keep(child, who)
        return answer

    def _taken(self, who: str) -> Child | None:
        """A child that is there already; None: one has to be started."""
        with self._lock:
            hung = [child for child in self._hung.pop(who, ()) if not child.is_gone()]
            if hung:
                self._hung[who] = hung
            if len(hung) >= AT_ONCE:
                raise NotInTime("earlier reads of this user hang in a file system")
            idle = self._idle.get(who)
            return idle.pop() if idle else None

    def _keep(self, child: Child, who: str) -> None:
        """For the next question. Those go that have ended for want of one."""
        with self._lock:
            self._idle.setdefault(who, []).append(child)
            for user, idle in list(self._idle.items()):
                over = [one for one in idle if one.is_gone()]
                for one in over:
                    idle.remove(one)
                    one.end()
                if not idle:
                    del self._idle[user]

    def _end(self, child: Child, who: str) -> None:
        if not child.end():
            with self._lock:
                self._hung.setdefault(who, []).append(child)

    def close(self) -> None:
        """Nobody is asked any more."""
        with self._lock:
            for idle in self._idle.values():
                for child in idle:
                    child.end()
            self._idle.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
