"""Two budgets of tries: one for failures, one for giving way; a gang has one of each."""

from rota.testing.scene import Scene


def crowded() -> Scene:
    """One machine, and rules under which a job may have to leave it at any time."""
    scene = Scene(cpus=4)
    scene.set_policy(preempt_enabled=True, preempt_min_runtime_s=0, preempt_max_per_job=1000)
    return scene


def give_way(scene: Scene, name: str, urgent: str) -> None:
    """The job leaves for a more urgent one, which then ends at once."""
    scene.submit(urgent, cpus=4, priority=75)
    scene.finish(name, signal=15)
    scene.finish(urgent)


def test_without_a_word_a_failure_ends_a_job_and_giving_way_does_not_a_hundred_times():
    scene = crowded()
    spec = scene.job(scene.submit("low", cpus=4, priority=10, preemptible=True)).spec

    give_way(scene, "low", "vip")
    back = scene.state("low")
    scene.finish("low", code=1)

    assert (spec.retries, spec.preempt_retries) == (0, 100)
    assert back == "running"
    assert scene.cause("low") == "exit: exit code 1"


def test_a_job_that_gave_way_as_often_as_it_may_ends_and_says_so():
    scene = crowded()
    scene.submit("low", cpus=4, priority=10, preemptible=True, preempt_retries=1, retries=5)

    give_way(scene, "low", "first")
    back = scene.state("low")
    give_way(scene, "low", "second")

    assert back == "running"
    assert scene.state("low") == "cancelled"
    assert scene.cause("low") == "preempted: gave way to job 3, and preempt_retries (1) are used up"


def test_neither_budget_uses_up_the_other():
    scene = crowded()
    low = {"cpus": 4, "priority": 10, "preemptible": True, "backoff_s": 0}
    scene.submit("low", preempt_retries=1, retries=1, **low)

    give_way(scene, "low", "vip")
    scene.finish("low", code=1)
    job = scene.job("low")

    assert scene.state("low") == "running"
    assert (job.preemptions, job.retries_used) == (1, 1)


def test_work_that_is_done_while_it_gives_way_is_done_whatever_the_budget():
    scene = crowded()
    scene.submit("low", cpus=4, priority=10, preemptible=True, preempt_retries=0)
    scene.submit("vip", cpus=4, priority=75)

    scene.finish("low", code=0)

    assert scene.states("low", "vip") == ["completed", "running"]


def test_the_members_of_a_gang_share_one_budget_and_all_try_again_or_none():
    scene = Scene(cpus=4)
    scene.submit("gang", tasks=2, retries=1, backoff_s=0)

    scene.finish("gang", code=1, task=0)
    scene.finish("gang", signal=15)
    second = [attempt.number for attempt in scene.job("gang").live_attempts]
    scene.finish("gang", code=2, task=1)
    scene.finish("gang", signal=15)

    assert second == [2, 2]
    assert scene.cause("gang") == "exit: exit code 2"
    assert [len(task.attempts) for task in scene.job("gang").tasks] == [2, 2]


def test_a_gang_that_gives_way_comes_back_whole_or_not_at_all():
    scene = crowded()
    low = {"cpus": 2, "tasks": 2, "priority": 10, "preemptible": True}
    scene.submit("gang", preempt_retries=1, **low)

    give_way(scene, "gang", "first")
    back = [attempt.number for attempt in scene.job("gang").live_attempts]
    give_way(scene, "gang", "second")

    assert back == [2, 2]
    assert scene.state("gang") == "cancelled"
