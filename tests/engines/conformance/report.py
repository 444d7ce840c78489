"""Backend by scenario: what passed at the end of a run, and what the docs promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engines.conformance.scenarios import GROUPS, HAS, SCENARIOS, lacking

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

#: On the report of a test: its backend and the number of its scenario.
PROPERTY = "conformance"
TITLE = "## What every backend is held to"


def section() -> str:
    """That of docs/engines.md, whole."""
    heads = ["", "scenario", *HAS]
    lines = [
        TITLE,
        "",
        "The same scenarios run on own agents and on each engine, through the whole product; a",
        "cell says what a backend lacks for one. `tests/engines/conformance` runs them, and this",
        "table is made from its `scenarios.py`.",
        "",
        _row(heads),
        _row(["---"] * len(heads)),
    ]
    for group, scenarios in GROUPS.items():
        for entry in scenarios:
            cells = [lacking(backend, entry.number) for backend in HAS]
            words = [f"not there: {lack}" if lack else "yes" for lack in cells]
            lines.append(_row([str(entry.number), f"{group}: {entry.title}", *words]))
    return "\n".join([*lines, ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary(stats: dict[str, list[pytest.TestReport]]) -> Iterator[str]:
    """Lines for the end of a run; none, when no scenario was run."""
    found: dict[str, dict[int, str]] = {}
    for outcome in ("skipped", "passed", "failed", "error"):  # The worst word is the last.
        for report in stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    backend, number = value
                    found.setdefault(backend, {})[number] = outcome
    for backend, outcomes in found.items():
        for outcome in ("passed", "failed", "error"):
            if numbers := sorted(n for n, was in outcomes.items() if was == outcome):
                yield f"{backend}: {outcome} {_ranges(numbers)}"
        for number in sorted(n for n, was in outcomes.items() if was == "skipped"):
            lack = lacking(backend, number)
            why = f"not there: {lack}" if lack else "left out"
            yield f"{backend}: {number} {SCENARIOS[number].title}: {why}"


def _ranges(numbers: list[int]) -> str:
    """``1-11, 14``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


if __name__ == "__main__":
    print(section(), end="")
