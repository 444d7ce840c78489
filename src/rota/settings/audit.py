"""[audit]: where records of who did what go beside the database, and how long they stay there."""

from __future__ import annotations

import msgspec

from rota.digits import is_digits


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """[audit]: records are in the database in any case."""

    #: A file that gets a line of JSON for each; empty: none.
    file: str = ""
    #: A file with a key, by which nobody else can make the chain of the lines anew; empty: none.
    key_file: str = ""
    #: ``/dev/log`` or ``HOST:PORT`` of a syslog that gets the same lines; empty: none.
    syslog: str = ""
    #: Records older than this are removed from the database; 0: never.
    days: int = 0

    @property
    def syslog_address(self) -> str | tuple[str, int]:
        if self.syslog.startswith("/"):
            return self.syslog
        host, _, port = self.syslog.rpartition(":")
        return host, int(port)


def check_syslog(text: str) -> None:
    host, _, port = text.rpartition(":")
    if text and not text.startswith("/") and not (host and is_digits(port) and int(port) < 65_536):
        raise ValueError(f"{text!r} is not valid; expected /dev/log or HOST:PORT")
