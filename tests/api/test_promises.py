"""Whether promises can be kept together: held against trying every way, on small clusters."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from rota.controller.commands.commands import AddReservation
from rota.controller.commands.reserve import KEPT_S, shortage
from rota.core.facts.node import Device, Node, NodeSpec
from rota.core.facts.tenant import Access, Actor, Reservation
from rota.testing.scene import Scene

MODELS = ("A100", "T4")
NODES = ("a", "b")
ADMIN = Actor("root", Access.ADMIN)


def promise(number: int, **fields: object) -> Reservation:
    return Reservation(id=number, owner="ada", start_s=0.0, end_s=1.0, **fields)  # type: ignore[arg-type]


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Node]:
    found = {}
    for name in NODES:
        models = draw(st.lists(st.sampled_from(MODELS), max_size=3))
        devices = tuple(Device(n, f"{name}{n}", model=model) for n, model in enumerate(models))
        found[name] = Node(NodeSpec(name, 1000, 1000, devices=devices), "i", "b")
    return found


COUNTS = st.builds(
    promise,
    st.just(1),
    device_count=st.integers(1, 3),
    device_type=st.sampled_from(("", *MODELS)),
    nodes=st.sampled_from(((), ("a",), ("b",))),
)


def can_be_given(nodes: dict[str, Node], held: list[Reservation]) -> bool:
    """Every way to hand out devices, one promise after the other."""
    free = frozenset((n.name, d.index, d.model) for n in nodes.values() for d in n.spec.devices)
    ways = {free}
    for reservation in held:
        ways = {
            left - set(chosen)
            for left in ways
            for chosen in combinations(
                sorted(
                    device
                    for device in left
                    if reservation.device_type in ("", device[2])
                    and (not reservation.nodes or device[0] in reservation.nodes)
                ),
                reservation.device_count,
            )
        }
    return bool(ways)


@given(clusters(), st.lists(COUNTS, max_size=4))
def test_promises_by_count_are_taken_exactly_when_they_can_be_kept(
    nodes: dict[str, Node], held: list[Reservation]
) -> None:
    assert (shortage(nodes, held) is None) == can_be_given(nodes, held)


def test_thousands_of_devices_are_counted_not_walked_through() -> None:
    nodes = {
        f"n{number}": Node(
            NodeSpec(
                f"n{number}",
                1000,
                1000,
                devices=tuple(Device(n, f"{number}-{n}", model=MODELS[n % 2]) for n in range(8)),
            ),
            "i",
            "b",
        )
        for number in range(200)
    }
    typed = promise(2, device_count=800, device_type="T4")

    assert shortage(nodes, [promise(1, device_count=800), typed]) is None
    assert shortage(nodes, [promise(1, device_count=801), typed]) == 1


def test_what_is_long_over_leaves_the_list() -> None:
    scene = Scene(gpus=4)
    now_s = scene.now_s

    def add(start_s: float) -> Reservation:
        made = Reservation(0, "ada", start_s, start_s + 3600, device_count=1)
        answer: Reservation = scene.ask(AddReservation(actor=ADMIN, reservation=made))
        return answer

    first = add(now_s)
    scene.pass_time(KEPT_S + 7200)
    second = add(scene.now_s)

    assert first.id < second.id
    assert list(scene.cluster.reservations) == [second.id]
