"""Whatever well-formed words agents find, in whatever order: the state stays sound."""

from __future__ import annotations

import zlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.controller.agents.report_checks import doubt
from rota.controller.engine import FromLink
from rota.controller.recover import recover
from rota.core.facts.node import Device, ForeignUse, NodeSpec
from rota.core.facts.states import Cause
from rota.rpc.messages import PROTOCOL, Beat, DeviceUse, Hello, Observed, Seen, Sighting
from rota.testing.scene import Scene

STEPS = 20
LINKS = (1, 2, 51, 52)

numbers = st.integers(-2, 5) | st.sampled_from((2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1))
moments = st.sampled_from((0.0, 999.0, 1000.0, 2000.0)) | st.floats()
words = st.sampled_from(("box1", "box2", "", "a b", "x" * 300)) | st.text(max_size=4)
uses = st.lists(st.builds(ForeignUse, numbers, numbers, words, numbers), max_size=2).map(tuple)
devices = st.lists(st.builds(Device, numbers, words, memory_mib=numbers), max_size=2).map(tuple)


def sized(cpu_milli: int, memory_mib: int, devices: tuple[Device, ...]) -> NodeSpec:
    """A machine whose name tells its size: one that shrinks may hold more than it has left."""
    size = zlib.crc32(repr((cpu_milli, memory_mib, devices)).encode())
    return NodeSpec(f"n{size}", cpu_milli, memory_mib, devices=devices)


nodes = st.builds(sized, numbers, numbers, devices) | st.sampled_from(
    [NodeSpec(f"box{n}", 4000, 16384, 10240, cpus=(0, 1, 2, 3)) for n in (1, 2)]
    + [NodeSpec("", 1, 1), NodeSpec("a/b", 1, 1)]
)
hellos = st.builds(
    Hello,
    st.sampled_from((PROTOCOL, PROTOCOL, PROTOCOL, 1, 99)),
    nodes,
    st.sampled_from(("i1", "i2", "")),
    st.sampled_from(("b1", "b2", "")),
    st.just("test"),
    foreign=uses,
    home=words,
)


@st.composite
def sightings(draw: st.DrawFn, uids: list[str]) -> Seen:
    return Seen(
        draw(st.sampled_from([*uids, "stranger"])),
        draw(st.sampled_from(Sighting)),
        draw(numbers),
        draw(moments),
        draw(moments),
        draw(st.none() | numbers),
        draw(st.just(0) | numbers),
        draw(st.none() | st.sampled_from(Cause)),
        draw(words),
        draw(st.just(0) | numbers),
        draw(st.just(0.0) | moments),
    )


def some_words(data: st.DataObject, scene: Scene, link: int) -> Any:
    """Any message on a connection; its session and number are often the ones that are due."""
    kind = data.draw(st.sampled_from(("hello", "observed", "observed", "beat", "use", "end")))
    session = scene.controller.sessions.by_link.get(link)
    due = (session.id, session._next_in) if session is not None else (0, 1)
    number = data.draw(st.just(due[1]) | numbers)
    said_session = data.draw(st.just(due[0]) | numbers)
    if kind == "hello":
        return data.draw(hellos)
    if kind == "observed":
        seen = st.lists(sightings(sorted(scene.cluster.live.where)), max_size=3).map(tuple)
        return Observed(said_session, number, data.draw(seen), data.draw(st.booleans()))
    if kind == "beat":
        return Beat(said_session, number)
    if kind == "use":
        return DeviceUse(said_session, data.draw(uses))
    return None


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_plausible_words_leave_the_invariants_and_the_store_intact(data: st.DataObject) -> None:
    scene = Scene(nodes=2, starts=False, lease_s=60)
    for number in range(6):
        scene.submit(f"job{number}", cpus=2, retries=1, backoff_s=0)

    for _ in range(STEPS):
        link = data.draw(st.sampled_from(LINKS))
        message = some_words(data, scene, link)
        if message is None or not doubt(message):
            scene.tick(FromLink(link, message))
        scene.now_s += data.draw(st.sampled_from((0.0, 1.0, 30.0)))

    assert recover(scene.store.load()).live.where == scene.cluster.live.where
