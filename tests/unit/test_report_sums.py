"""What a report says of jobs follows from the jobs alone."""

from __future__ import annotations

import pytest

from rota.api.site.report_sums import add_up, forecast, percentile
from rota.api.views.quota_use import quota_uses
from rota.controller.commands import commands as cmd
from rota.core.facts.gpu_use import GpuFigures
from rota.core.facts.tenant import Limits, Project, Quota
from rota.rpc.messages import Seen, Sighting
from rota.testing.scene import ADMIN, Scene


def ended(scene: Scene, name: str, after_s: float, code: int = 0, **figures: object) -> None:
    attempt = scene.job(name).tasks[0].attempts[-1]
    scene.now_s += after_s
    scene.report(
        Seen(
            attempt.uid,
            Sighting.ENDED,
            started_s=attempt.started_s,
            ended_s=scene.now_s,
            exit_code=code,
            **figures,
        ),
        node="box",
    )


def jobs_of(scene: Scene) -> list:
    return list(scene.store.jobs_submitted(0.0, scene.now_s + 1, limit=1000))


def test_efficiency_idle_time_and_failures_are_added_up_by_account():
    scene = Scene(gpus=1, cpus=2)
    scene.submit("good", gpus=1, cpus=2, project="p")
    figures = GpuFigures(mean_use_percent=25.0, measured_s=3600.0, idle_s=1800.0, energy_j=7200.0)
    ended(scene, "good", 3600.0, cpu_s=1800.0, gpu=figures)
    scene.submit("bad", gpus=1, project="p")
    ended(scene, "bad", 7200.0, code=3)

    sums = add_up(jobs_of(scene))

    (account,) = sums.accounts.values()
    assert (account.jobs, account.completed, account.failed) == (2, 1, 1)
    assert account.cpu_used_s / account.cpu_held_s == pytest.approx(1800 / (2 * 3600 + 7200))
    assert account.gpu_busy_s / account.gpu_measured_s == 0.25
    assert account.gpu_idle_s == 1800
    ((cause, ends),) = sums.ends.items()
    assert (cause, ends.fault, ends.tries, ends.gpu_s) == ("exit", "program", 1, 7200)
    assert ends.job == scene.names["bad"]


def test_waits_count_from_when_nothing_but_room_was_missing():
    scene = Scene(cpus=1)
    scene.submit("first", cpus=1)
    scene.submit("second", cpus=1)
    ended(scene, "first", 100.0)
    ended(scene, "second", 5.0)

    waits = add_up(jobs_of(scene)).waits["default"]

    assert sorted(waits) == [0.0, pytest.approx(100.0)]


def test_a_period_takes_the_newest_jobs_up_to_a_bound():
    scene = Scene(cpus=1)
    for name in ("a", "b", "c"):
        scene.submit(name, hold=True)
        scene.now_s += 10

    found = scene.store.jobs_submitted(0.0, scene.now_s, limit=2)

    assert [job.spec.name for job in found] == ["c", "b"]


def test_a_forecast_is_the_line_through_the_days_before_and_never_below_nothing():
    rising = forecast([10.0, 20.0, 30.0, 40.0], 2)
    falling = forecast([30.0, 20.0, 10.0], 3)
    wavy = forecast([10.0, 12.0, 8.0, 10.0], 1)

    assert rising is not None
    assert falling is not None
    assert wavy is not None
    assert rising.expected == pytest.approx([50.0, 60.0])
    assert rising.spread == pytest.approx(0.0, abs=1e-9)
    assert falling.expected == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)
    assert wavy.spread > 1


def test_too_few_days_make_no_forecast():
    assert forecast([5.0, 6.0], 7) is None


def test_percentiles_are_values_that_were_seen():
    assert [percentile([1.0, 2.0, 3.0, 4.0], part) for part in (0.0, 0.5, 0.95)] == [1.0, 3.0, 4.0]


def test_limits_are_told_with_what_is_held_of_them_below_too():
    scene = Scene(cpus=4)
    quota = Quota(hard=Limits(cpu_milli=4000, jobs=4))
    scene.ask(cmd.SetProject(actor=ADMIN, project=Project("lab", quota=quota)))
    scene.ask(cmd.SetProject(actor=ADMIN, project=Project("team", parent="lab")))
    scene.submit("job", cpus=3, project="team")

    uses = {(use.name, use.resource): use.part for use in quota_uses(scene.cluster)}

    assert uses == {("lab", "cpu"): 0.75, ("lab", "jobs"): 0.25}
