"""The program that keeps devices from a group, run by an interpreter of the few steps it has."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from rota.agent.machine.device_program import Number, deny

BLOCK, CHARACTER = 1, 2
MAKE, READ, WRITE = 1, 2, 4

numbers = st.tuples(st.integers(0, 4095), st.integers(0, (1 << 20) - 1))
#: From a small range, so that majors and minors meet in other pairs.
close_numbers = st.tuples(st.integers(194, 197), st.integers(0, 5))


def answer(program: bytes, kind: int, access: int, number: Number) -> int:
    """What the kernel would get: register 0 at the end."""
    context = struct.pack("<III", access << 16 | kind, *number)
    steps = list(struct.iter_unpack("<BBhi", program))
    registers: dict[int, int] = {}
    at = 0
    while True:
        operation, both, jump, value = steps[at]
        target, source = both & 15, both >> 4
        at += 1
        if operation == 0x61:
            assert source == 1, "only what the kernel hands over can be read"
            (registers[target],) = struct.unpack_from("<I", context, jump)
        elif operation == 0x57:
            registers[target] &= value
        elif operation == 0xB7:
            registers[target] = value
        elif operation == 0x55:
            at += jump if registers[target] != value else 0
        elif operation == 0x15:
            at += jump if registers[target] == value else 0
        else:
            assert operation == 0x95, f"unknown step {operation:#x}"
            return registers[0]


@given(
    st.lists(numbers | close_numbers, max_size=40),
    st.lists(numbers | close_numbers, min_size=1, max_size=10),
    st.sampled_from([MAKE, READ, WRITE, READ | WRITE]),
)
def test_just_the_listed_devices_are_refused(
    listed: list[Number], others: list[Number], access: int
):
    program = deny(listed)

    refused = {
        number for number in {*listed, *others} if answer(program, CHARACTER, access, number) == 0
    }

    assert refused == set(listed)


@given(st.lists(close_numbers, min_size=1))
def test_a_disk_of_the_same_number_is_another_device(listed: list[Number]):
    program = deny(listed)

    assert all(answer(program, BLOCK, READ, number) == 1 for number in listed)


def test_a_node_with_many_cards_still_has_every_jump_in_reach():
    listed = [(major, minor) for major in (195, 226) for minor in range(2000)]

    program = deny(listed)

    assert answer(program, CHARACTER, READ, listed[0]) == 0
    assert answer(program, CHARACTER, READ, (195, 2000)) == 1
