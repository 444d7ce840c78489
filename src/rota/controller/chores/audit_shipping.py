"""Records of the audit, handed on: as lines of JSON to a file or syslog, by a thread."""

from __future__ import annotations

import logging
import logging.handlers
import os
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from rota.audit_chain import Chain, last_of, read_key
from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from io import TextIOWrapper

    from rota.core.facts.site.audit import Audited
    from rota.settings.audit import AuditSettings

_encode = msgspec.json.Encoder().encode


class Shipping:
    """Takes a record without waiting; a slow disk or a lost line holds up nobody."""

    def __init__(self, handlers: list[logging.Handler], chain: Chain) -> None:
        self._chain = chain
        queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self._queue = queue
        self._listener = logging.handlers.QueueListener(queue, *handlers)
        self._listener.start()

    def __call__(self, record: Audited) -> None:
        text = self._chain.line(_encode(record).decode())
        line = logging.LogRecord("rota.audit", logging.INFO, "", 0, text, None, None)
        self._queue.put(line)

    def close(self) -> None:
        self._listener.stop()
        for handler in self._listener.handlers:
            handler.close()


class _OwnFile(logging.handlers.WatchedFileHandler):
    """One that was moved away by logrotate is made anew. What we make is not for others."""

    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", opener=opener)


def open_shipping(settings: AuditSettings) -> Shipping | None:
    """None where nothing is set up; ``Rejected`` in one line when it cannot be."""
    handlers: list[logging.Handler] = []
    chain = Chain(_key(settings.key_file))
    try:
        if settings.file:
            path = os.path.expanduser(settings.file)
            chain.last = last_of(path)
            handlers.append(_OwnFile(path, encoding="utf-8"))
        if settings.syslog:
            handlers.append(logging.handlers.SysLogHandler(settings.syslog_address))
    except OSError as error:
        where = "audit.syslog" if handlers or not settings.file else "audit.file"
        value = settings.syslog if where == "audit.syslog" else settings.file
        raise Rejected.bad(where, value, f"cannot be opened: {error.strerror}") from None
    return Shipping(handlers, chain) if handlers else None


def _key(path: str) -> bytes:
    if not path:
        return b""
    try:
        return read_key(os.path.expanduser(path))
    except OSError as error:
        raise Rejected.bad("audit.key_file", path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Rejected.bad("audit.key_file", path, str(error)) from None
