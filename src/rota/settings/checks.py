"""Checks that settings have in common, each with words for what is allowed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


def at_least(lowest: int) -> Callable[[int], None]:
    def check(value: int) -> None:
        if value < lowest:
            raise ValueError(f"{value} is not valid; at least {lowest}")

    return check


def one_of(known: tuple[str, ...]) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in known:
            raise ValueError(f"{value!r} is not known; {nearest(value, known)}")

    return check


def check_url(url: str) -> str:
    """The same URL, if one can ask there over HTTP."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{url!r} is not valid; expected a URL such as http://inventory:8081")
    return url


def check_host(name: str) -> str:
    """The same name or address of a machine, if it could be one."""
    if not name or not all(c.isascii() and (c.isalnum() or c in "-.:") for c in name):
        raise ValueError(f"{name!r} is not valid; expected names and addresses of this machine")
    return name


def nearest(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    listed = ", ".join(names)
    return f"did you mean {close[0]}? (known: {listed})" if close else f"known: {listed}"


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Rejected(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Rejected(f"{path}: is not UTF-8 text") from None
