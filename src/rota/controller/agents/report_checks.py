"""Whether an agent of ours could have said this: asked before a message reaches the state.

A message may have the right form and still be nonsense: a negative pid, a time that is no number, a
machine with the same device twice. Taken in, it would break a tick for everybody. So an agent that
says such a thing is cut off with a reason, and nobody else notices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.node_keys import DIGEST_DIGITS
from rota.rpc.messages import (
    CheckpointAnswer,
    DeviceUse,
    Farewell,
    Hello,
    Measured,
    NewKey,
    Observed,
    Resized,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rota.core.facts.node import ForeignUse, NodeSpec
    from rota.rpc.messages import AgentMessage, Seen

#: More than any machine has of anything, and small enough for every database.
COUNT_MAX = 1 << 53
PID_MAX = 1 << 31
#: Far in the future; what is not a number is not below it, either.
TIME_MAX_S = 1e11
CODE_MAX = 1 << 31
SIGNAL_MAX = 255
WORD_MAX = 255
TEXT_MAX = 64 * 1024
#: What a name is not made of: it stands in paths, lists and lines.
_NOT_IN_NAMES = frozenset("/,\\")
_HEXADECIMAL = frozenset("0123456789abcdef")


def doubt(message: AgentMessage) -> str:
    """Why this cannot be true, in one line; empty: it may well be."""
    if isinstance(message, Observed):
        return next((why for seen in message.attempts if (why := _doubt_seen(seen))), "")
    if isinstance(message, Hello):
        return next(_doubts_of_hello(message), "")
    if isinstance(message, DeviceUse):
        return next(_doubts_of_use(message.foreign), "")
    if isinstance(message, Measured):
        return next(_doubts_of_measured(message), "")
    if isinstance(message, Farewell) and len(message.note) > TEXT_MAX:
        return _wrong("note", message.note, f"up to {TEXT_MAX} characters")
    if isinstance(message, Resized):
        return next(_doubts_of_machine(message.node), "")
    if isinstance(message, NewKey):
        return _doubt_key(message.digest)
    if isinstance(message, CheckpointAnswer):
        return next((why for f in message.folders if (why := _doubt_folder(f.name))), "")
    return ""


def _wrong(field: str, value: object, allowed: str) -> str:
    return f"{field}: {value!r:.60} is not valid; {allowed}"


def _doubt_seen(seen: Seen) -> str:
    """The common case costs a few comparisons."""
    if not 0 < len(seen.uid) <= WORD_MAX:
        return _wrong("uid", seen.uid, f"1 to {WORD_MAX} characters")
    if not 0 <= seen.pid < PID_MAX:
        return _wrong("pid", seen.pid, f"0 to {PID_MAX - 1}")
    if not (0 <= seen.started_s < TIME_MAX_S and 0 <= seen.ended_s < TIME_MAX_S):
        return _wrong("started_s, ended_s", (seen.started_s, seen.ended_s), "seconds since 1970")
    if not (0 <= seen.cpu_s < TIME_MAX_S and 0 <= seen.peak_memory_mib < COUNT_MAX):
        return _wrong("cpu_s, peak_memory_mib", (seen.cpu_s, seen.peak_memory_mib), "from 0")
    if not 0 <= seen.signal <= SIGNAL_MAX:
        return _wrong("signal", seen.signal, f"0 to {SIGNAL_MAX}")
    if seen.exit_code is not None and not -CODE_MAX <= seen.exit_code < CODE_MAX:
        return _wrong("exit_code", seen.exit_code, "a number of 32 bits")
    if len(seen.external) > WORD_MAX or len(seen.where) > TEXT_MAX:
        return _wrong("external, where", seen.external, f"up to {WORD_MAX} characters")
    if len(seen.detail) > TEXT_MAX:
        return _wrong("detail", seen.detail, f"up to {TEXT_MAX} characters")
    return ""


def _doubt_key(digest: str) -> str:
    if len(digest) == DIGEST_DIGITS and set(digest) <= _HEXADECIMAL:
        return ""
    return _wrong("key", digest, f"{DIGEST_DIGITS} hexadecimal digits")


def _doubts_of_hello(hello: Hello) -> Iterator[str]:
    for field in ("incarnation", "boot_id"):
        word = getattr(hello, field)
        if not 0 < len(word) <= WORD_MAX:
            yield _wrong(field, word, f"1 to {WORD_MAX} characters")
    for field in ("version", "home", "engine"):
        if len(getattr(hello, field)) > TEXT_MAX:
            yield _wrong(field, getattr(hello, field), f"up to {TEXT_MAX} characters")
    if not 0 <= hello.pid < PID_MAX:
        yield _wrong("pid", hello.pid, f"0 to {PID_MAX - 1}")
    if hello.key and (why := _doubt_key(hello.key)):
        yield why
    yield from _doubts_of_machine(hello.node)
    yield from _doubts_of_use(hello.foreign)


def _doubts_of_machine(node: NodeSpec) -> Iterator[str]:
    yield from _doubts_of_node(node)
    yield from _doubts_of_devices(node)
    largest = node.largest
    if largest is None:
        return
    amounts = (largest.cpu_milli, largest.memory_mib, largest.disk_mib)
    if any(not 0 <= amount < COUNT_MAX for amount in (*amounts, largest.count)):
        yield _wrong("node.largest", amounts, "from 0")


def _doubts_of_node(node: NodeSpec) -> Iterator[str]:
    name = node.name
    plain = name.isprintable() and not any(c.isspace() or c in _NOT_IN_NAMES for c in name)
    if not 0 < len(name) <= WORD_MAX or not plain:
        yield _wrong("node.name", name, f"1 to {WORD_MAX} characters without spaces, / and ,")
    for field in ("cpu_milli", "memory_mib", "disk_mib"):
        if not 0 <= getattr(node, field) < COUNT_MAX:
            yield _wrong(f"node.{field}", getattr(node, field), "from 0")
    if not 0 <= node.ends_s < TIME_MAX_S:
        yield _wrong("node.ends_s", node.ends_s, "seconds since 1970")
    for domain in (node.cpus, *node.numa_cpus):
        if not _are_indices(domain):
            yield _wrong("node.cpus", domain, "different numbers from 0")
    for field in ("inside_max", "early"):
        if not 0 <= getattr(node, field) < PID_MAX:
            yield _wrong(f"node.{field}", getattr(node, field), "from 0")
    texts = [node.address, node.system, node.user, *node.labels, *node.labels.values()]
    if any(len(text) > TEXT_MAX for text in texts):
        yield _wrong("node.labels", "", f"up to {TEXT_MAX} characters each")


def _doubts_of_devices(node: NodeSpec) -> Iterator[str]:
    devices = node.devices
    if not _are_indices([device.index for device in devices]):
        yield _wrong("node.devices", [d.index for d in devices], "different indices from 0")
    for device in devices:
        if not 0 <= device.memory_mib < COUNT_MAX or not 0 <= device.ecc_errors < COUNT_MAX:
            yield _wrong("memory_mib, ecc_errors", (device.memory_mib, device.ecc_errors), "from 0")
        linked = (device.numa, device.parent, *device.links)
        if any(not -1 <= number < PID_MAX for number in linked):
            yield _wrong("numa, parent, links", linked, "numbers from -1")


def _doubts_of_use(foreign: Iterable[ForeignUse]) -> Iterator[str]:
    for use in foreign:
        if not 0 <= use.pid < PID_MAX or not 0 <= use.device < PID_MAX:
            yield _wrong("foreign", (use.device, use.pid), "a device and a pid from 0")
        if not 0 <= use.memory_mib < COUNT_MAX or len(use.user) > WORD_MAX:
            yield _wrong("foreign", (use.user, use.memory_mib), "a user and an amount from 0")


def _doubts_of_measured(measured: Measured) -> Iterator[str]:
    for reading in measured.devices:
        figures = (
            reading.use_percent,
            reading.memory_used_mib,
            reading.power_w,
            reading.temperature_c,
            reading.ecc_errors,
            *reading.xids,
        )
        if not 0 <= reading.index < PID_MAX or not _are_figures(figures):
            yield _wrong("devices", (reading.index, *figures), "figures from 0")
    for one in measured.attempts:
        held = [number for gpu in one.gpus for number in (gpu.index, gpu.memory_mib)]
        if not 0 < len(one.uid) <= WORD_MAX:
            yield _wrong("uid", one.uid, f"1 to {WORD_MAX} characters")
        if not _are_figures((one.memory_mib, one.cpu_s, *held)):
            yield _wrong("attempts", (one.memory_mib, one.cpu_s, *held), "figures from 0")


def _are_figures(numbers: Iterable[float | None]) -> bool:
    return all(number is None or 0 <= number < COUNT_MAX for number in numbers)


def _doubt_folder(name: str) -> str:
    """Folders of saved work begin with the number of a job."""
    number, dash, rest = name.partition("-")
    fits = number.isascii() and number.isdecimal() and len(number) < 19
    if fits and dash and rest.isalnum() and len(rest) <= WORD_MAX:
        return ""
    return _wrong("folder", name, "the number of a job, a dash and a word")


def _are_indices(numbers: Iterable[int]) -> bool:
    found = list(numbers)
    return len(set(found)) == len(found) and all(0 <= number < PID_MAX for number in found)
