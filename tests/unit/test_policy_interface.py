"""Interfaces that other schedulers know: which job is next, what a project may hold."""

from rota.api.site.project_quotas import ProjectQuotas
from rota.controller.commands import commands as cmd
from rota.core.facts.job import Job
from rota.core.facts.states import JobState
from rota.core.facts.tenant import Limits, Project, Queue, Quota, User
from rota.quotas.api import ProjectResources, QuotaInfo, QuotaProvider, SyncsQuotas
from rota.scheduling.answers.next_job import CorePolicy, SchedulingPolicy
from rota.testing.scene import ADMIN, OPERATOR, Scene


def policy_of(scene: Scene) -> SchedulingPolicy:
    return CorePolicy(scene.controller.scheduler, scene.now_s)


def jobs_in(scene: Scene, state: JobState) -> list[Job]:
    return [scene.cluster.jobs[job] for job in scene.cluster.census.by_state[state]]


def next_names(scene: Scene) -> list[str]:
    """The jobs in their order: each one that was chosen is taken away."""
    pending, queue, found = jobs_in(scene, JobState.QUEUED), Queue(name="default"), []
    while (job := policy_of(scene).select_next_job(queue, pending)) is not None:
        found.append(job.spec.name)
        pending.remove(job)
    return found


def waiting_scene(preset: str) -> Scene:
    scene = Scene(cpus=1)
    scene.set_policy(preset)
    scene.submit("runs", cpus=1, time_limit_s=600)
    scene.submit("first", cpus=1, priority=30, time_limit_s=500)
    scene.submit("short", cpus=1, priority=30, time_limit_s=10)
    scene.submit("urgent", cpus=1, priority=70, time_limit_s=600)
    return scene


def test_the_next_job_is_the_first_by_the_rules_that_are_in_force():
    assert next_names(waiting_scene("fifo")) == ["first", "short", "urgent"]
    assert next_names(waiting_scene("priority")) == ["urgent", "first", "short"]
    assert next_names(waiting_scene("sjf"))[0] == "short"


def test_the_order_job_by_job_is_the_order_in_which_passes_start_them():
    scene = waiting_scene("priority")
    expected = next_names(scene)

    started, runs = [], "runs"
    while len(started) < len(expected):
        scene.finish(runs)
        (runs,) = [job.spec.name for job in jobs_in(scene, JobState.RUNNING)]
        started.append(runs)

    assert started == expected


def test_a_queue_that_starts_nothing_and_jobs_of_other_queues_give_nobody():
    scene = waiting_scene("fifo")
    pending, policy = jobs_in(scene, JobState.QUEUED), policy_of(scene)

    assert policy.select_next_job(Queue(name="other"), pending) is None
    assert policy.select_next_job(Queue(name="default", outside=True), pending) is None
    assert policy.select_next_job(Queue(name="default"), []) is None


def test_amounts_are_added_subtracted_down_to_nothing_and_compared_in_every_dimension():
    small, large = ProjectResources(1, 2, 0), ProjectResources(4, 8, 1)

    assert small + large == ProjectResources(5, 10, 1)
    assert small - large == ProjectResources()
    assert large - small == ProjectResources(3, 6, 1)
    assert small <= large
    assert not ProjectResources(1, 9, 0) <= large


def test_a_project_shows_its_limits_its_use_what_is_left_and_the_percentage():
    info = QuotaInfo("p", ProjectResources(10, 100, 0), ProjectResources(4, 25, 0))

    assert info.available == ProjectResources(6, 75, 0)
    assert info.percent == ProjectResources(40, 25, 0)
    assert QuotaInfo("p", ProjectResources(), ProjectResources(0, 0, 1)).percent.gpu == 100


def quota_scene() -> tuple[Scene, QuotaProvider]:
    scene = Scene(cpus=16, gpus=4)
    training = {"training": Limits(device_milli=1000)}
    hard = Limits(cpu_milli=8000, memory_mib=8192, device_milli=2000)
    for project in (
        Project("lab", quota=Quota(hard=hard, types=training)),
        Project("team", parent="lab", quota=Quota(hard=Limits(cpu_milli=6000))),
    ):
        scene.ask(cmd.SetProject(actor=OPERATOR, project=project))
    return scene, ProjectQuotas(scene.cluster, scene.now_s)


def test_what_jobs_hold_is_used_and_given_back_without_a_release():
    scene, quotas = quota_scene()
    scene.submit("job", cpus=2, mem=1024, gpus=1, project="team", type="training", actor=ADMIN)

    held = (quotas.get_quota("team").used, quotas.get_quota("lab", "training").used)
    allowed = (
        quotas.check_quota("team", ProjectResources(cpu=4)),
        quotas.check_quota("team", ProjectResources(cpu=4.5)),
        quotas.check_quota("team", ProjectResources(gpu=1)),
        quotas.check_quota("team", ProjectResources(gpu=1), "training"),
    )
    scene.finish("job")

    assert held == (ProjectResources(2, 1, 1), ProjectResources(2, 1, 1))
    assert allowed == (True, False, True, False)
    assert quotas.get_quota("lab").used == ProjectResources()


def test_an_allocation_is_a_check_as_a_start_itself_is_what_counts():
    scene, quotas = quota_scene()

    first = [quotas.allocate_quota("team", ProjectResources(cpu=5)) for _ in range(2)]
    scene.submit("job", cpus=5, project="team", actor=ADMIN)
    beyond_own = quotas.allocate_quota("team", ProjectResources(cpu=2))
    beyond_parent = quotas.allocate_quota("lab", ProjectResources(cpu=4))
    quotas.release_quota("team", ProjectResources(cpu=50))

    assert (first, beyond_own, beyond_parent) == ([True, True], False, False)
    assert quotas.get_quota("lab").used == ProjectResources(cpu=5)
    assert isinstance(quotas, SyncsQuotas)
    assert quotas.sync_quota_state("lab") == quotas.get_quota("lab")


def test_the_default_quota_of_users_says_nothing_of_a_project():
    scene, quotas = quota_scene()
    everybody = User("", quota=Quota(hard=Limits(cpu_milli=1000)))
    scene.ask(cmd.SetUser(actor=ADMIN, user=everybody))

    assert quotas.check_quota("team", ProjectResources(cpu=6))
    assert not quotas.check_quota("team", ProjectResources(cpu=7))


def test_a_project_without_a_record_has_no_limit():
    _, quotas = quota_scene()

    assert quotas.check_quota("nowhere", ProjectResources(1e9, 1e9, 1e9))
    assert quotas.get_quota("nowhere").percent == ProjectResources()
