"""Carries messages to receivers, in a thread of its own, beside the controller.

The log is the outbox. A bookmark says up to which event everything was sent or given up, and from
where on single receivers still wait; after a crash it is read on from there. So each message is
sent at least once, and one that was on its way when the controller died may come twice, with the
same delivery id. Receivers do not wait for one another, and nothing ever waits for a receiver.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec

from rota.core.changes import events as ev
from rota.notify.channels import NotNow, Unwanted
from rota.notify.node_notices import is_of_node
from rota.notify.notice import TELLING, subject
from rota.notify.receiver import WAITING_MAX, Receiver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from rota.core.changes.events import Recorded
    from rota.notify.collect import Delivery, NoticeCollector, NoticeLog

log = logging.getLogger("rota.notify")

BOOKMARK = "notify"
PAGE = 200
#: Sends that may be under way at once, over all receivers, and for the jobs of one user.
SENDS_MAX, SENDS_EACH = 32, 8
#: The bookmark is moved at most this often.
SAVE_S = 0.25
#: Events that concern nobody are noted in the bookmark only so often.
DULL_EVENTS_MAX = 5000
#: How long to wait when the log cannot be read.
TROUBLE_S = 1.0
RECEIVERS_MAX = 1000


class Bookmark(msgspec.Struct, omit_defaults=True):
    """How far the log was read, and from where on single receivers still have to be told."""

    read: int
    behind: dict[str, int] = {}
    #: Whether what jobs ask for has a receiver for each user there; it had one for all of them.
    by_user: bool = False


class Courier:
    """``publish`` is for the controller's loop; everything else happens in the own thread."""

    def __init__(
        self,
        collector: NoticeCollector,
        store: NoticeLog,
        place: str,
        save: Callable[[str], Awaitable[None]],
    ) -> None:
        """``place`` is the bookmark on record; ``save`` keeps another, from any loop."""
        mark = msgspec.json.decode(place, type=Bookmark)
        self._collector = collector
        self._store = store
        self._save_place = save
        #: Receivers have heard of everything up to here, or up to their own mark.
        self._told_before = mark
        self._read = min([mark.read, *mark.behind.values()])
        self._newest = self._read
        self._dull_events = 0
        #: Jobs that want to be told of, as far as they are known to be alive.
        self._wanted: set[int] = set()
        self._lock = threading.Lock()
        self._receivers: dict[str, Receiver] = {
            name: Receiver(name) for name in collector.receivers()
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._bell = asyncio.Event()
        self._moved = asyncio.Event()
        self._slots = asyncio.Semaphore(SENDS_MAX)
        self._shares = WeakValueDictionary[str, asyncio.Semaphore]()
        self._saved = ""
        self._thread = threading.Thread(target=self._live, name="rota-notify", daemon=True)

    def start(self, newest: int, wanted: Iterable[int]) -> None:
        """Begin, with what the bookmark has left of a log that goes up to ``newest``."""
        self._wanted.update(wanted)
        self._newest = newest
        self._thread.start()

    def publish(self, records: Sequence[Recorded]) -> None:
        """What was committed. Quick: it only finds out whether there is anything to tell."""
        if not records:
            return
        last = records[-1].seq
        interesting = [self._is_interesting(record.event) for record in records]
        with self._lock:
            gap = records[0].seq != self._newest + 1
            caught_up = self._read >= self._newest
            self._newest = max(self._newest, last)
            if caught_up and not gap and not any(interesting):
                self._read = max(self._read, last)
                self._dull_events += len(records)
                if self._dull_events < DULL_EVENTS_MAX:
                    return
                self._dull_events = 0
        self._ring()

    def _is_interesting(self, event: ev.AnyEvent) -> bool:
        if is_of_node(event) or isinstance(event, ev.QuotaReached):
            return self._collector.has_rules
        if type(event) not in TELLING:
            if isinstance(event, ev.ElementExpanded) and event.array in self._wanted:
                self._wanted.add(event.array + 1 + event.position)
            elif isinstance(event, ev.JobUpdated) and event.spec.notify:
                self._wanted.add(event.job)
            return False
        item = subject(event)
        spec = getattr(event, "spec", None)
        if spec is not None and spec.notify:
            self._wanted.add(item)
        wanted = item in self._wanted
        if isinstance(event, ev.JobSettled):
            self._wanted.discard(item)
        return wanted or self._collector.has_rules

    def _ring(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    async def close(self) -> str:
        """End, from the controller's loop. What was not sent is sent after the next start."""
        if self._thread.is_alive():
            ended = asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
            await asyncio.wrap_future(ended)
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
        return self.place()

    def status(self) -> tuple[int, list[Receiver]]:
        """How many events it has not looked at, and its receivers, to read."""
        with self._lock:
            unread = max(0, self._newest - self._read)
        return unread, list(self._receivers.values())

    def place(self) -> str:
        """The bookmark as it should be now."""
        with self._lock:
            read = self._read
        behind = {r.name: r.done_seq for r in list(self._receivers.values()) if not r.idle}
        before = self._told_before
        if read < before.read:
            # Still reading what a former life left over: what it had told stays told.
            left = {name: max(seq, read) for name, seq in before.behind.items()}
            read, behind = before.read, left | behind
        return msgspec.json.encode(Bookmark(read, behind, by_user=True)).decode()

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._spawn(self._keep_reading())
        self._spawn(self._keep_saving())
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _spawn(self, work: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _cancel_all(self) -> None:
        mine = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not mine]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_reading(self) -> None:
        while True:
            try:
                await self._read_all()
            except Exception as error:
                log.error("cannot read the log: %s", error)
                await asyncio.sleep(TROUBLE_S)
                continue
            self._moved.set()
            await self._bell.wait()
            self._bell.clear()

    async def _read_all(self) -> None:
        more = True
        while more:
            more = self._read_page()
            # Let sends go on between two pages.
            await asyncio.sleep(0)

    def _read_page(self) -> bool:
        """Hand out one page of the log; whether there may be more."""
        with self._lock:
            after, newest = self._read, self._newest
        if after >= newest:
            return False
        page = self._store.events(after=after, limit=PAGE)
        for record in page:
            for name, found in self._sorted(record).items():
                receiver = self._receivers.get(name) or self._new_receiver(name, record.seq)
                receiver.user = found[0].user
                receiver.offer(record.seq, found)
                self._wake(receiver)
        with self._lock:
            # Numbers may be missing in the log: what was pruned, or never reached the disk.
            self._read = max(self._read, page[-1].seq if page else newest)
        return True

    def _sorted(self, record: Recorded) -> dict[str, list[Delivery]]:
        """The messages of an event by receiver, without those that were sent in a former life."""
        found: dict[str, list[Delivery]] = {}
        before = self._told_before
        try:
            for delivery in self._collector.deliveries(record):
                usual = before.read if before.by_user else before.behind.get(delivery.way)
                told = before.behind.get(delivery.receiver, before.read if usual is None else usual)
                if record.seq > told:
                    found.setdefault(delivery.receiver, []).append(delivery)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A fault of ours with one event must not keep all later ones from being told.
            log.exception("event %d cannot be told: %s", record.seq, error)
        return found

    def _new_receiver(self, name: str, seq: int) -> Receiver:
        if len(self._receivers) >= RECEIVERS_MAX:
            named = set(self._collector.receivers())
            for other in [r for r in self._receivers.values() if r.idle and r.name not in named]:
                del self._receivers[other.name]
        receiver = self._receivers[name] = Receiver(name)
        receiver.taken_seq = seq - 1
        return receiver

    def _wake(self, receiver: Receiver) -> None:
        if receiver.task is None or receiver.task.done():
            receiver.task = self._spawn(self._serve(receiver))

    async def _serve(self, receiver: Receiver) -> None:
        """Send what waits for a receiver, one after the other, until nothing does."""
        while not receiver.idle:
            if not receiver.waiting:
                try:
                    self._refill(receiver)
                except Exception as error:
                    log.error("cannot read the log: %s", error)
                    await asyncio.sleep(TROUBLE_S)
                await asyncio.sleep(0)
                continue
            await self._deliver(receiver, receiver.waiting[0])
            receiver.waiting.popleft()
            self._moved.set()

    def _refill(self, receiver: Receiver) -> None:
        """Read again what did not fit in memory."""
        with self._lock:
            limit_seq = self._read
        page = self._store.events(after=receiver.taken_seq, limit=PAGE)
        for record in page:
            if record.seq > limit_seq or len(receiver.waiting) >= WAITING_MAX:
                return
            receiver.waiting.extend(self._sorted(record).get(receiver.name, ()))
            receiver.taken_seq = record.seq
        receiver.behind = bool(page) and receiver.taken_seq < limit_seq

    async def _deliver(self, receiver: Receiver, delivery: Delivery) -> None:
        """Until it is taken, refused, or all tries are used up."""
        patience, notice = delivery.patience, delivery.notice
        for tries in range(1, patience.retries + 2):
            after_s = 0.0
            try:
                async with self._share_of(delivery.user), self._slots:
                    await delivery.channel.send(notice, patience.timeout_s)
            except Unwanted as error:
                self._give_up(receiver, delivery, tries, str(error))
                return
            except Exception as error:
                problem = str(error) or type(error).__name__
                receiver.failed(problem, time.time())
                after_s = error.after_s if isinstance(error, NotNow) else 0.0
            else:
                receiver.succeeded(time.time())
                return
            # Behind a message that was given up, old ones are not waited for all over again.
            stale = receiver.down and time.time() - notice.at_s > patience.whole_s
            if tries > patience.retries or stale:
                receiver.down = True
                self._give_up(receiver, delivery, tries, receiver.problem)
                return
            await asyncio.sleep(max(patience.wait_s(tries), after_s))

    def _share_of(self, user: str) -> AbstractAsyncContextManager[Any]:
        """Of the sends under way one user has a few; the site's own have no such bound."""
        if not user:
            return nullcontext()
        return self._shares.setdefault(user, asyncio.Semaphore(SENDS_EACH))

    def _give_up(self, receiver: Receiver, delivery: Delivery, tries: int, problem: str) -> None:
        notice = delivery.notice
        receiver.given_up += 1
        receiver.failed(problem, time.time())
        log.warning(
            "gave up telling %s that %s %s after %d %s: %s",
            *(receiver.name, notice.about, notice.event, tries),
            *("try" if tries == 1 else "tries", problem),
        )

    async def _keep_saving(self) -> None:
        """Move the bookmark when it is not where it should be, but not at every step."""
        while True:
            await self._moved.wait()
            await asyncio.sleep(SAVE_S)
            self._moved.clear()
            place = self.place()
            if place != self._saved:
                await self._save(place)

    async def _save(self, place: str) -> None:
        try:
            await self._save_place(place)
        except Exception as error:
            log.warning("cannot note how far receivers were told: %s", error)
        else:
            self._saved = place
