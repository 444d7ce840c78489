"""The rules of a pass by name: ``order.primary=wfp3``. Reading, checking and comparing them.

A key is ``section.name`` or the name of a rule without a section. Values come as text (from a
command line or a variable) or typed (from TOML or JSON); lengths of time may be written ``2h``.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from rota.core.facts.errors import Rejected
from rota.core.facts.policy import Policy
from rota.core.facts.site.prices import parse_rate
from rota.core.words.licenses import read_licenses
from rota.core.words.units import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Orderings that ship with Rota; a plug-in is named ``module:Name``.
ORDERINGS = (
    "fifo",
    "priority",
    "multifactor",
    "due",
    "fairshare",
    "sjf",
    "saf",
    "wfp3",
    "unicef",
    "f1",
    "deadline",
    "laxity",
    "limit-bonus",
)
#: Keys whose values are words, and the words.
_WORDS: dict[str, tuple[str, ...]] = {
    "order.primary": ORDERINGS,
    "order.secondary": ORDERINGS,
    "share.memory": ("half-life", "window"),
    "share.form": ("dominant", "simple"),
    "share.source": ("rota", "provider"),
    "place.strategy": (
        "score",
        "first-fit",
        "best-fit",
        "spread",
        "fgd",
        "dotprod",
        "gpu-packing",
    ),
    "place.devices": ("sequential", "numa", "random"),
}
_PLUGGABLE = frozenset({"order.primary", "order.secondary"})
#: Key -> lowest and highest value; every other number is 0 or more.
_BOUNDS: dict[str, tuple[float, float]] = {
    "order.age_factor": (1.0, 10.0),
    "order.priority_max": (1, 1_000_000),
    "order.age_after_s": (1, 10**9),
    "share.half_life_s": (1, 10**9),
    "share.window_s": (3600, 366 * 86400),
    "backfill.estimate_device_s": (1, 10**9),
    "backfill.estimate_cpu_s": (1, 10**9),
    "place.overcommit_cpu": (1.0, 100.0),
    "place.overcommit_memory": (1.0, 100.0),
    "gang.partial": (0.01, 1.0),
    "preempt.max_per_pass": (1, 100_000),
    "plugin_budget_ms": (1, 60_000),
    "port_first": (1024, 65_535),
    "port_count": (1, 64_512),
}
_HIGHEST = 10**9
#: Parts of a policy with commands of their own.
_NOT_RULES = ("vdcs",)
_TRUTH = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

Value = str | int | float | bool | tuple[str, ...]


def sections() -> dict[str, type[msgspec.Struct]]:
    """The tables that rules are sorted into, by name."""
    return {
        field.name: field.type
        for field in msgspec.structs.fields(Policy)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
    }


def all_keys() -> dict[str, Any]:
    """Every key and its type, in order."""
    found: dict[str, Any] = {}
    tables = sections()
    for field in msgspec.structs.fields(Policy):
        if field.name in _NOT_RULES:
            continue
        if field.name in tables:
            for inner in msgspec.structs.fields(tables[field.name]):
                found[f"{field.name}.{inner.name}"] = inner.type
        else:
            found[field.name] = field.type
    return found


_KEYS = all_keys()


def flatten(policy: Policy) -> dict[str, Value]:
    """Every rule by its key, as plain values."""
    found: dict[str, Value] = {}
    for key in _KEYS:
        section, _, name = key.rpartition(".")
        holder = getattr(policy, section) if section else policy
        value = getattr(holder, name)
        found[key] = str(value) if isinstance(value, StrEnum) else value
    return found


def nest(rules: Mapping[str, Value]) -> dict[str, Any]:
    """Rules by key as tables, for JSON and TOML."""
    tables: dict[str, Any] = {}
    for key, value in rules.items():
        section, _, name = key.rpartition(".")
        holder = tables.setdefault(section, {}) if section else tables
        holder[name] = list(value) if isinstance(value, tuple) else value
    return tables


def unnest(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The opposite: ``{"order": {"primary": …}}`` becomes ``{"order.primary": …}``."""
    rules: dict[str, Any] = {}
    known = sections()
    for name, value in tables.items():
        if name in known and isinstance(value, dict):
            rules |= {f"{name}.{inner}": value[inner] for inner in value}
        elif name in known:
            raise Rejected.bad(name, value, f"expected a table with keys such as {_first(name)}")
        else:
            rules[name] = value
    return rules


def _first(section: str) -> str:
    return next(key for key in _KEYS if key.startswith(f"{section}."))


def changed(policy: Policy, rules: Mapping[str, Any]) -> Policy:
    """The policy with some rules replaced; ``Rejected`` names a bad key or value."""
    checked = {key: read(key, value) for key, value in rules.items()}
    replaced: dict[str, Any] = {}
    for key, value in checked.items():
        section, _, name = key.rpartition(".")
        if section:
            holder = replaced.get(section, getattr(policy, section))
            replaced[section] = msgspec.structs.replace(holder, **{name: value})
        else:
            replaced[name] = value
    return msgspec.structs.replace(policy, **replaced)


def differences(before: Policy, after: Policy) -> dict[str, tuple[Value, Value]]:
    """What changes, by key: before and after."""
    old, new = flatten(before), flatten(after)
    return {key: (old[key], new[key]) for key in old if old[key] != new[key]}


def read(key: str, value: object) -> Any:  # noqa: ANN401 - of the key's own type
    """The value of a rule in its own type."""
    if key not in _KEYS:
        raise Rejected(f"{key}: there is no such rule; {_near_key(key)}", field=key, value=value)
    kind = _KEYS[key]
    if isinstance(value, str):
        value = _from_text(key, kind, value)
    if key in _WORDS:
        return _word(key, value)
    try:
        typed = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        raise Rejected.bad(key, value, _expected(kind)) from None
    if key == "licenses":
        _check_licenses(value, typed)
    if isinstance(typed, int | float) and not isinstance(typed, bool):
        low, high = _BOUNDS.get(key, (0, _HIGHEST))
        if not low <= typed <= high:
            raise Rejected.bad(key, value, f"expected {low:g} to {high:g}")
    if key == "prices.rates":
        _check_rates(key, typed)
    return typed


def _check_rates(key: str, rates: Iterable[str]) -> None:
    for text in rates:
        try:
            parse_rate(text)
        except ValueError as error:
            raise Rejected(f"{key}: {error}", field=key, value=text) from None


def _check_licenses(value: object, words: tuple[str, ...]) -> None:
    try:
        read_licenses(",".join(words)) if words else ()
    except ValueError:
        raise Rejected.bad("licenses", value, "expected NAME:COUNT, such as matlab:5") from None


def _near_key(key: str) -> str:
    close = get_close_matches(key, _KEYS, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    section = key.partition(".")[0]
    inside = [known for known in _KEYS if known.startswith(f"{section}.")]
    return nearest(section, inside or [*sections(), *(k for k in _KEYS if "." not in k)])


def _from_text(key: str, kind: Any, text: str) -> object:  # noqa: ANN401 - a type
    """Text of a variable or a command line, as the type that the rule has."""
    body = text.strip()
    if kind is bool:
        return _TRUTH.get(body.lower(), text)
    if kind == tuple[str, ...]:
        return [word.strip() for word in body.split(",") if word.strip()]
    if kind is int and key.endswith("_s"):
        try:
            return parse_duration_s(body)
        except ValueError as error:
            raise Rejected(f"{key}: {error}", field=key, value=text) from None
    if kind in (int, float):
        try:
            return int(body) if kind is int else float(body)
        except ValueError:
            raise Rejected.bad(key, text, _expected(kind)) from None
    return body


def _word(key: str, value: object) -> str:
    known = _WORDS[key]
    plug_in = key in _PLUGGABLE and isinstance(value, str) and ":" in value.strip(":")
    if not isinstance(value, str) or (value not in known and not plug_in):
        hint = nearest(str(value), known)
        more = "; or a plug-in as module:Name" if key in _PLUGGABLE else ""
        raise Rejected.bad(key, value, hint + more)
    return value


def _expected(kind: Any) -> str:  # noqa: ANN401 - a type
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "expected one of " + ", ".join(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false"}
    return f"expected {words.get(kind, 'a list of names')}"


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean X? (known: …)``."""
    names = list(known)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    listed = ", ".join(names)
    return f"did you mean {close[0]}? (known: {listed})" if close else f"known: {listed}"
