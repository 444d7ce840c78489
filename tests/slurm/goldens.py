"""Recorded output of a real Slurm: reading it, and comparing its shape with what ours prints.

Values are aside: what must agree is the exit code, the words on stderr, headers, the order and the
sides of columns, the keys of blocks and of JSON, and plain lines once numbers are taken out.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

#: What is called otherwise here than on the recorded machine.
NAMES = {"private": "rota"}
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/.\[\]]*)\s*=(?!=)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}")
_NUMBER = re.compile(r"\d+")


class Golden(NamedTuple):
    """One recorded call."""

    name: str
    command: str
    user: str
    stdout: str
    stderr: str
    code: int

    @property
    def argv(self) -> list[str]:
        """The words of the command, without what a shell did with its output."""
        return shlex.split(re.split(r" \| head| 2>&1", self.command)[0])

    @property
    def simple(self) -> bool:
        """Whether it is one call of one command."""
        return bool(re.match(r"s[a-z]+ ?", self.command)) and not re.search(
            r"; |\$|<<|printf|\| (?!head)", self.command
        )


def read_golden(path: Path) -> Golden:
    first, _, rest = path.read_text().partition("\n")
    body, _, tail = rest.rpartition("[exit ")
    stdout, _, stderr = body.partition("[stderr]\n")
    command = first.removeprefix("$ ")
    user = "root"
    if (who := re.match(r"\((\w+)\) ", command)) is not None:
        user, command = who[1], command[who.end() :]
    return Golden(path.stem, command, user, stdout, stderr, int(tail.split("]")[0]))


def renamed(text: str, ids: dict[str, str]) -> str:
    """A recorded text with our names, and our ids in the place of recorded ones."""
    for theirs, ours in NAMES.items():
        text = re.sub(rf"\b{theirs}\b", ours, text)
    # The part behind the ``_`` of ``8_7`` is an index, and stays.
    return re.sub(r"(?<![\w])\d+(?=\b|_)", lambda number: ids.get(number[0], number[0]), text)


def differences(golden: Golden, stdout: str, stderr: str, code: int) -> list[str]:
    """What is not alike, in words; nothing when all is."""
    found = []
    if code != golden.code:
        found.append(f"exit code {code} instead of {golden.code}")
    if _plain(stderr) != _plain(renamed(golden.stderr, {})):
        found.append(f"stderr {stderr!r} instead of {golden.stderr!r}")
    return found + _compare(golden, stdout)


def _compare(golden: Golden, stdout: str) -> list[str]:
    theirs = golden.stdout
    if theirs.startswith("{"):
        return compare_json(theirs[: theirs.rindex("}") + 1], stdout)
    if theirs.startswith("%YAML"):
        return _compare_keys(theirs, stdout)
    program, *words = golden.argv
    if program == "scontrol" and "show" in words and "=" in theirs:
        one_line, config = "-o" in words, "config" in words
        return compare_blocks(theirs, stdout, one_line=one_line, first_key=config)
    if program in TABLES or ("|" in theirs.partition("\n")[0] and program == "sacctmgr"):
        headless = any(re.fullmatch(r"-\w*h\w*|--noheader", word) for word in words)
        return compare_tables(theirs, stdout, headless=headless)
    alike = _squeezed(stdout) == _squeezed(renamed(theirs, {}))
    return [] if alike else [f"stdout {stdout!r} instead of {theirs!r}"]


#: Programs whose output is a table.
TABLES = {"squeue", "sinfo", "sacct", "sprio", "sshare", "sstat", "sreport"}


def _plain(text: str) -> str:
    return _NUMBER.sub("N", _MOMENT.sub("T", text))


def _squeezed(text: str) -> str:
    """Names are of other lengths here, so the blanks behind them are not counted."""
    return re.sub(r" +(?=\n)| +", " ", _plain(text))


def compare_tables(theirs: str, ours: str, *, headless: bool = False) -> list[str]:
    """Headers are equal, columns stand on the same side, delimiters are as many."""
    their_lines, our_lines = theirs.splitlines(), ours.splitlines()
    if headless or not their_lines:
        return _compare_words(their_lines, our_lines)
    heads = next((n for n, line in enumerate(their_lines, 1) if _is_rule(line)), 1)
    if _MOMENT.fullmatch(their_lines[0]):
        heads = 2
    if _plain(renamed("\n".join(their_lines[:heads]), {})) != _plain("\n".join(our_lines[:heads])):
        return [f"header {our_lines[:heads]} instead of {their_lines[:heads]}"]
    their_rows, our_rows = their_lines[heads:], our_lines[heads:]
    if their_rows and not our_rows:
        return ["no row"]
    header = their_lines[heads - 1] if not _is_rule(their_lines[heads - 1]) else their_lines[0]
    if "|" in header:
        return [f"row {row!r}" for row in our_rows if row.count("|") != header.count("|")]
    return _compare_sides(header, their_rows, our_rows)


def _compare_words(their_lines: list[str], our_lines: list[str]) -> list[str]:
    """Without a header: lines of as many words as the recorded ones."""
    if their_lines and not our_lines:
        return ["no line"]
    counts = {len(line.split()) for line in their_lines}
    return [f"line {line!r}" for line in our_lines if counts and len(line.split()) not in counts]


def _is_rule(line: str) -> bool:
    return bool(line) and not line.strip("- ")


def _compare_sides(header: str, their_rows: list[str], our_rows: list[str]) -> list[str]:
    """Where all recorded values of a column begin, or end, below its name, ours do, too.

    Values as wide as their column do both: then one of the two is enough.
    """
    found = []
    for column in _columns(header)[:-1]:
        tests = [test for test in (_starts, _ends) if all(test(row, column) for row in their_rows)]
        kept = [test for test in tests if all(test(row, column) for row in our_rows)]
        if their_rows and tests and not kept:
            found.append(f"column {column.name} does not stand where it should")
    return found


class _Column(NamedTuple):
    """A word of a header, and how far its values may reach to both sides."""

    name: str
    start: int
    end: int
    before: int
    after: int


def _columns(header: str) -> list[_Column]:
    words = list(re.finditer(r"\S+", header))
    ends = [0, *(word.end() for word in words)]
    starts = [*(word.start() for word in words[1:]), len(header)]
    return [
        _Column(word[0], word.start(), word.end(), before, after)
        for word, before, after in zip(words, ends, starts, strict=False)
    ]


def _starts(row: str, column: _Column) -> bool:
    """On the left side: nothing from the column before up to where its name begins."""
    value = row[column.start : column.after]
    gap = row[column.before : column.start] if column.before else ""
    return not (gap + value).strip() or (bool(value[:1].strip()) and not gap[-1:].strip())


def _ends(row: str, column: _Column) -> bool:
    """On the right side: it ends where its name does."""
    value = row[column.before : column.end]
    return not value.strip() or (
        bool(value[-1:].strip()) and not row[column.end : column.end + 1].strip()
    )


def compare_blocks(
    theirs: str, ours: str, *, one_line: bool = False, first_key: bool = False
) -> list[str]:
    """The same keys in the same lines, for every kind of block that was recorded."""
    wanted = _blocks(theirs, one_line, first_key)
    found = _blocks(ours, one_line, first_key)
    missing = [block for block in wanted if block not in found]
    if not missing:
        return []
    nearest = found[0] if found else ()
    lines = [
        f"line {n}: {b} instead of {a}"
        for n, (a, b) in enumerate(zip(missing[0], nearest, strict=False), 1)
        if a != b
    ]
    return lines or [f"{len(nearest)} lines instead of {len(missing[0])}"]


def _blocks(text: str, one_line: bool, first_key: bool) -> list[tuple[tuple[str, ...], ...]]:
    parts = text.splitlines() if one_line else re.split(r"\n\s*\n", text)
    keys = slice(1) if first_key else slice(None)
    return [
        tuple(tuple(_KEY.findall(line)[keys]) for line in block.splitlines() if "=" in line)
        for block in parts
        if "=" in block
    ]


def _compare_keys(theirs: str, ours: str) -> list[str]:
    """Tagged YAML without values: the head, and an item that begins like the recorded one."""
    their_head, *their_items = _yaml_items(theirs)
    our_head, *our_items = _yaml_items(ours)
    found = [] if their_head == our_head else [f"head {our_head} instead of {their_head}"]
    first = their_items[0]
    if not any(item[: len(first)] == first for item in our_items):
        found.append(f"no item like {first}")
    return found


def _yaml_items(text: str) -> list[list[str]]:
    parts = text.split("\n- !!map\n")
    return [[line.partition(":")[0] for line in part.splitlines()] for part in parts]


def compare_json(theirs: str, ours: str) -> list[str]:
    try:
        mine = json.loads(ours)
    except ValueError:
        return [f"no JSON: {ours[:80]!r}"]
    return _compare_values(json.loads(theirs), mine, "")


def _compare_values(theirs: Any, ours: Any, where: str) -> list[str]:
    if theirs is None or ours is None:
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if list(theirs) != list(ours) and not _by_number(theirs):
            return [f"{where}: keys {list(ours)} instead of {list(theirs)}"]
        return [
            line
            for key in theirs.keys() & ours.keys()
            for line in _compare_values(theirs[key], ours[key], f"{where}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list):
        if theirs and not ours and where.count(".") == 1:
            return [f"{where}: nothing in it"]
        if not theirs or not ours:
            return []
        tries = [_compare_values(theirs[0], one, f"{where}[]") for one in ours]
        return min(tries, key=len)
    number = (int, float)
    alike = type(theirs) is type(ours) or (isinstance(theirs, number) and isinstance(ours, number))
    return [] if alike else [f"{where}: {ours!r} instead of {theirs!r}"]


def _by_number(value: dict[str, Any]) -> bool:
    """A map from numbers: which ones is a value, too."""
    return bool(value) and all(key.isdecimal() for key in value)
