"""Small changes that make a program wrong, one at a time.

A mutant is named by what it changes and not by where: module, function, text before and after, and
a number where a function has the same text twice. So a verdict outlives changes elsewhere.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
EXTREMES = {"min": "max", "max": "min"}
ORDERING = frozenset({"sorted", "min", "max", "sort"})
#: What is shown with what it is a part of, if that is short, too: on its own it says too little.
SHORT = (ast.Constant, ast.Name)
AROUND = (
    ast.expr, ast.keyword, ast.arguments, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return,
)  # fmt: skip
#: A bound of a module that is larger is measured, not reasoned: one more makes it no other.
MEASURED = 10
#: Conditions that no other change turns round.
PLAIN_TESTS = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: What may leave a function, or be left out, in the middle of a list of statements.
FORKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


class Mutant(NamedTuple):
    """One change of a module. ``reached`` is where the block begins that it lies in; 0: import."""

    function: str
    change: str
    line: int
    reached: int
    apply: Callable[[], None]


class Place(NamedTuple):
    """Where in the tree we are."""

    function: str
    #: What the function says that it returns.
    returns: str
    block: int


def mutants_of(tree: ast.Module) -> list[Mutant]:
    """All changes of a module, in the order of its text. ``apply`` changes this very tree."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for mutant in _inside(tree, Place("", "", 0), None):
        name = mutant.function, mutant.change
        seen[name] += 1
        if seen[name] > 1:
            mutant = mutant._replace(change=f"{mutant.change} #{seen[name]}")
        found.append(mutant)
    return found


def blocks_of(body: list[ast.stmt]) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Statements that run together, with the line of the first: what follows a fork is another."""
    start = 0
    for end in range(1, len(body) + 1):
        if end == len(body) or isinstance(body[end - 1], FORKS):
            yield body[start].lineno, body[start:end]
            start = end


def _inside(node: ast.AST, place: Place, parent: ast.AST | None) -> Iterator[Mutant]:
    """The changes of a node, then those of its parts."""
    if _is_silent(node):
        return
    for new in _changed(node, place, parent):
        if new is not None and parent is not None:
            yield _mutant(node, new, place, parent)
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _inside_definition(node, place)
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "type_comment", "ctx"):
            continue
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield from _inside_body(value, place, node)
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _inside(part, place, node)


def _inside_definition(
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, place: Place
) -> Iterator[Mutant]:
    name = f"{place.function}.{node.name}".lstrip(".")
    if isinstance(node, ast.ClassDef):
        yield from _inside_body(node.body, place._replace(function=name), node)
        return
    for default in (*node.args.defaults, *node.args.kw_defaults):
        if default is not None:
            # It is worked out when the module is imported.
            yield from _inside(default, Place(name, "", 0), node.args)
    returns = ast.unparse(node.returns) if node.returns is not None else ""
    # What is worked out once is worked out in whichever test comes first.
    cached = any("cache" in ast.unparse(decorator) for decorator in node.decorator_list)
    yield from _inside_body(node.body, Place(name, returns, 0 if cached else node.lineno), node)


def _inside_body(body: list[ast.stmt], place: Place, owner: ast.AST) -> Iterator[Mutant]:
    for line, block in blocks_of(body):
        here = place._replace(block=line) if place.block else place
        for statement in block:
            yield from _inside(statement, here, owner)


def _is_silent(node: ast.AST) -> bool:
    """What no test can or should notice: words, imports, errors that tell of our own mistakes."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changed(node: ast.AST, place: Place, parent: ast.AST | None) -> Iterator[ast.AST | None]:
    """What may stand in place of a node."""
    if isinstance(node, ast.expr):
        yield from _other_expressions(node, place, parent)
    if isinstance(node, ast.Return):
        yield _other_return(node, place.returns)
    if isinstance(node, ast.Continue | ast.Break):
        yield ast.Break() if isinstance(node, ast.Continue) else ast.Continue()
    if isinstance(node, ast.AugAssign) and type(node.op) in CALCULATED:
        yield _with(node, op=CALCULATED[type(node.op)]())
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, PLAIN_TESTS):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
    if _does_something(node):
        yield ast.Pass()


def _other_expressions(
    node: ast.expr, place: Place, parent: ast.AST | None
) -> Iterator[ast.AST | None]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            yield _with(node, ops=[COMPARED[type(op)]()])
        case ast.BinOp(op=op) if type(op) in CALCULATED:
            yield _with(node, op=CALCULATED[type(op)]())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant():
            yield _other_constant(node, place, parent)
        case ast.Call():
            yield from _other_calls(node)
        case _:
            pass


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _other_constant(node: ast.Constant, place: Place, parent: ast.AST | None) -> ast.AST | None:
    value = node.value
    if isinstance(value, bool):
        return ast.Constant(not value)
    if not isinstance(value, int | float) or isinstance(parent, ast.FormattedValue):
        return None
    if not place.function and value >= MEASURED:
        return None
    return ast.Constant(value + 1)


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if isinstance(node.func, ast.Name) and name in EXTREMES:
        yield _with(node, func=ast.Name(EXTREMES[name], ast.Load()))
    if name in ORDERING:
        for dropped in node.keywords:
            if dropped.arg in ("key", "reverse"):
                yield _with(node, keywords=[word for word in node.keywords if word is not dropped])


def _other_return(node: ast.Return, returns: str) -> ast.AST | None:
    if node.value is None:
        return None
    if returns == "bool" and not isinstance(node.value, ast.Constant | ast.Compare):
        return ast.Return(ast.UnaryOp(ast.Not(), node.value))
    if "None" in returns and ast.unparse(node.value) != "None":
        return ast.Return(ast.Constant(None))
    return None


def _does_something(node: ast.AST) -> bool:
    """A statement whose only use is its effect on something else."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    else:
        return isinstance(node, ast.Delete)
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _mutant(node: ast.AST, new: ast.AST, place: Place, parent: ast.AST) -> Mutant:
    ast.copy_location(new, node)
    ast.fix_missing_locations(new)
    inside = parent if isinstance(node, SHORT) and isinstance(parent, AROUND) else None
    before = _text(node)
    if inside is not None:
        before = _text(inside)
        _replace(parent, node, new)
        after = _text(inside)
        _replace(parent, new, node)
    else:
        after = _text(new)
    line = getattr(node, "lineno", 0)
    return Mutant(
        place.function, f"{before} -> {after}", line, place.block,
        lambda: _replace(parent, node, new),
    )  # fmt: skip


def _text(node: ast.AST) -> str:
    """Of a statement with a body only its head."""
    if isinstance(node, ast.If | ast.While):
        return f"if {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
            return
        if isinstance(value, list):
            for at, part in enumerate(value):
                if part is old:
                    value[at] = new
                    return
    raise LookupError(f"{ast.unparse(old)} is no part of {ast.unparse(parent)}")
