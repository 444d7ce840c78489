"""One record, one line: what is said in a log may have been written by a user or by a stranger."""

from __future__ import annotations

import logging


class LogLines(logging.Formatter):
    """Shows control characters instead of obeying them, and indents what follows a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return shown(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]
        return "\n".join(f"  {shown(line)}" for line in lines)


def shown(text: str) -> str:
    """Without anything that moves a cursor or begins a line."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
