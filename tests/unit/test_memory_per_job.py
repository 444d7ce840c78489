"""What a job costs in the memory of the controller: next to nothing once it has ended."""

import gc
import sys
import types

import pytest

from rota.testing.scene import Scene

#: What is there once, whatever is scheduled.
CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)
#: A byte for how it ended, and room that lists keep in advance.
ENDED_BYTES, QUEUED_BYTES = 64, 4096
#: What is learned of the newest jobs of a kind is full by then.
WARM = 700


def bytes_of(scene: Scene) -> int:
    """All that the controller holds, without its store and what the scene remembers for tests."""
    seen = {id(scene), id(scene.store)}
    found, size = [scene.controller], 0
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, CODE):
            seen.add(id(one))
            size += sys.getsizeof(one)
            found += gc.get_referents(one)
    return size


def run(scene: Scene, jobs: int) -> None:
    for _ in range(jobs):
        job = scene.submit()
        scene.tick()
        scene.finish(job)


@pytest.mark.slow
def test_a_finished_job_leaves_next_to_nothing_behind():
    scene, jobs = Scene(), 600
    run(scene, WARM)
    before = bytes_of(scene)

    run(scene, jobs)

    assert scene.cluster.jobs == {}
    assert bytes_of(scene) - before < ENDED_BYTES * jobs


@pytest.mark.slow
def test_a_job_that_waits_costs_a_few_kilobytes_and_gives_them_back():
    scene, jobs = Scene(), 300

    def queue_and_cancel() -> int:
        empty = bytes_of(scene)
        waiting = [scene.submit(hold=True) for _ in range(jobs)]
        queued = bytes_of(scene) - empty
        scene.cancel(*waiting)
        return queued

    # Room that tables take once is kept, and used again.
    queue_and_cancel()
    before = bytes_of(scene)
    queued = queue_and_cancel()

    assert queued < QUEUED_BYTES * jobs
    assert bytes_of(scene) - before < ENDED_BYTES * jobs
