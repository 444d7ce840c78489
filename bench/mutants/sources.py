"""Changed source for the import system: a module is compiled from another tree than its file's."""

from __future__ import annotations

import ast
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING

from bench.mutants.operators import FUNCTIONS, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType

    #: Changes a module's tree in place; told its name.
    Change = Callable[[str, ast.Module], None]

#: What instrumented code calls at the start of each block.
HIT = "__hit__"


class ChangedLoader(SourceFileLoader):
    """Compiles anew at each import: what was compiled before is another program."""

    def __init__(self, name: str, path: str, change: Change, names: dict[str, object]) -> None:
        super().__init__(name, path)
        self._change, self._names = change, names

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        self._change(fullname, tree)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self._names)
        super().exec_module(module)


class ChangedSources(MetaPathFinder):
    """Serves the modules whose name ``wanted`` accepts."""

    def __init__(
        self, wanted: Callable[[str], bool], change: Change, names: dict[str, object] | None = None
    ) -> None:
        self._wanted, self._change, self._names = wanted, change, names or {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._wanted(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = ChangedLoader(fullname, spec.origin, self._change, self._names)
        return spec

    def install(self) -> None:
        early = [name for name in sys.modules if self._wanted(name)]
        if early:
            raise RuntimeError(f"{early[0]} was imported before its source could be changed")
        sys.meta_path.insert(0, self)


def mark_blocks(module: str, tree: ast.Module) -> None:
    """Every block of every function says that it runs: the module's name and its first line."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    parts = {id(part): part for function in functions for part in ast.walk(function)}
    for part in parts.values():
        if isinstance(part, ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            body = getattr(part, name, None)
            if isinstance(body, list):
                setattr(part, name, _marked(module, body))


def _marked(module: str, body: list[ast.stmt]) -> list[ast.stmt]:
    marked: list[ast.stmt] = []
    for line, block in blocks_of(body):
        mark = ast.parse(f"{HIT}(({module!r}, {line}))").body[0]
        for part in ast.walk(mark):
            ast.copy_location(part, block[0])
        words = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        marked += [*block[:words], mark, *block[words:]]
    return marked
