"""What a placement makes useless, against plain counting: for ``score`` and for ``fgd``."""

from __future__ import annotations

from fractions import Fraction
from math import exp, floor

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.facts.resources import Request
from rota.scheduling.place.fragments import Spare, Typical, weighed_loss
from rota.scheduling.place.free import Free, Total
from rota.scheduling.place.gradient import Gradient
from rota.scheduling.place.stranding import Stranding
from rota.testing.stage import role

CPUS, DEVICES, MIB = 48_000, 8, 40_000
TOTAL = Total(CPUS, 1, 1, DEVICES, MIB, (("gpu", "A100"),))
WHOLE, PAIR, FOUR, HALF, SMALL, THIRDS, OTHER, PLAIN = (
    one.request
    for one in (
        role(cpus=4, gpus=1), role(cpus=1, gpus=2), role(cpus=8, gpus=4),
        role(cpus=2, gpus=1, gpu_part=0.5), role(cpus=1, gpus=1, gpu_mem=8000),
        role(cpus=1, gpus=2, gpu_part=0.3), role(cpus=1, gpus=1, gpu_type="H100"), role(cpus=3),
    )
)  # fmt: skip
#: Shares that add up without a rest, so that no order of a sum shows in its last digit.
PARTS = ((Fraction(1),), (Fraction(1, 2), Fraction(1, 2)),
         (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))  # fmt: skip
#: What a device may have left, in thousandths.
LEFTS = (100, 200, 300, 500, 600, 800, 1000, 1000, 1000)


@st.composite
def comings(draw: st.DrawFn, shapes: tuple[Request, ...]) -> list[tuple[Fraction, Request]]:
    parts = draw(st.sampled_from(PARTS))
    order = draw(st.permutations(shapes))
    return list(zip(parts, order, strict=False))


cpus_left = st.integers(0, 48).map(lambda cpus: cpus * 1000)
devices_left = st.lists(st.sampled_from(LEFTS), max_size=DEVICES).map(
    lambda lefts: tuple(sorted(lefts, reverse=True))
)


def thousandths(request: Request) -> int:
    """What a request takes of each device that it gets."""
    if not request.shared:
        return 1000
    return request.device_milli or 1000 * request.device_memory_mib // MIB


def put(request: Request, cpus: int, lefts: list[int]) -> bool:
    """Puts one task on the fullest devices that have room for it, if there is room."""
    share, count = thousandths(request), request.device_count
    room = sorted(at for at, left in enumerate(lefts) if left >= share)
    room.sort(key=lambda at: lefts[at])
    if request.cpu_milli > cpus or len(room) < count:
        return False
    for at in room[:count]:
        lefts[at] -= share
    return True


def idle_for_good(request: Request, cpus: int, lefts: list[int]) -> int:
    """Thousandths of devices that stay free if only such tasks come from now on."""
    lefts = [*lefts]
    if request is OTHER:
        return sum(lefts)
    while put(request, cpus, lefts):
        cpus -= request.cpu_milli
    return sum(lefts)


@settings(max_examples=200)
@given(
    coming=comings((WHOLE, PAIR, FOUR, HALF, SMALL, OTHER)),
    task=st.sampled_from((WHOLE, PAIR, FOUR, HALF, SMALL, THIRDS, PLAIN)),
    cpus=cpus_left,
    lefts=devices_left,
)
def test_a_task_is_worth_what_it_strands_less_and_then_how_full_its_node_gets(
    coming, task, cpus, lefts
):
    stranding = Stranding(Typical(float(share), request) for share, request in coming)
    after = [*lefts]
    fits = put(task, cpus, after)
    left = cpus - task.cpu_milli

    fit = stranding.score(task, Free(cpus, 0, 0, 0, (), lefts), TOTAL)

    if left < 0:
        return  # Whether there are CPUs enough was asked before.
    gain = sum(
        share * (idle_for_good(one, cpus, [*lefts]) - idle_for_good(one, left, after))
        for share, one in coming
    )
    # In sixths of a thousandth, up to four devices; then in fifths of the node.
    worth = min(max(floor(6 * gain), -24_000), 23_999)
    free = floor(5 * (Fraction(left, CPUS) + Fraction(sum(after), 1000 * DEVICES)) / 2)
    assert fit == (6 * (worth + 24_000) + 5 - free if fits else 0)


def hundredths(before: float, later: float) -> int:
    return int(1.0 / (1.0 + exp((later - before) / 1000)) * 100)


@settings(max_examples=200)
@given(
    coming=comings((WHOLE, PAIR, FOUR, HALF, SMALL, OTHER, PLAIN)),
    task=st.sampled_from((WHOLE, PAIR, FOUR, HALF, SMALL, THIRDS, PLAIN)),
    cpus=cpus_left,
    lefts=devices_left,
)
def test_fgd_scores_by_what_is_lost_before_and_after_on_the_best_of_the_devices(
    coming, task, cpus, lefts
):
    typical = [Typical(float(share), request) for share, request in coming]
    spare, share = Spare(cpus, 0, lefts, MIB, TOTAL.makes), thousandths(task)

    def scored(*taken: int) -> int:
        """With a share off each of these devices."""
        devices = [left - share * (at in taken) for at, left in enumerate(lefts)]
        kept = tuple(sorted(filter(None, devices), reverse=True))
        later = spare._replace(cpu_milli=cpus - task.cpu_milli, devices=kept)
        return hundredths(weighed_loss(spare, typical), weighed_loss(later, typical))

    room = [at for at, left in enumerate(lefts) if left >= share]
    measure = Gradient(typical)
    found = measure.score(task, Free(cpus, 0, 0, 0, (), lefts), TOTAL)

    if task.shared and task.device_count == 1:
        points = [scored(at) for at in room]
        assert found == max(points, default=0)
        picked = measure.pick(task, spare, [(at, lefts[at]) for at in room])
        assert picked == (room[points.index(max(points))] if room else -1)
    elif cpus >= task.cpu_milli:
        fits = len(room) >= task.device_count
        # The fullest devices with room; without any wish for devices, none.
        assert found == (scored(*room[len(room) - task.device_count :]) if fits else 0)
