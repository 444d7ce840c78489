"""Which commands the keeper takes: checked here, before anything is done or written down.

    spawn    uid argv env cwd stdin stdout stderr umask user cpus ulimits cgroup keep
    seek     uid cgroup keep        an attempt that was started and that the keeper may not know
    give_up  uid                    ends a start whose program has not begun
    beside   uid user argv [terminal]    one more process in an attempt that runs
    signal   uid signal [note]      to every process of the attempt
    forget   uids                   drops ended attempts
    lease    until_s                when all work must end, unless told anew (null: never)
    exit                            leave, unless something is alive

``env`` lists NAME=value, as a program gets it (a dictionary costs three times as much to read);
``keep`` is given back in the full list.

The keeper is the parent of all jobs. Whatever it is sent, it must neither die of it nor write
something into its journal that the next keeper or agent cannot read. It runs this file without the
package around it.
"""

from __future__ import annotations

import math
from json import JSONDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What both ends must mean by these. A keeper may be older than the agent that comes to it.
PROTOCOL = 2
#: How the first line on each connection begins.
ALL = {"ev": "all", "protocol": PROTOCOL}
SIGNAL_MAX = 64
_decode = JSONDecoder().raw_decode
#: Longer than any command of an agent: scripts and standard input come along.
LINE_BYTES_MAX = 1 << 28


class NotAnOrder(Exception):
    """A line that no agent of ours would send; the text says what is wrong with it."""


def read_order(line: bytes) -> dict[str, Any]:
    """The command in a line, fit to be carried out, or ``NotAnOrder``."""
    try:
        text = line.decode("utf-8", "surrogatepass").strip()
        order, end = _decode(text)
        _require(end == len(text), "a line", "one object")
    except (ValueError, RecursionError) as error:
        raise NotAnOrder(f"not JSON: {error}") from None
    if not isinstance(order, dict):
        raise NotAnOrder("not an object")
    check = _CHECKS.get(order["op"]) if isinstance(order.get("op"), str) else None
    if check is None:
        raise NotAnOrder(f"op: {order.get('op')!r:.40} is not one of {', '.join(_CHECKS)}")
    check(order)
    return order


def _require(fits: bool, field: str, allowed: str) -> None:
    if not fits:
        raise NotAnOrder(f"{field}: {allowed}")


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e15 and math.isfinite(value)


def _attempt(order: dict[str, Any]) -> None:
    """Of the rest of its fields, the start itself says what is wrong with them."""
    _require(_is_word(order.get("uid")), "uid", "a word")
    keep = order.get("keep") or {}
    _require(isinstance(keep, dict), "keep", "an object")
    grace_s = keep.get("grace_s", 0)
    _require(_is_number(grace_s) and grace_s >= 0, "keep.grace_s", "seconds from 0")
    cgroup = order.get("cgroup")
    _require(not cgroup or _is_word(cgroup), "cgroup", "a path")


def _give_up(order: dict[str, Any]) -> None:
    _require(_is_word(order.get("uid")), "uid", "a word")


def _beside(order: dict[str, Any]) -> None:
    _require(_is_word(order.get("uid")), "uid", "a word")
    argv = order.get("argv")
    words = isinstance(argv, list) and all(isinstance(word, str) for word in argv)
    _require(words and bool(argv), "argv", "a list of words")
    _require(not order.get("terminal") or _is_word(order["terminal"]), "terminal", "a path")


def _signal(order: dict[str, Any]) -> None:
    _require(_is_word(order.get("uid")), "uid", "a word")
    number = order.get("signal", 1)
    whole = isinstance(number, int) and not isinstance(number, bool)
    _require(whole and 0 <= number <= SIGNAL_MAX, "signal", f"0 to {SIGNAL_MAX}")
    note = order.get("note")
    _require(not note or _is_word(note), "note", "words")


def _forget(order: dict[str, Any]) -> None:
    uids = order.get("uids")
    _require(isinstance(uids, list) and all(map(_is_word, uids)), "uids", "a list of words")


def _lease(order: dict[str, Any]) -> None:
    until_s = order.get("until_s", "")
    _require(until_s is None or _is_number(until_s), "until_s", "seconds, or null")


def _exit(order: dict[str, Any]) -> None:
    """It has nothing that could be wrong."""


_CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "spawn": _attempt,
    "seek": _attempt,
    "give_up": _give_up,
    "beside": _beside,
    "signal": _signal,
    "forget": _forget,
    "lease": _lease,
    "exit": _exit,
}
