"""How a running task is asked whether it is well."""

from __future__ import annotations

import msgspec


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of the task that must answer: take a connection, or with ``path`` an HTTP request."""

    port: str
    path: str = ""
    every_s: float = 10.0
    #: After this many questions in a row without a good answer it is told to end.
    failures: int = 3
    #: So long after its start it may still be silent; once it has answered, it may not.
    delay_s: float = 60.0
