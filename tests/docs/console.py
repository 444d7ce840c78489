"""The console blocks of the pages: read, run in a shell, and compared with what comes out."""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.machine import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^(?:[a-z0-9]+)?[$#] (.*)$")
#: A command that only looks may be asked again until the state that the page shows has come.
LOOKS = re.compile(
    r"rota (queue|why|show|logs|nodes|gpus|status|stats|usage|checkpoint list|audit|inventory|group"
    r" list)\b|squeue|sacct|cat |curl -s --unix-socket \$S '?http\S+$"
)
#: Options whose value names jobs.
NAMES_JOBS = ("--after-ok", "--after-any", "--after-not-ok", "--after-data", "--object", "-j", "-d")
#: How a command tells the number of the job that it made.
MADE = (r"(\d+)", r'\{"id":(\d+),.*', r'\{"ids":\[(\d+),.*', r"Submitted batch job (\d+)")
#: What goes on until it is stopped.
STAYS = re.compile(r"rota (forward|agent)\b")
#: What the tests' environment has already.
PREPARED = re.compile(r"pip install\b|python3 -m venv\b")
#: How long such a state may take.
PATIENCE_S = 10.0
#: What differs from run to run, and what may stand in its place.
MOMENT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?Z?"
TIME = r"(?:\d+(?:\.\d+)?(?:ms|d|h|m|s)(?![a-zA-Z]))+(?:\d+(?:ms|d|h|m|s))*|\d+:\d\d(?::\d\d)?"
SIZE = r"\d+(?:\.\d+)?(?: [KM]iB|[KMGT]|B)\b"
VARIES = {
    "moment": (MOMENT, MOMENT),
    "token": (r"rota_[0-9a-f]{8}_\S+", r"rota_[0-9a-f]{8}_\S+"),
    "folder": (r"(?<![\w/:])~?/[\w./~-]+", r"~?/[\w./~-]+"),
    "address": (r"127\.0\.0\.1:\d+", r"127\.0\.0\.1:\d+"),
    "hex": (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", r"[0-9a-f]{8,}"),
    "pid": (r"\bpid \d+", r"pid \d+"),
    # A time of day comes with its date where that is another day.
    "time": (rf"\b(?:{TIME})(?!\w)", rf"(?:{TIME}|{MOMENT})"),
    "size": (rf"\b{SIZE}", rf"(?:{SIZE}|0)"),
    "fraction": (r"\b\d+\.\d+\b", r"\d+\.\d+"),
    "left_out": ("…|\\.\\.\\.", ".*"),
    "large": (r"(?<![\w.])\d{5,}(?![\w.]*\w)", r"\d+"),
    "number": (r"(?<![\w.])\d+(?![\w.]*\w)|(?<=\b)\d+(?=_)", ""),
    "user": (r"\b(?:ann|root)\b", ""),
    "space": (r"\s+", " "),
}
TOKENS = re.compile("|".join(f"(?P<{name}>{shown})" for name, (shown, _) in VARIES.items()))


@dataclass(slots=True)
class Step:
    """A command, and what the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Block:
    """One console block; ``above`` is the text of the page before it."""

    page: str
    line: int
    text: str
    above: str

    @property
    def steps(self) -> list[Step]:
        """Its commands, lines that go on with a backslash joined."""
        steps: list[Step] = []
        for line in re.sub(r"\\\n\s*", "", self.text).splitlines():
            if prompt := PROMPT.match(line):
                steps.append(Step(prompt[1]))
            elif steps:
                steps[-1].shown.append(line)
        return steps


def blocks(page: Path) -> list[Block]:
    """The console blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text[: found.start()].count("\n") + 1, found[2], text[: found.start()])
        for found in FENCED.finditer(text)
        if found[1] == "console"
    ]


class Shell:
    """What a reader has before them: a folder, exported variables, and the ids of earlier jobs."""

    def __init__(self, work: Path, env: Mapping[str, str]) -> None:
        self.work = work
        self.env = dict(env)
        self.variables = work.parent / "exported.sh"
        self.variables.touch()
        #: Number of a job on the page -> its number here.
        self.ids: dict[str, str] = {}

    def run(self, command: str, lines: int = 0) -> tuple[int, str]:
        """The status and all that a command says; what it exports holds for the next one.

        One that would stay is ended when it has said so many lines.
        """
        stays = STAYS.match(command)
        script = f". {self.variables}\n{command}\nrc=$?; declare -px >{self.variables}; exit $rc"
        with subprocess.Popen(
            ["bash", "-c", f". {self.variables}\nexec {command}" if stays else script],
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running:
            if stays and running.stdout is not None:
                said = "".join(running.stdout.readline() for _ in range(lines))
                running.terminate()
            else:
                said, _ = running.communicate(timeout=60)
        return running.returncode, said

    def prepare(self, commands: list[str]) -> None:
        """Run what the page takes for granted; ``12 = COMMAND`` makes job 12 of the page."""
        for command in commands:
            named = re.match(r"(\d+) = ", command)
            rc, said = self.run(self._with_ids(command[named.end() if named else 0 :]))
            assert rc == 0, f"{command}\n{said}"
            if named:
                self.ids[named[1]] = said.split()[-1]

    def take(self, block: Block, given: Mapping[str, Any]) -> list[str]:
        """Run a block: for each command that does not do as the page says, both."""
        return [
            f"{block.page}:{block.line}: $ {step.command}\n--- the page\n"
            + "\n".join(step.shown)
            + f"\n--- what came out\n{wrong}"
            for step in block.steps
            if not PREPARED.match(step.command) and (wrong := self._try(block, step, given))
        ]

    def _try(self, block: Block, step: Step, given: Mapping[str, Any]) -> str:
        """What came out and differs, if anything."""
        self._make_files(block, step)
        command = self._with_ids(step.command)
        end = time.monotonic() + (PATIENCE_S if LOOKS.match(command) else 0)
        while True:
            rc, said = self.run(command, lines=len(step.shown))
            self.ids = self._learned(step, said)
            fits = rc == 0 if not step.shown else fits_page(step.shown, said, self.ids, given)
            if fits or time.monotonic() > end:
                return "" if fits else f"{said}(status {rc})"
            time.sleep(0.05)

    def _with_ids(self, command: str) -> str:
        """The command with the numbers that jobs have here."""
        if command.startswith("curl "):
            command = command.replace(
                "http://127.0.0.1:8082", "$(rota status | sed -n 's/^url: *//p')"
            )
            return re.sub(r"(/jobs/|ations/|\bids=|ids\": \[|cursor=)(\d+)", self._number, command)
        if not command.startswith(("rota ", "sacct ", "sbatch ", "cat slurm-")):
            return command
        submits = re.match(r"rota (submit|run|plan)\b|sbatch", command)
        head, dashes, tail = command.partition(" -- ")
        words = head.split(" ")
        for at, word in enumerate(words[2:], 2):
            if words[at - 1] in NAMES_JOBS or not (submits or words[at - 1].startswith("-")):
                words[at] = re.sub(r"(^|[^\w.-])(\d+)(?![\d.a-zA-Z])", self._number, word)
        return " ".join(words) + dashes + tail

    def _number(self, found: re.Match[str]) -> str:
        return found[1] + self.ids.get(found[2], found[2])

    def _learned(self, step: Step, said: str) -> dict[str, str]:
        """With the number of the job that this command made, and those of its elements."""
        here, there = said.strip().splitlines(), step.shown
        found = dict(self.ids)
        for form in (
            r"(\d+)",
            r'\{"id":(\d+),.*',
            r'\{"ids":\[(\d+),.*',
            r"Submitted batch job (\d+)",
        ):
            ours = re.fullmatch(form, here[-1]) if here else None
            theirs = re.fullmatch(form, there[-1]) if there else None
            if ours and theirs:
                many = re.search(r"--array|--param|:batch", step.command)
                for more in range(10 if many else 1):
                    found[str(int(theirs[1]) + more)] = str(int(ours[1]) + more)
        return found

    def _make_files(self, block: Block, step: Step) -> None:
        """The files that the page shows: by ``cat``, or in the block above the one that uses it."""
        for name in re.findall(r"\b[\w-]+\.(?:sh|py|csv)\b", step.command):
            path = self.work / name
            if step.command == f"cat {name}" and step.shown:
                path.write_text("\n".join(step.shown) + "\n")
            elif not path.exists():
                language = {"py": "python", "sh": "sh", "csv": "text"}[path.suffix[1:]]
                above = [text for kind, text in FENCED.findall(block.above) if kind == language]
                if above:
                    path.write_text(above[-1])


def fits_page(
    shown: list[str], said: str, ids: Mapping[str, str], given: Mapping[str, Any]
) -> bool:
    """Whether what came out is what the page shows, but for what varies and the order of tasks."""
    lines = [" ".join(line.split()) for line in said.strip().splitlines()]
    if "word" in given:
        return _words(shown, given["word"]) == _words(lines, given["word"])
    pattern = _expected(shown, ids, exact="numbers" not in given)
    whole = "".join(f"{line}\n" for line in lines)
    return pattern.fullmatch(whole) is not None or sorted(lines) == sorted(shown)


def _words(lines: list[str], at: int) -> list[str]:
    return [line.split()[at] for line in lines]


def _expected(shown: list[str], ids: Mapping[str, str], *, exact: bool) -> re.Pattern[str]:
    """The lines of a page as a pattern; ``…`` alone on a line stands for any lines."""
    parts = []
    for line in "\n".join(shown).strip().splitlines():
        left_out = line.strip() in ("…", "...")
        parts.append("(?:.*\n)*?" if left_out else _pattern(line.strip(), ids, exact) + "\n")
    return re.compile("".join(parts))


def _pattern(line: str, ids: Mapping[str, str], exact: bool) -> str:
    exact = exact and not (line.startswith("{") and line.endswith("}"))
    made, at = [], 0
    for found in TOKENS.finditer(line):
        made.append(re.escape(line[at : found.start()]))
        at = found.end()
        kind = str(found.lastgroup)
        if kind == "number":
            here = ids.get(found[0], found[0])
            made.append(f"(?:{found[0]}|{here})" if exact else r"\d+")
        elif kind == "user":
            made.append(f"(?:{found[0]}|{re.escape(getpass.getuser())})")
        else:
            made.append(VARIES[kind][1])
    return "".join(made) + re.escape(line[at:])


def surroundings(home: Path) -> dict[str, str]:
    """The variables of a reader's shell: a home of its own, and the ``rota`` of this checkout."""
    kept = {name: os.environ[name] for name in ("LANG", "TZ", "CI") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY / "src"),
        "S": str(home / ".local/state/rota/rota.sock"),
        "ROTA_STATE_DIR": str(home / ".local/state/rota"),
        "ROTA_SERVER_LISTEN": "127.0.0.1:0",
        "ROTA_AGENT_NAME": "box",
        "ROTA_AGENT_CPUS": "4",
        "ROTA_AGENT_MEMORY": "22898m",
    }
