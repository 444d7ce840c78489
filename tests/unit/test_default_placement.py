"""Where the default puts jobs: it strands no devices, packs, and spreads only where asked to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rota.core.derived.demand import Demand
from rota.core.facts.health import Health
from rota.core.facts.job import RestartPolicy
from rota.core.facts.placing import Operator, Placement, Selector, Taint, TaintEffect
from rota.core.facts.policy import Mixing, PlaceRules, Policy
from rota.scheduling.place.fragments import Typical
from rota.scheduling.place.free import Free, Total
from rota.scheduling.place.node_room import WHOLE
from rota.scheduling.place.stranding import FINEST, Stranding
from rota.testing.stage import Stage, node, role, spec


def a_stage(*nodes, **rules) -> Stage:
    return Stage(nodes, Policy(place=PlaceRules(**rules)))


def placed(stage: Stage, **words) -> list[str]:
    """The nodes of a new job, task by task; none while it waits."""
    job = stage.submit(spec(**words))
    stage.run()
    return stage.nodes_of(job)


def device_of(stage: Stage, **words) -> tuple[str, tuple[int, ...]]:
    job = stage.submit(spec(**words))
    stage.run()
    (attempt,) = stage.cluster.jobs[job].live_attempts
    return attempt.allocation.node, attempt.allocation.devices


def test_cpu_jobs_stay_off_gpu_nodes_as_long_as_others_have_room():
    stage = a_stage(node("box", cpus=64, gpus=8), node("plain", cpus=4))

    found = [placed(stage, cpus=2) for _ in range(3)]

    assert found == [["plain"], ["plain"], ["box"]]


def test_cpu_jobs_on_gpu_nodes_go_where_the_gpus_do_not_need_the_cpus():
    rich, poor = node("rich", cpus=64, gpus=2), node("poor", cpus=32, gpus=8)
    stage = a_stage(poor, rich)
    placed(stage, cpus=4, gpus=1, placement=Placement(nodes=("rich",)))

    assert placed(stage, cpus=8) == ["rich"]


def test_cpu_jobs_fill_a_node_before_they_open_another():
    stage = a_stage(*(node(name, cpus=4) for name in "abc"))

    found = [placed(stage, cpus=2) for _ in range(4)]

    assert found[0] == found[1]
    assert found[2] == found[3] != found[0]


def test_a_half_gpu_job_goes_to_the_gpu_that_is_cut_already():
    stage = a_stage(node("a", cpus=8, gpus=2), node("b", cpus=8, gpus=2))
    first = device_of(stage, gpus=1, gpu_part=0.5)

    assert device_of(stage, gpus=1, gpu_part=0.5) == first


def test_a_share_leaves_the_node_whole_that_whole_jobs_can_use():
    fits = node("fits", cpus=16, gpus=2)
    # The CPUs here suffice for shares alone.
    starved = node("starved", cpus=2, gpus=2)
    stage = a_stage(fits, starved)
    whole = [spec(cpus=8, gpus=1) for _ in range(2)]
    for job in whole:
        stage.submit(job)

    share = stage.submit(spec(cpus=1, gpus=1, gpu_part=0.5))
    stage.run()

    assert stage.nodes_of(share) == ["starved"]


def test_one_gpu_jobs_leave_no_node_with_gpus_and_without_the_cpus_for_them():
    stage = a_stage(node("a", cpus=16, gpus=4), node("b", cpus=64, gpus=4))
    for _ in range(2):
        stage.submit(spec(cpus=4, gpus=1, placement=Placement(nodes=("a",))))
    stage.run()

    # On the first node it would take the CPUs of the other free GPU with it.
    assert placed(stage, cpus=8, gpus=1) == ["b"]


def test_a_gang_of_whole_gpus_lies_on_as_few_nodes_as_possible():
    stage = a_stage(*(node(name, cpus=16, gpus=4) for name in "abc"))
    placed(stage, gpus=1)

    found = placed(stage, gpus=1, tasks=8)

    assert len(set(found)) == 2


def test_a_gang_of_shares_of_pairs_lies_on_the_node_that_takes_all_of_it():
    stage = a_stage(node("small", cpus=8, gpus=2), node("wide", cpus=64, gpus=4))

    found = placed(stage, gpus=2, gpu_part=0.4, tasks=4)

    assert found == ["wide"] * 4


def test_gangs_leave_whole_nodes_for_gangs():
    stage = a_stage(*(node(name, cpus=16, gpus=4) for name in "abc"))
    first = placed(stage, gpus=1, tasks=2)

    second = placed(stage, gpus=1, tasks=2)

    assert {*first} == {*second}


def test_with_spread_every_job_takes_the_emptiest_node():
    stage = a_stage(*(node(name, cpus=8, gpus=2) for name in "abc"), spread=True)

    cpu_jobs = [placed(stage, cpus=1) for _ in range(3)]
    gpu_jobs = [placed(stage, cpus=1, gpus=1) for _ in range(3)]

    assert sorted(cpu_jobs) == sorted(gpu_jobs) == [["a"], ["b"], ["c"]]


def test_services_are_spread_and_the_jobs_beside_them_are_not():
    stage = a_stage(*(node(name, cpus=8) for name in "abc"))

    again = [placed(stage, cpus=2, restart=RestartPolicy.ALWAYS) for _ in range(2)]
    watched = placed(stage, cpus=2, ports=("http",), health=Health(port="http"))
    jobs = [placed(stage, cpus=2) for _ in range(3)]

    assert sorted([*again, watched]) == [["a"], ["b"], ["c"]]
    assert jobs[0] == jobs[1] == jobs[2]


def test_affinity_wins_over_what_is_stranded():
    stage = a_stage(node("a", cpus=8, gpus=2), node("b", cpus=8, gpus=2, rack="x"))
    device_of(stage, gpus=1, gpu_part=0.5, placement=Placement(nodes=("a",)))
    wish = Placement(selectors=(Selector("rack", Operator.EQ, ("x",), weight=10),))

    found = device_of(stage, gpus=1, gpu_part=0.5, placement=wish)

    assert found[0] == "b"


def test_data_and_cost_win_over_what_is_stranded():
    near = a_stage(node("a", gpus=2), node("b", gpus=2, data="imagenet"))
    cheap = a_stage(node("a", gpus=2, cost="4"), node("b", gpus=2, cost="1"))
    for stage in (near, cheap):
        placed(stage, gpus=1, gpu_part=0.5, placement=Placement(nodes=("a",)))

    by_data = placed(near, gpus=1, gpu_part=0.5, placement=Placement(data=("imagenet",)))

    assert by_data == ["b"]
    assert placed(cheap, gpus=1, gpu_part=0.5) == ["b"]


def test_a_node_to_avoid_is_avoided_though_it_strands_less():
    old = (Taint("old", effect=TaintEffect.AVOID),)
    stage = a_stage(replace(node("a", gpus=2), taints=old), node("b", gpus=2))
    placed(stage, gpus=1, gpu_part=0.5, placement=Placement(nodes=("a",)))

    assert placed(stage, gpus=1, gpu_part=0.5) == ["b"]


def test_starts_change_nothing_about_what_is_expected():
    stage = a_stage(node("a", cpus=8, gpus=2))
    for _ in range(3):
        stage.submit(spec(gpus=1))
    waiting = dict(stage.cluster.census.demand.tasks)

    stage.run()

    assert stage.cluster.census.demand.tasks == waiting
    assert sum(waiting.values()) == 3


def test_the_last_job_of_a_sort_takes_the_sort_with_it():
    demand, job = Demand(), spec(gpus=1, tasks=2)

    demand.put(1, job, 5)
    demand.put(2, spec(cpus=4), 1)
    held = dict(demand.tasks)
    demand.put(1, job, 0)

    assert list(held.values()) == [10]
    assert demand.tasks == {}


def test_one_job_more_in_a_long_queue_is_no_news():
    demand, job = Demand(), spec(gpus=1)
    demand.put(1, job, 100)
    before = demand.version

    demand.put(2, job, 1)
    same = demand.version
    demand.put(3, job, 100)

    assert same == before
    assert demand.version > before


@given(
    cpus=st.integers(0, 96),
    lefts=st.lists(st.sampled_from((190, 350, 530, WHOLE)), max_size=8),
    part=st.sampled_from((0.0, 0.19, 0.5)),
)
def test_fits_stay_between_nothing_and_all(cpus, lefts, part):
    sorts = [Typical(0.5, role(cpus=4, gpus=1).request), Typical(0.5, role(gpus=8).request)]
    stranding, asked = Stranding(sorts), role(cpus=0, gpus=1, gpu_part=part).request
    total = Total(96_000, 1, 1, 8, 40_960, (("gpu", "A100"),))

    free = Free(cpus * 1000, 1, device_milli=tuple(sorted(lefts, reverse=True)))
    fit = stranding.score(asked, free, total)

    assert 0 <= fit < FINEST
    assert bool(fit) == any(left >= (part * 1000 or WHOLE) for left in lefts)


def test_a_mixed_site_may_allow_cpu_jobs_on_gpu_nodes():
    allowed = a_stage(
        node("box", cpus=4, gpus=1), node("plain", cpus=64), cpu_jobs_on_gpu_nodes=Mixing.ALLOW
    )

    assert placed(allowed, cpus=4) == ["box"]


def test_first_fit_comes_back_to_a_node_that_a_job_has_left():
    stage = a_stage(*(node(name, cpus=1) for name in "abc"), strategy="first-fit")
    stage.submit(spec(cpus=1), runs_s=10)
    stage.submit(spec(cpus=1), runs_s=900)
    stage.run()
    stage.now_s += 5
    stage.step()

    assert placed(stage, cpus=1) == ["a"]
    assert placed(stage, cpus=1) == ["c"]
