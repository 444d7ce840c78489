"""The rules of the house that no linter knows: sizes, names, loose ends, the checklist's ticks."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.machine import REPOSITORY

PACKAGE = REPOSITORY / "src" / "rota"
MIGRATIONS = PACKAGE / "store" / "migrations"
REQUIREMENTS = REPOSITORY / "tests" / "requirements.md"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
#: Tests and scripts included.
READABLE_LINES = 900
#: More than these side by side, and the folder says nothing about how they belong together.
FOLDER_MODULES_MAX = 24
#: How the names of generated modules end.
GENERATED = ("_pb2", "_pb2_grpc")

#: Words that name no role. They count as whole parts of a name: "utilization" is fine.
BANNED_WORDS = frozenset({"manager", "helper", "helpers", "util", "utils", "handler", "handlers"})
BANNED_WORDS_IN_CLASSES = BANNED_WORDS | {"data", "info"}
#: Names that tests/requirements.md fixes, whatever the rule says.
FIXED_NAMES = frozenset({"QuotaInfo"})

#: What the pure part may import, beside the harmless part of the standard library.
PURE_IMPORTS = {
    "core": {"msgspec", "rota.core"},
    "scheduling": {"msgspec", "rota.core", "rota.scheduling"},
}

#: A loose end is allowed with its reason: the word, then the reason in brackets.
LOOSE_END = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\([^)]{3,}\))")
#: Folders of the machines that this was written on; the pattern does not contain itself.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:wor[k]|roo[t])/")

CHECKLIST_LINE = re.compile(r"^- \[(?P<tick>[ x-])\] (?P<id>[A-Z]\d{2}) (?P<text>.+)$")
#: The end of a line that is struck: why it will not be done.
STRUCK = re.compile(r"\(struck: [^()]{10,}\)$")
#: Lines that name mistakes, and the rows of the table that answers them.
MISTAKES = re.compile(r"each worth a test: (?P<mistakes>.+?)(?: \(tests/[^()]+\))?$")
MISTAKE_ROW = re.compile(r"^\| (?P<id>[A-Z]\d{2}) \| (?P<mistake>.+?) \| (?P<tests>.+) \|$")
PROOFS = re.compile(r"\((?P<proofs>tests/[^()]+)\)$")
#: What the client calls as the core does, words of programs that stand alone (keeper, as_user), and
#: names that the OpenAPI document or plug-ins hold.
SHARED_NAMES = frozenset({"Attempt", "Job", "Node", "NodeView"})
#: Anywhere in a text: a test that holds what is said.
REFERENCE = re.compile(r"tests/[\w/]+\.py(?:::\w+)+")


@cache
def python_files(folder: Path) -> tuple[Path, ...]:
    """All but what script/bindings generates."""
    return tuple(p for p in sorted(folder.rglob("*.py")) if not p.stem.endswith(GENERATED))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is in the repository or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return tuple(unpacked_files())
    paths = (REPOSITORY / name for name in listing.stdout.decode().split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file() and not path.is_symlink()))


def unpacked_files() -> Iterator[Path]:
    """The files of a copy without git: all but environments, caches and builds."""
    for folder, inner, names in os.walk(REPOSITORY):
        inner[:] = sorted(name for name in inner if is_ours(name))
        yield from (Path(folder, name) for name in sorted(names))


def is_ours(folder: str) -> bool:
    if folder.startswith("."):
        return folder == ".ci"
    return folder not in {"__pycache__", "build", "dist", "venv"}


def text_of(path: Path) -> str:
    """The file's text; nothing for pictures and other binary files."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(REPOSITORY)}:{line}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def words(name: str) -> set[str]:
    """The parts of ``snake_case`` and ``CamelCase`` names, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", name)
    return set(spaced.lower().split())


def test_a_name_is_split_into_its_words():
    assert words("JobManager") == {"job", "manager"}
    assert words("parse_HTTPInfo") == {"parse", "http", "info"}
    assert words("cpu_utilization") == {"cpu", "utilization"}


def test_no_module_is_longer_than_one_idea():
    lengths = {path: len(text_of(path).splitlines()) for path in python_files(PACKAGE)}

    too_long = [f"{place(p, n)}: {n} lines" for p, n in lengths.items() if n > FILE_LINES_MAX]

    assert not too_long, "split these modules:\n" + "\n".join(too_long)


def test_no_folder_holds_more_modules_than_a_reader_can_keep_apart():
    modules = (p for p in python_files(PACKAGE) if p.stem != "__init__")
    counts = Counter(p.parent for p in modules if MIGRATIONS not in p.parents)

    crowded = [
        f"{p.relative_to(REPOSITORY)}: {n} modules"
        for p, n in counts.items()
        if n > FOLDER_MODULES_MAX
    ]

    assert not crowded, "divide these folders into rooms:\n" + "\n".join(crowded)


def test_no_function_outgrows_a_screen():
    # A migration is a list of statements in order; cutting it up would hide the order.
    too_long = [
        f"{place(path, node.lineno)}: {node.name} has {length} lines"
        for path in python_files(PACKAGE)
        if MIGRATIONS not in path.parents
        for node in functions(path)
        if (length := node.end_lineno - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not too_long, "split these functions:\n" + "\n".join(too_long)


def test_every_name_says_what_the_thing_is():
    found = []
    for path in python_files(PACKAGE):
        if words(path.stem) & BANNED_WORDS:
            found.append(f"{place(path, 1)}: module {path.stem}")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                banned = BANNED_WORDS_IN_CLASSES
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                banned = BANNED_WORDS
            else:
                continue
            if words(node.name) & banned and node.name not in FIXED_NAMES:
                found.append(f"{place(path, node.lineno)}: {node.name}")

    assert not found, "these names use a word that names no role:\n" + "\n".join(found)


def test_a_class_name_has_one_meaning():
    homes: dict[str, list[str]] = {}
    for path in python_files(PACKAGE):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(place(path, node.lineno))

    shared = {name: found for name, found in homes.items() if len(found) > 1}

    assert {name: shared[name] for name in shared.keys() - SHARED_NAMES} == {}
    assert shared.keys() >= SHARED_NAMES, "a name that is not shared any more"


def test_every_module_opens_with_what_it_is_for():
    silent = [place(p, 1) for p in python_files(PACKAGE) if not ast.get_docstring(parsed(p))]

    assert not silent, "modules without a docstring:\n" + "\n".join(silent)


def mapped_names(package: Path) -> set[str]:
    """The modules that a package's docstring lists: indented, or in front of a gap."""
    lines = (ast.get_docstring(parsed(package / "__init__.py")) or "").splitlines()
    listed = (line.strip().partition("  ")[0] for line in lines if "  " in line)
    return {name.strip(" /") for names in listed for name in names.split(",")} - {""}


#: Packages that are large, and the rooms of those that have some.
MAPPED = [
    "agent", "api", "controller", "core", "scheduling",
    "agent/attempts", "agent/files", "agent/machine", "agent/visits",
    "as_user", "backends", "backends/kubernetes", "backends/slurm", "keeper", "session",
    "api/bodies", "api/door", "api/grpc", "api/jobs", "api/openapi", "api/site", "api/views",
    "api/visits", "api/watch",
    "client", "client/aio", "client/ports",
    "cli", "cli/cluster", "cli/jobs", "cli/rules", "cli/service", "cli/shared", "cli/submit",
    "controller/agents", "controller/chores", "controller/commands", "controller/launches",
    "controller/tick",
    "core/facts", "core/changes", "core/derived", "core/words",
    "scheduling/order", "scheduling/limits", "scheduling/place", "scheduling/later",
    "scheduling/evict", "scheduling/answers",
    "slurm", "slurm/accounting", "slurm/call", "slurm/control", "slurm/formats", "slurm/lists",
    "slurm/orders", "slurm/records", "slurm/relay", "slurm/rest", "slurm/site", "slurm/steps",
    "slurm/submit", "slurm/words",
    "notify", "sim", "store", "web", "web/views", "worlds",
]  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_the_map_of_a_large_package_names_every_module_and_no_other(name):
    package = PACKAGE / name
    modules = {path.stem for path in package.glob("[!_]*.py")}
    parts = {path.parent.name for path in package.glob("*/__init__.py")}

    differing = mapped_names(package) ^ (modules | parts)

    assert not differing, f"the docstring of {name}/__init__.py is the map: {sorted(differing)}"


def test_no_function_only_passes():
    empty = [
        f"{place(path, node.lineno)}: {node.name}"
        for path in python_files(PACKAGE)
        for node in functions(path)
        if isinstance(node.body[-1], ast.Pass)
        and (len(node.body) == 1 or (len(node.body) == 2 and ast.get_docstring(node)))
    ]

    assert not empty, "functions that do nothing:\n" + "\n".join(empty)


def test_only_the_command_line_prints():
    printing = [
        place(path, node.lineno)
        for path in python_files(PACKAGE)
        if PACKAGE / "cli" not in path.parents
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]

    assert not printing, "print outside rota.cli:\n" + "\n".join(printing)


#: Read what people and other programs write, in characters that ``int()`` takes for digits, too.
OUTER_ROOMS = ("api", "cli", "client", "core", "settings", "slurm", "web")


def test_numbers_in_text_of_others_are_made_of_0_to_9():
    lax = re.compile(r"\.is(?:decimal|digit|numeric)\(\)")
    # What runs on a node by itself imports nothing of ours; a header is bytes, and ASCII.
    apart = {"relay", "door"}
    wide = [
        place(path, number)
        for room in OUTER_ROOMS
        for path in python_files(PACKAGE / room)
        if path.parent.name not in apart
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if lax.search(line) and ".isascii()" not in line
    ]

    assert not wide, "say is_digits(text):\n" + "\n".join(wide)


def impure_modules() -> set[str]:
    """The modules that the import contract of the pure part forbids."""
    settings = tomllib.loads(text_of(REPOSITORY / "pyproject.toml"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return {name for c in contracts for name in c.get("forbidden_modules", ())}


def imported_names(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


@pytest.mark.parametrize("part", PURE_IMPORTS)
def test_the_pure_part_imports_the_standard_library_and_msgspec_only(part):
    allowed = PURE_IMPORTS[part]
    harmless = sys.stdlib_module_names - impure_modules()

    foreign = [
        f"{place(path, line)}: {name}"
        for path in python_files(PACKAGE / part)
        for line, name in imported_names(path)
        if not any(name == root or name.startswith(root + ".") for root in allowed)
        and name.partition(".")[0] not in harmless
    ]

    assert not foreign, f"rota.{part} must stay pure:\n" + "\n".join(foreign)


def test_every_loose_end_names_its_reason():
    sources = [p for p in project_files() if p.suffix in {".py", ".sh"} or is_script(p)]

    loose = [
        f"{place(path, number)}: {line.strip()}"
        for path in sources
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if LOOSE_END.search(line)
    ]

    assert not loose, "finish these, or give the reason in brackets:\n" + "\n".join(loose)


def test_no_file_knows_the_machine_that_it_was_written_on():
    found = [
        f"{place(path, number)}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]

    assert not found, "paths of one machine:\n" + "\n".join(found)


def called(node: ast.Call) -> str:
    """The last word of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def says_little(test: ast.expr) -> bool:
    """An assertion that holds of nearly anything: a constant, a type, that something is there."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        return isinstance(test.comparators[0], ast.Constant)
    return isinstance(test, ast.Constant) or (
        isinstance(test, ast.Call) and called(test) == "isinstance"
    )


def judging(function: ast.AST, judges: set[str]) -> bool:
    """Whether a function can fail for what it sees, itself or by what it calls."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not says_little(node.test):
            return True
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and called(node) in judges):
            return True
    return False


def test_every_test_says_more_than_that_something_is_there():
    files = python_files(REPOSITORY / "tests")
    shared = [(f.name, f) for p in files for f in functions(p) if not f.name.startswith("test_")]
    judges = {"raises", "fail", "expect", "run_state_machine_as_test"}
    while more := {name for name, f in shared if name not in judges and judging(f, judges)}:
        judges |= more

    trivial = [
        f"{place(path, node.lineno)}: {node.name}"
        for path in files
        for node in functions(path)
        if node.name.startswith("test_") and not judging(node, judges)
    ]

    assert not trivial, "tests that nothing can make fail:\n" + "\n".join(trivial)


def test_no_file_is_too_long_to_be_read():
    sources = [p for p in project_files() if p.suffix in {".py", ".c", ".sh"} or is_script(p)]
    ours = [path for path in sources if not path.stem.endswith(GENERATED)]

    too_long = [place(p, n) for p in ours if (n := len(text_of(p).splitlines())) >= READABLE_LINES]

    assert not too_long, "\n".join(too_long)


def test_unit_tests_are_many_and_lie_with_the_part_that_they_are_about():
    counts = Counter(
        path.stem
        for path in python_files(REPOSITORY / "tests" / "unit")
        for node in functions(path)
        if node.name.startswith("test_")
    )

    assert counts.total() >= 150
    assert max(counts.values()) <= counts.total() / 10


def is_script(path: Path) -> bool:
    with path.open("rb") as content:
        return content.read(2) == b"#!"


def test_every_script_can_be_run():
    folders = {REPOSITORY / "script", REPOSITORY / ".ci"}
    scripts = [p for p in project_files() if p.parent in folders or is_script(p)]

    stuck = [
        place(path, 1) for path in scripts if not is_script(path) or not os.access(path, os.X_OK)
    ]

    assert scripts
    assert not stuck, "no first line with an interpreter, or no run bit:\n" + "\n".join(stuck)


def checklist() -> list[re.Match[str]]:
    return [m for m in map(CHECKLIST_LINE.match, text_of(REQUIREMENTS).splitlines()) if m]


def test_the_checklist_has_every_number_once_and_in_order():
    found = [line["id"] for line in checklist()]
    parts = sorted({name[0] for name in found})
    boxes = text_of(REQUIREMENTS).count("\n- [")

    expected = [
        f"{part}{number:02}"
        for part in parts
        for number in range(1, 1 + sum(name[0] == part for name in found))
    ]

    assert found == expected
    assert boxes == len(found), "a line of the checklist does not read `- [ ] A01 text`"


def test_every_tick_names_a_test_that_exists():
    problems = []
    for line in checklist():
        if line["tick"] != "x":
            continue
        proofs = PROOFS.search(line["text"])
        if proofs is None:
            problems.append(f"{line['id']}: ticked without (tests/FILE.py::test_name)")
            continue
        named = re.split(r"[,;]\s*", proofs["proofs"])
        problems += [f"{line['id']}: {test}" for test in named if not is_test(test)]

    assert not problems, "ticks that nothing proves:\n" + "\n".join(problems)


def test_every_struck_line_gives_its_reason_and_no_other_line_is_struck():
    wrong = [m["id"] for m in checklist() if (m["tick"] == "-") != bool(STRUCK.search(m["text"]))]

    assert not wrong, f"a struck line reads `- [-] A01 text (struck: why)`: {wrong}"


def test_every_mistake_of_the_checklist_has_a_test_that_would_catch_it():
    asked = [
        (line["id"], mistake)
        for line in checklist()
        if (named := MISTAKES.search(line["text"]))
        for mistake in re.split(r"; (?![^()]*\))", named["mistakes"])
    ]

    rows = [m for m in map(MISTAKE_ROW.match, text_of(REQUIREMENTS).splitlines()) if m]

    assert [(row["id"], row["mistake"]) for row in rows] == asked
    assert all(REFERENCE.findall(row["tests"]) for row in rows)


def test_every_test_that_a_text_names_exists():
    texts = [path for path in project_files() if path.suffix == ".md"]

    missing = [
        f"{place(path, number)}: {name}"
        for path in texts
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        for name in REFERENCE.findall(line)
        if not is_test(name)
    ]

    assert not missing, "texts name tests that are not there:\n" + "\n".join(missing)


def is_test(reference: str) -> bool:
    """Whether ``tests/FILE.py::test_name`` or ``…::Class::test_name`` is there to be run."""
    name, *inner = reference.strip().removesuffix("]").partition("[")[0].split("::")
    path = REPOSITORY / name
    if not inner or not path.is_file():
        return False
    scope: list[ast.stmt] = parsed(path).body
    for step in inner:
        match = [
            node
            for node in scope
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name == step
        ]
        if not match:
            return False
        scope = match[0].body
    return inner[-1].startswith("test_")


def test_a_proof_is_a_function_of_a_test_file():
    here = Path(__file__).relative_to(REPOSITORY)

    assert is_test(f"{here}::test_a_proof_is_a_function_of_a_test_file")
    assert not is_test(f"{here}::test_that_nobody_wrote")
    assert not is_test(f"{here}::is_test")
    assert not is_test("tests/nowhere.py::test_a_proof_is_a_function_of_a_test_file")
    assert not is_test(str(here))
