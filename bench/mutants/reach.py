"""Which test runs which part of the scheduling: a mutant is tried with those that reach it.

Every block of the scheduling says when it runs, once for the whole suite. The answer is kept, and
that of a file with tests holds until it changes or any of the sources does.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.mutants.sources import HIT, ChangedSources, mark_blocks
from bench.mutants.trial import PLAIN, in_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PACKAGE = "rota.scheduling"
#: What any test costs beside its own seconds.
LEAST_S = 0.05


class Reach:
    """For each test its seconds and the blocks that it runs."""

    def __init__(self, seconds: dict[str, float], blocks: dict[str, dict[str, list[int]]]) -> None:
        self.seconds = seconds
        #: How many blocks of a module each test runs.
        self._of_module: dict[str, dict[str, int]] = {}
        self._of_block: dict[tuple[str, int], set[str]] = {}
        for test, modules in blocks.items():
            for module, lines in modules.items():
                self._of_module.setdefault(module, {})[test] = len(lines)
                for line in lines:
                    self._of_block.setdefault((module, line), set()).add(test)

    def tests(self, module: str, block: int) -> list[str]:
        """Those that run a block; of an import those that run any of the module.

        First those that run much of the module in little time: they are about it.
        """
        counts, seconds = self._of_module.get(module, {}), self.seconds
        found = self._of_block.get((module, block), ()) if block else counts

        def promise(test: str) -> float:
            return counts[test] / (LEAST_S + seconds[test])

        about = sorted(found, key=lambda test: (-promise(test), test))
        # What is only imported may show anywhere.
        return about or ([] if block else sorted(seconds))


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
    """As kept, or found out by running all tests once; later those of files that changed."""
    digests = _digests(root, folders)
    kept = root / ".mutants" / "reach.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    found = {f: before[f] for f, digest in digests.items() if before.get(f, [""])[0] == digest}
    files = [file for file in digests if file not in found]
    if files:
        say(f"which test runs what: {len(files)} files with tests, once (kept in {kept.parent})")
        found |= {file: [digests[file], *parts] for file, parts in _followed(files, jobs)}
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    seconds: dict[str, float] = {}
    blocks: dict[str, dict[str, list[int]]] = {}
    for file in digests:
        seconds |= found[file][1]
        blocks |= found[file][2]
    return Reach(seconds, blocks)


def _followed(files: Sequence[str], jobs: int) -> Iterator[tuple[str, list[Any]]]:
    """For each file what its tests took and reached."""
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = []
        for number, file in enumerate(files):
            answer = Path(folder, str(number))
            tasks.append((answer, lambda f=file, a=answer: Watch().follow([f], a)))
        for copy in in_copies(tasks, jobs):
            file = files[int(copy.key.name)]
            if not copy.key.exists():
                raise SystemExit(f"a test run broke off: {file}")
            *parts, wrong = json.loads(copy.key.read_text())
            failed += wrong
            yield file, parts
    if failed:
        raise SystemExit("these fail without any mutant:\n" + "\n".join(failed))


def _digests(root: Path, folders: Sequence[str]) -> dict[str, str]:
    """Of each file with tests: what it says, and the sources and tools that all of them share."""
    files = [path for f in folders for path in sorted((root / f).rglob("*.py"))]
    tests = [path for path in files if path.name.startswith("test_")]
    shared = hashlib.sha256()
    for folder in ("src", "tests/support"):
        files += sorted((root / folder).rglob("*.py"))
    for path in files:
        if path not in tests:
            shared.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return {
        str(path.relative_to(root)): hashlib.sha256(
            shared.digest() + path.read_bytes()
        ).hexdigest()[:16]
        for path in tests
    }
