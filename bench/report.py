"""What a benchmark found: rows with a yardstick, a ratio and a bar, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

REACHED, MISSED, SHOWN, SKIPPED = "reached", "NOT reached", "-", "skipped"


@dataclass(frozen=True)
class Bar:
    """What the figure must reach: ``ratio >= 0.5``, ``value <= 10``."""

    on: Literal["ratio", "value"]
    sense: Literal[">=", "<="]
    limit: float

    def holds(self, figure: float) -> bool:
        return figure >= self.limit if self.sense == ">=" else figure <= self.limit

    def __str__(self) -> str:
        return f"{self.on} {self.sense} {number(self.limit)}"


def ratio_at_least(limit: float) -> Bar:
    return Bar("ratio", ">=", limit)


def ratio_at_most(limit: float) -> Bar:
    return Bar("ratio", "<=", limit)


def value_at_least(limit: float) -> Bar:
    return Bar("value", ">=", limit)


def value_at_most(limit: float) -> Bar:
    return Bar("value", "<=", limit)


@dataclass(frozen=True)
class Row:
    """One measured figure beside what it is measured against.

    ``ratio`` is the median of the ratios of single rounds where a section measures in rounds, so
    it need not be exactly ``value / yardstick_value``.
    """

    section: str
    what: str
    value: float | None
    unit: str
    yardstick: str = ""
    yardstick_value: float | None = None
    ratio: float | None = None
    bar: Bar | None = None
    note: str = ""
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return SHOWN if self.value is not None else SKIPPED
        figure = self.ratio if self.bar.on == "ratio" else self.value
        if figure is None:
            return SKIPPED
        return REACHED if self.bar.holds(figure) else MISSED

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "bar": str(self.bar) if self.bar else None, "verdict": self.verdict}


def against(
    section: str, what: str, unit: str, value: float, yardstick: str, yardstick_value: float | None,
    bar: Bar | None = None, *, ratio: float | None = None, note: str = "",
    samples: dict[str, Any] | None = None,
) -> Row:  # fmt: skip
    """A row whose ratio is value over yardstick, unless a better one was measured in rounds."""
    if ratio is None and yardstick_value:
        ratio = value / yardstick_value
    return Row(
        section, what, value, unit, yardstick, yardstick_value, ratio, bar, note, samples or {}
    )


def number(figure: float | None) -> str:
    """Three digits that matter."""
    if figure is None:
        return ""
    size = abs(figure)
    if size >= 100:
        return f"{figure:,.0f}"
    if size >= 10:
        return f"{figure:.1f}"
    if size >= 1:
        return f"{figure:.2f}"
    return f"{figure:.3g}"


HEAD = ("section", "measured", "", "yardstick", "", "ratio", "bar", "verdict")


def table(rows: list[Row]) -> str:
    """The rows in columns, notes below."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    numeric = {2, 4, 5}
    text = []
    for line in lines:
        cells = [
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"  {row.section}: {row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*text, *(["", "notes", *notes] if notes else [])])


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.section,
        row.what,
        f"{number(row.value)} {row.unit}".strip(),
        row.yardstick,
        number(row.yardstick_value),
        number(row.ratio),
        str(row.bar) if row.bar else "",
        row.verdict,
    )
