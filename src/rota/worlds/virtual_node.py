"""A machine of a world: a keeper with a journal, an agent that may die, processes that end."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec

from rota.keeper.lease import CUT_OFF
from rota.rpc.messages import (
    PROTOCOL,
    AgentMessage,
    BeatSeen,
    ControllerMessage,
    Desired,
    Hello,
    Observed,
    SessionRefused,
    Welcome,
    decode_to_agent,
)
from rota.session.agent import Agent
from rota.session.greeting import Greeting
from rota.session.instructions import (
    Began,
    Forget,
    GiveUp,
    Gone,
    Instruction,
    Keep,
    KeeperAll,
    KeeperCommand,
    KnownAttempt,
    Redial,
    Seek,
    Signal,
    Spawn,
)
from rota.session.lease import AgentLease
from rota.worlds.clock import OwnTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rota.core.facts.node import NodeSpec
    from rota.worlds.clock import WorldTimeline
    from rota.worlds.judge import Judge

KILL, TERM, CONT, STOP = 9, 15, 18, 19
#: What a keeper says that cannot write down what it is about to start.
FULL = "cannot record the start: no space left on device"


class VirtualKeeper:
    """Keeps the promises of ``rota.session.instructions`` on a virtual disk."""

    def __init__(self, node: VirtualNode) -> None:
        self.node = node
        self.journal: dict[str, KnownAttempt] = {}
        #: Suspended processes whose time has come meanwhile.
        self._late: set[str] = set()
        #: When all work must end, unless told anew.
        self._until_s: float | None = None

    def hold(self, until_s: float | None) -> None:
        """Renewed. What had to end before this word came ends all the same."""
        if self._until_s is not None and self._is_over:
            self._expire(self._until_s)
        self._until_s = until_s
        if until_s is not None:
            wait_s = max(0.0, until_s - self.node.timeline.now_s)
            self.node.timeline.after(wait_s, lambda: self._expire(until_s))

    @property
    def _is_over(self) -> bool:
        return self._until_s is not None and self.node.timeline.now_s >= self._until_s

    def _expire(self, until_s: float) -> None:
        """The lease ran out: TERM to everything, and KILL after the grace, however late it is."""
        if self._until_s != until_s:
            return
        late_s = self.node.timeline.now_s - until_s
        for uid, known in self.journal.items():
            if known.phase == "ended" or known.note:
                continue
            self.journal[uid] = msgspec.structs.replace(known, note=CUT_OFF)
            self.node.judge.cut_off(uid)
            self._strike(uid, TERM)
            left_s = max(0.0, known.keep.grace_s - late_s)
            self.node.timeline.after(left_s, lambda uid=uid: self._strike(uid, KILL))  # type: ignore[misc]

    def obey(self, command: KeeperCommand) -> None:
        if isinstance(command, Forget):
            for uid in command.uids:
                if uid in self.journal and self.journal[uid].phase == "ended":
                    del self.journal[uid]
        elif isinstance(command, Signal):
            self._signal(command)
        elif isinstance(command, Seek):
            self._seek(command)
        elif isinstance(command, Spawn):
            self._spawn(command)

    def _seek(self, command: Seek) -> None:
        """The journal of a virtual disk is never lost: what it does not know does not live."""
        known = self.journal.get(command.uid)
        if known is None:
            now_s = self.node.timeline.now_s
            self._refuse(KnownAttempt(command.uid, "ended", command.keep, ended_s=now_s, lost=True))
        else:
            self.node.tell(known.end() if known.phase == "ended" else _started(known))

    def _spawn(self, command: Spawn) -> None:
        node, uid = self.node, command.uid
        known = self.journal.get(uid)
        if known is not None:
            node.tell(known.end() if known.phase == "ended" else _started(known))
            return
        now_s = node.timeline.now_s
        keep = Keep(command.launch.grace_s, command.launch.memory_mib)
        if self._is_over:
            node.judge.excused.add(uid)
            self._refuse(KnownAttempt(uid, "ended", keep, ended_s=now_s, note=CUT_OFF))
            return
        if node.full:
            self._refuse(KnownAttempt(uid, "ended", keep, ended_s=now_s, error=FULL))
            return
        process = node.judge.starts(uid, node.spec)
        record = KnownAttempt(uid, "running", keep, pid=len(self.journal) + 2, started_s=now_s)
        self.journal[uid] = record
        fate = Random(f"{node.seed} {uid}")
        process.exit_code = fate.choice((0, 0, 0, 0, 1, 3))
        node.timeline.after(fate.choice(node.lengths_s), lambda: self._is_done(uid))
        if fate.random() < node.forgets:
            # The keeper dies before it has written down the pid, and the job before the next one.
            node.judge.excused.add(uid)
            self.ends(uid, lost=True)
            return
        node.tell(_started(record))

    def _refuse(self, record: KnownAttempt) -> None:
        """It is not started, and the keeper says why."""
        self.journal[record.uid] = record
        self.node.tell(record.end())

    def _signal(self, command: Signal) -> None:
        uid = command.uid
        if uid not in self.journal or self.journal[uid].phase == "ended":
            return
        if command.signal in (STOP, CONT):
            self._suspend(uid, command.signal == STOP)
            return
        self.node.judge.signalled(uid)
        self._strike(uid, command.signal)

    def _strike(self, uid: str, number: int) -> None:
        stubborn = Random(f"{self.node.seed} {uid} stubborn").random() < self.node.deaf
        if number == KILL or not stubborn:
            delay_s = Random(f"{self.node.seed} {uid} dying").choice((0.0, 0.05))
            self.node.timeline.after(delay_s, lambda: self.ends(uid, signal=number))

    def _suspend(self, uid: str, suspended: bool) -> None:
        self.journal[uid] = msgspec.structs.replace(self.journal[uid], suspended=suspended)
        self.node.judge.stands(uid, suspended)
        if not suspended and uid in self._late:
            self._late.discard(uid)
            self.node.timeline.after(0.0, lambda: self._is_done(uid))

    def _is_done(self, uid: str) -> None:
        """Its work is done, unless it is stopped where it is."""
        known = self.journal.get(uid)
        if known is not None and known.suspended:
            self._late.add(uid)
        else:
            self.ends(uid)

    def ends(self, uid: str, *, signal: int = 0, lost: bool = False) -> None:
        """A process is gone: on the journal first, then told to the agent."""
        known = self.journal.get(uid)
        if known is None or known.phase == "ended":
            return
        process = self.node.judge.ends(uid)
        code = None if signal or lost else process.exit_code
        self.journal[uid] = KnownAttempt(
            uid,
            "ended",
            known.keep,
            started_s=known.started_s,
            ended_s=self.node.timeline.now_s,
            code=code,
            signal=signal,
            lost=lost,
            note=known.note,
        )
        self.node.tell(self.journal[uid].end())


def _started(known: KnownAttempt) -> Began:
    return Began(known.uid, known.pid, known.start, known.started_s)


class VirtualNode:
    """The agent's host in a world: carries instructions out, brings news, dies and comes back."""

    def __init__(
        self, spec: NodeSpec, seed: int, timeline: WorldTimeline, judge: Judge,
        send: Callable[[VirtualNode, AgentMessage], None],
    ) -> None:  # fmt: skip
        self.spec = spec
        self.seed = seed
        self.timeline = OwnTime(timeline)
        self.judge = judge
        self.keeper = VirtualKeeper(self)
        self.incarnation = f"{spec.name}-1"
        self.boots = 1
        self.agent: Agent | None = None
        #: Names the life of the agent, so that news for a dead one are dropped.
        self.life = 0
        #: The open connection, or 0, and the hello on it.
        self.link = 0
        self._greeting = Greeting(self.link)
        self.lease = AgentLease()
        #: How long processes run here.
        self.lengths_s: tuple[float, ...] = (0.0, 0.01, 0.3, 2.0, 8.0)
        #: How many of its processes hear no TERM, and how often its keeper dies at a start.
        self.deaf, self.forgets = 0.3, 0.0
        #: Its disk is full: nothing can be started for now.
        self.full = False
        #: Ends a connection on which nobody answers.
        self.hang_up: Callable[[], None] = lambda: None
        self._send = send
        self._alarm_s: float | None = None

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def start_agent(self) -> None:
        self.life += 1
        self.judge.boots[self.spec.name] = f"{self.incarnation}/{self.boot_id}"
        self.agent = Agent()
        self.lease = AgentLease()
        listing = KeeperAll(tuple(self.keeper.journal.values()))
        self._do(self.agent.on_keeper_all(listing, self.timeline.now_s))

    def kill_agent(self) -> None:
        """Processes and keeper live on."""
        self.agent = None
        self.life += 1

    def reboot(self) -> None:
        """Power loss: every process is gone, the journal is not."""
        self.kill_agent()
        self.boots += 1
        self.keeper.hold(None)
        for uid, known in list(self.keeper.journal.items()):
            if known.phase != "ended":
                self.judge.excused.add(uid)
                self.keeper.ends(uid, lost=True)

    def hello(self) -> Hello:
        return Hello(PROTOCOL, self.spec, self.incarnation, self.boot_id, "world")

    def connected(self, link: int) -> None:
        assert self.agent is not None
        self.link, self._greeting = link, Greeting(link)
        self._do(self.agent.on_connected())
        self.lease.on_dialled(self.timeline.now_s)
        self._plan_beat()
        self._send(self, self._greeting.on(self.hello()))

    def disconnected(self) -> None:
        self.link = 0
        self.lease.on_hung_up()
        if self.agent is not None:
            self._do(self.agent.on_disconnected())

    def hears(self, frame: bytes) -> None:
        """A message of the controller, as it came over the wire."""
        if self.agent is None:
            return
        message: ControllerMessage = decode_to_agent(frame)
        if self._greeting.objection(message):
            self.link = 0
        elif isinstance(message, Welcome):
            self.lease.on_welcome(message, self.timeline.now_s)
            self.keeper.hold(self.lease.until_s)
            self._plan_beat()
            self._do(self.agent.on_welcome(message))
        elif isinstance(message, BeatSeen):
            if self.lease.on_seen(message):
                self.keeper.hold(self.lease.until_s)
        elif isinstance(message, Desired):
            self._do(self.agent.on_desired(message, self.timeline.now_s))
        elif isinstance(message, SessionRefused):
            self.link = 0

    def _plan_beat(self) -> None:
        due_s, life, lease = self.lease.next_beat_s(), self.life, self.lease
        if due_s is None:
            return

        def beat() -> None:
            if self.agent is None or self.life != life or self.lease is not lease:
                return
            if lease.is_unheard(self.timeline.now_s):
                self.hang_up()
                return
            message = lease.beat(self.timeline.now_s)
            if message is not None:
                reported = self.agent.reported
                self._send(self, msgspec.structs.replace(message, reported=reported))
                self._plan_beat()

        self.timeline.after(max(0.0, due_s - self.timeline.now_s), beat)

    def tell(self, event: Began | Gone) -> None:
        """News from the keeper reach the agent a moment later, if it still lives."""
        life = self.life

        def arrive() -> None:
            if self.agent is None or self.life != life:
                return
            self._do(self.agent.on_keeper_events((event,), self.timeline.now_s))

        self.timeline.after(0.001, arrive)

    def _do(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Spawn | Seek | GiveUp | Signal | Forget):
                self.keeper.obey(instruction)
            elif isinstance(instruction, Redial):
                self.link = 0
            elif isinstance(instruction, Observed):
                self._send(self, instruction)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due_s = self.agent.next_timer_s() if self.agent is not None else None
        if due_s is None or due_s == self._alarm_s:
            return
        self._alarm_s = due_s
        life = self.life

        def ring() -> None:
            if self.agent is not None and self.life == life:
                self._alarm_s = None
                self._do(self.agent.on_timer(self.timeline.now_s))

        self.timeline.after(max(0.0, due_s - self.timeline.now_s), ring)
