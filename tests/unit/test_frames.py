"""The short way to read and make WebSocket frames, held against a library that knows them all."""

import os

import pytest
from websockets.frames import Frame, Opcode

from rota.rpc.frames import bodies_of, frame_of

MOST = 100_000
SIZES = (0, 1, 3, 125, 126, 127, 65_535, 65_536, 70_001)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_frame_made_by_either_side_reads_the_same(size: int, masked: bool) -> None:
    body = os.urandom(size)
    theirs = Frame(Opcode.BINARY, body).serialize(mask=masked)

    assert bodies_of(theirs, masked=masked, most=MOST) == [body]
    assert bodies_of(frame_of(body, masked=masked), masked=masked, most=MOST) == [body]
    assert len(frame_of(body, masked=masked)) == len(theirs)
    if not masked:
        assert frame_of(body, masked=False) == theirs


@pytest.mark.parametrize("masked", [False, True])
def test_frames_that_arrive_together_are_read_in_their_order(masked: bool) -> None:
    bodies = [os.urandom(size) for size in SIZES]
    together = b"".join(frame_of(body, masked=masked) for body in bodies)

    assert bodies_of(together, masked=masked, most=MOST) == bodies


@pytest.mark.parametrize(
    "data",
    [
        frame_of(b"whole", masked=True) + frame_of(b"in two", masked=True)[:-1],
        frame_of(b"x" * 300, masked=True)[:3],
        frame_of(b"x", masked=True)[:1],
        frame_of(b"not masked", masked=False),
        frame_of(b"x" * (MOST + 1), masked=True),
        Frame(Opcode.TEXT, b"text").serialize(mask=True),
        Frame(Opcode.PING, b"ping").serialize(mask=True),
        Frame(Opcode.CLOSE, b"").serialize(mask=True),
        Frame(Opcode.BINARY, b"the first of several", fin=False).serialize(mask=True),
        Frame(Opcode.CONT, b"the last of several").serialize(mask=True),
        b"\xc2" + frame_of(b"compressed", masked=True)[1:],
    ],
    # Masks are random, and every test process must find the same names.
    ids=[
        *("cut", "cut head", "cut at once", "unmasked", "too large", "text", "ping", "close"),
        *("first part", "last part", "compressed"),
    ],
)
def test_everything_else_is_left_to_the_parser(data: bytes) -> None:
    assert bodies_of(data, masked=True, most=MOST) is None
