"""The agent as a state machine: what it hears goes in, instructions come out, no I/O, no clock.

It holds two views against each other. The *keeper* says which processes exist on this node; the
*controller* says which attempts should. Nothing is decided before both have spoken in full:

* wanted, unknown, never reported as started: start it, once;
* wanted, unknown, although it was started: have the keeper seek it, never start it again;
* wanted and ended: report the end in every session until the controller lets it go;
* alive and no longer wanted: TERM, the grace, KILL, and then forget it in silence.
"""

from __future__ import annotations

from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING

from rota.rpc.messages import Observed, Seen, Sighting
from rota.session.charge import Alive, Charge, ChargeStage, never_started, sighting_of, waiting
from rota.session.instructions import Forget, GiveUp, Gone, Keep, Redial, Seek, Signal, Spawn
from rota.session.news import signal_number, tell
from rota.session.sequence import misfit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rota.rpc.messages import Desired, Wanted, Welcome
    from rota.session.instructions import Began, Instruction, KeeperAll, KnownAttempt, Queued

#: A start is reported this much later, unless there is something else to say before: a job that is
#: over by then costs the controller one message and one commit less.
START_TOLD_S = 0.01
#: A KILL is repeated this often until the keeper reports the end.
KILL_AGAIN_S = 10.0
#: An attempt that was told to save its state gets TERM so long before its grace is over, or after
#: three quarters of a short one.
TERM_BEFORE_S = 5.0


class Agent:
    """Drives one node. Every input returns what the host has to do, in order."""

    def __init__(self) -> None:
        self._charges: dict[str, Charge] = {}
        self._stopping: dict[str, Charge] = {}
        #: Starts that the controller has not heard of, and when it shall.
        self._untold: dict[str, Charge] = {}
        self._tell_at_s: float | None = None
        self._keeper_ready = False
        self._session = 0
        self._connected = False
        self._synced = False
        self._expected = 0
        self.reported = 0  # In this session.
        #: Desired sets that arrived before the keeper's list did.
        self._deferred: list[Desired] = []

    @property
    def session(self) -> int:
        """The controller's number for this connection; 0 while there is none."""
        return self._session if self._connected else 0

    @property
    def idle(self) -> bool:
        """Whether nothing is in our care."""
        return not self._charges

    @property
    def quiet(self) -> bool:
        """Whether nothing of ours is alive or about to be."""
        return not self._at(ChargeStage.SPAWNING, ChargeStage.RUNNING)

    def _at(self, *stages: ChargeStage) -> list[Charge]:
        return [charge for charge in self._charges.values() if charge.stage in stages]

    def alive(self) -> list[Alive]:
        """Every running attempt, oldest first."""
        found = self._at(ChargeStage.RUNNING)
        return [Alive(c.uid, c.pid, c.keep.memory_mib, c.keep.devices, c.start) for c in found]

    def awake(self) -> set[str]:
        """The running attempts that are neither suspended nor about to end."""
        return {c.uid for c in self._at(ChargeStage.RUNNING) if not (c.suspended or c.stopping)}

    def unstarted(self) -> list[str]:
        """Attempts that shall end before they have a process."""
        return [charge.uid for charge in self._at(ChargeStage.SPAWNING) if charge.stopping]

    def on_connected(self) -> list[Instruction]:
        """A fresh connection to the controller: everything of the last one is void."""
        self._connected = True
        self._session = 0
        self._forget_session()
        return []

    def on_disconnected(self) -> list[Instruction]:
        """The controller is away. What runs goes on, and grace periods end."""
        self._connected = False
        self._forget_session()
        return []

    def _forget_session(self) -> None:
        self._synced = False
        self._expected = 0
        self.reported = 0
        self._deferred.clear()

    def on_welcome(self, welcome: Welcome) -> list[Instruction]:
        if self._session:
            return [Redial("a second welcome")]
        self._session = welcome.session
        self._forget_session()
        return []

    def on_desired(self, desired: Desired, now_s: float) -> list[Instruction]:
        """The controller's full set, or the next change of it."""
        if not self._connected or desired.session < self._session:
            return []
        problem = misfit(desired, self._session, self._expected)
        if problem:
            self._connected = False
            self._forget_session()
            return [Redial(problem)]
        self._expected = desired.number + 1
        if not self._keeper_ready:
            self._deferred.append(desired)
            return []
        return self._decide(desired, now_s)

    def _decide(self, desired: Desired, now_s: float) -> list[Instruction]:
        out: list[Instruction] = []
        gone: Iterable[str] = desired.gone
        if desired.full:
            wanted = {item.uid for item in desired.attempts}
            gone = [uid for uid in self._charges if uid not in wanted]
        self._release(gone, now_s, out)
        fresh = [charge for item in desired.attempts if (charge := self._want(item, now_s, out))]
        if desired.full:
            self._synced = True
            self._report(self._charges.values(), out, full=True)
        elif fresh:
            self._report(fresh, out)
        return out

    def _release(self, uids: Iterable[str], now_s: float, out: list[Instruction]) -> None:
        """No longer wanted: stop what is alive, forget what has ended."""
        over = []
        for uid in uids:
            charge = self._charges.get(uid)
            if charge is None:
                continue
            charge.wanted = False
            if charge.over:
                over.append(uid)
                del self._charges[uid]
            else:
                self._stop(charge, now_s, out)
        if over:
            out.append(Forget(tuple(over)))

    def _want(self, item: Wanted, now_s: float, out: list[Instruction]) -> Charge | None:
        """Take one wanted attempt in; give it back when there is something to report of it."""
        charge = self._charges.get(item.uid)
        if charge is None:
            charge = self._take_charge(item, now_s, out)
        charge.wanted = True
        if item.stop is not None and charge.stage in (ChargeStage.SPAWNING, ChargeStage.RUNNING):
            if not charge.stopping:
                charge.first_signal = signal_number(item.signal)
                charge.grace_s = item.grace_s if item.grace_s >= 0 else charge.keep.grace_s
            self._stop(charge, now_s, out)
        elif not charge.stopping:
            self._suspend(charge, item.suspended, out)
            tell(charge, item, out)
        return charge if charge.over else None

    def _suspend(self, charge: Charge, suspended: bool, out: list[Instruction]) -> None:
        """Stop its processes where they are, or let them go on: only when that is news."""
        if charge.suspended != suspended:
            charge.suspended = suspended
            if charge.stage is ChargeStage.RUNNING:
                out.append(Signal(charge.uid, SIGSTOP if suspended else SIGCONT))

    def _take_charge(self, item: Wanted, now_s: float, out: list[Instruction]) -> Charge:
        launch = item.launch
        keep = Keep.of(launch) if launch is not None else Keep()
        charge = self._charges[item.uid] = Charge(item.uid, ChargeStage.MISSING, keep)
        if item.stop is not None and not item.started:
            charge.stage = ChargeStage.ENDED
            charge.seen = never_started(item.uid, item.stop, now_s)
        elif item.started:
            # Its grace was in its launch. Without that it has none when the lease is over.
            self._seek(charge, keep if launch is not None else Keep(grace_s=0.0), out)
        elif launch is None:
            charge.seen = Seen(item.uid, Sighting.MISSING)
        else:
            charge.launch = launch
            charge.stage = ChargeStage.SPAWNING
            out.append(Spawn(item.uid, launch))
        return charge

    def _stop(self, charge: Charge, now_s: float, out: list[Instruction]) -> None:
        """Begin to end it; once begun, neither a second wish nor another cause starts it over."""
        if charge.stopping:
            return
        charge.stopping = True
        if charge.stage is ChargeStage.RUNNING:
            self._terminate(charge, now_s, out)
        elif charge.stage is ChargeStage.SPAWNING:
            out.append(GiveUp(charge.uid))

    def _terminate(
        self, charge: Charge, now_s: float, out: list[Instruction], note: str = ""
    ) -> None:
        self._stopping[charge.uid] = charge
        grace_s = charge.grace_s
        if grace_s <= 0:
            self._kill(charge, now_s, note, out)
            return
        charge.kill_at_s = now_s + grace_s
        if charge.first_signal:
            out.append(Signal(charge.uid, charge.first_signal, asks=True))
            charge.term_at_s = charge.kill_at_s - min(TERM_BEFORE_S, grace_s / 4)
        else:
            out.append(Signal(charge.uid, SIGTERM, note))
        # What is stopped where it is hears nothing: the signal waits for it as it goes on.
        self._suspend(charge, False, out)

    def _kill(self, charge: Charge, now_s: float, note: str, out: list[Instruction]) -> None:
        self._stopping[charge.uid] = charge
        charge.term_at_s = None
        charge.kill_at_s = now_s + KILL_AGAIN_S
        out.append(Signal(charge.uid, SIGKILL, note))

    def on_keeper_lost(self) -> list[Instruction]:
        """The keeper is away; nothing is decided until it has given its list again."""
        self._keeper_ready = False
        return []

    def on_keeper_all(self, listing: KeeperAll, now_s: float) -> list[Instruction]:
        """The keeper's full list: the truth about this node's processes."""
        out: list[Instruction] = []
        self._keeper_ready = True
        listed = {known.uid for known in listing.attempts}
        changed = [
            charge for known in listing.attempts if (charge := self._recognise(known, now_s, out))
        ]
        for charge in self._charges.values():
            if charge.uid in listed:
                continue
            if charge.stage is ChargeStage.SPAWNING and charge.launch is not None:
                out.append(Spawn(charge.uid, charge.launch))
            elif charge.stage in (ChargeStage.SPAWNING, ChargeStage.RUNNING):
                self._seek(charge, charge.keep, out)
        self._drop_unwanted(changed, out)
        if changed:
            self._report(changed, out)
        deferred, self._deferred = self._deferred, []
        for desired in deferred:
            out += self._decide(desired, now_s)
        return out

    def _seek(self, charge: Charge, keep: Keep, out: list[Instruction]) -> None:
        """Its start or its end will be told; until then we say of it what we said last."""
        charge.stage = ChargeStage.SPAWNING
        out.append(Seek(charge.uid, keep))

    def _recognise(
        self, known: KnownAttempt, now_s: float, out: list[Instruction]
    ) -> Charge | None:
        """Bring one attempt up to date; give it back when that is news."""
        charge = self._charges.get(known.uid)
        if charge is None:
            charge = self._charges[known.uid] = Charge(known.uid, ChargeStage.SPAWNING, known.keep)
            charge.suspended = known.suspended
        if known.phase == "ended":
            if charge.stage is ChargeStage.ENDED:
                return None
            self._settle(charge, ChargeStage.ENDED, sighting_of(known.end()))
            return charge
        if known.phase == "starting":
            if charge.stopping:
                out.append(GiveUp(charge.uid))
            return None  # Its start or its end will be told.
        if charge.stage is ChargeStage.RUNNING:
            if charge.stopping:
                self._terminate(charge, now_s, out)  # the signal may have been lost
            elif charge.suspended != known.suspended:
                out.append(Signal(charge.uid, SIGSTOP if charge.suspended else SIGCONT))
            return None
        self._run(charge, known, now_s, out)
        return charge

    def on_keeper_events(self, events: Iterable[Began | Gone], now_s: float) -> list[Instruction]:
        """Starts and ends that arrived together: one report, and of each attempt the last word."""
        out: list[Instruction] = []
        changed: dict[str, Charge] = {}
        for event in events:
            charge = self._charges.get(event.uid)
            if charge is None or charge.stage is ChargeStage.ENDED:
                continue
            if isinstance(event, Gone):
                self._settle(charge, ChargeStage.ENDED, sighting_of(event))
                changed[charge.uid] = charge
            elif charge.stage is ChargeStage.SPAWNING:
                self._run(charge, event, now_s, out)
                self._untold[charge.uid] = charge
                self._tell_at_s = self._tell_at_s or now_s + START_TOLD_S
        self._drop_unwanted(changed.values(), out)
        if changed:
            self._report(changed.values(), out)
        return out

    def on_waits(self, event: Queued) -> list[Instruction]:
        """An engine lets it wait: told when it is news."""
        out: list[Instruction] = []
        charge = self._charges.get(event.uid)
        if charge is not None and charge.stage is ChargeStage.SPAWNING:
            seen = waiting(event)
            if seen != charge.seen:
                charge.seen = seen
                self._report((charge,), out)
        return out

    def _run(
        self, charge: Charge, start: Began | KnownAttempt, now_s: float, out: list[Instruction]
    ) -> None:
        charge.run(start)
        if charge.stopping:
            self._terminate(charge, now_s, out)
        elif charge.suspended:
            out.append(Signal(charge.uid, SIGSTOP))

    def _settle(self, charge: Charge, stage: ChargeStage, seen: Seen) -> None:
        charge.stage = stage
        charge.seen = seen
        charge.launch = None
        charge.term_at_s = charge.kill_at_s = None
        self._stopping.pop(charge.uid, None)

    def _drop_unwanted(self, charges: Iterable[Charge], out: list[Instruction]) -> None:
        over = [charge.uid for charge in charges if charge.over and not charge.wanted]
        for uid in over:
            del self._charges[uid]
        if over:
            out.append(Forget(tuple(over)))

    def on_oom(self, uid: str, detail: str, now_s: float) -> list[Instruction]:
        """It used more memory than it asked for: ``detail`` says how much."""
        out: list[Instruction] = []
        charge = self._charges.get(uid)
        if charge is not None and charge.stage is ChargeStage.RUNNING:
            charge.stopping = True
            self._kill(charge, now_s, detail, out)
        return out

    def on_must_end(self, uid: str, why: str, most_s: float, now_s: float) -> list[Instruction]:
        """It is asked to end, within ``most_s``, and its end will say why."""
        out: list[Instruction] = []
        charge = self._charges.get(uid)
        if charge is not None and charge.stage is ChargeStage.RUNNING and not charge.stopping:
            charge.stopping = True
            charge.grace_s = min(charge.grace_s, most_s)
            self._terminate(charge, now_s, out, why)
        return out

    def next_timer_s(self) -> float | None:
        """When ``on_timer`` is due; None while no grace period runs and nothing is untold."""
        due = [self._tell_at_s]
        for charge in self._stopping.values():
            due += charge.kill_at_s, charge.term_at_s
        return min((at_s for at_s in due if at_s is not None), default=None)

    def on_timer(self, now_s: float) -> list[Instruction]:
        out: list[Instruction] = []
        if self._tell_at_s is not None and self._tell_at_s <= now_s:
            self._report((), out)
        for charge in self._stopping.values():
            if charge.kill_at_s is not None and charge.kill_at_s <= now_s:
                charge.term_at_s, charge.kill_at_s = None, now_s + KILL_AGAIN_S
                out.append(Signal(charge.uid, SIGKILL))
            elif charge.term_at_s is not None and charge.term_at_s <= now_s:
                charge.term_at_s = None
                out.append(Signal(charge.uid, SIGTERM))
        return out

    def _report(
        self, charges: Iterable[Charge], out: list[Instruction], *, full: bool = False
    ) -> None:
        """Tell the controller, once it and we agree on a starting point; untold starts go along."""
        untold, self._untold, self._tell_at_s = self._untold, {}, None
        if not self._synced:
            return  # The full set that begins a session tells everything.
        told = ({} if full else untold) | {charge.uid: charge for charge in charges}
        seen = tuple(
            [item.seen for item in told.values() if item.seen is not None and (full or item.wanted)]
        )
        if not seen and not full:
            return
        self.reported += 1
        out.append(Observed(self._session, self.reported, seen, full))
