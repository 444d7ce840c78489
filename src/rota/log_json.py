"""Logs for programs: one JSON object per record."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

#: How records are written: lines for people, or objects for programs.
FORMATS = ("text", "json")


class JsonLines(logging.Formatter):
    """``{"time": …, "level": …, "logger": …, "message": …}``, with what was raised if any was."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        found = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)
