"""The mutation run: it finds the changes that it should, and every verdict is about one of them."""

import ast
from types import ModuleType

import pytest

from bench.mutants import __main__ as mutate
from bench.mutants import verdicts
from bench.mutants.operators import mutants_of
from bench.mutants.sources import HIT, mark_blocks


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(ast.parse(source))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", ["a < b -> a <= b"]),
        ("return a is None", ["a is None -> a is not None"]),
        ("return a + b", ["a + b -> a - b"]),
        ("return a and not b", ["a and (not b) -> a or not b", "not b -> b"]),
        ("return a[1]", ["a[1] -> a[2]"]),
        ("return min(a)", ["min(a) -> max(a)"]),
        ("return sorted(a, key=b)", ["sorted(a, key=b) -> sorted(a)"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("a.b(c)", ["a.b(c) -> pass"]),
        ("a = b", []),
        ("raise ValueError(a + 1)", []),
        ("'words'", []),
    ],
)
def test_a_line_is_changed_in_every_way_that_makes_it_wrong(line: str, expected: list[str]):
    assert changes(f"def f(a, b, c):\n    {line}") == expected


def test_answers_are_turned_round_or_left_out_by_what_a_function_says_that_it_returns():
    assert changes("def f(a) -> bool:\n    return a") == ["return a -> return not a"]
    assert changes("def f(a) -> int | None:\n    return a") == ["return a -> return None"]
    assert changes("def f(a) -> int:\n    return a") == []


def test_equal_changes_of_one_function_are_told_apart_by_a_number():
    source = "def f(a):\n    a.go()\n    a.go()"

    assert changes(source) == ["a.go() -> pass", "a.go() -> pass #2"]


def test_a_mutant_is_the_same_program_but_for_its_change():
    tree = ast.parse("def f(a, b):\n    return a < b, a + b")

    mutants_of(tree)[1].apply()

    assert ast.unparse(tree) == "def f(a, b):\n    return (a < b, a - b)"


def test_every_block_says_when_it_runs_and_a_mutant_knows_its_block():
    source = "def f(a):\n    if a:\n        return 1\n    return a + 2\n"
    marked, hits = ast.parse(source), []
    mark_blocks("m", marked)
    module = ModuleType("m")
    module.__dict__[HIT] = hits.append

    exec(compile(marked, "m", "exec"), module.__dict__)
    module.f(0)

    assert hits == [("m", 2), ("m", 4)]
    reached = {mutant.change: mutant.reached for mutant in mutants_of(ast.parse(source))}
    assert reached["a + 2 -> a - 2"] == 4
    assert reached["return 1 -> return 2"] == 3


def test_every_verdict_is_about_a_mutant_that_exists_and_gives_a_reason():
    judged = verdicts.read(mutate.JUDGED)

    known = {mutate.named(one) for one in mutate.all_mutants([])}

    assert [name for name in judged if name not in known] == []
    assert all(len(because) > 10 for because in judged.values())
