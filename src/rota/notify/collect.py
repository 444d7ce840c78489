"""Which messages follow from an event of the log: to whom, by which way, how hard to try."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from rota.core.changes import events as ev
from rota.core.facts.array import Array
from rota.core.facts.notices import ELEMENTS, ENDS, Target, url_host
from rota.notify.channels import HttpChannel, ThreadChannel
from rota.notify.mail import Mail
from rota.notify.node_notices import node_notice
from rota.notify.notice import Told, make_notice, round_of, subject, telling
from rota.notify.plugins import load_notifier
from rota.notify.quota_notices import quota_notice
from rota.notify.sweeps import Sweeps

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.core.changes.events import Recorded
    from rota.core.facts.job import Job
    from rota.core.facts.states import JobState
    from rota.notify.channels import Channel, Notifier
    from rota.notify.notice import Notice
    from rota.settings.notify import NoticeRule, Notify

K = TypeVar("K")
V = TypeVar("V")
#: Jobs of which is remembered whom they tell and which start was told.
REMEMBERED = 10_000


class NoticeLog(Protocol):
    """The part of a store that is read here. From any thread."""

    def events(self, *, after: int = 0, job: int = 0, limit: int = 1000) -> list[Recorded]: ...

    def elements(self, array: int, states: tuple[JobState, ...], limit: int) -> list[Job]: ...

    def job(self, job_id: int) -> Job | None: ...

    def array(self, array_id: int) -> Array | None: ...


class Patience(NamedTuple):
    """How often and how long to try."""

    retries: int
    backoff_s: float
    timeout_s: float

    def wait_s(self, tries: int) -> float:
        """The pause before the next try, after ``tries`` tries."""
        return min(self.backoff_s * 2.0 ** (tries - 1), 60.0)

    @property
    def whole_s(self) -> float:
        """All waits together."""
        return sum(self.wait_s(number) for number in range(1, self.retries + 1))


class Delivery(NamedTuple):
    """One message on its way. Those with one receiver are sent one after the other.

    What jobs ask for has a receiver for each user: nobody's messages wait for those of another.
    """

    way: str
    notice: Notice
    channel: Channel
    patience: Patience
    #: Whose job asked for it; empty: the site did.
    user: str = ""

    @property
    def receiver(self) -> str:
        return f"{self.way} of {self.user}" if self.user else self.way


class NoticeRoute(NamedTuple):
    """A rule of the site and how to follow it."""

    rule: NoticeRule
    receiver: str
    channel: Channel


class NoticeCollector:
    """Turns events into deliveries. Not for more than one thread."""

    def __init__(self, log: NoticeLog, settings: Notify, cluster_id: str) -> None:
        self._log = log
        self._settings = settings
        self._cluster_id = cluster_id
        self._mail = Mail(settings)
        self._plugins: dict[str, Notifier] = {
            rule.name: load_notifier(rule) for rule in settings.plugins
        }
        self._ways = self._site_ways()
        self._sweeps = Sweeps(log)
        #: Job -> whom it tells.
        self._targets: OrderedDict[int, tuple[Target, ...]] = OrderedDict()
        #: Job -> the round of attempts whose start was told.
        self._rounds: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._channels: OrderedDict[tuple[str, str], Channel] = OrderedDict()

    @property
    def has_rules(self) -> bool:
        """Whether the site itself wants to hear of anything."""
        return bool(self._ways)

    def receivers(self) -> list[str]:
        """Those that the site names, whether or not there was anything to tell."""
        return list(dict.fromkeys(way.receiver for way in self._ways))

    def _site_ways(self) -> list[NoticeRoute]:
        settings = self._settings
        hooks = [
            NoticeRoute(
                rule, f"webhook {rule.name}", HttpChannel(rule.url, rule.headers, rule.secret)
            )
            for rule in settings.webhooks
        ]
        mails = [
            NoticeRoute(rule, "mail", ThreadChannel(self._mail, rule.to)) for rule in settings.mails
        ]
        plugins = [
            NoticeRoute(rule, f"plugin {rule.name}", self._plugin(rule.name, rule.address))
            for rule in settings.plugins
            if rule.address
        ]
        return [*hooks, *mails, *plugins]

    def _plugin(self, name: str, address: str) -> Channel:
        return ThreadChannel(self._plugins[name], address)

    def deliveries(self, record: Recorded) -> list[Delivery]:
        """What an event of the log gives to send, in the order of telling."""
        self._forget_changed(record.event)
        notice = node_notice(record, self._cluster_id) or quota_notice(record, self._cluster_id)
        if notice is not None:
            return [
                Delivery(way.receiver, notice, way.channel, self._patience(way.rule))
                for way in self._ways
                if notice.event in way.rule.events
            ]
        told = telling(record)
        if not told:
            return []
        item_id = subject(record.event)
        targets = self._targets_of(item_id)
        wanted = [one for one in told if self._anybody(one[0], targets)]
        if not (wanted or targets) or not self._new(record):
            return []
        item = self._find(item_id)
        if item is None:
            return []
        found = [one for event in wanted for one in self._to_all(record, event, item)]
        return found + self._of_array(record, told, item)

    def _anybody(self, event: str, targets: tuple[Target, ...]) -> bool:
        return any(event in target.events for target in targets) or any(
            event in way.rule.events for way in self._ways
        )

    def _to_all(self, record: Recorded, told: Told, item: Job | Array) -> list[Delivery]:
        event, spec = told[0], item.spec
        notice = make_notice(record, told, item, self._cluster_id)
        found = [
            Delivery(way.receiver, notice, way.channel, self._patience(way.rule))
            for way in self._ways
            if way.rule.wants(event, spec.user, spec.project)
        ]
        return found + self._to_targets(item, notice, lambda one: _hears(one, event, item))

    def _to_targets(
        self, item: Job | Array, notice: Notice, wants: Callable[[Target], bool]
    ) -> list[Delivery]:
        """To the targets that the job names."""
        ways = [self._way_to(target) for target in item.spec.notify if wants(target)]
        patience, user = self._patience(None), item.spec.user
        return [Delivery(way[0], notice, way[1], patience, user) for way in ways if way is not None]

    def _of_array(self, record: Recorded, told: list[Told], item: Job | Array) -> list[Delivery]:
        """To the targets that hear of an array as a whole."""
        if not any(_is_of_whole(one) for one in item.spec.notify):
            return []
        if isinstance(item, Array):
            whole, news = item, self._sweeps.of_end(record, item)
        else:
            array = self._log.array(item.array_id) if item.array_id else None
            if array is None:
                return []
            whole, news = array, self._sweeps.of_element(record, told, item, array)
        return [
            one
            for event in news
            for one in self._to_targets(
                item,
                make_notice(record, event, whole, self._cluster_id),
                lambda target, name=event[0]: (  # type: ignore[misc]
                    _is_of_whole(target) and name in target.events
                ),
            )
        ]

    def _way_to(self, target: Target) -> tuple[str, Channel] | None:
        """How a job's own target is reached; None when the site no longer has the notifier."""
        if target.host:
            receiver = f"jobs at {url_host(target.address)}"
        elif target.scheme == "mail" and self._settings.mails_leave:
            receiver = "mail"
        elif target.scheme in self._plugins:
            receiver = f"plugin {target.scheme}"
        else:
            return None
        key = (target.scheme, target.address)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._open(target)
            _remember(self._channels, key, channel)
        return receiver, channel

    def _open(self, target: Target) -> Channel:
        if target.host:
            inside = self._settings.may_be_inside(target.host)
            return HttpChannel(target.address, public_only=not inside)
        if target.scheme == "mail":
            return ThreadChannel(self._mail, target.address)
        return self._plugin(target.scheme, target.address)

    def _patience(self, rule: NoticeRule | None) -> Patience:
        site = self._settings
        if rule is None:
            return Patience(site.retries, site.backoff_s, site.timeout_s)
        return Patience(
            site.retries if rule.retries is None else rule.retries,
            site.backoff_s if rule.backoff_s is None else rule.backoff_s,
            site.timeout_s if rule.timeout_s is None else rule.timeout_s,
        )

    def _forget_changed(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.JobUpdated | ev.ArrayChanged):
            self._targets.pop(subject(event), None)

    def _targets_of(self, item_id: int) -> tuple[Target, ...]:
        targets = self._targets.get(item_id)
        if targets is None:
            item = self._find(item_id)
            targets = item.spec.notify if item is not None else ()
            _remember(self._targets, item_id, targets)
        return targets

    def _find(self, item_id: int) -> Job | Array | None:
        return self._log.job(item_id) or self._log.array(item_id)

    def _new(self, record: Recorded) -> bool:
        """A job starts once, however many tasks it has and however often that is reported."""
        event = record.event
        if not isinstance(event, ev.AttemptStarted | ev.AttemptEnded):
            return True
        current = round_of(event)
        known = self._rounds.get(event.job)
        if known is None or known[0] != current:
            known = self._round_on_record(event.job, record.seq)
        if known is None or known[0] != current:
            known = (current, record.seq)
        _remember(self._rounds, event.job, known)
        return known[1] == record.seq

    def _round_on_record(self, job: int, before: int) -> tuple[str, int] | None:
        """The latest start that was told before, and by which event: after a restart."""
        found: tuple[str, int] | None = None
        for record in self._log.events(job=job, limit=100_000):
            event = record.event
            if record.seq >= before:
                break
            if isinstance(event, ev.AttemptStarted | ev.AttemptEnded) and event.started_s:
                number = round_of(event)
                if found is None or found[0] != number:
                    found = (number, record.seq)
        return found


def _is_of_whole(target: Target) -> bool:
    """Whether it hears of an array and not of its elements."""
    return ELEMENTS not in target.events


def _hears(target: Target, event: str, item: Job | Array) -> bool:
    """Whether a target hears of this very event; of elements only where it asked for them."""
    if event not in target.events:
        return False
    if isinstance(item, Array):
        return event not in ENDS
    return not item.array_id or ELEMENTS in target.events


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)
