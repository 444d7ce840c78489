"""Notices of a job: what can be told, and how a job names the targets.

A target is written ``https://hooks.example.org/x``, ``mail:ann@example.org`` or ``NAME:ADDRESS``
for a notifier that the site has set up, and may end with the events that it is for:
``mail:ann@example.org,on=failed,timeout``.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import msgspec

#: Everything that is ever told about a job, in the order of its life.
EVENTS: tuple[str, ...] = (
    "submitted",
    "held",
    "released",
    "eligible",
    "started",
    "gpu_overuse",
    "gpu_idle",
    "deadline_missed",
    "promise_broken",
    "preempted",
    "requeued",
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "node_failed",
    "unschedulable",
)
#: What is told about nodes, to the targets that the site names for it.
NODE_EVENTS: tuple[str, ...] = (
    *("node_up", "node_silent", "node_lost", "node_quarantined"),
    *("node_drained", "node_resumed", "node_removed"),
)
#: What is told about the quotas of users and projects, likewise.
QUOTA_EVENTS: tuple[str, ...] = ("quota_near", "quota_reached")
#: How a job ended.
ENDS: tuple[str, ...] = EVENTS[-6:]
#: What an owner should hear of while the job waits or runs.
WARNINGS: tuple[str, ...] = ("gpu_overuse", "gpu_idle", "deadline_missed", "promise_broken")
#: What a target that names no events hears of.
USUAL: tuple[str, ...] = (*WARNINGS, *ENDS)
#: Beside events: every element of an array by itself, which is else told of as a whole.
ELEMENTS = "elements"
#: Short names for several events at once.
SHORT = {"all": EVENTS, "end": ENDS, "problem": (*WARNINGS, *ENDS[1:])}
SITE_SHORT = {
    **SHORT,
    "node": NODE_EVENTS,
    "node_problem": ("node_silent", "node_lost", "node_quarantined"),
    "quota": QUOTA_EVENTS,
}

TARGETS_MAX = 20
_MAIL = re.compile(r"[^\s@,;<>\"()\[\]\\]{1,64}@[^\s@,;<>\"()\[\]\\]{1,255}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a notice of a job goes, and of which events."""

    #: ``http``, ``https``, ``mail``, or the name of a notifier of the site.
    scheme: str
    #: The whole URL, the mail address, or whatever the notifier understands.
    address: str
    events: tuple[str, ...] = USUAL

    @property
    def host(self) -> str:
        """The machine behind a URL; empty for anything else."""
        return url_host(self.address) if self.scheme in ("http", "https") else ""


def parse_target(text: str) -> Target:
    """A target as people write it; ``ValueError`` says what is wrong."""
    place, marked, names = text.strip().rpartition(",on=")
    if not marked:
        place, names = names, ""
    events = parse_events(names.split(",")) if marked else USUAL
    scheme, colon, rest = place.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme) or not rest:
        raise ValueError("expected https://HOST/PATH or mail:ADDRESS, then maybe ,on=failed,…")
    scheme = scheme.lower() if scheme.lower() in ("http", "https", "mail", "mailto") else scheme
    if scheme in ("http", "https"):
        check_url(place)
        return Target(scheme, place, events)
    if scheme in ("mail", "mailto"):
        check_mail(rest)
        return Target("mail", rest, events)
    if not rest.isprintable():
        raise ValueError("the address must be printable")
    return Target(scheme, rest, events)


def format_target(target: Target) -> str:
    """The opposite of ``parse_target``."""
    place = target.address if target.host else f"{target.scheme}:{target.address}"
    return place if target.events == USUAL else f"{place},on={','.join(target.events)}"


def parse_events(names: list[str] | tuple[str, ...], *, site: bool = False) -> tuple[str, ...]:
    """Events by name, ``all``, ``end`` or ``problem``, each once and in the order of a life.

    ``elements`` beside them: of each element of an array; alone, how each of them ended. A ``site``
    may hear of nodes as well, by name or by ``node`` and ``node_problem``, and of ``quota``.
    """
    more = NODE_EVENTS + QUOTA_EVENTS if site else ()
    events, short = EVENTS + more, SITE_SHORT if site else SHORT
    wanted: set[str] = set()
    for name in (name.strip().lower() for name in names):
        if name in short:
            wanted.update(short[name])
        elif name in events or name == ELEMENTS:
            wanted.add(name)
        else:
            known = [*events, *short, ELEMENTS]
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"there is no event {name!r}; {hint}known: {', '.join(known)}")
    if wanted == {ELEMENTS}:
        wanted.update(ENDS)
    return tuple(event for event in (*events, ELEMENTS) if event in wanted)


def check_url(text: str) -> None:
    """Whether it is a URL that a message can be sent to."""
    if len(text) > 2000 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("a URL has up to 2000 ASCII characters and no blanks")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("expected http://HOST[:PORT]/PATH or https://…")
    if parts.username is not None:
        raise ValueError("a URL must not carry a user name or password; use headers")


def check_mail(text: str) -> None:
    if not _MAIL.fullmatch(text) or not text.isprintable():
        raise ValueError(f"{text[:80]!r} is not a mail address such as ann@example.org")


def url_host(url: str) -> str:
    """``hooks.example.org`` or ``127.0.0.1:8080``: what may be shown of a URL to others."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def matches(patterns: tuple[str, ...], word: str) -> bool:
    """Whether a word is one of the patterns (``*`` stands for anything); no patterns: any word."""
    return not patterns or any(fnmatchcase(word, pattern) for pattern in patterns)
