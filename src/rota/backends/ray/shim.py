"""Runs on a node of Ray between the job server and the program of an attempt.

It travels with the attempt and needs nothing but a plain Python. The program finds its folder, its
limits, its input and exactly its environment; what it prints and how it ends are written into files
of Ray's log folder, from where the dashboard serves them:

    NAME.out, NAME.err   what it printed, or links to where the job wanted it
    NAME.state           lines: ``started TIME``, then ``exit CODE TIME`` or ``signal NUMBER TIME``;
                         or ``unstarted job|node WHY``
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

#: The exit code where the program was not started; NAME.state says why.
UNSTARTED = 253
#: Ray chooses devices, and its word on them counts.
DEVICES = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
    "ASCEND_RT_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
    "TPU_VISIBLE_CHIPS",
    "HABANA_VISIBLE_MODULES",
)
#: By which a program of Ray finds its cluster.
ADDRESS = "RAY_ADDRESS"
_PR_SET_PDEATHSIG = 1
_MINOR = ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "ALRM", "PROF", "XCPU", "PIPE")


class NotStarted(Exception):
    """Why the program cannot be started, and for whose sake."""

    def __init__(self, fault: str, why: str) -> None:
        super().__init__(f"{fault} {why}")


def main() -> None:
    """As the entry point of a job: the job server's own file of output tells where the folder is.

    Of a member of a gang, the folder of its files and the paths of its output and notes are given.
    """
    if len(sys.argv) > 1:
        folder, path, state = sys.argv[1:]
        end_with_parent()
        job = read_job(folder)
        end_as(watch(job, folder, path, environment_of(job), state))
    folder = os.getcwd()
    job = read_job(folder)
    logs = os.path.dirname(os.readlink("/proc/self/fd/1"))
    os.write(1, f"rota: the output is in {job['name']}.out and .err beside this file\n".encode())
    path = os.path.join(logs, job["name"])
    end_as(watch(job, folder, path, environment_of(job), path))


def read_job(folder: str) -> Any:  # noqa: ANN401
    """Once: packages stay on a node for a while."""
    path = os.path.join(folder, "job.json")
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    os.unlink(path)
    return job


def environment_of(job: Any) -> dict[str, str]:  # noqa: ANN401
    """The attempt's own, with Ray's word on devices where it asked for some."""
    environment: dict[str, str] = dict(job["environment"])
    if ADDRESS in os.environ:
        environment.setdefault(ADDRESS, os.environ[ADDRESS])
    if job["gpus"]:
        environment.update({name: os.environ[name] for name in DEVICES if name in os.environ})
    return environment


def watch(
    job: Any,  # noqa: ANN401
    folder: str,
    path: str,
    environment: dict[str, str],
    state: str,
) -> int:
    """Start the program, wait for it, and write down how it fared; its wait status.

    A stop reaches every process of the job: the watch takes no notice and sees how it ends.
    """
    every = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, every)
    for name in _MINOR:
        signal.signal(getattr(signal, f"SIG{name}"), lambda *_: None)
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        become(job, folder, path, environment, told)
    os.close(told)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, every)
    with os.fdopen(heard, "rb") as file:
        why = file.read().decode(errors="replace")
    note(state, f"unstarted {why}" if why else f"started {time.time():.3f}")
    _, wait_status = os.waitpid(child, 0)
    if why:
        return UNSTARTED << 8
    dead = os.WIFSIGNALED(wait_status)
    number = os.WTERMSIG(wait_status) if dead else os.WEXITSTATUS(wait_status)
    note(state, f"{'signal' if dead else 'exit'} {number} {time.time():.3f}")
    return wait_status


def note(path: str, line: str) -> None:
    """In one write: who reads it sees whole lines."""
    file = os.open(f"{path}.state", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def end_as(wait_status: int) -> NoReturn:
    """The way that the program did, so that Ray sees the truth."""
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.WEXITSTATUS(wait_status))


def end_with_parent() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def become(
    job: Any,  # noqa: ANN401
    folder: str,
    path: str,
    environment: dict[str, str],
    told: int,
) -> NoReturn:
    """The program. Why it cannot be is told, and nothing is told of one that has begun."""
    try:
        end_with_parent()
        prepare(job, folder, path)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        begin(job, folder, environment)
    except NotStarted as error:
        os.write(told, str(error).encode(errors="replace"))
    except BaseException as error:
        os.write(told, f"node {error}".encode(errors="replace"))
    os._exit(UNSTARTED)


def prepare(job: Any, folder: str, path: str) -> None:  # noqa: ANN401
    """Folder, umask, files and limits."""
    try:
        os.chdir(job["workdir"])
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise NotStarted("job", f"working folder {job['workdir']}: {why}") from None
    os.umask(job["umask"])
    source = os.path.join(folder, "stdin") if job["stdin"] else os.devnull
    os.dup2(os.open(source, os.O_RDONLY), 0)
    if job["stdin"]:
        os.unlink(source)
    out = opened(job, "stdout", f"{path}.out")
    same = job["stdout"] and job["stderr"] in ("", job["stdout"])
    if same:
        os.symlink(f"{path}.out", f"{path}.err")
    err = out if same else opened(job, "stderr", f"{path}.err")
    os.dup2(out, 1)
    os.dup2(err, 2)
    for name, most in job["ulimits"].items():
        limit(name, most)


def opened(job: Any, stream: str, own: str) -> int:  # noqa: ANN401
    """The file of a stream; where the job names one, ours is a link to it."""
    path = job[stream]
    flags = os.O_WRONLY | os.O_CREAT
    if not path:
        return os.open(own, flags | os.O_APPEND, 0o600)
    try:
        if job["outputs"]:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        file = os.open(path, flags | (os.O_TRUNC if job["outputs"] == "truncate" else os.O_APPEND))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise NotStarted("job", f"{stream} file {path}: {why}") from None
    os.symlink(os.path.abspath(path), own)
    return file


def limit(name: str, most: int) -> None:
    """The soft one: the program may go up to the hard one by itself."""
    kind = getattr(resource, f"RLIMIT_{name.upper()}", None)
    if kind is None:
        raise NotStarted("job", f"ulimit {name}: not known on this node")
    wanted = resource.RLIM_INFINITY if most < 0 else most
    try:
        resource.setrlimit(kind, (wanted, resource.getrlimit(kind)[1]))
    except (OSError, ValueError):
        raise NotStarted("job", f"ulimit {name}={most}: above the hard limit") from None


def begin(job: Any, folder: str, environment: dict[str, str]) -> NoReturn:  # noqa: ANN401
    argv = list(job["argv"])
    if job["script"]:
        script = os.path.join(folder, "script")
        os.chmod(script, 0o700)
        argv.insert(0, script)
    try:
        os.execvpe(argv[0], argv, environment)
    except FileNotFoundError:
        raise NotStarted("job", f"command not found: {argv[0]}") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise NotStarted("job", f"cannot execute {argv[0]}: {why}") from None


if __name__ == "__main__":
    main()
