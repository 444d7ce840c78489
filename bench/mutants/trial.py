"""Tests in a process of their own: against a mutant, or to see which parts they run.

The process is a copy of one that has the test tools in memory, so that a trial costs little more
than the import of what it tests.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis.stateful  # noqa: F401  In memory before the first copy is made.
import pytest

from bench.mutants.operators import mutants_of
from bench.mutants.sources import ChangedSources

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

#: What a mutant may take beyond its tests: some run for ever.
SLACK_S = 10
LONGER = 3
MEMORY_MAX = 4 << 30
#: The most tests that are tried before all others are even imported.
FIRST = 40
#: Plug-ins that cost time or would get in the way.
WITHOUT = ("cacheprovider", "xdist", "schemathesis", "faulthandler", "rerunfailures")
PLAIN = (
    *("-x", "-q", "-m", "not slow", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
    # A trial has this much of the CPU's time, however long that takes beside others.
    *("-o", "timeout=0"),
    *(word for plugin in WITHOUT for word in ("-p", f"no:{plugin}")),
)
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"


class Wrong(NamedTuple):
    """A mutant by name, and the block of its module in which it lies."""

    module: str
    number: int
    function: str
    change: str
    line: int
    reached: int

    @property
    def name(self) -> str:
        return f"{self.module} {self.function or 'import'}: {self.change}"


class Verdict(NamedTuple):
    wrong: Wrong
    outcome: str
    #: The test that noticed.
    by: str = ""
    took_s: float = 0.0


class ChosenTests:
    """Only these tests, in this order; remembers the first that failed."""

    def __init__(self, names: Iterable[str]) -> None:
        self._rank = {name: at for at, name in enumerate(names)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rank = self._rank
        items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])
        if len(items) < len(rank):
            self.failed = "other tests are collected than before"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or f"{report.nodeid} cannot be imported"


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def try_one(wrong: Wrong, tests: Sequence[str], tests_s: float, answer: Path) -> None:
    """In a process of its own: writes which of these tests failed, or nothing.

    ``tests_s``: what they take without a mutant.
    """
    limit_s = math.ceil(SLACK_S + LONGER * tests_s)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    def change(name: str, tree: ast.Module) -> None:
        mutants_of(tree)[wrong.number].apply()

    ChangedSources(lambda name: name == wrong.module, change).install()
    for some in (tests[:FIRST], tests[FIRST:]):
        failed = run_tests(some, ChosenTests(some)) if some else ""
        if failed:
            answer.write_text(failed)
            return
    answer.write_text("")


def run_tests(names: Sequence[str], chosen: ChosenTests) -> str:
    """Which test failed first, or nothing."""
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    code = pytest.main([*PLAIN, *files], plugins=[chosen])
    return chosen.failed or ("" if code == pytest.ExitCode.OK else f"pytest ended with {code!r}")


class Copy(NamedTuple):
    """A process that works on ``key``, and how it ended."""

    key: Any
    began_s: float
    status: int = 0


def in_copies(tasks: Iterable[tuple[Any, Callable[[], None]]], jobs: int) -> Iterator[Copy]:
    """Each task in a copy of this process, ``jobs`` at a time; what has ended, as it ends."""
    running: dict[int, Copy] = {}
    for key, work in tasks:
        running[_fork(work)] = Copy(key, time.monotonic())
        if len(running) >= jobs:
            yield _next_ended(running)
    while running:
        yield _next_ended(running)


def _next_ended(running: dict[int, Copy]) -> Copy:
    pid, status = os.wait()
    return running.pop(pid)._replace(status=status)


def _fork(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # A group of its own: what a test leaves running goes with it.
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        work()
        status = 0
    finally:
        os._exit(status)


def verdict_of(copy: Copy, wrong: Wrong, answer: Path) -> Verdict:
    took_s = time.monotonic() - copy.began_s
    if os.WIFSIGNALED(copy.status):
        slow = os.WTERMSIG(copy.status) in (signal.SIGXCPU, signal.SIGKILL)
        by = signal.Signals(os.WTERMSIG(copy.status)).name
        return Verdict(wrong, TIMED_OUT if slow else KILLED, by, took_s)
    by = answer.read_text() if answer.exists() else "the test run broke off"
    return Verdict(wrong, KILLED if by else SURVIVED, by, took_s)
