"""Which devices a group of processes may open, as a program for the kernel.

The kernel runs it (``BPF_PROG_TYPE_CGROUP_DEVICE``) whenever a process of the group opens or makes
a device file, wherever that file is and whatever its rights are. 0 refuses, anything else allows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Major and minor.
Number = tuple[int, int]

#: The words of an instruction: operation, registers (target, source), jump, constant.
_INSTRUCTION = struct.Struct("<BBhi")
_LOAD_WORD, _AND, _SET, _JUMP_UNLESS, _JUMP_IF, _EXIT = 0x61, 0x57, 0xB7, 0x55, 0x15, 0x95
_ANSWER, _CONTEXT, _TYPE, _MAJOR, _MINOR = 0, 1, 2, 3, 4
#: What the kernel says of the access: the type in the low half of the first word, the numbers.
_AT_TYPE, _AT_MAJOR, _AT_MINOR = 0, 4, 8
_CHARACTER = 2


def deny(numbers: Iterable[Number]) -> bytes:
    """The instructions that refuse just these character devices."""
    pairs = sorted(set(numbers))
    tests = []
    for at, (major, minor) in enumerate(pairs):
        # Behind the last test come the two instructions that allow, then those that refuse.
        to_refusal = 2 * (len(pairs) - at - 1) + 2
        tests += [
            _step(_JUMP_UNLESS, _MAJOR, jump=1, value=major),
            _step(_JUMP_IF, _MINOR, jump=to_refusal, value=minor),
        ]
    return b"".join(
        [
            _step(_LOAD_WORD, _TYPE, _CONTEXT, jump=_AT_TYPE),
            _step(_AND, _TYPE, value=0xFFFF),
            _step(_LOAD_WORD, _MAJOR, _CONTEXT, jump=_AT_MAJOR),
            _step(_LOAD_WORD, _MINOR, _CONTEXT, jump=_AT_MINOR),
            _step(_JUMP_UNLESS, _TYPE, jump=len(tests), value=_CHARACTER),
            *tests,
            _step(_SET, _ANSWER, value=1),
            _step(_EXIT),
            _step(_SET, _ANSWER, value=0),
            _step(_EXIT),
        ]
    )


def _step(
    operation: int, target: int = 0, source: int = 0, *, jump: int = 0, value: int = 0
) -> bytes:
    return _INSTRUCTION.pack(operation, source << 4 | target, jump, value)
