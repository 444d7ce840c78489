"""What is counted as it happens: starts, backfills, evictions, lost work, warnings, failures."""

from __future__ import annotations

from typing import Any

from rota.controller.commands.commands import Idle, NoteGpus
from rota.controller.engine import Tick
from rota.controller.meters import Meters
from rota.core.facts.gpu_use import Overuse
from rota.testing.scene import ADMIN, Scene


class Metered(Scene):
    """A scene whose commits are read."""

    def __init__(self, **options: Any) -> None:
        self.meters = Meters()
        super().__init__(**options)

    def heed(self, tick: Tick) -> None:
        self.meters.read(tick.batch)
        self.meters.passed(*self.controller.last_pass)
        super().heed(tick)

    def count(self, name: str, **labels: str) -> float:
        return self.meters.registry.get_sample_value(name, labels) or 0.0


def test_a_start_ahead_of_others_is_told_from_an_ordinary_one():
    scene = Metered(cpus=4)
    scene.set_policy("easy")
    scene.submit("running", cpus=3, time_limit_s=1000)
    scene.submit("large", cpus=4, time_limit_s=1000)
    scene.submit("small", cpus=1, time_limit_s=100)

    assert scene.states("running", "large", "small") == ["running", "queued", "running"]
    assert scene.count("rota_decisions_total", kind="start") == 2
    assert scene.count("rota_backfills_total") == 1


def test_what_gave_way_is_counted_with_the_work_that_it_lost():
    scene = Metered(cpus=4)
    scene.set_policy("preemptive", preempt_min_runtime_s=0)
    scene.submit("meek", cpus=4, priority=10, preemptible=True)
    scene.pass_time(100)
    scene.submit("urgent", cpus=4, priority=70)
    scene.finish("meek", None, signal=15)

    assert scene.states("meek") == ["preempted"]
    assert scene.count("rota_preemptions_total") == 1
    assert scene.count("rota_decisions_total", kind="evict") == 1
    assert scene.count("rota_lost_work_seconds_total", resource="cpu") >= 400
    assert scene.count("rota_attempts_ended_total", cause="preempted") == 1


def test_a_gang_waits_once_and_a_second_try_is_no_first_start():
    scene = Metered(cpus=4)
    scene.submit("gang", tasks=2, cpus=1)
    scene.submit("again", cpus=1, retries=1)
    scene.finish("again", 1)
    scene.pass_time(3600)

    assert scene.count("rota_submit_to_start_seconds_count", gpus="no") == 2
    assert scene.count("rota_wait_seconds_count", gpus="no") == 3


def test_warnings_and_failures_of_gpus_are_counted():
    scene = Metered(gpus=1)
    scene.submit("job", gpus=1, gpu_mem=1000, shared=True)
    uid = scene.job("job").tasks[0].attempts[-1].uid
    uuid = scene.cluster.nodes["box"].spec.devices[0].uuid

    scene.ask(
        NoteGpus(
            actor=ADMIN,
            node="box",
            overuse=(Overuse(uid, 0, 9000),),
            idle=(Idle(uid, (0,), scene.now_s),),
            faults=((uuid, "Xid 79"),),
        )
    )

    assert scene.count("rota_gpu_warnings_total", kind="overuse") == 1
    assert scene.count("rota_gpu_warnings_total", kind="idle") == 1
    assert scene.count("rota_gpu_failures_total", node="box") == 1
