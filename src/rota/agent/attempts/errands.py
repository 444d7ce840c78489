"""What takes time around an attempt: fetching its folder, copying its saved work, answering.

Nothing here may hold up the agent's loop, so each errand is a task of its own, and what takes time
is done by a child as the job's user, for which a thread waits: a few at once for each user. A start
waits for the errands before it, and whatever goes wrong with them is the end of that attempt; an
end is told when the saved work has been copied, because the next try may begin on another node at
once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

import msgspec

from rota.agent.attempts.accounts import LaunchFailed
from rota.agent.attempts.launch import copied_work
from rota.agent.files import checkpoints
from rota.agent.files.bundles import BundleFailed
from rota.agent.files.checkpoint_store import StoreFailed, StoreRefused, drop_copy, pull, push
from rota.as_user.children import ErrandFailed
from rota.as_user.owners import look
from rota.keeper.failures import NODE, NotReady
from rota.rpc.messages import (
    BundlePart,
    CheckpointAnswer,
    ListCheckpoints,
    NoteCheckpoint,
    ReadBundle,
)
from rota.session.instructions import Began, Gone, KnownAttempt

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from rota.agent.attempts.launch import Launcher
    from rota.rpc.messages import AgentMessage, CheckpointFolder, CheckpointOrder, Saved
    from rota.session.instructions import Spawn

log = logging.getLogger("rota.agent")

#: A store that does not answer is asked so often, after growing pauses.
TRIES = 3
PAUSE_S = 1.0
#: A controller that is away, or does not answer, is asked again after this time.
ASK_AGAIN_S = 0.5
ANSWER_S = 30.0
#: The most errands of one user at once; the next one waits for its turn.
AT_ONCE = 4
STOPPED = "stopped before it was started"
THREADS_MAX = 128
#: What each of these says is meant for people; anything else is an error of ours.
EXPECTED = (BundleFailed, LaunchFailed, StoreFailed, ErrandFailed, checkpoints.FolderFailed)
T = TypeVar("T")


class Errands:
    """The errands of one agent. ``start``, ``tell`` and ``send`` are how it goes on after one."""

    def __init__(
        self,
        launcher: Launcher,
        start: Callable[[Spawn], None],
        tell: Callable[[list[Began | Gone]], None],
        send: Callable[[AgentMessage], bool],
    ) -> None:
        self._launcher = launcher
        self._start, self._tell, self._send = start, tell, send
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[BundlePart]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(THREADS_MAX, "rota-errands")
        launcher.on_gone, launcher.in_thread = self._remove_later, self._threads.submit
        #: Attempts whose start waits here, and those whose start may go on.
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._prepared: set[str] = set()
        #: Saved work to copy when the attempt has ended; ends that were kept back for it.
        self._saved: dict[str, Saved] = {}
        self._copying: set[str] = set()

    def delays(self, spawn: Spawn) -> bool:
        """Whether the start has to wait; it is given to ``start`` again when it need not."""
        uid, launch = spawn.uid, spawn.launch
        if (saved := copied_work(launch)) is not None:
            self._saved[uid] = saved
        if uid in self._prepared:
            self._prepared.discard(uid)
            return False
        known = self._launcher.accounts.knows(launch.user)
        if known and not launch.bundle and not _lies_in_store(launch.checkpoint):
            return False
        if uid not in self._preparing:
            self._preparing[uid] = self._run(self._prepare(spawn))
        return True

    def give_up(self, uids: Iterable[str]) -> None:
        """These shall not start any more: nobody waits for their errands."""
        for uid in uids:
            if (task := self._preparing.get(uid)) is not None:
                task.cancel(STOPPED)

    def adopt(self, attempts: Iterable[KnownAttempt]) -> tuple[KnownAttempt, ...]:
        """The keeper's list as the agent shall see it: an end waits for the copy of its work."""
        return tuple(
            msgspec.structs.replace(known, phase="running")
            if known.phase == "ended" and self._keeps_back(known.end(), known.keep.saved)
            else known
            for known in attempts
        )

    def passed_on(self, events: Iterable[Began | Gone]) -> list[Began | Gone]:
        """Without the ends that wait for the copy of their work."""
        return [
            event
            for event in events
            if isinstance(event, Began) or not self._keeps_back(event, self._saved.get(event.uid))
        ]

    def take(self, message: CheckpointOrder | BundlePart) -> None:
        """What the controller asks, or answers."""
        if not isinstance(message, BundlePart):
            self._run(self._answer(message))
            return
        question = self._questions.pop(message.request, None)
        if question is not None and not question.done():
            question.set_result(message)

    def on_disconnected(self) -> None:
        """Nobody will answer what was asked."""
        questions, self._questions = self._questions, {}
        for question in questions.values():
            question.cancel()

    def _lock(self, name: str) -> asyncio.Lock:
        """One at a time works on a folder."""
        return self._locks.setdefault(name, asyncio.Lock())

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait(self, whose: str, work: Callable[[], T]) -> T:
        """A thread waits for what a child does for a user; each user has a few turns."""
        turn = self._turns.setdefault(whose, asyncio.Semaphore(AT_ONCE))
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """The agent ends; children that are still busy end in their time."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _prepare(self, spawn: Spawn) -> None:
        """Whatever happens here, the start goes on or the attempt ends."""
        uid = spawn.uid
        try:
            await self._make_ready(spawn)
        except asyncio.CancelledError as cancelled:
            if STOPPED not in cancelled.args:
                raise  # The agent ends; the next one prepares it anew.
            self._fail(uid, STOPPED)
        except EXPECTED as error:
            self._fail(uid, str(error), error.fault if isinstance(error, NotReady) else "")
        except OSError as error:
            named = f"{error.filename}: " if error.filename else "the folder of the agent: "
            self._fail(uid, f"{named}{error.strerror}", NODE)
        except Exception as error:
            log.exception("attempt %s could not be prepared", uid)
            self._fail(uid, f"cannot be prepared: {type(error).__name__}: {error}"[:500])
        else:
            self._preparing.pop(uid, None)
            self._prepared.add(uid)
            self._start(spawn)

    async def _make_ready(self, spawn: Spawn) -> None:
        launch, launcher = spawn.launch, self._launcher
        user = launch.user
        if not launcher.accounts.knows(user):
            await self._wait(user, lambda: launcher.accounts.learn(user))
        owner = launcher.accounts.owner_of(user)
        if launch.bundle:
            await self._fetch(launch.bundle)
            await self._unpack(launch.bundle, spawn.uid, user, owner)
        saved = launch.checkpoint
        if saved is not None and _lies_in_store(saved):
            async with self._lock(saved.folder):
                await self._patiently(user, lambda: pull(saved, owner))

    async def _unpack(
        self, digest: str, uid: str, user: str, owner: tuple[int, int] | None
    ) -> None:
        """A child cannot be called back: what it unpacks for nobody is removed when it is done."""
        unpack = self._launcher.bundles.unpack
        work = asyncio.ensure_future(self._wait(user, lambda: unpack(digest, uid, owner)))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(lambda done: self._after(uid, done))
            raise

    def _after(self, uid: str, done: asyncio.Future[str]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._remove_later(uid)

    def _fail(self, uid: str, reason: str, fault: str = "") -> None:
        self._preparing.pop(uid, None)
        self._saved.pop(uid, None)
        self._tell([Gone(uid, 0.0, time.time(), error=reason, fault=fault)])

    def _remove_later(self, uid: str) -> None:
        """The working folder of an attempt that is over."""
        self._run(self._remove(uid))

    async def _remove(self, uid: str) -> None:
        try:
            bundles = self._launcher.bundles
            await self._wait(_whose(bundles.folder_of(uid)), lambda: bundles.remove(uid))
        except (OSError, ErrandFailed) as error:
            log.warning("working folder of attempt %s: %s", uid, error)

    async def _fetch(self, digest: str) -> None:
        """The packed folder, piece by piece, if it is not here yet."""
        bundles = self._launcher.bundles
        async with self._lock(digest):
            if bundles.has(digest):
                return
            offset, size = 0, 1
            while offset < size:
                part = await self._ask(digest, offset)
                if part.error or not part.body:
                    raise BundleFailed(f"bundle {digest[:12]}: {part.error or 'it is empty'}")
                bundles.add(digest, offset, part.body)
                offset, size = offset + len(part.body), part.size
            await self._wait(digest, lambda: bundles.keep(digest))

    async def _ask(self, digest: str, offset: int) -> BundlePart:
        """A piece from the controller; while it is away we wait for it."""
        while True:
            number = next(self._numbers)
            question = asyncio.get_running_loop().create_future()
            self._questions[number] = question
            if self._send(ReadBundle(number, digest, offset)):
                await asyncio.wait({question}, timeout=ANSWER_S)
                if question.done() and not question.cancelled():
                    part: BundlePart = question.result()
                    return part
            self._questions.pop(number, None)
            await asyncio.sleep(ASK_AGAIN_S)

    def _keeps_back(self, end: Gone, saved: Saved | None) -> bool:
        self._launcher.on_ended(end.uid)
        if saved is None or not end.started_s or end.uid in self._launcher.copied:
            return False
        if end.uid not in self._copying:
            self._copying.add(end.uid)
            self._run(self._copy(end, saved))
        return True

    async def _copy(self, end: Gone, saved: Saved) -> None:
        """What cannot be copied stays here; its end is told all the same."""
        await self._push(saved)
        self._copying.discard(end.uid)
        self._launcher.copied.add(end.uid)
        self._saved.pop(end.uid, None)
        self._tell([end])

    async def _push(self, saved: Saved) -> str:
        async with self._lock(saved.folder):
            try:
                await self._patiently(_whose(saved.folder), lambda: push(saved))
            except EXPECTED as error:
                log.error("%s", error)
                return str(error)
            except Exception as error:
                log.exception("checkpoint folder %s", saved.folder)
                return f"checkpoint folder {saved.folder}: {type(error).__name__}: {error}"
        return ""

    async def _patiently(self, whose: str, work: Callable[[], int]) -> None:
        """A store may be away for a moment."""
        for number in range(TRIES):
            try:
                await self._wait(whose, work)
            except StoreFailed as error:
                if number == TRIES - 1 or isinstance(error, StoreRefused):
                    raise
                await asyncio.sleep(PAUSE_S * 2**number)
            else:
                return

    async def _answer(self, order: CheckpointOrder) -> None:
        try:
            answer = await self._carry_out(order)
        except EXPECTED as error:
            answer = CheckpointAnswer(order.request, error=str(error))
        except OSError as error:
            answer = CheckpointAnswer(order.request, error=f"{error.filename}: {error.strerror}")
        except Exception as error:
            log.exception("saved work")
            answer = CheckpointAnswer(order.request, error=f"{type(error).__name__}: {error}")
        self._send(answer)

    async def _listed(self, root: str, names: tuple[str, ...]) -> tuple[CheckpointFolder, ...]:
        """All folders by name; or these with their weight, for which each owner has own turns."""
        if not names:
            return await self._wait(root, lambda: checkpoints.listing(root))
        parts = [
            self._wait(whose, partial(checkpoints.listing, root, theirs))
            for whose, theirs in _by_owner(root, names).items()
        ]
        found = itertools.chain.from_iterable(await asyncio.gather(*parts))
        return tuple(sorted(found, key=lambda folder: folder.name))

    async def _carry_out(self, order: CheckpointOrder) -> CheckpointAnswer:
        if isinstance(order, ListCheckpoints):
            return CheckpointAnswer(order.request, await self._listed(order.root, order.names))
        saved = order.saved
        folder, whose = saved.folder, _whose(saved.folder)
        if isinstance(order, NoteCheckpoint):
            async with self._lock(folder):  # The last one that was asked for stays.
                await self._wait(whose, lambda: checkpoints.note(folder, order.body))
            for path in order.drop:
                await self._wait(whose, partial(checkpoints.drop_part, folder, path))
            error = await self._push(saved) if saved.store and saved.copies else ""
            return CheckpointAnswer(order.request, error=error)
        async with self._lock(folder):
            await self._wait(whose, lambda: checkpoints.drop(folder))
            if saved.store:
                await self._wait(whose, lambda: drop_copy(saved.store))
        return CheckpointAnswer(order.request)


def _by_owner(root: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Those of the folders that are here, by whose turn it takes to look into them."""
    found: dict[str, list[str]] = {}
    for name in names:
        folder = os.path.join(root, os.path.basename(name))
        with suppress(OSError):
            found.setdefault(str(look(folder).uid), []).append(name)
    return found


def _whose(folder: str) -> str:
    """The user to whom a folder belongs, whose turn it takes."""
    try:
        return str(look(folder).uid)
    except OSError:
        return folder


def _lies_in_store(saved: Saved | None) -> bool:
    """Whether an earlier try may have left a copy."""
    return saved is not None and bool(saved.store) and saved.attempt > 1
