"""Wishes about where a job runs, as people write them: ``rack=a|b``, ``!ssd``, ``app=web@rack?5``.

Text becomes facts here and facts text again, so that what is shown can be given again. Whatever
cannot be read is a ``ValueError`` whose text says what is allowed; the caller adds the field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rota.core.facts.placing import Affinity, Operator, Selector, Taint, TaintEffect, Toleration

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHT_MAX = 100

_KEY = r"[A-Za-z0-9_][\w./-]*"
_VALUE = r"[\w.:/+-]+"
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_SOFT = re.compile(r"(?P<body>.*?)(?:\?(?P<weight>[0-9]*))?", re.DOTALL)
_LISTED = re.compile(rf"({_KEY})\s+(not\s+in|in|not-in)\s*\(([^()]*)\)")
_COMPARED = re.compile(rf"({_KEY})\s*(!=|==|=|>|<)\s*(.*)")
_BARE = re.compile(rf"(!?)\s*({_KEY})")
_AFFINITY = re.compile(rf"({_KEY})(?:=({_VALUE}))?(?:@({_KEY}))?")
#: No colon: behind one stands the effect of a taint.
_MARK = r"[\w./+-]+"
_TAINT = re.compile(rf"({_KEY})(?:=({_MARK}))?(?::([a-z-]+))?")
_TOLERATION = re.compile(rf"(\*|{_KEY})(?:=({_MARK}))?")

SELECTOR_FORMS = (
    "expected ssd, !ssd, rack=a, rack=a|b, rack!=a, rack in (a,b), rack not in (a,b), gpu_mem>40 "
    "or gpu_mem<40; a ? behind it (or ?5, a weight up to 100) only prefers it"
)
AFFINITY_FORMS = (
    "expected a label of jobs such as app=web or app, with @rack for the same rack instead of the "
    "same node, and ? (or ?5) behind it to only prefer it"
)
TAINT_FORMS = "expected KEY, KEY=VALUE or KEY=VALUE:avoid"
TOLERATION_FORMS = "expected KEY, KEY=VALUE or * for every taint"


def parse_selector(text: str) -> Selector:
    """One wish about a node's labels."""
    body, weight = _weighed(text, SELECTOR_FORMS)
    if found := _LISTED.fullmatch(body):
        operator = Operator.IN if found[2] == "in" else Operator.NOT_IN
        return Selector(found[1], operator, _values(found[3].split(","), text), weight)
    if found := _COMPARED.fullmatch(body):
        return _compared(found[1], found[2], found[3].strip(), weight, text)
    if found := _BARE.fullmatch(body):
        return Selector(found[2], Operator.MISSING if found[1] else Operator.EXISTS, (), weight)
    raise ValueError(_refusal(text, SELECTOR_FORMS))


def _compared(key: str, sign: str, value: str, weight: int, text: str) -> Selector:
    if sign in "><":
        if not re.fullmatch(_NUMBER, value):
            raise ValueError(_refusal(text, f"{sign} compares with a number"))
        return Selector(key, Operator.GT if sign == ">" else Operator.LT, (value,), weight)
    values = _values(value.split("|"), text)
    if len(values) == 1:
        return Selector(key, Operator.NE if sign == "!=" else Operator.EQ, values, weight)
    return Selector(key, Operator.NOT_IN if sign == "!=" else Operator.IN, values, weight)


def _values(parts: Sequence[str], text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in parts)
    if not all(re.fullmatch(_VALUE, value) for value in values):
        raise ValueError(_refusal(text, SELECTOR_FORMS))
    return tuple(dict.fromkeys(values))


def parse_selectors(text: str) -> tuple[Selector, ...]:
    """Several with ``,`` or ``&`` between them; all must hold."""
    parts = re.split(r"[,&](?![^()]*\))", text)
    return tuple(parse_selector(part) for part in parts)


def parse_affinity(text: str, *, apart: bool) -> Affinity:
    """Near to, or apart from, the jobs that carry a label."""
    body, weight = _weighed(text, AFFINITY_FORMS)
    found = _AFFINITY.fullmatch(body)
    if found is None:
        raise ValueError(_refusal(text, AFFINITY_FORMS))
    return Affinity(found[1], found[2] or "", apart, found[3] or "", weight)


def parse_taint(text: str) -> Taint:
    """A mark that keeps jobs away, or (``:avoid``) is only better avoided."""
    found = _TAINT.fullmatch(text.strip())
    effects = [str(effect) for effect in TaintEffect]
    if found is None or (found[3] and found[3] not in effects):
        raise ValueError(_refusal(text, f"{TAINT_FORMS} (effects: {', '.join(effects)})"))
    return Taint(found[1], found[2] or "", TaintEffect(found[3] or TaintEffect.NO_START))


def parse_toleration(text: str) -> Toleration:
    found = _TOLERATION.fullmatch(text.strip())
    if found is None or (found[1] == "*" and found[2]):
        raise ValueError(_refusal(text, TOLERATION_FORMS))
    return Toleration(found[1], found[2] or "")


def parse_label_key(text: str) -> str:
    """A label's name, such as ``rack``."""
    if not re.fullmatch(_KEY, text.strip()):
        raise ValueError(_refusal(text, "expected the name of a label, such as rack"))
    return text.strip()


def format_selector(selector: Selector) -> str:
    """What ``parse_selector`` reads back as the same."""
    sign = {
        Operator.EQ: "=",
        Operator.IN: "=",
        Operator.NE: "!=",
        Operator.NOT_IN: "!=",
        Operator.GT: ">",
        Operator.LT: "<",
    }.get(selector.operator)
    if sign is None:
        body = ("!" if selector.operator is Operator.MISSING else "") + selector.key
    else:
        body = f"{selector.key}{sign}{'|'.join(selector.values)}"
    return body + _weight(selector.weight)


def format_affinity(affinity: Affinity) -> str:
    value = f"={affinity.value}" if affinity.value else ""
    where = f"@{affinity.topology}" if affinity.topology else ""
    return f"{affinity.key}{value}{where}{_weight(affinity.weight)}"


def format_taint(taint: Taint) -> str:
    return f"{taint}:{taint.effect}" if taint.effect is not TaintEffect.NO_START else str(taint)


def format_toleration(toleration: Toleration) -> str:
    return f"{toleration.key}={toleration.value}" if toleration.value else toleration.key


def _weight(weight: int) -> str:
    return "" if not weight else "?" if weight == 1 else f"?{weight}"


def _weighed(text: str, forms: str) -> tuple[str, int]:
    """The wish and its weight: 0 for one that must hold."""
    found = _SOFT.fullmatch(text.strip())
    if found is None or not found["body"].strip():
        raise ValueError(_refusal(text, forms))
    weight = found["weight"]
    if weight is None:
        return found["body"].strip(), 0
    if weight and not 1 <= int(weight[:9]) <= WEIGHT_MAX:
        raise ValueError(_refusal(text, f"the weight behind ? is 1 to {WEIGHT_MAX}"))
    return found["body"].strip(), int(weight or 1)


def _refusal(text: str, hint: str) -> str:
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return f"{shown} is not valid; {hint}"
