"""Which methods a path has, for ``OPTIONS``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from litestar.routes import HTTPRoute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from litestar import Litestar

_PART = re.compile(r"\\{[^}]*\\}")


def with_implied(methods: Iterable[str]) -> list[str]:
    """In order, with those that every path has, and those that come with another one."""
    found = set(methods)
    return sorted({*found, "OPTIONS", *(("HEAD",) if "GET" in found else ())})


class Methods:
    """Made of the routes, which do not change."""

    def __init__(self, inner: Litestar) -> None:
        found: dict[str, set[str]] = {}
        for route in inner.routes:
            if isinstance(route, HTTPRoute):
                for handler in route.route_handlers:
                    if "right" in handler.opt:
                        found.setdefault(route.path_format, set()).update(handler.http_methods)
        #: As they are, and those with parts that differ: the former win.
        self._plain = {path: methods for path, methods in found.items() if "{" not in path}
        self._paths = [
            (re.compile(_PART.sub("[^/]+", re.escape(path))), methods)
            for path, methods in found.items()
        ]

    def of(self, path: str) -> list[str]:
        """In order; none: there is no such path."""
        found = self._plain.get(path) or {
            m for known, methods in self._paths if known.fullmatch(path) for m in methods
        }
        if not found:
            return []
        return with_implied(found)
