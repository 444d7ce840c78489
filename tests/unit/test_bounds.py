"""What finished jobs leave behind: one byte each in the ledger, and nothing else that grows."""

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Set
from types import FunctionType, MethodType, ModuleType

import pytest

from rota.core.changes import events as ev
from rota.core.facts.indices import IndexRun
from rota.core.facts.job import JobSpec
from rota.core.facts.policy import DEFAULT, PlaceRules, Policy
from rota.core.words.presets import PRESETS
from rota.testing.stage import Stage, node, spec

#: No container may hold more once no job is alive.
MOST = 2_000
#: So many jobs and arrays are submitted at a time, more than fit at once.
BATCH = 6


def crowded(*roots: object, most: int = MOST) -> list[str]:
    """Every container reachable from these that holds more than it should, by its path."""
    seen: set[int] = set()
    found: list[str] = []
    left: list[tuple[str, object]] = [(type(root).__name__, root) for root in roots]
    while left:
        path, value = left.pop()
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type, ModuleType)):
            continue
        seen.add(id(value))
        sized = isinstance(value, (Mapping, Set, list, tuple, deque, bytearray, array))
        if sized and len(value) > most and not path.endswith(".ended._pages[]"):
            found.append(f"{path}: {len(value)}")
        left += [(path + step, part) for step, part in parts_of(value)]
    return found


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """What hangs on a value, and how it is reached from there."""
    if isinstance(value, Mapping):
        yield from (("[key]", key) for key in value)
        yield from (("[]", part) for part in value.values())
    elif isinstance(value, (Set, list, tuple, deque)):
        yield from (("[]", part) for part in value)
    elif isinstance(value, MethodType):
        yield "", value.__self__
    elif isinstance(value, FunctionType):
        yield from (("()", cell.cell_contents) for cell in value.__closure__ or ())
    else:
        names = [*getattr(value, "__dict__", ())]
        names += [name for kind in type(value).__mro__ for name in slots_of(kind)]
        yield from ((f".{name}", getattr(value, name, None)) for name in names)


def slots_of(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__") or kind.__dict__.get("__struct_fields__")
    return slots if isinstance(slots, tuple) else ()


def play_jobs(stage: Stage, count: int) -> None:
    """Short jobs of ever new shapes, on a site that is never empty; every fourth is an array."""
    for number in range(count):
        wishes = {"cpus": 1 + number % 7 / 8, "mem": 1 + number * 7 % 4001}
        if number % 5 == 0:
            wishes |= {"gpus": 1, "gpu_mem": 1 + number * 13 % 30_000}
        limit_s = 10 + number * 11 % 3001 if number % 4 else 2
        job = spec(user=f"user{number % 6}", time_limit_s=limit_s, **wishes)
        if number % 4:
            stage.submit(job, runs_s=1 + number % 2)
        else:
            submit_array(stage, job, 5)
        if number % BATCH == BATCH - 1:
            stage.run()
            while stage.waiting:
                stage.step()
            stage.plans.clear()
            stage.cluster.take_dirty()


def submit_array(stage: Stage, job: JobSpec, count: int) -> None:
    first = stage.cluster.ids.next
    submitted = ev.ArraySubmitted(
        array=first, uid=f"u{first}", spec=job, runs=(IndexRun(0, count - 1),), count=count,
        eligible=True,
    )  # fmt: skip
    stage.tell(submitted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "items"),
    [
        pytest.param(Policy(), 4_000, id="priority"),
        pytest.param(DEFAULT, 10_000, id="default"),
        pytest.param(PRESETS["conservative"], 4_000, id="conservative"),
        pytest.param(Policy(place=PlaceRules(strategy="best-fit")), 4_000, id="best fit"),
    ],
)
def test_nothing_grows_with_the_jobs_that_have_ended(policy, items):
    stage = Stage([node(name, cpus=2, gpus=1) for name in "abcd"], policy, checked=False)

    # With the elements of arrays that is twice as many jobs.
    play_jobs(stage, items)
    busy = crowded(stage.cluster, stage.scheduler)
    stage.play()

    assert busy == []
    assert stage.cluster.jobs == {}
    assert crowded(stage.cluster, stage.scheduler) == []


@pytest.mark.parametrize("preset", ["default", "conservative", "lab"])
def test_a_scheduler_forgets_jobs_that_end_long_before_they_were_expected_to(preset):
    """Each is of a shape of its own, runs for a second and was expected to run for a day."""
    stage = Stage([node(name, cpus=2, gpus=1) for name in "ab"], PRESETS[preset], checked=False)

    for number in range(300):
        wishes = {"cpus": 1 + number % 7 / 8, "mem": 1 + number, "gpus": int(number % 5 == 0)}
        job = spec(
            user=f"user{number % 6}", priority=10 + number % 60, preemptible=True,
            estimate_s=86_400 + number, **wishes,
        )  # fmt: skip
        stage.submit(job, runs_s=1)
        if number % BATCH == BATCH - 1:
            stage.run()
            while stage.waiting:
                stage.step()

    found = crowded(stage.scheduler, most=240)
    assert [path for path in found if "cluster." not in path] == []
