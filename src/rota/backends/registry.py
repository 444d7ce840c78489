"""Which kinds of engines there are, and from ``[engines.NAME]`` to a driver.

Other packages add kinds by entry points of the group ``rota.backends``. Each names a function that
takes the settings, of the type that its annotation says, and gives a driver.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec

from rota.backends.guard import guarded
from rota.core.facts.errors import Rejected
from rota.settings.checks import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rota.backends.api import Driver

GROUP = "rota.backends"
_OWN: dict[str, str] = {
    "kubernetes": "rota.backends.kubernetes.entry:driver",
    "ray": "rota.backends.ray.driver:driver",
    "slurm": "rota.backends.slurm.driver:driver",
}
#: Keys that every engine has.
COMMON = ("kind", "give_back_s", "begin_s", "inside_max", "early", "cluster")


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every engine has, beside what its driver wants to know."""

    kind: str
    #: What waits inside the engine for longer comes back to Rota's queue; 0: it waits there.
    give_back_s: float = 60.0
    #: What has its machine inside and does not begin there comes back after so long; 0: never.
    begin_s: float = 900.0
    #: With placement theirs the most attempts that may wait in a pool at once: order stays Rota's.
    inside_max: Annotated[int, msgspec.Meta(ge=0)] = 2
    #: How many are handed in before there is room for each one that runs, where jobs end often;
    #: 0: none; None: as is sound for the kind of engine.
    early: Annotated[float, msgspec.Meta(ge=0, le=8)] | None = None
    #: The cluster that its machines belong to; empty: one of the engine's own name.
    cluster: str = ""


def kinds() -> dict[str, str]:
    """Where the driver of each kind is made, as ``package.module:function``."""
    return _OWN | {point.name: point.value for point in entry_points(group=GROUP)}


def make(
    name: str, table: Mapping[str, Any], section: str = "engines"
) -> tuple[EngineSettings, Driver]:
    """The driver that a table of ``rota.toml`` asks for; a bad one is refused in a line."""
    where = f"{section}.{name}"
    known = kinds()
    kind = str(table.get("kind", ""))
    if kind not in known and ":" not in kind:
        raise Rejected(f"{where}.kind: {kind!r} is not valid; {nearest(kind, known)}")
    module, _, function = known.get(kind, kind).partition(":")
    factory: Callable[[Any], Driver] = getattr(import_module(module), function)
    hints = get_type_hints(factory)
    hints.pop("return", None)
    (settings_type,) = hints.values()
    fields = [field.name for field in msgspec.structs.fields(settings_type)]
    for key in table:
        if key not in (*COMMON, *fields):
            problem = nearest(key, [*COMMON, *fields])
            raise Rejected(f"unknown key {where}.{key}; {problem}")
    common = _convert(where, {k: v for k, v in table.items() if k in COMMON}, EngineSettings)
    own = _convert(where, {k: v for k, v in table.items() if k not in COMMON}, settings_type)
    return common, guarded(factory(own))


def _convert(where: str, values: Mapping[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise Rejected(f"{where}: {error}") from None
