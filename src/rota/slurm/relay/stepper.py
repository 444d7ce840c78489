"""What starts the tasks of a step: ``srun`` and ``salloc`` themselves, and the stand-in on a node.

Runs behind ``relay.py`` as one script, with the standard library only: on a node that is all there
is for certain. The server says what to start; this starts it, passes bytes on and reports ends.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time

from rota.slurm.relay.relay import PART, Exchange, read_file
from rota.slurm.relay.step_taps import Taps, placed
from rota.slurm.relay.step_tasks import (
    FORWARDED,
    StepTask,
    code_of,
    drained,
    kill,
    offer,
    open_output,
    set_size,
    spawn,
    surroundings,
    take_as_input,
)

#: More is not taken from standard input before the tasks have read it.
BACKLOG = 1 << 20


class Stepper:
    """Starts tasks as it is told, and stays until the server says that all is done."""

    def __init__(self, exchange: Exchange, is_stand_in: bool) -> None:
        self.exchange: Exchange | None = exchange
        self.is_stand_in = is_stand_in
        self.tasks: dict[tuple[int, int], StepTask] = {}
        self.label = 0
        #: Files for the output of tasks that run on several nodes, by rank and stream.
        self.sinks: dict[tuple[int, int], int] = {}
        self.halves: dict[tuple[int, int], bytes] = {}
        self.taps = Taps()
        self.reads_stdin = False
        self.sends_stdin = False
        #: The status of the task that ended worst.
        self.worst = 0
        #: Whether tasks were started here, whether that was the whole step, and of which job.
        self.started = False
        self.whole = False
        self.job = ""
        self.step = -1
        self.poll = select.poll()
        self.poll.register(exchange.line.fileno(), select.POLLIN)
        wake, self.alarm = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.wake = wake
        signal.set_wakeup_fd(self.alarm, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.poll.register(wake, select.POLLIN)

    # ---- the loop ----

    def run(self) -> int:
        """The exit code; of a stand-in, -1 when its line broke and its tasks are to be kept."""
        for one in () if self.is_stand_in else FORWARDED:
            signal.signal(one, lambda *_: None)
        for one in (signal.SIGUSR1, signal.SIGUSR2) if self.is_stand_in else ():
            # Meant for the tasks: a signal for all of a job comes by here, too.
            signal.signal(one, signal.SIG_IGN)
        # The first orders may have come together with the head of the answer.
        code = self._line() if self.exchange is not None and self.exchange.buffer else None
        while code is None:
            if self.exchange is None and not self.tasks:
                return code_of(self.worst)
            for number, events in self.poll.poll(self.taps.pause_ms):
                code = self._ready(number, events)
                if code is not None:
                    break
            self._copy_files()
        return code

    def _ready(self, number: int, events: int) -> "int | None":
        if number == self.wake:
            self._signals(os.read(number, 4096))
        elif self.exchange is not None and number == self.exchange.line.fileno():
            return self._line()
        elif number == 0 and self.reads_stdin:
            self._stdin()
        elif events & select.POLLOUT:
            self._feed(number)
        else:
            self._output(number)
        return None

    def _line(self) -> "int | None":
        try:
            while True:
                kind, body = self.exchange.frame()  # type: ignore[union-attr]
                if kind == b"x":
                    self._flush_halves()
                    return body[0]
                self._take(kind, body)
                if not self._has_more():
                    return None
        except OSError:
            # Without the server nothing new begins; what runs goes on to its end.
            self.poll.unregister(self.exchange.line.fileno())  # type: ignore[union-attr]
            self.exchange = None
            return None

    def _has_more(self) -> bool:
        """Whether some of the next frame was read already: then ``poll`` would not tell."""
        exchange = self.exchange
        if exchange is None:
            return False
        pending = getattr(exchange.line, "pending", None)
        return len(exchange.buffer) > 2 or exchange.left > 0 or bool(pending and pending())

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == b"o":
            offer(1, body)
        elif kind == b"e":
            offer(2, body)
        elif kind == b"O":
            self.show(0, int.from_bytes(body[4:8], "big"), body[8], body[9:])
        elif kind == b"I":
            self._give(int.from_bytes(body[:4], "big"), body[4:])
        elif kind == b"J":
            self._give(int.from_bytes(body[:4], "big"), body[8:], int.from_bytes(body[4:8], "big"))
        elif kind == b"g":
            self._send(b"F", read_file(body))
        elif kind == b"d":
            order = json.loads(body)
            getattr(self, "order_" + order.pop("op"))(**order)

    def tell(self, **event: object) -> None:
        self._send(b"E", json.dumps(event).encode())

    def _send(self, kind: bytes, body: bytes) -> None:
        if self.exchange is None:
            return
        try:
            self.exchange.send(kind, body)
        except OSError:
            self.poll.unregister(self.exchange.line.fileno())
            self.exchange = None

    # ---- orders ----

    def order_spawn(
        self,
        cwd: str,
        env: "dict[str, str] | None",
        tasks: "list[dict[str, object]]",
        **how: "object",
    ) -> None:
        """Start the tasks of a step that run here."""
        self.started, self.whole = True, bool(how.get("whole"))
        epilog = str(how.get("epilog") or "")
        how["opened"] = []
        for entry in tasks:
            base = surroundings(env)
            for name, value in entry["env"].items():  # type: ignore[attr-defined]
                if value is None:
                    base.pop(name, None)
                else:
                    base[name] = value
            self.job = base.get("SLURM_JOB_ID", "")
            task = spawn(entry, list(entry["argv"]), cwd, base, how)  # type: ignore[call-overload]
            task.epilog = ([epilog], cwd, base) if epilog else None
            self.step = task.step
            self.tasks[task.step, task.rank] = task
            for number in task.outputs:
                self.poll.register(number, select.POLLIN)
            if task.problem:
                text = f"slurmstepd-{how.get('node', '')}: error: {task.problem}\n"
                self.show(task.step, task.rank, 2, text.encode())
            self.tell(op="started", step=task.step, rank=task.rank, pid=task.pid)

    def order_stdin(self, remote: bool) -> None:
        """From now on what is typed goes to the tasks, here or elsewhere."""
        self.reads_stdin, self.sends_stdin = True, remote
        try:
            self.poll.register(0, select.POLLIN)
        except OSError:
            self._typed(b"")

    def order_source(self, path: str) -> None:
        """A file is our standard input from now on."""
        self.tell(op="opened", **take_as_input(path))

    def order_label(self, width: int) -> None:
        """Each line of a task is printed with its rank in front."""
        self.label = width

    def order_sinks(self, files: "list[dict[str, object]]", append: bool) -> None:
        """What tasks on several nodes print to one file is written here: each file is one."""
        for entry in files:
            path = str(entry["path"])
            try:
                number = open_output(path, append)
            except OSError as error:
                text = f"srun: error: Could not open stdout file: {path}: {error.strerror}\n"
                offer(2, text.encode())
                sys.exit(1)
            for rank, stream in entry["streams"]:  # type: ignore[attr-defined]
                self.sinks[rank, stream] = number

    def order_program(self, argv: "list[str]", env: "dict[str, str]") -> None:
        """Something of the caller's that runs here, before the step or after it."""
        try:
            subprocess.run(argv, env={**os.environ, **env}, check=False)
        except OSError as error:
            offer(2, f"srun: error: {argv[0]}: {error.strerror}\n".encode())
        self.tell(op="ran")

    def order_signal(self, number: int, step: int = -1) -> None:
        for task in list(self.tasks.values()):
            if task.status is None and step in (-1, task.step):
                kill(task.pid, number)

    def order_terminal(self) -> None:
        """Keys go to the tasks one by one, as they are typed."""
        import atexit
        import termios
        import tty

        if os.isatty(0):
            before = termios.tcgetattr(0)
            atexit.register(termios.tcsetattr, 0, termios.TCSADRAIN, before)
            tty.setraw(0)
            self._tell_size()

    def order_tap(self, step: int, on: bool) -> None:
        """Somebody watches a step: what its tasks print is sent to the server, too; or no more."""
        if on:
            self.taps.open([task for task in self.tasks.values() if task.step == step], step)
        else:
            self.taps.close(step)

    def _copy_files(self) -> None:
        for step, rank, stream, part in self.taps.grown():
            self._send(b"T", placed(step, rank, stream) + part)

    def order_window(self, step: int, rows: int, columns: int) -> None:
        for task in self.tasks.values():
            if task.stdin >= 0 and task.step == step:
                set_size(task.stdin, rows, columns)

    def _tell_size(self) -> None:
        try:
            size = os.get_terminal_size(0)
        except OSError:
            return
        self.tell(op="window", rows=size.lines, columns=size.columns)

    # ---- what comes from the outside ----

    def _signals(self, numbers: bytes) -> None:
        for number in set(numbers):
            if number == signal.SIGCHLD:
                self._reap()
            elif number == signal.SIGWINCH:
                self._tell_size()
            elif self.exchange is not None:
                self.tell(op="signal", number=number)
            else:
                self.order_signal(number)

    def _stdin(self) -> None:
        if any(len(task.waiting) > BACKLOG for task in self.tasks.values()):
            time.sleep(0.01)
            return
        try:
            part = os.read(0, PART)
        except OSError:
            part = b""
        self._typed(part)

    def _typed(self, part: bytes) -> None:
        if not part:
            self.reads_stdin = False
            try:
                self.poll.unregister(0)
            except (KeyError, OSError):
                part = b""
        if self.sends_stdin:
            self._send(b"I", part)
        self._give(-1, part)

    def _give(self, step: int, part: bytes, rank: int = -1) -> None:
        """Bytes for the standard input of all tasks here, or of one; none: there are no more."""
        for task in self.tasks.values():
            if task.stdin < 0 or step not in (-1, task.step) or rank not in (-1, task.rank):
                continue
            task.waiting += part
            task.closing = task.closing or not part
            self._feed(task.stdin)

    def _feed(self, number: int) -> None:
        for task in self.tasks.values():
            if task.stdin != number:
                continue
            try:
                task.waiting = task.waiting[os.write(number, task.waiting) :]
            except BlockingIOError:
                pass
            except OSError:
                task.waiting, task.closing = b"", True
            if task.waiting:
                self.poll.register(number, select.POLLOUT)
            elif number not in task.outputs:
                self._drop(number, close=task.closing)
                task.stdin = -1 if task.closing else number
            return

    def _drop(self, number: int, close: bool = True) -> None:
        try:
            self.poll.unregister(number)
        except KeyError:
            close = close and number >= 0
        if close:
            os.close(number)

    # ---- what the tasks say ----

    def _output(self, number: int) -> None:
        for task in self.tasks.values():
            stream = task.outputs.get(number)
            if stream is None:
                continue
            try:
                part = os.read(number, PART)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if part:
                self._printed(task, stream, part)
            else:
                del task.outputs[number]
                if task.stdin == number:
                    task.stdin = -1
                self._drop(number)
                self._report(task)
            return

    def _printed(self, task: StepTask, stream: int, part: bytes) -> None:
        self.show(task.step, task.rank, stream, part)
        # Of a stand-in the server hears everything in any case.
        if task.step in self.taps.steps and not self.is_stand_in:
            self._send(b"T", placed(task.step, task.rank, stream) + part)

    def show(self, step: int, rank: int, stream: int, part: bytes) -> None:
        """Print what a task printed, or hand it on to the program that does."""
        if self.is_stand_in:
            self._send(b"O", placed(step, rank, stream) + part)
        elif not self.label:
            offer(self.sinks.get((rank, stream), stream), part)
        else:
            text = self.halves.pop((rank, stream), b"") + part
            *lines, half = text.split(b"\n")
            lead = b"%*d: " % (self.label, rank)
            offer(
                self.sinks.get((rank, stream), stream),
                b"".join(lead + line + b"\n" for line in lines),
            )
            if half:
                self.halves[rank, stream] = half

    def _flush_halves(self) -> None:
        for (rank, stream), half in self.halves.items():
            place = self.sinks.get((rank, stream), stream)
            offer(place, b"%*d: " % (self.label, rank) + half + b"\n")

    def _reap(self) -> None:
        for task in list(self.tasks.values()):
            status = task.reap() if task.status is None else None
            if status is not None:
                self.worst = max(self.worst, status, key=code_of)
                self._report(task)

    def _report(self, task: StepTask) -> None:
        """An end is told when the task has; what its own children still print is printed."""
        if task.status is None or (task.step, task.rank) not in self.tasks:
            return
        for number in list(task.outputs):
            part = drained(number)
            if part:
                self._printed(task, task.outputs[number], part)
            self._drop(number)
        self._copy_files()
        if task.stdin >= 0 and task.stdin not in task.outputs:
            self._drop(task.stdin)
        del self.tasks[task.step, task.rank]
        used = {"cpu_s": task.cpu_s, "memory_mib": task.memory_mib}
        self.tell(op="exit", step=task.step, rank=task.rank, status=task.status, **used)
