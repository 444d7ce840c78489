"""Several clusters: which one a job gets, what stays together, and what holds when one is away."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Conflict, Rejected
from rota.core.facts.features import Feature
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Placement, Taint
from rota.core.facts.site.clusters import Choice, Member, Vdc
from rota.core.facts.tenant import Limits
from rota.scheduling.answers.advice import explain_and_advise
from rota.scheduling.answers.cluster_health import cluster_states
from rota.testing.scene import ADMIN, BOB, OPERATOR, Scene

AWAY = Taint("engine", "away")


def machine(name: str, cluster: str, *, cpus: int = 4, engine: str = "", **labels: str) -> NodeSpec:
    able = tuple(sorted(set(Feature) - {Feature.IMAGES_ONLY})) if engine else ()
    marks = {"cluster": cluster, **labels}
    return NodeSpec(name, cpus * 1000, 16384, 10240, labels=marks, engine=engine, features=able)


def two_clusters(*, cpus: int = 4) -> Scene:
    """``box`` is local; ``h1`` and ``h2`` are the cluster hpc, behind the engine slurm-a."""
    scene = Scene(cpus=cpus)
    for name in ("h1", "h2"):
        scene.add_node(machine(name, "hpc", cpus=cpus, engine="slurm-a"))
    return scene


def place_of(scene: Scene, job: int) -> list[str]:
    return sorted({a.allocation.node for a in scene.job(job).live_attempts})


def bound(**fields: str) -> dict[str, object]:
    return {"placement": Placement(**fields)}


def make_vdc(scene: Scene, *clusters: str, **fields: object) -> None:
    members = tuple(Member(name) for name in clusters)
    vdc = Vdc(**{"name": "science", "clusters": members} | fields)
    scene.ask(cmd.SetVdc(actor=OPERATOR, vdc=vdc))


def states(scene: Scene) -> dict[str, str]:
    return {state.name: str(state.health) for state in cluster_states(scene.cluster)}


def test_a_job_runs_on_the_cluster_that_it_names():
    scene = two_clusters()

    local, remote = (scene.submit(name, **bound(cluster=name)) for name in ("local", "hpc"))

    assert place_of(scene, local) == ["box"]
    assert place_of(scene, remote)[0] in ("h1", "h2")


def test_a_job_runs_on_the_engine_that_it_names_and_why_says_so_of_others():
    scene = two_clusters()
    for name in ("h1", "h2"):
        scene.ask(cmd.DrainNode(actor=OPERATOR, node=name, drained=True))

    job = scene.submit("job", **bound(engine="slurm-a"))

    assert scene.state(job) == "queued"
    assert scene.why(job).startswith("cluster hpc is closed")
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="h2", drained=False))
    assert place_of(scene, job) == ["h2"]


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("cluster", "hpd", "did you mean hpc? (known: hpc, local)"),
        ("engine", "slurm", "did you mean slurm-a? (known: slurm-a)"),
        ("vdc", "science", "there is none yet"),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_the_nearest(field, value, hint):
    scene = two_clusters()

    with pytest.raises(Rejected) as refused:
        scene.submit("job", **bound(**{field: value}))

    assert str(refused.value) == f"{field}: there is no {field} '{value}'; {hint}"


def test_a_gang_never_spans_clusters():
    scene = two_clusters()

    gang = scene.submit("gang", cpus=4, tasks=3, scheduling_timeout_s=900)
    pair = scene.submit("pair", cpus=4, tasks=2)

    assert scene.state(gang) == "queued"
    assert place_of(scene, pair) == ["h1", "h2"]


def test_racks_of_one_name_in_two_clusters_are_two_racks():
    scene = Scene(cpus=1)
    for name, cluster in (("a1", "a"), ("b1", "b")):
        scene.add_node(machine(name, cluster, rack="r1"))

    gang = scene.submit("gang", cpus=4, tasks=2, placement=Placement(topology="rack"))

    assert scene.state(gang) == "queued"
    scene.add_node(machine("a2", "a", rack="r1"))
    assert place_of(scene, gang) == ["a1", "a2"]


def test_a_gang_that_waits_when_the_second_cluster_comes_stays_in_one():
    scene = Scene(cpus=4)
    gang = scene.submit("gang", cpus=4, tasks=2, scheduling_timeout_s=900)

    scene.add_node(machine("h1", "hpc"))

    assert scene.state(gang) == "queued"
    scene.add_node(machine("h2", "hpc"))
    assert place_of(scene, gang) == ["h1", "h2"]


def test_clusters_are_told_apart_after_a_restart():
    scene = two_clusters()
    gang = scene.submit("gang", cpus=4, tasks=3, scheduling_timeout_s=900)

    scene.restart()

    assert scene.state(gang) == "queued"


def test_a_label_of_an_operator_puts_a_node_into_a_cluster():
    scene = Scene(cpus=4)
    for name in ("h1", "h2"):
        scene.add_node(machine(name, "hpc"))
    gang = scene.submit("gang", cpus=4, tasks=3, scheduling_timeout_s=900)

    scene.ask(cmd.MarkNode(actor=OPERATOR, node="box", labels={"cluster": "hpc"}))

    assert place_of(scene, gang) == ["box", "h1", "h2"]


def test_a_waiting_job_moves_to_another_cluster_and_keeps_its_age():
    scene = two_clusters()
    scene.submit("full", cpus=4, **bound(cluster="local"))
    job = scene.submit("job", cpus=4, **bound(cluster="local"))
    before_s = scene.job(job).submitted_s
    scene.pass_time(60)

    scene.update(job, placement=Placement(cluster="hpc"))

    assert place_of(scene, job)[0] in ("h1", "h2")
    assert scene.job(job).submitted_s == before_s


def test_a_job_that_is_bound_to_nothing_goes_where_there_is_room():
    scene = two_clusters()

    jobs = [scene.submit(f"job{n}", cpus=4) for n in range(3)]

    assert sorted(name for job in jobs for name in place_of(scene, job)) == ["box", "h1", "h2"]


def test_a_cluster_whose_engine_is_silent_holds_its_jobs_and_others_go_elsewhere():
    scene = two_clusters()
    running = scene.submit("running", **bound(cluster="hpc"))
    away = machine("h1", "hpc", engine="slurm-a")
    for name in ("h1", "h2"):
        told = replace(away, name=name, taints=(AWAY,), remarks=("slurmctld does not answer",))
        scene.disconnect(name)
        scene.add_node(told)

    waiting = scene.submit("waiting", **bound(cluster="hpc"))
    free = scene.submit("free")

    assert states(scene) == {"hpc": "away", "local": "up"}
    assert scene.state(running) == "running"
    assert "cluster hpc is away since" in scene.why(running)
    assert place_of(scene, free) == ["box"]
    assert scene.why(waiting).startswith("cluster hpc is away since ")
    assert scene.why(waiting).endswith(
        "(slurmctld does not answer); its running job is held; it may go to local"
    )


def test_a_cluster_is_away_since_the_first_of_its_nodes_was():
    scene = two_clusters()
    for name in ("h2", "h1"):
        scene.pass_time(60)
        scene.disconnect(name)
        away = replace(machine(name, "hpc", engine="slurm-a"), taints=(AWAY,))
        scene.add_node(away)

    (hpc,) = [state for state in cluster_states(scene.cluster) if state.name == "hpc"]

    nodes = scene.cluster.nodes
    assert nodes["h2"].seen_s < nodes["h1"].seen_s
    assert hpc.since_s == nodes["h2"].seen_s


def test_a_job_that_only_a_silent_engine_could_run_is_not_called_impossible():
    scene = Scene(cpus=1)
    scene.add_node(replace(machine("h1", "hpc", engine="slurm-a"), taints=(AWAY,)))

    job = scene.submit("job", cpus=4)

    assert scene.why(job) == "node h1 is away"


@pytest.mark.parametrize("taint", [replace(AWAY, value="by hand"), replace(AWAY, key="own")])
def test_a_taint_of_the_site_does_not_make_an_engine_silent(taint):
    scene = Scene(cpus=1)
    scene.add_node(replace(machine("h1", "hpc", engine="slurm-a"), taints=(taint,)))

    assert states(scene)["hpc"] == "up"


def test_a_cluster_nobody_speaks_for_waits_and_one_that_is_drained_is_closed():
    scene = two_clusters()

    for name in ("h1", "h2"):
        scene.disconnect(name)
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))

    assert states(scene) == {"hpc": "waiting", "local": "closed"}


def test_a_virtual_data_centre_keeps_its_jobs_to_its_clusters_and_labels():
    scene = two_clusters()
    scene.add_node(machine("h3", "hpc", disk="ssd"))
    make_vdc(scene, "hpc", labels=(("disk", "ssd"),))

    first, second = (scene.submit(n, cpus=4, **bound(vdc="science")) for n in ("a", "b"))

    assert place_of(scene, first) == ["h3"]
    assert scene.state(second) == "queued"


def test_by_load_the_cluster_with_the_least_in_use_is_taken_whatever_a_single_node_has():
    scene = two_clusters(cpus=8)
    scene.submit("busy", cpus=8, **bound(cluster="hpc"))
    scene.submit("some", cpus=2, **bound(cluster="local"))
    make_vdc(scene, "hpc", "local", strategy=Choice.LOAD)

    job = scene.submit("job", **bound(vdc="science"))

    assert place_of(scene, job) == ["box"]


def test_by_load_the_busier_cluster_is_left_alone_though_it_comes_first():
    scene = two_clusters(cpus=8)
    scene.submit("busy", cpus=6, **bound(cluster="local"))
    make_vdc(scene, "local", "hpc", strategy=Choice.LOAD)

    job = scene.submit("job", **bound(vdc="science"))

    assert place_of(scene, job)[0] in ("h1", "h2")


def test_by_fit_the_node_is_taken_that_the_job_leaves_least_over_on():
    scene = two_clusters(cpus=8)
    scene.add_node(machine("s1", "small", cpus=2))
    make_vdc(scene, "hpc", "local", "small", strategy=Choice.FIT)

    job = scene.submit("job", cpus=2, **bound(vdc="science"))

    assert place_of(scene, job) == ["s1"]


def test_by_weight_priority_times_weight_decides():
    scene = two_clusters()
    members = (Member("local", 90, 1.0), Member("hpc", 50, 2.0))
    make_vdc(scene, clusters=members, strategy=Choice.WEIGHT)

    job = scene.submit("job", **bound(vdc="science"))

    assert place_of(scene, job)[0] in ("h1", "h2")


def test_by_affinity_preferred_clusters_come_in_their_order():
    scene = two_clusters()
    scene.add_node(machine("c1", "cloud"))
    make_vdc(scene, "hpc", "local", "cloud", strategy=Choice.AFFINITY, preferred=("cloud", "local"))

    jobs = [scene.submit(f"job{n}", cpus=4, **bound(vdc="science")) for n in range(3)]

    assert [place_of(scene, job)[0] for job in jobs[:2]] == ["c1", "box"]
    assert place_of(scene, jobs[2])[0] in ("h1", "h2")


def test_by_cost_the_cheapest_cluster_comes_first():
    scene = two_clusters()
    scene.set_policy(**{"prices.rates": ["cpu 2", "cpu/cluster=local 3", "cpu/cluster=hpc 1"]})
    make_vdc(scene, "hpc", "local", strategy=Choice.COST)

    jobs = [scene.submit(f"job{n}", cpus=4, **bound(vdc="science")) for n in range(3)]

    assert [place_of(scene, job)[0] for job in jobs] == ["h1", "h2", "box"]


@pytest.mark.parametrize("strategy", ["best-fit", "spread", "dotprod"])
def test_the_choice_of_a_centre_stands_above_every_strategy_of_placing(strategy):
    scene = two_clusters()
    scene.set_policy(**{"place.strategy": strategy})
    make_vdc(scene, "hpc", "local", strategy=Choice.AFFINITY, preferred=("local",))

    job = scene.submit("job", **bound(vdc="science"))

    assert place_of(scene, job) == ["box"]


def test_caps_of_a_centre_hold_jobs_back_in_all_and_per_user():
    scene = two_clusters()
    make_vdc(scene, "hpc", "local", limits=Limits(jobs=2), max_per_user=1)

    first = scene.submit("first", **bound(vdc="science"))
    second = scene.submit("second", **bound(vdc="science"))
    other = scene.submit("other", actor=BOB, **bound(vdc="science"))
    third = scene.submit("third", actor=ADMIN, **bound(vdc="science"))

    assert scene.states(first, second, other, third) == ["running", "queued", "running", "queued"]
    assert scene.why(second) == "alice in vdc science runs 1 of at most 1"
    assert scene.why(third) == "vdc science runs 2 of at most 2"
    scene.finish(first)
    assert scene.state(second) == "running"


def test_amounts_of_a_centre_count_as_often_as_it_overcommits():
    scene = two_clusters()
    make_vdc(scene, "hpc", "local", limits=Limits(cpu_milli=2000), overcommit=1.5)

    jobs = [scene.submit(f"job{n}", **bound(vdc="science")) for n in range(4)]

    assert scene.states(*jobs) == ["running", "running", "running", "queued"]
    assert scene.why(jobs[3]) == "vdc science holds 3 of at most 3 CPUs, 1 wanted"


def test_a_centre_with_jobs_stays_and_one_with_unknown_clusters_is_not_made():
    scene = two_clusters()
    make_vdc(scene, "hpc")
    scene.submit("job", **bound(vdc="science"))

    with pytest.raises(Conflict, match="vdc science still has 1 job"):
        scene.ask(cmd.RemoveVdc(actor=OPERATOR, vdc="science"))
    with pytest.raises(Rejected, match=r"clusters: there is no cluster 'hpx'; did you mean hpc\?"):
        make_vdc(scene, "hpx")


def test_centres_stay_when_rules_change_and_after_a_restart():
    scene = two_clusters()
    make_vdc(scene, "hpc")

    scene.set_policy("fifo")
    scene.restart()

    job = scene.submit("job", **bound(vdc="science"))
    assert place_of(scene, job)[0] in ("h1", "h2")


def test_the_load_counts_three_tenths_cpus_three_tenths_memory_and_four_tenths_devices():
    scene = Scene(cpus=10, gpus=10)
    gpus = tuple(Device(index=i, uuid=f"h{i}", model="A100") for i in range(10))
    scene.add_node(replace(machine("h1", "hpc", cpus=10), devices=gpus))
    scene.submit("cpus", cpus=6, **bound(cluster="local"))
    scene.submit("gpus", cpus=1, gpus=4, **bound(cluster="hpc"))
    make_vdc(scene, "hpc", "local", strategy=Choice.LOAD)

    job = scene.submit("job", gpus=1, **bound(vdc="science"))

    # local: 0.3 * 6/10 = 0.18; hpc: 0.3 * 1/10 + 0.4 * 4/10 = 0.19.
    assert place_of(scene, job) == ["box"]


def test_why_advises_another_cluster_where_that_would_start_the_job():
    scene = two_clusters()
    scene.submit("full", cpus=4, **bound(cluster="local"))
    job = scene.submit("job", cpus=4, **bound(cluster="local"))

    told = explain_and_advise(scene.controller.scheduler, job, scene.now_s)

    assert f"allow every cluster: rota update {job} --cluster ''" in told.help
