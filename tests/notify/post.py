"""A scene with a courier beside it: what the scene commits is published as a host would."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from rota.core.facts.notices import parse_target
from rota.notify.collect import NoticeCollector
from rota.notify.courier import BOOKMARK, Bookmark, Courier
from rota.notify.receiver import Receiver
from rota.settings.notify import MailRule, Notify, Webhook
from rota.testing.scene import Scene
from tests.notify.receivers import WAIT_S


def hook(url: str, **more: Any) -> Webhook:
    """A webhook for all events that is not patient, unless it is told otherwise."""
    from rota.settings.notify import read_entries

    fields = {"retries": 2, "backoff_s": 0.01, "timeout_s": 5.0} | more
    rule = read_entries("webhooks", [{"url": url, **fields}])[0]
    assert isinstance(rule, Webhook)
    return rule


def mail_rule(to: str, **more: Any) -> MailRule:
    from rota.settings.notify import read_entries

    rule = read_entries("mails", [{"to": to, **more}])[0]
    assert isinstance(rule, MailRule)
    return rule


class Post:
    """A scene and its courier; ``publish`` after each step, or ``die`` and be ``reborn``."""

    def __init__(self, settings: Notify, scene: Scene | None = None) -> None:
        self.scene = scene or Scene()
        self.settings = settings
        self.saves: list[str] = []
        self.courier: Courier | None = None
        self.published = self.newest
        self.begin()

    @property
    def newest(self) -> int:
        return self.scene.controller.next_seq - 1

    def begin(self) -> None:
        store = self.scene.store
        place = store.bookmark(BOOKMARK)
        if not place:
            place = msgspec.json.encode(Bookmark(self.newest)).decode()
            store.set_bookmark(BOOKMARK, place)
        self.courier = Courier(
            NoticeCollector(store, self.settings, "site"), store, place, self._save
        )
        self.courier.start(self.newest, self._wanted())
        self.published = self.newest

    def _wanted(self) -> list[int]:
        cluster = self.scene.cluster
        items: list[Any] = [*cluster.jobs.values(), *cluster.arrays.values()]
        return [item.id for item in items if item.spec.notify]

    async def _save(self, place: str) -> None:
        self.saves.append(place)
        self.scene.store.set_bookmark(BOOKMARK, place)

    def submit(self, name: str = "job", *targets: str, **wishes: Any) -> int:
        notify = tuple(map(parse_target, targets))
        job = self.scene.submit(name, notify=notify, **wishes)
        self.publish()
        return job

    def publish(self) -> None:
        """Everything that the scene committed since the last time."""
        assert self.courier is not None
        records = self.scene.store.events(after=self.published, limit=1_000_000)
        self.courier.publish(records)
        self.published = self.newest

    def receiver(self, name: str) -> Receiver:
        assert self.courier is not None
        return next(one for one in self.courier.status()[1] if one.name == name)

    def until(self, condition: Any, what: str) -> Any:
        end_s = time.monotonic() + WAIT_S
        while not (value := condition()):
            assert time.monotonic() < end_s, f"waited in vain for {what}: {self.told()}"
            time.sleep(0.002)
        return value

    def told(self) -> str:
        """How far the receivers are, for whoever waited in vain."""
        assert self.courier is not None
        unread, receivers = self.courier.status()
        each = ", ".join(f"{one.name}: {len(one.waiting)} {one.problem!r}" for one in receivers)
        place = self.scene.store.bookmark(BOOKMARK)
        return f"{unread} of {self.newest} unread, bookmark {place}, waiting {each}"

    def until_all_told(self) -> None:
        """Nothing is unread and nobody has anything waiting, and the bookmark says so."""
        self.until_all_told_but()

    def until_all_told_but(self, *names: str) -> None:
        """The same, but that for these receivers something still waits."""

        def is_noted() -> bool:
            mark = msgspec.json.decode(self.scene.store.bookmark(BOOKMARK), type=Bookmark)
            return (mark.read, mark.behind.keys()) == (self.newest, set(names))

        self.until(is_noted, f"all to be told but {names}")

    def die(self) -> None:
        """As after kill -9: the bookmark stays where it last was."""
        place = self.scene.store.bookmark(BOOKMARK)
        self.close()
        self.scene.store.set_bookmark(BOOKMARK, place)

    def close(self) -> None:
        if self.courier is not None:
            asyncio.run(self.courier.close())
            self.courier = None
