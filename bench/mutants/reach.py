"""Which test runs which part of the scheduling: a mutant is tried with those that reach it.

Every block of the scheduling says when it runs, once for the whole suite. The answer is kept in a
file and holds until a file of the sources or tests changes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.mutants.sources import HIT, ChangedSources, mark_blocks
from bench.mutants.trial import PLAIN, in_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PACKAGE = "rota.scheduling"


class Reach:
    """For each test its seconds and the blocks that it runs."""

    def __init__(self, seconds: dict[str, float], blocks: dict[str, dict[str, list[int]]]) -> None:
        self.seconds = seconds
        self._of_module: dict[str, set[str]] = {}
        self._of_block: dict[tuple[str, int], set[str]] = {}
        for test, modules in blocks.items():
            for module, lines in modules.items():
                self._of_module.setdefault(module, set()).add(test)
                for line in lines:
                    self._of_block.setdefault((module, line), set()).add(test)

    def tests(self, module: str, block: int) -> list[str]:
        """Those that run a block, the quickest first; all where the import itself is wrong."""
        quickest = sorted(self.seconds, key=lambda test: (self.seconds[test], test))
        if block:
            return [t for t in quickest if t in self._of_block.get((module, block), ())]
        near = self._of_module.get(module, set())
        return sorted(quickest, key=lambda test: test not in near)


class Watch:
    """Notes for each test what it ran and how long it took."""

    def __init__(self) -> None:
        self.hits: set[tuple[str, int]] = set()
        self.seconds: dict[str, float] = {}
        self.blocks: dict[str, dict[str, list[int]]] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.hits.clear()
        began_s = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = round(time.process_time() - began_s, 4)
            here = self.blocks[item.nodeid] = {}
            for module, line in sorted(self.hits):
                here.setdefault(module, []).append(line)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def follow(self, files: Sequence[str], answer: Path) -> None:
        """In a process of its own: runs these files, and writes what they reached."""
        names: dict[str, object] = {HIT: self.hits.add}
        ChangedSources(lambda name: name.startswith(PACKAGE), mark_blocks, names).install()
        code = pytest.main([*PLAIN, *files], plugins=[self])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self.failed.append(f"pytest ended with {code!r} for {' '.join(files)}")
        answer.write_text(json.dumps([self.seconds, self.blocks, self.failed]))


def reach(root: Path, folders: Sequence[str], jobs: int, say: Callable[[str], None]) -> Reach:
    """As kept, or found out by running all tests once."""
    files = [
        str(p.relative_to(root)) for f in folders for p in sorted((root / f).rglob("test_*.py"))
    ]
    kept = root / ".mutants" / f"reach-{_fingerprint(root, folders)}.json"
    if kept.exists():
        return Reach(*json.loads(kept.read_text()))
    say(f"which test runs what: {len(files)} files with tests, once (kept in {kept.parent.name})")
    seconds: dict[str, float] = {}
    blocks: dict[str, dict[str, list[int]]] = {}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = []
        for number, file in enumerate(files):
            answer = Path(folder, str(number))
            tasks.append((answer, lambda f=file, a=answer: Watch().follow([f], a)))
        for copy in in_copies(tasks, jobs):
            if not copy.key.exists():
                raise SystemExit(f"a test run broke off: {files[int(copy.key.name)]}")
            parts = json.loads(copy.key.read_text())
            seconds |= parts[0]
            blocks |= parts[1]
            failed += parts[2]
    if failed:
        raise SystemExit("these fail without any mutant:\n" + "\n".join(failed))
    kept.parent.mkdir(exist_ok=True)
    for old in kept.parent.glob("reach-*.json"):
        old.unlink()
    kept.write_text(json.dumps([seconds, blocks]))
    return Reach(seconds, blocks)


def _fingerprint(root: Path, folders: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for folder in ("src", "tests/support", *folders):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
