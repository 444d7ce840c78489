"""Changes are tried without a trace, and what is advised or foretold was tried before."""

import random

import msgspec
import pytest

from rota.controller.commands import commands as cmd
from rota.core.changes.compare import differences, dump
from rota.core.facts.job import JobSpec
from rota.core.facts.placing import Affinity, Operator, Placement, Selector, Taint
from rota.core.facts.policy import Backfill, BackfillRules, Policy, PreemptRules
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Limits, Queue, Quota, Reservation, User
from rota.scheduling.answers.advice import TRIALS, Adviser, AskerRights, explain_and_advise
from rota.scheduling.answers.explain import Explanation, explain
from rota.scheduling.answers.outlook import Outlook, outlook
from rota.scheduling.answers.pledging import place_in_line
from rota.scheduling.answers.reasons import Expected
from rota.scheduling.answers.whatif import (
    DEPTH,
    Added,
    JobGone,
    Replaced,
    Respec,
    Resumed,
    Together,
    WhatIf,
    WithoutRecord,
    active,
)
from rota.scheduling.answers.whole_sweep import starting_now
from rota.testing.scene import ADMIN, ALICE, BOB, OPERATOR, Scene

AN_OPERATOR = AskerRights(operator=True, priority_max=100)


def advised(scene: Scene, job: str | int, rights: AskerRights | None = None) -> Explanation:
    item = scene.names.get(job, job)
    return explain_and_advise(scene.controller.scheduler, item, scene.now_s, rights)


def foreseen(scene: Scene, rights: AskerRights | None = None, **wishes: object) -> Outlook:
    hold = bool(wishes.pop("hold", False))
    spec = scene.submission("planned", **wishes).spec
    return outlook(scene.controller.scheduler, spec, scene.now_s, rights, held=hold)


def with_request(spec: JobSpec, **changes: object) -> JobSpec:
    role = spec.roles[0]
    request = msgspec.structs.replace(role.request, **changes)
    return msgspec.structs.replace(spec, roles=(msgspec.structs.replace(role, request=request),))


def spec_of(scene: Scene, job: str) -> JobSpec:
    return scene.cluster.jobs[scene.names[job]].spec


@pytest.fixture
def full() -> Scene:
    """A box with one card left, and a job that wants two."""
    scene = Scene(cpus=8, gpus=4)
    scene.submit("hog", cpus=4, gpus=3, time_limit_s=3600)
    scene.submit("job", cpus=1, gpus=2)
    return scene


class TestTrials:
    def test_a_smaller_request_starts_where_the_real_one_does_not(self, full: Scene):
        job, spec = full.names["job"], spec_of(full, "job")

        with WhatIf(full.controller.scheduler, full.now_s) as world:
            as_it_is = world.start_of(job, Respec(job, spec))
            smaller = world.start_of(job, Respec(job, with_request(spec, device_count=1)))
            again = world.start_of(job, Respec(job, spec))
            trials = world.trials

        assert trials == 3
        assert as_it_is is None
        assert smaller is not None
        assert smaller.allocations[0].devices == (3,)
        assert again is None

    def test_the_cluster_is_as_before_after_every_kind_of_change(self, full: Scene):
        job, hog = full.names["job"], full.names["hog"]
        full.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", state=QueueState.PAUSED)))
        array = full.submit("array", array="0-5%2", cpus=8)
        full.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True, note=""))
        before, cluster = dump(full.cluster), full.cluster
        lanes, changed = cluster.lanes, cluster.lanes.changed.end
        touched = cluster.agenda.touched.end
        spec = cluster.arrays[array].spec
        changes = [
            Respec(job, spec_of(full, "job")),
            Respec(array, with_request(spec, cpu_milli=1000)),
            Respec(array + 3, with_request(spec, cpu_milli=1000)),
            Added(spec),
            Added(spec, held=True),
            JobGone(hog),
            Resumed("box"),
            Replaced("accounts.users", "alice", User("alice", shares=7)),
            WithoutRecord("queues", "side"),
            active(cluster.queues["side"]),
        ]

        with WhatIf(full.controller.scheduler, full.now_s) as world:
            for change in changes:
                world.start_of(job, change)
            world.make(*changes)
            world.foretell()

        assert dump(cluster) == before
        assert cluster.lanes is lanes
        assert (cluster.lanes.changed.end, cluster.agenda.touched.end) == (changed, touched)

    def test_what_is_taken_back_is_gone_before_the_next_trial(self, full: Scene):
        job, hog = full.names["job"], full.names["hog"]
        before = dump(full.cluster)

        with WhatIf(full.controller.scheduler, full.now_s) as world:
            world.make(JobGone(hog))
            without = world.start_of(job)
            world.take_back()
            after, seen = world.start_of(job), dump(full.cluster)

        assert without is not None
        assert after is None
        assert seen == before

    def test_an_error_inside_leaves_no_trace_either(self, full: Scene):
        before = dump(full.cluster)

        with pytest.raises(KeyError), WhatIf(full.controller.scheduler, full.now_s) as world:
            world.make(JobGone(full.names["hog"]), Added(spec_of(full, "job")), JobGone(999))

        assert dump(full.cluster) == before

    @pytest.mark.parametrize("seed", range(6))
    def test_whoever_asks_changes_no_later_decision(self, seed: int):
        """Two equal stories; in one of them every waiting job is asked after every step."""
        asked, plain = Scene(cpus=8, gpus=4), Scene(cpus=8, gpus=4)
        pick = random.Random(seed)
        for number in range(40):
            _step(pick.randrange(1 << 30), number, asked, plain)
            for job in [*asked.cluster.lanes.where]:
                advised(asked, job, AN_OPERATOR)
            foreseen(asked, gpus=1)

        assert asked.log == plain.log
        assert differences(asked.cluster, plain.cluster) == []

    def test_a_removed_attempt_gives_back_its_room_in_the_trial_only(self, full: Scene):
        job, hog = full.names["job"], full.names["hog"]

        with WhatIf(full.controller.scheduler, full.now_s) as world:
            start = world.start_of(job, JobGone(hog))
            after = world.start_of(job)

        assert start is not None
        assert after is None

    def test_a_removed_job_gives_back_what_it_held_of_a_quota_and_no_more(self):
        scene = Scene(cpus=8)
        quota = Quota(hard=Limits(cpu_milli=4000))
        scene.cluster.accounts.users["alice"] = User("alice", quota=quota)
        gone = scene.submit("gone", cpus=2)
        scene.submit("stays", cpus=2)
        job = scene.submit("job", cpus=3)
        spec = spec_of(scene, "job")

        with WhatIf(scene.controller.scheduler, scene.now_s) as world:
            more = world.start_of(job, JobGone(gone), Respec(job, spec))
            as_much = Respec(job, with_request(spec, cpu_milli=2000))
            same = world.start_of(job, JobGone(gone), as_much)
            before = world.start_of(job, as_much)

        assert more is None
        assert same is not None
        assert before is None

    def test_a_removed_job_is_no_neighbour_any_more(self):
        scene = Scene()
        web = scene.submit("web", labels={"app": "web"})
        apart = Placement(affinities=(Affinity("app", "web", apart=True),))
        job = scene.submit("job", placement=apart)

        with WhatIf(scene.controller.scheduler, scene.now_s) as world:
            beside = world.start_of(job, Respec(job, spec_of(scene, "job")))
            alone = world.start_of(job, JobGone(web), Respec(job, spec_of(scene, "job")))

        assert beside is None
        assert alone is not None

    def test_one_element_of_an_array_can_be_changed_alone(self):
        scene = Scene(cpus=4)
        scene.submit("hog", cpus=3)
        array = scene.submit("array", array="0-3", cpus=2)
        smaller = with_request(scene.cluster.arrays[array].spec, cpu_milli=1000)

        with WhatIf(scene.controller.scheduler, scene.now_s) as world:
            start = world.start_of(array + 3, Respec(array + 3, smaller))

        assert start is not None
        assert (start.job, start.array) == (array + 3, 0)

    def test_starts_are_foretold_in_order_and_none_delays_another(self):
        scene = Scene(cpus=2)
        scene.submit("hog", cpus=2, time_limit_s=100)
        jobs = [scene.submit(f"j{n}", cpus=2, time_limit_s=50) for n in range(3)]

        with WhatIf(scene.controller.scheduler, scene.now_s) as world:
            foretold = world.foretell()

        assert [foretold[job].start_s - scene.now_s for job in jobs] == [100, 150, 200]


def _step(seed: int, number: int, *scenes: Scene) -> None:
    """One step of a story, the same in every scene."""
    for scene in scenes:
        pick = random.Random(seed)
        running = [*scene.cluster.census.by_state["running"]]
        if pick.random() < 0.35 and running:
            scene.finish(pick.choice(sorted(running)))
        elif pick.random() < 0.1:
            scene.pass_time(300)
        else:
            wishes = {
                "cpus": pick.randint(1, 6),
                "gpus": pick.choice([0, 0, 1, 2, 4]),
                "time_limit_s": pick.choice([0, 600, 7200]),
                "priority": pick.choice([40, 50, 60]),
                "actor": pick.choice([ALICE, BOB]),
            }
            if pick.random() < 0.2:
                wishes |= {"array": "0-3%2"}
            if pick.random() < 0.2:
                wishes |= {"tasks": 2, "cpus": 2, "gpus": min(2, wishes["gpus"])}
            scene.submit(f"job{number}", **wishes)


class TestAdvice:
    def test_the_most_gpus_that_start_it_now_are_advised(self, full: Scene):
        told = advised(full, "job")

        job = full.names["job"]
        assert told.help == [f"ask for 1 GPU instead of 2: rota update {job} --gpus 1"]

    @pytest.mark.parametrize(
        ("wishes", "options"),
        [
            ({"cpus": 6}, "--cpus 4"),
            ({"cpus": 1, "mem": 12288}, "--mem 8G"),
            ({"cpus": 1, "disk": 9216}, "--disk 4G"),
            ({"cpus": 1, "tasks": 6}, "--tasks 4"),
            ({"placement": Placement(exclusive=True)}, "--no-exclusive"),
            ({"placement": Placement(exclude=("box",))}, "--exclude ''"),
            ({"gpus": 1, "gpu_type": "H100"}, "--gpus 1 --gpu-type auto"),
            ({"gpus": 1, "gpu_mem": 81920}, "--gpus 1 --gpu-mem 40G"),
            (
                {
                    "placement": Placement(
                        selectors=(Selector("ssd"), Selector("rack", Operator.EQ, ("a",)))
                    )
                },
                "--constraint rack=a",
            ),
        ],
    )
    def test_the_smallest_change_of_a_wish_that_works_is_advised(self, wishes, options):
        scene = Scene(cpus=8, memory_mib=16384, disk_mib=10240, gpus=2)
        scene.cluster.nodes["box"].labels = {"rack": "a"}
        scene.submit("hog", cpus=4, mem=8192, disk=6144, gpus=1)
        scene.cluster.agenda.touch("box")

        job = scene.submit("job", scheduling_timeout_s=600, **wishes)

        assert advised(scene, "job").help[0].endswith(f": rota update {job} {options}")

    def test_a_card_with_room_for_sharers_is_advised_by_its_memory(self):
        scene = Scene(cpus=8, gpus=1)
        scene.submit("sharer", gpus=1, gpu_mem=24576, shared=True)

        job = scene.submit("job", gpus=1)

        assert advised(scene, "job").help == [
            f"share a GPU, with 16G on it: rota update {job} --gpus 1 --shared --gpu-mem 16G"
        ]

    def test_a_taint_is_advised_to_be_tolerated(self):
        scene = Scene()
        scene.cluster.nodes["box"].taints = (Taint("team", "vision"),)
        scene.cluster.agenda.touch("box")

        job = scene.submit("job", scheduling_timeout_s=600)

        assert advised(scene, "job").help == [f"tolerate team: rota update {job} --tolerate team"]

    def test_the_longest_limit_that_delays_nobody_is_advised(self):
        scene = Scene(cpus=4)
        scene.submit("hog", cpus=3, time_limit_s=7200)
        scene.submit("big", cpus=4, time_limit_s=3600, priority=75)
        job = scene.submit("job", cpus=1, time_limit_s=86400)

        assert advised(scene, "job").help == [
            f"limit it to 1h45m instead of 1d: rota update {job} --time 1h45m"
        ]

    def test_a_limit_is_advised_before_a_reservation(self):
        scene = Scene()
        scene.cluster.reservations[1] = Reservation(
            1, "bob", scene.now_s + 3600, scene.now_s + 7200, nodes=("box",)
        )
        scene.cluster.rules_changed()
        job = scene.submit("job")

        mine, operators = advised(scene, "job"), advised(scene, "job", AN_OPERATOR)

        assert mine.help[0] == f"limit it to 55m (it has none): rota update {job} --time 55m"
        assert operators.help[-1] == "remove reservation 1: rota reserve remove 1"
        assert mine.help[-1] == "remove reservation 1 (an operator can): rota reserve remove 1"

    def test_a_higher_priority_is_advised_only_as_far_as_the_asker_may_give_it(self):
        scene = Scene(cpus=4)
        scene.cluster.policy = Policy(preempt=PreemptRules(enabled=True, min_runtime_s=0))
        scene.submit("hog", cpus=4, priority=70, preemptible=True)
        job = scene.submit("job", cpus=4, priority=60)

        assert advised(scene, "job").help == []
        assert advised(scene, "job", AN_OPERATOR).help == [
            f"raise its priority from 60 to 100: rota update {job} --priority 100"
        ]

    def test_another_queue_is_advised_when_its_own_is_paused(self):
        scene = Scene()
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side")))
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="theirs", project="vision")))
        scene.ask(
            cmd.SetQueue(actor=OPERATOR, queue=Queue(name="default", state=QueueState.PAUSED))
        )
        job = scene.submit("job")

        assert advised(scene, "job").help == [
            f"move it to queue side: rota update {job} --queue side",
            "activate queue default (an operator can): rota queue-admin set default --state active",
        ]

    def test_a_full_group_is_advised_to_be_raised_or_one_of_its_jobs_put_back(self):
        scene = Scene(cpus=8)
        first = scene.submit("a", group="g", group_cap=1)
        scene.submit("b", group="g")

        told = advised(scene, "b").help

        assert told[0] == "raise the cap of group g to 2: rota group set g --max-concurrent 2"
        assert told[1].endswith(f": rota requeue {first} --hold")

    @pytest.mark.parametrize(
        ("limits", "wishes", "command"),
        [
            (Limits(jobs=1), {}, "rota quota set --user alice --jobs 2"),
            (Limits(cpu_milli=4000), {"cpus": 2}, "rota quota set --user alice --cpus 5"),
            (Limits(memory_mib=1024), {"mem": 512}, "rota quota set --user alice --mem 1.5G"),
            (Limits(device_milli=1000), {"gpus": 1}, "rota quota set --user alice --gpus 2"),
        ],
    )
    def test_a_quota_is_advised_to_be_raised_by_just_enough(self, limits, wishes, command):
        scene = Scene(cpus=8, gpus=2)
        scene.cluster.accounts.users["alice"] = User("alice", quota=Quota(hard=limits))
        scene.submit("a", cpus=3, mem=1024, gpus=1)

        scene.submit("b", **wishes)

        told = advised(scene, "b", AN_OPERATOR).help
        assert any(line.endswith(f": {command}") for line in told), told

    @pytest.mark.parametrize(
        ("wishes", "command"),
        [
            ({"hold": True}, "rota release {job}"),
            ({"begin_s": 5000.0}, "rota update {job} --begin now"),
            ({"after": {"hog": "after-ok"}}, "rota update {job} --no-dependencies"),
            (
                {"begin_s": 5000.0, "after": {"hog": "after-ok"}},
                "rota update {job} --begin now --no-dependencies",
            ),
        ],
    )
    def test_what_is_not_about_room_is_advised_to_be_taken_away(self, wishes, command):
        scene = Scene()
        scene.submit("hog")

        job = scene.submit("job", **wishes)

        assert advised(scene, "job").help[0].endswith(": " + command.format(job=job))

    def test_a_held_job_that_would_wait_on_says_for_what(self, full: Scene):
        job = full.submit("big", gpus=4, hold=True)

        told = advised(full, "big")

        assert told.lines[-1] == "even then it would wait: not enough free gpus"
        assert told.help == [f"release it: rota release {job}"]

    def test_a_held_array_that_would_wait_on_says_for_what(self, full: Scene):
        array = full.submit("big", gpus=4, hold=True, array="0-1")

        told = advised(full, "big")

        assert told.lines[-1] == "even then it would wait: not enough free gpus"
        assert told.help == [f"release it: rota release {array}"]

    def test_a_job_before_its_next_try_is_not_said_to_wait_on(self):
        scene = Scene()
        scene.submit("flaky", retries=2, backoff_s=10.0)
        scene.finish("flaky", 1)

        told = advised(scene, "flaky")

        assert told.reason == "next try in 10s"
        assert not [line for line in told.lines if "even then" in line]

    def test_a_drained_node_is_advised_to_be_resumed(self):
        scene = Scene()
        scene.ask(cmd.DrainNode(actor=OPERATOR, node="box", drained=True, note="fans"))
        scene.submit("job")

        told = advised(scene, "job", AN_OPERATOR)

        assert told.help == ["resume node box: rota node resume box"]

    def test_when_no_single_change_helps_it_says_so_and_when_it_would_start(self):
        scene = Scene(cpus=2, gpus=1)
        scene.submit("hog", cpus=2, gpus=1, time_limit_s=3600)
        scene.submit("job", cpus=1, gpus=1)

        told = advised(scene, "job")

        assert told.help == []
        assert told.lines[-1] == "no single change would start it now"
        assert "it is expected to start in 1h on box, if everything goes to plan" in told.lines

    def test_a_job_that_was_promised_nothing_is_told_when_it_should_start(self):
        scene = Scene(cpus=2)
        scene.submit("hog", cpus=2, time_limit_s=3600)
        scene.submit("first", cpus=2, time_limit_s=3600)
        scene.submit("second", cpus=2, time_limit_s=3600)
        array = scene.submit("third", cpus=2, time_limit_s=3600, array="0-1")

        told = {job: advised(scene, job) for job in ("first", "second", array, array + 1)}

        hours = {"first": 1, "second": 2, array: 3, array + 1: 3}
        for job, answer in told.items():
            start_s = scene.now_s + hours[job] * 3600
            promised = job == "first"
            assert answer.tree.expected == Expected(start_s, ("box",), promised=promised)
            how = "if everything goes to plan" + ("" if promised else " and no job passes another")
            assert f"it is expected to start in {hours[job]}h on box, {how}" in answer.lines

    def test_a_start_is_foretold_for_the_first_in_line_only(self):
        scene = Scene(cpus=1)
        scene.submit("hog", time_limit_s=60)
        for number in range(DEPTH + 1):
            scene.submit(f"job{number}", time_limit_s=60)

        last, beyond = (advised(scene, f"job{n}").tree for n in (DEPTH - 1, DEPTH))

        assert last.expected == Expected(scene.now_s + DEPTH * 60, ("box",), promised=False)
        assert beyond.ahead.jobs == DEPTH
        assert beyond.expected is None

    def test_nothing_is_expected_of_a_job_that_does_not_wait_for_room(self):
        scene = Scene(cpus=8)
        scene.submit("a", group="g", group_cap=1, time_limit_s=60)
        scene.submit("capped", group="g")
        scene.submit("held", hold=True)

        told = [advised(scene, job).tree.expected for job in ("capped", "held")]

        assert told == [None, None]

    def test_of_own_jobs_under_a_cap_the_one_that_has_run_least_is_advised_to_be_put_back(self):
        scene = Scene(cpus=8)
        scene.submit("old", group="g", group_cap=2)
        scene.pass_time(60)
        young = scene.submit("young", group="g")
        scene.pass_time(90)
        scene.submit("job", group="g")

        told = advised(scene, "job").help

        assert told == [
            "raise the cap of group g to 3: rota group set g --max-concurrent 3",
            f"put your job {young} back (it has run 1m30s): rota requeue {young} --hold",
        ]

    def test_jobs_of_others_are_not_advised_to_be_put_back(self):
        scene = Scene(cpus=8)
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="default", max_running=1)))
        scene.submit("theirs", actor=BOB)
        scene.submit("job")

        told = advised(scene, "job", AN_OPERATOR).help

        assert told == [
            "raise the cap of queue default to 2: rota queue-admin set default --max-running 2"
        ]

    def test_of_many_ways_the_three_that_cost_least_are_told(self):
        scene = Scene()
        for name in ("delta", "beta", "gamma", "alpha"):
            scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name=name)))
        paused = Queue(name="default", state=QueueState.PAUSED)
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=paused))
        job = scene.submit("job")

        told = advised(scene, "job", AN_OPERATOR).help

        assert told == [
            f"move it to queue {name}: rota update {job} --queue {name}"
            for name in ("alpha", "beta", "delta")
        ]

    def test_the_number_of_passes_is_bounded(self):
        scene = Scene(cpus=64, gpus=8)
        scene.submit("hog", cpus=60, gpus=8)
        for number in range(30):
            name = f"q{number}"
            scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name=name)))
        job = scene.submit("job", cpus=32, gpus=8, tasks=2, mem=4000, scheduling_timeout_s=60)
        tree = explain(scene.controller.scheduler, job, scene.now_s).tree

        with WhatIf(scene.controller.scheduler, scene.now_s) as world:
            item = scene.cluster.jobs[job]
            Adviser(world, job, item.spec, tree, AN_OPERATOR, item=item).find()
            trials = world.trials

        assert trials <= TRIALS

    @pytest.mark.parametrize("seed", range(4))
    def test_every_limit_and_amount_that_is_advised_starts_the_job_when_it_is_taken(self, seed):
        scene = Scene(cpus=16, gpus=8)
        pick = random.Random(seed)
        for number in range(30):
            _step(pick.randrange(1 << 30), number, scene)
        waiting = [job for job in scene.cluster.lanes.where if job in scene.cluster.jobs]
        for job in waiting:
            item = scene.cluster.jobs[job]
            tree = explain(scene.controller.scheduler, job, scene.now_s).tree
            with WhatIf(scene.controller.scheduler, scene.now_s) as world:
                found = Adviser(world, job, item.spec, tree, AskerRights(), item=item).find()
            gpus = [a for a in found if "--gpus" in a.command and "--gpu-" not in a.command]
            if gpus:
                count = int(gpus[0].command.rpartition(" ")[2])
                actor = ALICE if item.spec.user == "alice" else BOB
                changed = with_request(item.spec, device_count=count)
                scene.update(job, roles=changed.roles, actor=actor)
                assert scene.is_running(job), gpus


class TestOutlook:
    def test_a_job_that_fits_would_start_now_on_named_devices(self, full: Scene):
        seen = foreseen(full, gpus=1, time_limit_s=60)

        assert seen.starts
        assert [(held.node, held.devices) for held in seen.allocations] == [("box", (3,))]
        assert seen.start_s == full.now_s

    def test_nothing_is_submitted(self, full: Scene):
        before = dump(full.cluster)

        foreseen(full, gpus=1)
        foreseen(full, gpus=4)

        assert dump(full.cluster) == before

    def test_a_job_that_does_not_fit_says_why_when_and_which_option_helps(self, full: Scene):
        full.cancel("job")

        seen = foreseen(full, gpus=2)

        assert not seen.starts
        assert seen.reason == "not enough free gpus"
        assert seen.start_s == full.now_s + 3600
        assert seen.help == ["ask for 1 GPU instead of 2: --gpus 1"]

    def test_a_job_that_would_be_held_says_so(self):
        seen = foreseen(Scene(), hold=True)

        assert seen.start_s == 0.0
        assert (seen.starts, seen.reason) == (False, "held")

    def test_whoever_would_start_later_is_named(self):
        scene = Scene(cpus=4)
        scene.submit("hog", cpus=3, time_limit_s=3600)
        big = scene.submit("big", cpus=4, time_limit_s=3600)

        seen = foreseen(scene, cpus=1, time_limit_s=7200, priority=70)

        assert seen.starts
        assert [(late.job, late.later_s - late.start_s) for late in seen.delays] == [(big, 3600)]

    def test_what_is_foretold_leaves_the_rules_that_decide_about_the_job_as_they_are(self):
        scene = Scene(cpus=4)
        scene.cluster.policy = Policy(backfill=BackfillRules(kind=Backfill.NONE))
        scene.submit("hog", cpus=3, time_limit_s=3600)
        scene.submit("big", cpus=4, time_limit_s=3600)

        seen = foreseen(scene, cpus=1, time_limit_s=7200)
        scene.submit("job", cpus=1, time_limit_s=7200)

        assert seen.starts
        assert scene.is_running("job")

    def test_whoever_would_give_way_is_named(self):
        scene = Scene(cpus=4)
        scene.cluster.policy = Policy(preempt=PreemptRules(enabled=True, min_runtime_s=0))
        victim = scene.submit("victim", cpus=4, priority=10, preemptible=True)

        seen = foreseen(scene, cpus=4, priority=70)

        assert seen.starts
        assert seen.evicts == (victim,)


def test_changes_that_one_command_makes_are_tried_together(full: Scene):
    job, spec = full.names["job"], spec_of(full, "job")
    both = Together((JobGone(full.names["hog"]), Respec(job, spec)))

    with WhatIf(full.controller.scheduler, full.now_s) as world:
        start = world.start_of(job, both)

    assert start is not None
    assert start.allocations[0].devices == (0, 1)


class TestPlan:
    """What is said of a job that is not submitted."""

    def test_a_job_that_has_to_wait_is_told_when_it_starts_and_where(self, full: Scene):
        full.set_policy(preset="fifo")

        found = foreseen(full, cpus=1, gpus=2, time_limit_s=600)

        assert found.start_s == full.job("hog").started_s + 3600
        assert found.tree.expected == Expected(found.start_s, ("box",), False)
        sure = "if everything goes to plan and no job passes another"
        assert f"it is expected to start in 1h on box, {sure}" in found.lines

    @pytest.mark.parametrize(("elements", "cap", "starts"), [(3, 0, 3), (10, 0, 4), (10, 2, 2)])
    def test_as_many_elements_start_as_there_is_room_for_and_may_run(self, elements, cap, starts):
        scene = Scene(cpus=4)
        spec = scene.submission("sweep", cpus=1).spec

        found = starting_now(scene.controller.scheduler, spec, elements, cap, scene.now_s)

        assert found == starts
        assert scene.cluster.arrays == {}

    def test_the_jobs_before_a_new_one_are_counted_if_room_is_all_that_it_lacks(self, full: Scene):
        full.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", state=QueueState.PAUSED)))
        scheduler, spec = full.controller.scheduler, spec_of(full, "job")
        paused = msgspec.structs.replace(spec, queue="side")
        found = [place_in_line(scheduler, spec, full.now_s)]
        full.submit("next", cpus=1, gpus=2)

        found += [place_in_line(scheduler, one, full.now_s) for one in (spec, paused)]

        assert [place and place.ahead for place in found] == [1, 2, None]


class TestComingPreemption:
    """A job that will take the room of others is expected then, and not when they are done."""

    @pytest.fixture
    def taken(self) -> Scene:
        scene = Scene(cpus=4)
        rules = {"preempt.min_runtime_s": 20, "preempt.only_willing": False}
        scene.ask(cmd.SetPolicy(actor=ADMIN, preset="preemptive", rules=rules))
        scene.submit("hog", cpus=4, priority=10, time_limit_s=4 * 3600)
        scene.pass_time(2)
        return scene

    def test_why_names_the_moment_and_the_victims(self, taken: Scene):
        taken.submit("urgent", cpus=4, priority=75, time_limit_s=60)
        begun_s = taken.job("hog").started_s

        told = advised(taken, "urgent")
        again = advised(taken, "urgent")
        taken.pass_time(begun_s + 20 - taken.now_s)

        assert told.tree.expected == Expected(begun_s + 20, ("box",), False, (taken.names["hog"],))
        assert (
            f"it is expected to start in 18s on box, as job {taken.names['hog']} gives way to it "
            "then"
        ) in told.lines
        assert again.lines == told.lines
        assert taken.state("urgent") == "scheduled"
        taken.finish("hog", signal=15)
        assert taken.is_running("urgent")

    @pytest.mark.parametrize(("cpus", "runs_s"), [(4, 60), (2, 0)])
    def test_a_job_behind_the_one_that_takes_the_room_starts_when_that_one_leaves_some(
        self, taken: Scene, cpus: int, runs_s: int
    ):
        taken.submit("urgent", cpus=cpus, priority=75, time_limit_s=60)
        begun_s, hog, urgent = taken.job("hog").started_s, taken.names["hog"], taken.names["urgent"]
        grace_s = taken.job("hog").spec.grace_s

        plan = foreseen(taken, cpus=2, priority=75, time_limit_s=60)
        taken.submit("second", cpus=2, priority=75, time_limit_s=60)
        told = advised(taken, "second")

        start_s = begun_s + 20 + grace_s + runs_s
        assert told.tree.expected == Expected(start_s, ("box",), False, (hog,), urgent)
        assert plan.tree.expected == told.tree.expected
        assert f"as job {hog} gives way to job {urgent} before" in " ".join(told.lines)
        taken.pass_time(begun_s + 20 - taken.now_s)
        taken.finish("hog", signal=15)
        if runs_s:
            taken.pass_time(60)
            taken.finish("urgent")
        assert taken.is_running("second")
        assert taken.now_s <= start_s

    def test_a_plan_names_them_before_the_submit(self, taken: Scene):
        found = foreseen(taken, cpus=4, priority=75, time_limit_s=60)

        assert not found.starts
        assert found.start_s == taken.job("hog").started_s + 20
        assert found.tree.expected.victims == (taken.names["hog"],)

    def test_a_job_that_is_not_more_important_waits_for_the_end(self, taken: Scene):
        taken.submit("equal", cpus=4, priority=10, time_limit_s=60)

        told = advised(taken, "equal")

        assert told.tree.expected.victims == ()
        assert told.tree.expected.start_s == taken.job("hog").started_s + 4 * 3600
