"""A command line of ``sacctmgr``, taken apart."""

from __future__ import annotations

import msgspec


class AccountOrder(msgspec.Struct, kw_only=True):
    """A command line, taken apart."""

    verb: str
    entity: str
    #: What it is about: bare words and ``name=``.
    names: list[str] = []
    #: Conditions, and (behind ``set``) new values, by key in small letters.
    where: dict[str, str] = {}
    values: dict[str, str] = {}
    #: ``withassoc``, ``tree`` and their like.
    flags: set[str] = set()
    format: str = ""
    options: set[str] = set()
