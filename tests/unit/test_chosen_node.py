"""Which node and which device a job gets where several would do, told on a stage."""

from __future__ import annotations

import msgspec
import pytest

from rota.core.changes import events as ev
from rota.core.facts.job import Role
from rota.core.facts.placing import Placement
from rota.core.facts.policy import PlaceRules, Policy
from rota.core.facts.resources import Request
from rota.core.facts.tenant import Limits, Quota, Reservation, User
from rota.scheduling.place.coming import Coming
from rota.scheduling.place.fragments import Typical
from rota.testing.stage import Stage, node, role, spec


def a_stage(*nodes, **rules) -> Stage:
    return Stage(nodes, Policy(place=PlaceRules(**rules)))


def placed(stage: Stage, *roles: Role, **wishes) -> list[str]:
    """The nodes of a new job, task by task; none while it waits."""
    job = stage.submit(spec(*roles, **wishes))
    stage.run()
    return stage.nodes_of(job)


def devices_of(stage: Stage, job: int) -> tuple[int, ...]:
    (attempt,) = stage.cluster.jobs[job].live_attempts
    return attempt.allocation.devices


def test_first_fit_takes_the_node_behind_one_that_left():
    stage = a_stage(node("a", cpus=1), node("b", gpus=4), strategy="first-fit")
    before = placed(stage, gpus=1)

    stage.tell(ev.NodeRemoved(node="a"))
    after = placed(stage, gpus=1)

    assert (before, after) == (["b"], ["b"])


def test_a_gang_of_roles_goes_to_the_group_with_the_least_room_for_its_largest_role():
    narrow = [node(f"narrow{number}", cpus=3, rack="x") for number in range(4)]
    stage = a_stage(*narrow, node("wide", cpus=17, rack="y"))
    lead, workers = role(name="lead"), role(name="worker", cpus=2, tasks=4)

    found = placed(stage, lead, workers, placement=Placement(topology="rack"))

    assert len(found) == 5
    assert "wide" not in found


def test_a_job_that_has_its_nodes_to_itself_gets_no_more_of_them_than_its_quota_lets_it():
    stage = a_stage(node("a"), node("b"), node("c"))
    stage.tell(ev.UserSet(user=User("alice", quota=Quota(hard=Limits(cpu_milli=9_000)))))
    alone = Placement(exclusive=True)

    three = placed(stage, cpus=3, tasks=3, placement=alone)
    two = placed(stage, cpus=3, tasks=2, placement=alone)

    assert three == []
    assert sorted(two) == ["a", "b"]


def test_an_elastic_job_with_nodes_to_itself_starts_with_as_many_as_its_quota_lets_it():
    stage = a_stage(node("a"), node("b"), node("c"))
    stage.tell(ev.UserSet(user=User("alice", quota=Quota(hard=Limits(cpu_milli=9_000)))))

    found = placed(stage, cpus=2, tasks=6, at_least=2, placement=Placement(exclusive=True))

    assert sorted(found) == ["a", "a", "b", "b"]


def test_fgd_leaves_room_for_the_usual_share_on_a_device_in_use():
    stage = a_stage(node("a", gpus=2), strategy="fgd")
    stage.scheduler.coming = Coming((Typical(1.0, role(gpus=1, gpu_part=0.5).request),))
    first, second = (stage.submit(spec(gpus=1, gpu_part=part)) for part in (0.4, 0.2))

    stage.run()

    # Beside the first there would be less than a half left, on the other card there is more.
    assert devices_of(stage, first) != devices_of(stage, second)


def test_fgd_leaves_the_choice_of_whole_and_of_several_devices_to_the_policy():
    stage = a_stage(node("a", gpus=4), strategy="fgd", devices="sequential")
    stage.scheduler.coming = Coming((Typical(1.0, role(gpus=1, gpu_part=0.5).request),))
    both = stage.submit(spec(gpus=2, gpu_part=0.5))
    whole = stage.submit(spec(gpus=1))

    stage.run()

    assert (devices_of(stage, both), devices_of(stage, whole)) == ((0, 1), (2,))


def test_a_job_without_devices_starts_though_it_says_that_it_would_share_them():
    for strategy in ("score", "best-fit", "first-fit"):
        stage = a_stage(node("a"), strategy=strategy)

        assert placed(stage, Role(request=Request(shared=True))) == ["a"]


def test_cpus_are_those_of_the_first_domain_where_the_device_is_there():
    far = node("a", cpus=4, gpus=2)
    stage = a_stage(msgspec.structs.replace(far, numa_cpus=((2, 3), (0, 1))))
    job = stage.submit(spec(cpus=2, gpus=1))

    stage.run()

    (attempt,) = stage.cluster.jobs[job].live_attempts
    assert (attempt.allocation.devices, attempt.allocation.cpus) == ((0,), (2, 3))


def test_first_fit_goes_back_to_a_node_that_a_longer_job_of_the_same_size_could_not_have():
    stage = a_stage(node("a", cpus=4), node("b", cpus=4), strategy="first-fit")
    stage.reserve(Reservation(1, "bob", stage.now_s + 100, stage.now_s + 900, nodes=("a",)))
    long = stage.submit(spec(cpus=1, priority=90, time_limit_s=3600))
    short = stage.submit(spec(cpus=1, time_limit_s=50))

    stage.run()

    assert (stage.nodes_of(long), stage.nodes_of(short)) == (["b"], ["a"])


@pytest.mark.parametrize("strategy", ["score", "best-fit"])
@pytest.mark.parametrize("tasks", [2, 3])
def test_a_gang_goes_to_the_node_that_takes_all_of_it_before_a_tighter_one(strategy, tasks):
    stage = a_stage(node("a", cpus=tasks - 1), node("b", cpus=8), strategy=strategy)

    assert placed(stage, tasks=tasks, cpus=1) == ["b"] * tasks


def test_gpu_packing_opens_the_idle_node_with_the_fewest_devices():
    stage = a_stage(node("a", gpus=8), node("b", gpus=2), strategy="gpu-packing")

    assert placed(stage, gpus=1) == ["b"]
