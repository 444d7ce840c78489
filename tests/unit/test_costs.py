"""What work costs: prices, what is charged, budgets that hold jobs back, and estimates."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from rota.api.site.usage import budget_views, usage_rows
from rota.controller.commands import commands as cmd
from rota.core.changes import events as ev
from rota.core.facts.errors import Rejected
from rota.core.facts.job import JobSpec
from rota.core.facts.node import Device, NodeSpec
from rota.core.facts.placing import Operator, Placement, Selector
from rota.core.facts.site.prices import PriceRules, money, parse_rate
from rota.core.facts.tenant import Limits, Project, Quota, User
from rota.core.words.presets import PRESETS
from rota.scheduling.answers.outlook import outlook
from rota.scheduling.place.tariff import Estimate, estimate
from rota.testing.scene import ADMIN, ALICE, BOB, OPERATOR, Scene
from rota.testing.stage import Stage
from rota.testing.stage import node as a_node
from rota.testing.stage import spec as a_spec

HOUR_S = 3600


def priced(*rates: str, **scene: int) -> Scene:
    made = Scene(**scene)
    made.set_policy(prices_rates=list(rates), prices_currency="EUR")
    return made


def give_budget(scene: Scene, cost: float, **quota: object) -> None:
    limits = Quota(hard=Limits(cost=cost), **quota)
    scene.ask(cmd.SetProject(actor=ADMIN, project=Project("vision", quota=limits)))


def run_for(scene: Scene, job: int, seconds: float) -> None:
    scene.pass_time(seconds)
    scene.finish(job)


def spent(scene: Scene, user: str = "alice") -> float:
    rows = usage_rows(scene.cluster, scene.now_s - 7 * 86400, scene.now_s)
    return sum(row.period.cost for row in rows if row.user == user)


@pytest.mark.parametrize(
    ("rates", "cost"),
    [
        (["cpu 0.5"], 1.0),
        (["mem 0.25"], 1.0),
        (["gpu 3"], 3.0),
        (["gpu 3", "gpu/type=A100 4"], 4.0),
        (["gpu/type=A100 4", "gpu 3"], 3.0),
        (["gpu 3", "gpu/type=H100 4"], 3.0),
        (["gpu 3", "gpu/cluster=local 2"], 2.0),
        (["gpu 3", "gpu/cluster=hpc 2"], 3.0),
        (["gpu 3", "gpu/rack=a 2"], 3.0),
        # Of four CPUs, 16 GiB and two GPUs it has half.
        (["node 10"], 5.0),
        (["node 10", "cpu 1"], 7.0),
    ],
)
def test_an_hour_of_two_cpus_four_gib_and_one_gpu_costs_what_the_rates_say(rates, cost):
    scene = priced(*rates, gpus=2)

    job = scene.submit("job", cpus=2, mem=4096, gpus=1)
    run_for(scene, job, HOUR_S)

    assert spent(scene) == pytest.approx(cost)


@pytest.mark.parametrize(
    "text", ["gpus 3", "gpu", "gpu x", "gpu -1", "gpu/type 3", "gpu/=H100 3", "cpu/type=H100 3"]
)
def test_a_rate_that_says_nothing_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"is not valid; .*expected UNIT\[/LABEL=VALUE\] PRICE"):
        parse_rate(text)
    with pytest.raises(Rejected, match=r"^prices\.rates: "):
        priced(text)


def test_without_prices_nothing_costs_anything():
    scene = Scene()

    run_for(scene, scene.submit("job"), HOUR_S)

    assert spent(scene) == 0


def test_the_price_at_its_start_counts_until_an_attempt_ends():
    scene = priced("cpu 1")
    job = scene.submit("job")

    scene.set_policy(prices_rates=["cpu 100"])
    run_for(scene, job, HOUR_S)

    assert spent(scene) == pytest.approx(1.0)


def test_what_runs_counts_before_it_is_charged_and_only_once_after():
    scene = priced("cpu 1")
    job = scene.submit("job")
    scene.pass_time(HOUR_S)
    before = spent(scene)

    scene.finish(job)

    assert before == pytest.approx(1.0)
    assert spent(scene) == pytest.approx(1.0)


def test_a_node_of_its_own_is_paid_whole_and_once_for_all_tasks():
    scene = priced("node 10", "cpu 1")
    whole = {"placement": Placement(exclusive=True)}

    run_for(scene, scene.submit("job", tasks=2, **whole), HOUR_S)

    assert spent(scene) == pytest.approx(14.0)


def test_sums_are_those_of_all_attempts_on_record_whatever_happens():
    chance = random.Random(4)
    scene = priced("cpu 0.07", "mem 0.013", "gpu 2.5", "gpu/type=A100 4", cpus=8, gpus=4, nodes=2)
    jobs: list[int] = []
    for number in range(60):
        actor = chance.choice((ALICE, BOB))
        jobs.append(
            scene.submit(
                f"job{number}",
                actor=actor,
                cpus=chance.choice((1, 2, 3)),
                mem=chance.choice((0, 700, 4096)),
                gpus=chance.choice((0, 0, 1, 2)),
                tasks=chance.choice((1, 1, 2)),
                retries=chance.choice((0, 2)),
            )
        )
        scene.pass_time(chance.uniform(1, 4000))
        running = [job for job in jobs if scene.state(job) == "running"]
        for job in chance.sample(running, len(running) // 2):
            scene.finish(job, chance.choice((0, 0, 1)))
        if not number % 20:
            scene.restart()

    for actor in (ALICE, BOB):
        expected = 0.0
        for job in (scene.job(number) for number in jobs):
            if job.spec.user == actor.user:
                for attempt in (a for task in job.tasks for a in task.attempts if a.started_s):
                    end_s = attempt.ended_s or scene.now_s
                    expected += attempt.price * (end_s - attempt.started_s) / HOUR_S
        assert expected > 1
        assert spent(scene, actor.user) == pytest.approx(expected, abs=1e-3)


def test_a_budget_holds_jobs_back_and_why_says_what_is_spent_and_what_helps():
    scene = priced("cpu 10")
    give_budget(scene, 100.0)
    first = scene.submit("first", cpus=4, project="vision", time_limit_s=2 * HOUR_S)
    run_for(scene, first, 2 * HOUR_S)

    job = scene.submit("job", cpus=1, project="vision", time_limit_s=3 * HOUR_S)
    free = scene.submit("free", cpus=1, time_limit_s=3 * HOUR_S)

    assert scene.states(job, free) == ["queued", "running"]
    assert scene.why(job) == (
        "project vision has spent or spoken for 80.00 of 100.00, 30.00 wanted"
    )
    scene.update(job, time_limit_s=2 * HOUR_S)
    assert scene.state(job) == "running"


def test_running_jobs_speak_for_what_they_may_still_cost():
    scene = priced("cpu 10")
    give_budget(scene, 100.0)

    jobs = [scene.submit(f"job{n}", project="vision", time_limit_s=4 * HOUR_S) for n in range(3)]

    assert scene.states(*jobs) == ["running", "running", "queued"]
    scene.pass_time(HOUR_S)
    scene.finish(jobs[0])
    assert scene.state(jobs[2]) == "running"


def test_a_budget_is_free_again_when_its_period_has_passed():
    scene = priced("cpu 10")
    give_budget(scene, 100.0, period_s=86400)
    first = scene.submit("first", project="vision", time_limit_s=10 * HOUR_S)
    run_for(scene, first, 10 * HOUR_S)
    job = scene.submit("job", project="vision", time_limit_s=10 * HOUR_S)
    assert scene.state(job) == "queued"

    for _ in range(4):
        scene.pass_time(86400)

    assert scene.state(job) == "running"


def test_a_user_has_a_budget_too_and_the_report_lists_what_is_left():
    scene = priced("cpu 10")
    alice = User("alice", quota=Quota(hard=Limits(cost=50.0)))
    scene.ask(cmd.SetUser(actor=ADMIN, user=alice))
    run_for(scene, scene.submit("first", time_limit_s=HOUR_S), HOUR_S)

    (budget,) = budget_views(scene.cluster, scene.now_s)

    assert (budget.kind, budget.name, budget.hard, budget.spent) == ("user", "alice", 50.0, 10.0)
    assert scene.state(scene.submit("more", time_limit_s=5 * HOUR_S)) == "queued"


def test_a_job_that_costs_more_than_the_whole_budget_is_refused():
    scene = priced("cpu 10")
    give_budget(scene, 100.0)

    with pytest.raises(Rejected) as refused:
        scene.submit("job", project="vision", time_limit_s=11 * HOUR_S)

    assert str(refused.value) == ("cost: 110.00 for 11 hours: project vision has 100.00 to spend")


def test_a_job_that_waits_counts_with_the_cheapest_node_that_suits_it():
    scene = priced("gpu 10", "gpu/cluster=hpc 1", gpus=1)
    box = scene.cluster.nodes["box"].spec
    scene.add_node(replace(box, name="h1", labels={"cluster": "hpc"}))
    spec = scene.submission("job", gpus=1, cpus=1, time_limit_s=2 * HOUR_S).spec

    anywhere = estimate(scene.cluster, spec, ())
    local = estimate(scene.cluster, replace(spec, placement=Placement(cluster="local")), ())

    assert (anywhere.cost, local.cost) == (2.0, 20.0)


def test_cheap_nodes_are_taken_first_by_their_price():
    scene = priced("cpu 10", "cpu/cluster=hpc 1")
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))
    scene.add_node(NodeSpec("a", 4000, 16384, 10240))
    scene.add_node(NodeSpec("z", 4000, 16384, 10240, labels={"cluster": "hpc"}))

    job = scene.submit("job")

    assert scene.job(job).tasks[0].attempts[-1].allocation.node == "z"


USUAL = ("gpu/type=H100 4", "gpu/type=A100 2.5", "gpu/type=V100 1.5", "gpu/type=RTX4090 1")


@pytest.mark.parametrize(
    ("model", "cost"), [("H100", 4.0), ("A100", 2.5), ("V100", 1.5), ("RTX4090", 1.0)]
)
def test_an_estimate_adds_up_the_gpu_by_its_model_the_cpus_and_the_memory(model, cost):
    scene = priced(*USUAL, "cpu 0.05", "mem 0.01")
    device = Device(0, "g0", model=model, memory_mib=81920)
    scene.add_node(NodeSpec("gpu", 16000, 131072, 10240, devices=(device,)))
    spec = scene.submission("job", gpus=1, cpus=8, mem=65536, time_limit_s=7200).spec

    told = estimate(scene.cluster, spec, ())

    assert told.cost == pytest.approx(2 * (cost + 8 * 0.05 + 64 * 0.01))


@pytest.mark.parametrize(("least", "node"), [(-1, "spot"), (0, "plain"), (1, "good"), (2, "best")])
def test_a_critical_job_gets_the_cheapest_node_of_the_tier_that_it_needs(least, node):
    rates = [f"cpu/tier={tier} {price}" for tier, price in enumerate((1, 2, 4, 8))]
    scene = priced(*rates)
    scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True))
    for tier, name in enumerate(("spot", "plain", "good", "best")):
        scene.add_node(NodeSpec(name, 4000, 16384, 10240, labels={"tier": str(tier)}))
    above = Selector("tier", Operator.GT, (str(least),))

    job = scene.submit("job", placement=Placement(selectors=(above,)))

    assert scene.job(job).tasks[0].attempts[-1].allocation.node == node


def test_money_is_told_to_the_cent_and_small_sums_are_not_nothing():
    assert [money(98.2), money(0.0), money(0.0004), money(3, "EUR")] == [
        "98.20", "0.00", "0.0004", "3.00 EUR"
    ]  # fmt: skip


def test_a_spec_without_a_limit_is_taken_to_run_as_long_as_the_policy_assumes():
    scene = priced("cpu 1", "gpu 1", gpus=1)

    short: JobSpec = scene.submission("cpu").spec
    long: JobSpec = scene.submission("gpu", gpus=1).spec

    hours = [estimate(scene.cluster, spec, ()).hours for spec in (short, long)]
    assert hours == [1.0, 4.0]


def test_credits_that_are_spent_put_a_user_behind_all_who_have_some_left():
    scene = priced("cpu 1", cpus=1)
    credits = Quota(soft=Limits(cost=2.0), period_s=30 * 86400)
    scene.ask(cmd.SetUser(actor=ADMIN, user=User("", quota=credits)))
    run_for(scene, scene.submit("spends", actor=ALICE, time_limit_s=2 * HOUR_S), 2 * HOUR_S)
    runs = scene.submit("runs", actor=BOB, time_limit_s=HOUR_S)

    spender = scene.submit("first", actor=ALICE, priority=70, time_limit_s=HOUR_S)
    saver = scene.submit("second", actor=BOB, priority=20, time_limit_s=HOUR_S)
    scene.finish(runs)
    after = scene.state(spender), scene.state(saver)
    scene.finish(saver)

    assert after == ("queued", "running")
    assert scene.state(spender) == "running", "nobody else wants the room"


def spoken_for(scene: Scene) -> str:
    """What a job of the project that does not fit into its budget is told of it."""
    return scene.why(scene.submit("asks", cpus=3, project="vision", time_limit_s=3 * HOUR_S))


def test_a_job_that_runs_speaks_for_what_it_had_and_for_the_rest_of_its_limit():
    scene = priced("cpu 10")
    give_budget(scene, 100.0)
    scene.submit("runs", project="vision", time_limit_s=4 * HOUR_S)

    scene.pass_time(HOUR_S)

    assert spoken_for(scene) == (
        "project vision has spent or spoken for 40.00 of 100.00, 90.00 wanted"
    )


def test_a_job_that_was_placed_and_has_not_begun_speaks_for_its_whole_limit():
    scene = Scene(starts=False)
    scene.set_policy(prices_rates=["cpu 10"], prices_currency="EUR")
    give_budget(scene, 100.0)
    scene.submit("placed", project="vision", time_limit_s=4 * HOUR_S)

    scene.pass_time(60)

    assert "spoken for 40.00 of 100.00" in spoken_for(scene)


def test_a_job_beyond_its_estimate_speaks_for_what_it_had():
    scene = priced("cpu 10")
    give_budget(scene, 100.0)
    scene.submit("runs", project="vision", estimate_s=HOUR_S)

    scene.pass_time(3 * HOUR_S)

    assert "spoken for 30.00 of 100.00" in spoken_for(scene)


def test_of_a_job_that_began_before_the_period_only_the_part_within_it_counts():
    scene = priced("cpu 1")
    give_budget(scene, 100.0, period_s=86400)
    scene.submit("runs", cpus=1, project="vision", time_limit_s=72 * HOUR_S)
    scene.pass_time(48 * HOUR_S)

    job = scene.submit("asks", project="vision", time_limit_s=60 * HOUR_S)

    assert scene.why(job) == "project vision has spent or spoken for 48.00 of 100.00, 60.00 wanted"


def test_an_estimate_for_a_known_place_pays_each_task_and_a_node_of_its_own_once():
    """Four CPUs and 10 for the node; a task of one CPU alone pays a quarter of both."""
    scene = priced("node 10", "cpu 1")
    found = {}
    for exclusive in (False, True):
        wish = {"tasks": 2, "time_limit_s": 2 * HOUR_S}
        spec = scene.submission("job", placement=Placement(exclusive=exclusive), **wish).spec
        plan = outlook(scene.controller.scheduler, spec, scene.now_s, held=False)
        found[exclusive] = estimate(scene.cluster, spec, plan.allocations)

    assert found[False] == Estimate(hourly=2 * 14 / 4, hours=2.0)
    assert found[True] == Estimate(hourly=14.0, hours=2.0)
    assert (found[False].cost, found[True].cost) == (14.0, 28.0)


def test_a_gang_grows_by_as_many_gpus_as_its_budget_pays_for():
    """A GPU costs 3 for the hour that the gang may run, and 11 may be spent: that is three."""
    rules = replace(PRESETS["default"], prices=PriceRules(rates=("gpu 3",)))
    stage = Stage([a_node("a", cpus=8), a_node("b", cpus=8, gpus=4)], rules)
    spender = User("ann", quota=Quota(hard=Limits(cost=11.0)))
    stage.tell(ev.UserSet(user=spender))
    stage.submit(a_spec(gpus=3, time_limit_s=100, user="ben"), runs_s=100)
    gang = stage.submit(a_spec(tasks=4, at_least=1, gpus=1, time_limit_s=HOUR_S, user="ann"))
    stage.run()
    first = len(stage.nodes_of(gang))

    stage.step()

    assert stage.now_s == stage.begin_s + 100
    assert (first, len(stage.nodes_of(gang))) == (1, 3)
