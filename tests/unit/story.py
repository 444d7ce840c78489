"""One long story with a bit of everything, told step by step: for tests of replay and restart."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial

from rota.controller.commands import commands as cmd
from rota.controller.launches.launch import encode_environment
from rota.core.facts.gpu_use import Overuse
from rota.core.facts.node import ForeignUse
from rota.core.facts.site.pilot import Pilot
from rota.core.facts.states import QueueState
from rota.core.facts.tenant import Access, Actor, Group, Project, Queue, Token
from rota.store import rows
from rota.testing.scene import ALICE, BOB, OPERATOR, Scene

ADMIN = Actor("ada", Access.ADMIN)
Step = Callable[[], object]


def stage() -> Scene:
    return Scene(nodes=2, cpus=4, gpus=2)


def steps(scene: Scene) -> Iterator[Step]:
    """The steps in order. What a step needs to know is read when its turn has come."""
    yield from _site(scene)
    yield from _jobs(scene)
    yield from _arrays(scene)
    yield from _trouble(scene)
    yield from _waiting(scene)


def _site(scene: Scene) -> Iterator[Step]:
    token = Token(id="t1", digest="d", user="alice", access=Access.USER, created_s=1.0)
    for command in (
        cmd.SetQueue(actor=OPERATOR, queue=Queue(name="side", max_running=1)),
        cmd.SetQueue(actor=OPERATOR, queue=Queue(name="short-lived")),
        cmd.RemoveQueue(actor=OPERATOR, queue="short-lived"),
        cmd.SetProject(actor=OPERATOR, project=Project("vision", shares=3)),
        cmd.SetPilot(actor=ADMIN, pilot=Pilot(name="hpc", kind="slurm", most=2)),
        cmd.SetPilot(actor=ADMIN, pilot=Pilot(name="gone", kind="slurm")),
        cmd.RemovePilot(actor=ADMIN, pilot="gone"),
        cmd.MakeToken(actor=ADMIN, token=token),
        cmd.RevokeToken(actor=ADMIN, token="t1"),
        cmd.MakeToken(actor=ADMIN, token=token),
    ):
        yield partial(scene.ask, command)


def _jobs(scene: Scene) -> Iterator[Step]:
    environment = encode_environment({"HOME": "/home/alice"})
    yield partial(scene.submit, "plain", key="k1", environment="e", blobs={"e": environment})
    yield partial(scene.submit, "theirs", actor=BOB, cpus=2, mem=100, queue="side")
    yield partial(scene.submit, "second in side", queue="side")
    yield partial(scene.submit, "gpu", gpus=2, retries=2, backoff_s=3, time_limit_s=60)
    yield partial(scene.submit, "sharer", gpus=1, gpu_mem=1000, shared=True, cpus=0.5)
    yield partial(scene.submit, "gang", tasks=3, cpus=1, group="g", group_cap=1)
    yield partial(scene.submit, "in group", group="g")
    yield partial(scene.pass_time, 5)
    yield partial(scene.finish, "gpu", 1)
    yield partial(scene.pass_time, 3)
    yield partial(scene.finish, "gang", 2, task=1)
    yield partial(scene.finish, "gang", signal=15)
    yield partial(scene.ask, cmd.SetGroup(actor=ALICE, group=Group("g", "alice", 3)))
    yield partial(scene.finish, "plain", 0, peak_memory_mib=12, cpu_s=1.5)


def _arrays(scene: Scene) -> Iterator[Step]:
    rows = (("0.1",), ("0.2",), ("0.3",), ("0.4",))
    yield partial(scene.submit, "array", array="0-20:2%2", key="k2")
    yield lambda: scene.hold(scene.names["array"] + 3)
    yield lambda: scene.finish(scene.names["array"] + 1)
    yield lambda: scene.cancel(scene.names["array"] + 7)
    yield partial(scene.update, "array", cap=3, priority=60)
    yield lambda: scene.release(scene.names["array"] + 3)
    yield partial(scene.submit, "sweep", array="0-3", parameters=("lr",), rows=rows, hold=True)
    yield partial(scene.submit, "twins", array="0-3", after={"sweep": "after-ok element"})
    yield partial(scene.submit, "after all", after={"array": "after-any", "sweep": "after"})
    yield partial(scene.release, "sweep")
    yield lambda: scene.cancel("array")
    yield lambda: [scene.end(uid, None, 15) for uid in sorted(scene.stopping)]


def _trouble(scene: Scene) -> Iterator[Step]:
    yield partial(scene.see_strangers, "box1", ForeignUse(0, 77, "eve", 100))
    yield partial(scene.submit, "limited", cpus=0.5, time_limit_s=10)
    yield partial(scene.pass_time, 10)
    yield partial(scene.finish, "limited", signal=15)
    yield partial(scene.disconnect, "box1")
    yield partial(scene.requeue, "theirs")
    yield partial(scene.connect, "box1")
    yield lambda: [scene.end(uid, None, 15) for uid in sorted(scene.stopping)]
    yield partial(scene.disconnect, "box2")
    yield partial(scene.connect, "box2", boot_id="b2")
    drain = cmd.DrainNode(actor=OPERATOR, node="box2", drained=True, note="fans")
    yield partial(scene.ask, drain)
    yield partial(scene.submit, "greedy", cpus=0.1, gpus=1, gpu_mem=1000, shared=True)
    yield partial(_measure, scene)
    yield partial(scene.submit, "beside", cpus=0.1, gpus=1, gpu_mem=30_000, shared=True)


def _measure(scene: Scene) -> None:
    attempts = scene.job("greedy").tasks[0].attempts if scene.job("greedy").tasks else []
    for attempt in attempts[-1:]:
        (index,), node = attempt.allocation.devices, attempt.allocation.node
        uuid = scene.cluster.nodes[node].spec.devices[1 - index].uuid
        scene.ask(
            cmd.NoteGpus(
                actor=ADMIN,
                node=node,
                overuse=(Overuse(attempt.uid, index, 20_000),),
                idle=(cmd.Idle(attempt.uid, (index,), scene.now_s),),
                faults=((uuid, "Xid 79"),) * 3,
                failures=3,
            )
        )


def _waiting(scene: Scene) -> Iterator[Step]:
    yield partial(scene.submit, "impossible", cpus=50, scheduling_timeout_s=20)
    yield partial(scene.submit, "later", begin_s=scene.now_s + 40)
    yield partial(scene.submit, "child", after={"later": "after-ok"}, keep_waiting=True)
    yield partial(scene.submit, "held", hold=True, actor=BOB)
    yield partial(scene.update, "child", after={"later": "after-not-ok"}, name="renamed")
    yield partial(scene.cancel, "held", actor=OPERATOR)
    yield partial(scene.pass_time, 20)
    yield partial(scene.pass_time, 20)
    paused = Queue(name="side", state=QueueState.PAUSED)
    yield partial(scene.ask, cmd.SetQueue(actor=OPERATOR, queue=paused))
    yield partial(scene.pass_time, 100)


def digest_of_log(scene: Scene) -> str:
    """A short name for everything that happened, when, and on whose behalf."""
    digest = hashlib.sha256()
    for record in scene.store.all_events():
        digest.update(repr(rows.event_row(record)).encode())
    return digest.hexdigest()


def digest_of_story() -> str:
    scene = stage()
    for step in steps(scene):
        step()
    return digest_of_log(scene)
