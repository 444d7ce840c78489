"""A plain chart with two logarithmic axes, as SVG text."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50


@dataclass(frozen=True)
class Series:
    """A line through points, with its name for the legend."""

    name: str
    colour: str
    points: list[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class _Axis:
    """Powers of ten around some values, laid out between two positions."""

    low: int
    high: int
    begin: float
    end: float

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def log_chart(title: str, series: list[Series], labels: tuple[str, str]) -> str:
    """The chart of these series; ``labels`` name the axes."""
    xs = [x for each in series for x, _ in each.points]
    ys = [y for each in series for _, y in each.points]
    across = _axis(xs, LEFT, WIDTH - RIGHT)
    up = _axis(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2:.0f}" y="20" text-anchor="middle" font-size="14">{title}</text>',
        *_grid(across, up, labels),
    ]
    for number, each in enumerate(series):
        parts += _line(each, across, up, TOP + 18 + 18 * number)
    return "\n".join([*parts, "</svg>", ""])


def _axis(values: list[float], begin: float, end: float) -> _Axis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return _Axis(low, max(high, low + 1), begin, end)


def _grid(across: _Axis, up: _Axis, labels: tuple[str, str]) -> list[str]:
    parts = []
    for value in across.ticks():
        x = across.at(value)
        parts.append(_rule(x, up.begin, x, up.end))
        parts.append(_text(x, up.begin + 18, f"{value:,.0f}", "middle"))
    for value in up.ticks():
        y = up.at(value)
        parts.append(_rule(across.begin, y, across.end, y))
        parts.append(_text(across.begin - 8, y + 4, f"{value:g}", "end"))
    middle = (across.begin + across.end) / 2
    parts.append(_text(middle, HEIGHT - 10, labels[0], "middle"))
    parts.append(_text(across.begin - 60, up.end - 10, labels[1], "start"))
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _line(series: Series, across: _Axis, up: _Axis, legend_y: float) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in series.points]
    dash = ' stroke-dasharray="6 4"' if series.dashed else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [
        f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="2"{dash}/>',
        f'<line x1="{LEFT + 12}" y1="{legend_y - 4:.0f}" x2="{LEFT + 40}" y2="{legend_y - 4:.0f}" '
        f'stroke="{series.colour}" stroke-width="2"{dash}/>',
        _text(LEFT + 46, legend_y, series.name, "start"),
    ]
    if not series.dashed:
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{series.colour}"/>' for x, y in places
        ]
    return parts
