"""What an engine cannot do: such jobs are refused, kept off its nodes, or run elsewhere."""

import pytest

from rota.controller.commands import commands as cmd
from rota.core.facts.errors import Rejected
from rota.core.facts.health import Health
from rota.core.facts.job import Role
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Placement
from rota.core.facts.policy import PreemptMode
from rota.core.facts.resources import Request
from rota.testing.scene import ALICE, OPERATOR, Scene

TWO_ROLES = (Role("a"), Role("b", request=Request(cpu_milli=2000)))
SHARED = (Role(request=Request(device="gpu", device_count=1, device_milli=500, shared=True)),)
LACKS = {
    "runs no container images": {"image": "python:3.12"},
    "has no terminals for jobs": {"pty": True},
    "has no named ports for jobs": {"ports": ("web",)},
    "makes no health checks": {"health": Health("web")},
    "takes no bundles as working folders": {"bundle": "b" * 64},
    "sets no limits of jobs (ulimit)": {"ulimits": {"nofile": 64}},
    "gives jobs no standard input": {"stdin": "d" * 64},
    "sends jobs no signals but TERM and KILL": {"checkpoint_signal": "USR1"},
    "runs no jobs of several tasks": {"tasks": 2},
    "hands out whole devices only, by their count": {"roles": SHARED},
}


def engine(*features: str, name: str = "n1.hpc") -> NodeSpec:
    return NodeSpec(name, 4000, 8000, engine="hpc", features=features)


def site(*nodes: NodeSpec) -> Scene:
    scene = Scene(nodes=0)
    for spec in nodes:
        scene.add_node(spec)
    return scene


@pytest.mark.parametrize(("words", "wish"), [*LACKS.items()], ids=lambda value: str(value)[:20])
def test_what_its_only_engine_cannot_do_is_refused_at_submit_in_one_line(words, wish):
    scene = site(engine())

    with pytest.raises(Rejected) as refused:
        scene.submit("job", **wish)

    assert str(refused.value) == f"engine hpc {words}, and all nodes here are those of engines"


@pytest.mark.parametrize("wish", [*LACKS.values()], ids=[words[:20] for words in LACKS])
def test_what_an_engine_cannot_do_runs_on_a_machine_that_can(wish):
    card = Device(index=0, uuid="g0", memory_mib=1000)
    scene = site(engine(), NodeSpec("own", 2000, 8000, devices=(card,)))

    scene.submit("job", **wish)

    assert {a.allocation.node for a in scene.job("job").live_attempts} == {"own"}


def test_a_job_that_names_the_nodes_of_an_engine_is_refused_for_what_that_cannot():
    scene = site(engine(), NodeSpec("own", 1000, 8000))

    with pytest.raises(Rejected, match="engine hpc has no terminals for jobs, and the job names"):
        scene.submit("job", pty=True, placement=Placement(nodes=("n1.hpc",)))


def test_why_says_which_feature_is_missing_on_which_engine():
    scene = site(engine(), NodeSpec("own", 1000, 8000))
    scene.submit("hog", placement=Placement(nodes=("own",)))

    scene.submit("job", image="python:3.12")

    assert "node n1.hpc: engine hpc runs no container images" in scene.lines("job")


def test_an_engine_that_runs_images_alone_takes_no_job_without_one():
    scene = site(engine("images", "images-only"))

    scene.submit("boxed", image="python:3.12")

    assert scene.is_running("boxed")
    with pytest.raises(Rejected, match="engine hpc runs no jobs without a container image"):
        scene.submit("plain")


def test_gangs_whose_tasks_differ_or_may_come_later_need_more_than_gangs():
    scene = site(engine("gangs", "whole-gangs"))

    scene.submit("gang", tasks=2)

    assert scene.is_running("gang")
    with pytest.raises(Rejected, match="runs no jobs whose tasks differ"):
        scene.submit("roles", roles=TWO_ROLES)
    with pytest.raises(Rejected, match="runs no jobs that grow and shrink"):
        scene.submit("elastic", roles=(Role(count=3, min_count=1),))


def test_a_job_on_an_engine_is_not_suspended_where_that_cannot_be():
    scene = site(engine())
    job = scene.submit("job")

    refused = scene.ask(cmd.Suspend(actor=OPERATOR, ids=(job,))).refused

    assert [one.reason for one in refused] == [f"job {job}: engine hpc cannot suspend jobs"]
    able = site(engine("suspend"))
    other = able.submit("job")
    able.ask(cmd.Suspend(actor=ALICE, ids=(other,)))
    assert able.job(other).suspended_s


@pytest.mark.parametrize(("node", "stands"), [(engine(), False), (engine("suspend"), True)])
def test_a_job_stands_still_for_another_only_where_its_engine_can_do_that(node, stands):
    scene = site(node)
    scene.set_policy("preemptive", preempt_mode=str(PreemptMode.SUSPEND))
    low = scene.submit("low", cpus=4, priority=1, preemptible=True)
    scene.pass_time(3600)

    scene.submit("high", cpus=4, priority=90, actor=OPERATOR)

    assert bool(scene.job(low).suspended_s) is stands
