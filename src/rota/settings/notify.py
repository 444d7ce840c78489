"""[notify]: whom the site tells of what happens to jobs, and how mail leaves it."""

from __future__ import annotations

import ipaddress
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.notices import (
    EVENTS,
    Target,
    check_mail,
    check_url,
    matches,
    parse_events,
    parse_target,
    url_host,
)

_NO_MAIL = "this Rota sends no mail: no notify.smtp_host"
SECURITIES = ("none", "starttls", "tls")
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "connection", "transfer-encoding"}
)


class NoticeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all entries share: which events of whose jobs, and how hard to try."""

    name: str = ""
    #: Empty: every event.
    events: tuple[str, ...] = ()
    #: Patterns such as ``ann`` or ``team-*``; empty: of everybody.
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    #: None: as [notify] says.
    retries: int | None = None
    backoff_s: float | None = None
    timeout_s: float | None = None

    def wants(self, event: str, user: str, project: str) -> bool:
        return (
            (not self.events or event in self.events)
            and matches(self.users, user)
            and matches(self.projects, project)
        )


class Webhook(NoticeRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[notify.webhooks]]: a POST for each event."""

    url: str
    headers: dict[str, str] = {}
    #: The body is signed with it; see docs/notify.md.
    secret: str = ""


class MailRule(NoticeRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[notify.mails]]: a mail for each event."""

    to: str


class PluginRule(NoticeRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[notify.plugins]]: a notifier of one's own; jobs name it as ``NAME:ADDRESS``."""

    #: ``package.module:Name``, or a name in the entry points ``rota.notifiers``.
    use: str
    #: Given to it for events of all jobs; empty: only jobs that name it.
    address: str = ""
    #: Arguments of its class.
    options: dict[str, Any] = {}


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """All of [notify]."""

    webhooks: tuple[Webhook, ...] = ()
    mails: tuple[MailRule, ...] = ()
    plugins: tuple[PluginRule, ...] = ()
    #: Hosts that jobs may name in ``--notify URL`` (``*.example.org``), at whatever address; empty:
    #: any host with a public address, ``-``: none.
    hosts: tuple[str, ...] = ()
    #: Further tries before a message is given up; the wait before each is twice the last one.
    retries: int = 6
    backoff_s: float = 1.0
    timeout_s: float = 10.0
    smtp_host: str = ""
    smtp_port: int = 0
    smtp_from: str = ""
    smtp_user: str = ""
    smtp_password: str = ""
    #: ``none``, ``starttls`` or ``tls``; empty: ``starttls`` where there is a user, else ``none``.
    smtp_security: str = ""

    @property
    def mails_leave(self) -> bool:
        return bool(self.smtp_host)

    def target(self, text: str) -> Target:
        """A target that a job names, if this site can and may serve it."""
        try:
            found = parse_target(text)
        except ValueError as error:
            raise Rejected.bad("notify", text, str(error)) from None
        if found.scheme == "mail":
            if not self.mails_leave:
                raise Rejected.because("notify", text, f"{text}: {_NO_MAIL}")
        elif found.host:
            self._refuse_host(text, found.host)
        elif found.scheme not in (names := [rule.name for rule in self.plugins]):
            known = ", ".join(["https", "http", "mail", *names])
            raise Rejected.bad("notify", text, f"there is no notifier {found.scheme}; {known}")
        return found

    def _refuse_host(self, text: str, host: str) -> None:
        if self.hosts and not self.may_be_inside(host):
            allowed = ", ".join(self.hosts)
            why = f"{text}: jobs may name these hosts only: {allowed}"
            raise Rejected.because("notify", text, why)
        name = urlsplit(f"//{host}").hostname or ""
        try:
            inside = not self.hosts and not is_public(name)
        except ValueError:
            # A name: where it leads is looked at when a message goes there.
            inside = not self.hosts and name == "localhost"
        if inside:
            why = f"{text}: expected a public address, or a host of notify.hosts"
            raise Rejected.because("notify", text, why)

    def may_be_inside(self, host: str) -> bool:
        """Whether the site lets jobs name this host wherever it is, be it this very machine."""
        name = urlsplit(f"//{host}").hostname or ""
        return bool(self.hosts) and (matches(self.hosts, host) or matches(self.hosts, name))


def is_public(address: str) -> bool:
    """Whether an address is one of the internet at large, and not of a machine or site inside."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        # Where an IPv4 address stands inside, that is where a message would go.
        teredo = found.teredo[1] if found.teredo else None
        inside = found.ipv4_mapped or found.sixtofour or teredo
        if inside is None and (found in _NAT64 or found in _COMPATIBLE):
            inside = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if inside is not None:
            return is_public(str(inside))
        if any(found in net for net in _INSIDE):
            return False
    return found.is_global and not found.is_multicast


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
#: Which not every Python knows: translated to IPv4 by the site itself, and of a site of old.
_INSIDE = tuple(map(ipaddress.ip_network, ("64:ff9b:1::/48", "::ffff:0:0:0/96", "fec0::/10")))
_Entry = TypeVar("_Entry", bound=NoticeRule)


def read_entries(key: str, value: object) -> tuple[NoticeRule, ...]:
    """The tables of [[notify.webhooks]] and its like; ``ValueError`` says which one is wrong."""
    kinds: dict[str, type[NoticeRule]] = {
        "webhooks": Webhook,
        "mails": MailRule,
        "plugins": PluginRule,
    }
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"expected tables: [[notify.{key}]]")
    found = tuple(_entry(kinds[key], number, entry) for number, entry in enumerate(value, 1))
    names = [rule.name for rule in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two entries are called {name!r}; give each a name of its own")
    return found


def _entry(kind: type[_Entry], number: int, table: dict[str, Any]) -> _Entry:
    known = [field.name for field in msgspec.structs.fields(kind)]
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(
                f"entry {number}: unknown key {key}; {hint}(known: {', '.join(known)})"
            )
    try:
        rule = msgspec.convert(table, kind)
        events = parse_events(rule.events, site=True) if rule.events else EVENTS
        _check(rule)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"entry {number}: {error}") from None
    return msgspec.structs.replace(rule, events=events, name=rule.name or _name_of(rule))


def _name_of(rule: NoticeRule) -> str:
    if isinstance(rule, Webhook):
        return url_host(rule.url)
    if isinstance(rule, PluginRule):
        return rule.use.rpartition(":")[2]
    return getattr(rule, "to", "")


def _check(rule: NoticeRule) -> None:
    check_patience(rule.retries, rule.backoff_s, rule.timeout_s)
    if isinstance(rule, MailRule):
        check_mail(rule.to)
    if isinstance(rule, Webhook):
        check_url(rule.url)
        for header, value in rule.headers.items():
            plain = header.isascii() and value.isascii() and value.isprintable()
            if not plain or not header.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"header {header!r}: names and values are plain ASCII")
            if header.lower() in _OWN_HEADERS:
                raise ValueError(f"header {header!r} is set by Rota itself")


def check_patience(retries: int | None, backoff_s: float | None, timeout_s: float | None) -> None:
    if retries is not None and not 0 <= retries <= 100:
        raise ValueError(f"retries: {retries} is not valid; from 0 to 100")
    if backoff_s is not None and not 0 <= backoff_s <= 3600:
        raise ValueError(f"backoff_s: {backoff_s:g} is not valid; from 0 to 3600")
    if timeout_s is not None and not 0.1 <= timeout_s <= 300:
        raise ValueError(f"timeout_s: {timeout_s:g} is not valid; from 0.1 to 300")


def check_whole(settings: Notify) -> None:
    """What single keys cannot show; ``ValueError`` says what does not go together."""
    check_patience(settings.retries, settings.backoff_s, settings.timeout_s)
    if settings.smtp_security not in ("", *SECURITIES):
        raise ValueError(f"smtp_security: expected one of {', '.join(SECURITIES)}")
    if settings.smtp_host:
        if not settings.smtp_from:
            raise ValueError("smtp_host needs smtp_from, the address that mails come from")
        check_mail(settings.smtp_from)
    elif settings.mails:
        raise ValueError("[[notify.mails]] needs smtp_host and smtp_from")
    if not 0 <= settings.smtp_port <= 65_535:
        raise ValueError(f"smtp_port: {settings.smtp_port} is not valid; from 0 to 65535")
