"""Who did what to which object: one record, kept apart from jobs and their events."""

from __future__ import annotations

import msgspec


class Audited(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the audit."""

    at_s: float
    user: str
    #: How the caller came in: ``local``, ``token ID`` or ``job ID``.
    via: str
    #: From where over the network; empty on the local socket.
    address: str
    action: str
    #: What it was done to: ``job 12``, ``node n1``; empty: the site.
    object: str = ""
    #: Why it was refused; empty: it was done.
    refused: str = ""
    #: Its number, given by the store.
    seq: int = 0
