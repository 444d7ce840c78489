"""Amounts under names that say their unit: ``memory_mib``, beside the older ``memory_mb``.

Both are MiB. Bodies take either name, answers have both; inside, the older one is filled.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec.structs import fields, force_setattr

_OLDER, _NEWER = "_mb", "_mib"


@cache
def _twins(kind: Any) -> tuple[tuple[str, str, object, object], ...]:  # noqa: ANN401 - a struct
    """Older name, newer name, and what each is when nobody gave it."""
    usual: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    return tuple(
        (name, newer, usual[name], usual[newer])
        for name in usual
        if name.endswith(_OLDER) and (newer := name.removesuffix(_OLDER) + _NEWER) in usual
    )


class TakesMib:
    """Base of bodies: what was given under the newer name stands under the older one."""

    __slots__ = ()

    def __post_init__(self: Any) -> None:
        for older, newer, usual, absent in _twins(self.__class__):
            given = getattr(self, newer)
            if given is absent:
                continue
            if getattr(self, older) not in (usual, given):
                raise ValueError(f"give {newer} or {older}, one of them")
            force_setattr(self, older, given)
            force_setattr(self, newer, absent)


class ShowsMib:
    """Base of answers: what stands under the older name is shown under the newer one, too."""

    __slots__ = ()

    def __post_init__(self: Any) -> None:
        for older, newer, _, _ in _twins(self.__class__):
            force_setattr(self, newer, getattr(self, older))
