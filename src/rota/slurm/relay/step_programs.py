"""The two programs made of a stepper: ``srun`` or ``salloc``, and a stand-in inside a job.

Part of one script with ``relay.py``, ``step_tasks.py`` and ``stepper.py``; see there.
"""

import os
import sys
import time

from rota.slurm.relay.relay import COMPLAINTS, UNREACHABLE, Exchange, connect, request, write
from rota.slurm.relay.step_tasks import batch
from rota.slurm.relay.stepper import Stepper

#: A stand-in whose line broke tries again after this time, as long as its job lives.
REDIAL_S = 1.0
#: So often srun tries to tell a new controller how its step ended.
TELLS = 5


def converse(program: str, argv: "list[str]") -> int:
    """``srun`` and ``salloc``: to the exit code."""
    line, begin = connect(dict(os.environ))
    if line is None:
        write(2, (COMPLAINTS[program] + UNREACHABLE + "\n").encode())
        return 1
    exchange = Exchange(line)
    try:
        exchange.send(b"R", request(program, argv), begin)
        exchange.begin()
    except OSError:
        return broken(program, 0)
    if exchange.status != 200:
        body = exchange.read(exchange.left)
        text = body.partition(b'"detail":"')[2].partition(b'"')[0]
        write(2, program.encode() + b": error: " + text + b"\n")
        return 1
    stepper = Stepper(exchange, is_stand_in=False)
    code = stepper.run()
    if stepper.exchange is not None:
        return code
    if program == "salloc" and stepper.job:
        give_back(stepper.job)
    if not stepper.whole:
        return broken(program, code)
    if program == "srun":
        tell_end(stepper)
    return code


def tell_end(stepper: Stepper) -> None:
    """A new controller learns how the step ended that it never saw; without one nobody does."""
    words = ["ended", str(stepper.step), str(stepper.worst)]
    for _ in range(TELLS):
        if ask("slurmstepd", words):
            return
        time.sleep(REDIAL_S)


def broken(program: str, code: int) -> int:
    """How tasks elsewhere ended, or whether they began, was never told: that is no success."""
    write(2, f"{program}: error: the line to the controller broke\n".encode())
    return max(code, 1)


def give_back(job: str) -> None:
    """The command of an allocation has ended without a line: nobody else would end the job."""
    ask("scancel", [job])


def ask(program: str, words: "list[str]") -> bool:
    """One short question; whether somebody has answered it."""
    line, begin = connect(dict(os.environ))
    if line is None:
        return False
    try:
        exchange = Exchange(line)
        exchange.send(b"R", request(program, words), begin)
        exchange.begin()
        exchange.frame()
    except OSError:
        return False
    return True


def stand_in() -> int:
    """On a node of a job: start what is ordered, until the server says that the job is over."""
    ended: list[str] = []
    while True:
        line, begin = connect(dict(os.environ))
        if line is not None:
            try:
                exchange = Exchange(line)
                exchange.send(b"R", request("slurmstepd", ended), begin)
                exchange.begin()
                if exchange.status == 200:
                    stepper = Stepper(exchange, is_stand_in=True)
                    code = stepper.run()
                    if stepper.exchange is not None:
                        return code
                    ended = [str(code)] if stepper.started else ended
            except OSError:
                line = None
        time.sleep(REDIAL_S)


def begin() -> int:
    name, *words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    if name in COMPLAINTS:
        return converse(name, words)
    first = os.environ.get("ROTA_TASK_INDEX", "0") == "0"
    return batch() if first and words and words[0] == "batch" else stand_in()


if __name__ == "__main__":
    try:
        result = begin()
    except BrokenPipeError:
        result = 141
    sys.stdout.flush()
    sys.exit(result)
