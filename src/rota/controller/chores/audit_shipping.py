"""Records of the audit, handed on: as lines of JSON to a file or syslog, by a thread."""

from __future__ import annotations

import logging
import logging.handlers
import os
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from rota.core.facts.errors import Rejected

if TYPE_CHECKING:
    from rota.core.facts.site.audit import Audited
    from rota.settings.audit import AuditSettings

_encode = msgspec.json.Encoder().encode


class Shipping:
    """Takes a record without waiting; a slow disk or a lost line holds up nobody."""

    def __init__(self, handlers: list[logging.Handler]) -> None:
        queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self._queue = queue
        self._listener = logging.handlers.QueueListener(queue, *handlers)
        self._listener.start()

    def __call__(self, record: Audited) -> None:
        text = _encode(record).decode()
        line = logging.LogRecord("rota.audit", logging.INFO, "", 0, text, None, None)
        self._queue.put(line)

    def close(self) -> None:
        self._listener.stop()
        for handler in self._listener.handlers:
            handler.close()


def open_shipping(settings: AuditSettings) -> Shipping | None:
    """None where nothing is set up; ``Rejected`` in one line when it cannot be."""
    handlers: list[logging.Handler] = []
    try:
        if settings.file:
            # A file that was moved away by logrotate is made anew.
            path = os.path.expanduser(settings.file)
            handlers.append(logging.handlers.WatchedFileHandler(path, encoding="utf-8"))
        if settings.syslog:
            handlers.append(logging.handlers.SysLogHandler(settings.syslog_address))
    except OSError as error:
        where = "audit.syslog" if handlers or not settings.file else "audit.file"
        value = settings.syslog if where == "audit.syslog" else settings.file
        raise Rejected.bad(where, value, f"cannot be opened: {error.strerror}") from None
    return Shipping(handlers) if handlers else None
