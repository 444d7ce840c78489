"""Any story that can be told of a cluster keeps the promises: random commands, faults, restarts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rota.controller.commands import commands as cmd
from rota.controller.recover import recover
from rota.core.changes.apply import apply
from rota.core.changes.compare import differences
from rota.core.cluster import Cluster
from rota.core.facts.array import Array
from rota.core.facts.errors import Rejected
from rota.core.facts.job import Job, Role
from rota.core.facts.node import Device, ForeignUse, NodeSpec
from rota.core.facts.parents import Dependency, DependencyKind
from rota.core.facts.resources import Request
from rota.core.facts.states import FINAL, JobState, QueueState
from rota.core.facts.tenant import Group, Queue
from rota.scheduling.scheduler import Scheduler
from rota.testing.scene import ALICE, OPERATOR, Scene
from tests.property.wishes import CARD_MIB, arrays, resources, wishes
from tests.support.timers import missing_timers

KINDS = st.sampled_from([kind.value for kind in DependencyKind])
NODES = st.sampled_from(["big", "gpu"])
CARDS = tuple(Device(index=i, uuid=f"card{i}", memory_mib=CARD_MIB, numa=i // 2) for i in range(3))
SPECS = {
    "big": NodeSpec("big", 6000, 128, cpus=tuple(range(6))),
    "gpu": NodeSpec("gpu", 3000, 64, cpus=tuple(range(3)), devices=CARDS),
}
seconds = st.sampled_from([0, 1, 5, 10, 40])
changes = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 75),
        "time_limit_s": st.integers(0, 30),
        "scheduling_timeout_s": st.integers(0, 30),
        "queue": st.sampled_from(["default", "side"]),
        "group": st.sampled_from(["", "g1"]),
        "roles": st.builds(
            lambda count, cpu: (Role(count=count, request=Request(cpu_milli=cpu)),),
            st.integers(1, 3),
            st.sampled_from([500, 1000, 2000]),
        ),
    },
)


class AnyStory(RuleBasedStateMachine):
    """Random steps on a scene; after each of them every promise is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(nodes=0)
        self.shadow = Cluster(self.scene.store.disk.cluster_id)
        self.folded = 0
        self.ends: dict[int, JobState] = {}
        self.active: dict[Any, int] = {}
        self.boots = 1

    @initialize(jobs=st.lists(st.tuples(resources, wishes), min_size=2, max_size=6))
    def set_the_stage(self, jobs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        for spec in SPECS.values():
            self.scene.add_node(spec)
        self.scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_running=2)))
        for needs, more in jobs:
            self.try_to_submit(**needs, **more)

    def ids(self) -> int:
        return self.scene.cluster.ids.next - 1

    @rule(needs=resources, wishes=wishes)
    def submit(self, needs: dict[str, Any], wishes: dict[str, Any]) -> None:
        self.try_to_submit(**needs, **wishes)

    @rule(array=arrays, needs=resources, wishes=wishes)
    def submit_an_array(self, array: str, needs: dict[str, Any], wishes: dict[str, Any]) -> None:
        self.try_to_submit(array=array, **needs, **wishes)

    @precondition(lambda self: self.ids())
    @rule(wishes=wishes, data=st.data(), array=st.sampled_from(["", "0-3"]), wait_s=seconds)
    def submit_a_dependent(
        self, wishes: dict[str, Any], data: st.DataObject, array: str, wait_s: int
    ) -> None:
        numbers = st.integers(1, self.ids()).map(str)
        after = data.draw(st.dictionaries(numbers, KINDS, min_size=1, max_size=2), "after")
        if array and data.draw(st.booleans(), "element by element"):
            arrays = self.scene.cluster.arrays
            after = {p: f"{k} element" if int(p) in arrays else k for p, k in after.items()}
        begin_s = self.scene.now_s + wait_s
        self.try_to_submit(after=after, array=array, begin_s=begin_s, **wishes)

    def try_to_submit(self, **wishes: Any) -> None:
        with suppress(Rejected):
            self.scene.submit(**wishes)

    @precondition(lambda self: self.ids())
    @rule(
        kind=st.sampled_from(
            [cmd.Cancel, cmd.Hold, cmd.Hold, cmd.Release, cmd.Requeue, cmd.Suspend, cmd.Resume]
        ),
        data=st.data(),
    )
    def ask_about_some(self, kind: type[cmd.Select], data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(1, self.ids()), min_size=1, max_size=3), "ids")
        self.scene.ask(kind(actor=ALICE, ids=tuple(ids)))

    @rule(kind=st.sampled_from([cmd.Hold, cmd.Release, cmd.Requeue, cmd.Resume]))
    def ask_about_all(self, kind: type[cmd.Select]) -> None:
        answer = self.scene.ask(kind(actor=OPERATOR, of_user="*"))

        assert not [
            refusal for refusal in answer.refused if "being cancelled" not in refusal.reason
        ]

    @precondition(lambda self: self.ids())
    @rule(changes=changes, data=st.data())
    def update(self, changes: dict[str, Any], data: st.DataObject) -> None:
        number = st.integers(1, self.ids())
        job = data.draw(number, "job")
        dependency = st.builds(Dependency, st.sampled_from(list(DependencyKind)), number)
        parents = data.draw(st.none() | st.lists(dependency, max_size=2).map(tuple), "parents")
        cap = data.draw(st.none() | st.integers(0, 3), "cap")
        if data.draw(st.booleans(), "another begin"):
            changes = changes | {"begin_s": self.scene.now_s + 5}
        command = cmd.Update(
            actor=ALICE, job=job, changes=changes, dependencies=parents, array_cap=cap
        )
        with suppress(Rejected):
            self.scene.ask(command)

    @precondition(lambda self: self.scene.alive)
    @rule(data=st.data(), code=st.sampled_from([0, 0, 1]), signal=st.sampled_from([0, 0, 9]))
    def a_process_ends(self, data: st.DataObject, code: int, signal: int) -> None:
        uid = data.draw(st.sampled_from(sorted(self.scene.alive)), "attempt")
        job, task = self.scene.cluster.live.where.get(uid, (0, 0))
        if job:
            self.scene.finish(job, code, signal=signal, task=task)

    @rule(starts=st.booleans())
    def agents_hesitate_or_start(self, starts: bool) -> None:
        self.scene.starts = starts
        if starts:
            self.start_what_is_placed()

    def start_what_is_placed(self) -> None:
        cluster = self.scene.cluster
        for job in sorted({job for job, _ in cluster.live.where.values()}):
            if job in cluster.jobs:
                self.scene.start(job)

    @rule()
    def what_should_stop_does(self) -> None:
        for uid in sorted(self.scene.stopping):
            job, task = self.scene.cluster.live.where.get(uid, (0, 0))
            if job and uid in self.scene.alive:
                self.scene.finish(job, signal=15, task=task)

    @rule(seconds=seconds)
    def time_passes(self, seconds: int) -> None:
        self.scene.pass_time(seconds)

    @rule()
    def the_controller_restarts(self) -> None:
        self.scene.restart()

    @rule(node=NODES)
    def a_cable_is_pulled_or_put_back(self, node: str) -> None:
        if node in self.scene.online:
            self.scene.disconnect(node)
        else:
            self.scene.connect(node)

    @rule(node=NODES)
    def a_machine_reboots(self, node: str) -> None:
        self.boots += 1
        if node in self.scene.online:
            self.scene.disconnect(node)
        self.scene.connect(node, boot_id=f"b{self.boots}")

    @rule(node=NODES, cpus=st.integers(1, 6), memory=st.sampled_from([8, 64]), cards=st.booleans())
    def an_agent_comes_back_on_a_machine_of_another_size(
        self, node: str, cpus: int, memory: int, cards: bool
    ) -> None:
        """Its jobs go on, whether or not they would still fit."""
        spec = NodeSpec(
            node,
            cpus * 1000,
            memory,
            cpus=tuple(range(cpus)),
            devices=SPECS[node].devices if cards else SPECS[node].devices[:1],
        )
        self.comes_back(spec)

    def comes_back(self, spec: NodeSpec) -> None:
        if spec.name in self.scene.online:
            self.scene.disconnect(spec.name)
        self.scene.add_node(spec)

    @rule(node=NODES, drained=st.booleans(), migrate=st.booleans(), hurry_s=st.integers(0, 50))
    def a_node_is_drained_or_resumed(
        self, node: str, drained: bool, migrate: bool, hurry_s: int
    ) -> None:
        deadline_s = self.scene.now_s + hurry_s if hurry_s and drained else 0.0
        moves = drained and migrate
        self.scene.ask(
            cmd.DrainNode(
                actor=OPERATOR, node=node, drained=drained, migrate=moves, deadline_s=deadline_s
            )
        )

    @precondition(lambda self: self.ids())
    @rule(data=st.data())
    def a_job_is_asked_to_save(self, data: st.DataObject) -> None:
        job = data.draw(st.integers(1, self.ids()), "job")
        with suppress(Rejected):
            self.scene.ask(cmd.AskSave(actor=OPERATOR, job=job))

    @rule(
        state=st.sampled_from([QueueState.ACTIVE, QueueState.PAUSED]),
        cap=st.integers(0, 2),
        hours=st.sampled_from(["", "", "0:00-12:00", "mon-fri 8:00-18:00"]),
    )
    def a_queue_changes(self, state: QueueState, cap: int, hours: str) -> None:
        queue = Queue(name="side", state=state, max_running=cap, priority=60, hours=hours)
        self.scene.ask(cmd.SetQueue(actor=OPERATOR, queue=queue))

    @precondition(lambda self: self.scene.cluster.groups)
    @rule(cap=st.integers(0, 2), data=st.data())
    def a_group_changes(self, cap: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.scene.cluster.groups)), "group")
        group = Group(name, "alice", cap)
        self.scene.ask(cmd.SetGroup(actor=ALICE, group=group))

    @rule()
    def use_is_forgotten(self) -> None:
        self.scene.ask(cmd.ForgetUsage(actor=OPERATOR))

    @rule(data=st.data(), ends=st.booleans())
    def a_step_is_started_in_a_job(self, data: st.DataObject, ends: bool) -> None:
        running = [*self.scene.cluster.census.by_state[JobState.RUNNING]]
        if running:
            job = data.draw(st.sampled_from(running))
            step = self.scene.ask(cmd.BeginStep(actor=OPERATOR, job=job, name="srun"))
            if ends:
                state = cmd.EndStep(actor=OPERATOR, job=job, step=step, state="COMPLETED")
                self.scene.ask(state)

    @rule(data=st.data(), made=st.sampled_from([(), ("features",)]))
    def a_job_says_what_it_has_done(self, data: st.DataObject, made: tuple[str, ...]) -> None:
        running = [*self.scene.cluster.census.by_state[JobState.RUNNING]]
        if running:
            job = data.draw(st.sampled_from(running))
            self.scene.ask(cmd.ReportCheckpoint(actor=OPERATOR, job=job, data=made))

    @precondition(lambda self: "gpu" in self.scene.online)
    @rule(used=st.lists(st.integers(0, 2), unique=True), memory=st.integers(0, CARD_MIB))
    def strangers_use_cards(self, used: list[int], memory: int) -> None:
        foreign = tuple(ForeignUse(device, 77, "eve", memory) for device in used)
        self.scene.see_strangers("gpu", *foreign)

    @invariant()
    def the_log_and_the_rows_tell_the_same(self) -> None:
        scene = self.scene
        for record in scene.store.events(after=self.folded, limit=100_000):
            apply(self.shadow, record.event, record.at_s)
            self.folded = record.seq
        loaded = recover(scene.store.load())

        assert differences(self.shadow, scene.cluster) == []
        assert differences(loaded, scene.cluster) == []
        assert missing_timers(scene.cluster, scene.now_s) == []
        assert missing_timers(loaded, scene.now_s) == []

    @invariant()
    def nothing_that_could_start_waits(self) -> None:
        scene = self.scene
        loaded = recover(scene.store.load())

        assert Scheduler(loaded).run(scene.now_s).starts == []

    @invariant()
    def an_end_is_for_good(self) -> None:
        cluster = self.scene.cluster
        for job, state in self.ends.items():
            assert cluster.ids.ended.get(job) is state
        self.ends = {i: s for i in range(1, self.ids() + 1) if (s := cluster.ids.ended.get(i))}

    @invariant()
    def no_cap_is_passed(self) -> None:
        cluster = self.scene.cluster
        caps = {("group", g.name): g.max_concurrent for g in cluster.groups.values()}
        caps |= {("queue", q.name): q.max_running for q in cluster.queues.values()}
        caps |= {("array", a.id): a.cap for a in cluster.arrays.values()}
        now = {cap: len(ids) for cap, ids in cluster.census.active_in.items()}
        for cap, count in now.items():
            assert not caps.get(cap) or count <= max(caps[cap], self.active.get(cap, 0))
        self.active = now

    def teardown(self) -> None:
        """Whatever happened: with everything open again, all work comes to an end."""
        scene = self.scene
        if not scene.cluster.nodes:
            return
        for node, spec in SPECS.items():
            self.comes_back(spec)
            scene.ask(cmd.DrainNode(actor=OPERATOR, node=node, drained=False))
        scene.starts = True
        self.start_what_is_placed()
        scene.see_strangers("gpu")
        scene.ask(cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side")))
        scene.ask(cmd.Release(actor=OPERATOR, of_user="*"))
        self.let_all_work_end()
        while left := self.unfinished():
            patient = tuple(job.id for job in left if job.spec.keep_waiting)
            assert patient, "somebody waits, and for nobody who was asked to wait for ever"
            scene.ask(cmd.Cancel(actor=OPERATOR, ids=patient))
            self.let_all_work_end()

        assert not scene.cluster.live.where
        assert all(node.headroom() == node.spec.total for node in scene.cluster.nodes.values())
        assert sum(scene.cluster.count_states()[state] for state in FINAL) == sum(
            scene.cluster.count_states().values()
        )

    def let_all_work_end(self) -> None:
        scene = self.scene
        while scene.alive or scene.cluster.agenda.timers:
            if not scene.alive:
                scene.pass_time(10)
            for uid in sorted(scene.alive):
                job, task = scene.cluster.live.where[uid]
                scene.finish(job, task=task)

    def unfinished(self) -> list[Job | Array]:
        cluster = self.scene.cluster
        arrays = [array for array in cluster.arrays.values() if array.waiting]
        return [*cluster.jobs.values(), *arrays]


def test_any_story_keeps_every_promise_and_comes_to_an_end():
    run_state_machine_as_test(AnyStory)
