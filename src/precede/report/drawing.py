"""Figures as SVG: small, without a library, coloured by the style sheet of the page.

Colours and line styles are classes, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

__all__ = ["area_chart", "grades_chart", "heat_chart", "line_chart", "strip_chart", "ticks"]

_WIDTH, _HEIGHT = 460.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 12.0, 14.0, 42.0

Point = tuple[float, float]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from low to high, about so many.

    >>> ticks(0.0, 1.0), ticks(3.0, 17.0, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [5.0, 10.0, 15.0])
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten within two positive numbers, not more than seven."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    apart = max(1, math.ceil((last - first) / 6))
    return [10.0**k for k in range(first, last + 1, apart)] or [low]


class _Axis:
    """Where values lie between two ends of the paper."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, log: bool = False):
        if not high > low:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log
        self._of: Callable[[float], float] = math.log10 if log else float
        # Halves, so that the width of the whole range of numbers is still a number.
        self._half = self._of(high) / 2 - self._of(low) / 2

    def __call__(self, value: float) -> float:
        share = (self._of(value) / 2 - self._of(self.low) / 2) / self._half
        return self.begin + min(max(share, -0.5), 1.5) * (self.end - self.begin)

    def ticks(self, count: int) -> list[float]:
        return _powers(self.low, self.high) if self.log else ticks(self.low, self.high, count)


def line_chart(
    curves: Mapping[str, Sequence[Point]],
    *,
    title: str,
    labels: tuple[str, str],
    log: bool = False,
    bars: tuple[Sequence[float], Sequence[int]] | None = None,
    marks: Sequence[tuple[float, str]] = (),
    zero: bool = False,
) -> Markup:
    """Lines through points, with a legend if there are several.

    `bars` are the edges and counts of a histogram drawn along the foot, `marks` upright lines
    with their names; `zero` draws the line y = 0.
    """
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return Markup("")
    # Several lines have a legend above them.
    top = _TOP + (18 * math.ceil(len(curves) / 2) if len(curves) > 1 else 0)
    x, y = _axes(points, log, room=0.22 if bars else 0.0, top=top)
    body = [_frame(x, y, labels)]
    if bars is not None:
        body.append(_bars(x, *bars))
    if zero and y.low < 0 < y.high:
        body.append(f'<path class="zero" d="M{x.begin:.1f} {y(0):.1f}H{x.end:.1f}"/>')
    for at, name in marks:
        body.append(f'<path class="mark" d="M{x(at):.1f} {y.begin:.1f}V{y.end:.1f}"/>')
        anchor = "end" if x(at) > _WIDTH * 0.6 else "start"
        shift = -4 if anchor == "end" else 4
        body.append(_text(x(at) + shift, y.begin - 6, name, anchor))
    for number, curve in enumerate(curves.values()):
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in curve)
        body.append(f'<path class="line s{number % 4}" d="M{path}"/>')
    if len(curves) > 1:
        body.append(_legend(list(curves)))
    return _svg(title, body)


def heat_chart(
    values: Sequence[Sequence[float]],
    counts: Sequence[Sequence[int]],
    bins: Sequence[Sequence[str]],
    *,
    title: str,
    labels: tuple[str, str],
) -> Markup:
    """A cell for each pair of bins: red where it is positive, blue where it is negative.

    Cells without a row are left out. Pointing at a cell shows its bins, its value and its rows.
    """
    most = max((abs(value) for row in values for value in row), default=0.0) or 1.0
    wide = (_WIDTH - _LEFT - _RIGHT) / max(len(values), 1)
    high = (_HEIGHT - _TOP - _BOTTOM) / max(len(values[0]), 1) if values else 0.0
    body = []
    for a, row in enumerate(values):
        for b, value in enumerate(row):
            if counts[a][b] == 0:
                continue
            text = f"{bins[0][a]}; {bins[1][b]}: {value:+.4g}, {counts[a][b]:,} rows"
            body.append(
                f'<rect x="{_LEFT + a * wide:.1f}" y="{_HEIGHT - _BOTTOM - (b + 1) * high:.1f}" '
                f'width="{wide:.1f}" height="{high:.1f}" '
                f'fill="{"#c0392b" if value > 0 else "#2c5fa8"}" '
                f'fill-opacity="{abs(value) / most:.2f}"><title>{escape(text)}</title></rect>'
            )
    for axis, at in ((0, (_LEFT, _HEIGHT - 24)), (1, (4.0, _HEIGHT - _BOTTOM + 10))):
        ends = bins[axis]
        if ends:
            body.append(_text(*at, ends[0], "start"))
        if axis == 0 and len(ends) > 1:
            body.append(_text(_WIDTH - _RIGHT, _HEIGHT - 24, ends[-1], "end"))
    body.append(_text(_WIDTH / 2, _HEIGHT - 6, labels[0], "middle"))
    body.append(_text(4.0, _TOP - 3, labels[1], "start"))
    return _svg(title, body)


def area_chart(points: Sequence[Point], *, title: str, labels: tuple[str, str],
               marks: Sequence[tuple[float, str]] = ()) -> Markup:  # fmt: skip
    """One line from 0 to 1 in y."""
    held = [*points]
    x, _ = _axes(held, log=False, room=0.0)
    y = _Axis(0.0, 1.0, _HEIGHT - _BOTTOM, _TOP)
    body = [_frame(x, y, labels)]
    for at, name in marks:
        if x.low <= at <= x.high:
            body.append(f'<path class="mark" d="M{x(at):.1f} {y.begin:.1f}V{y.end:.1f}"/>')
            body.append(_text(x(at) + 4, y.end + 12, name))
    path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in held)
    foot = f"L{x(held[-1][0]):.1f} {y(0):.1f}L{x(held[0][0]):.1f} {y(0):.1f}Z"
    body.append(f'<path class="area" d="M{path}{foot}"/><path class="line s0" d="M{path}"/>')
    return _svg(title, body)


def strip_chart(length: int, positives: Sequence[int], *, title: str, label: str) -> Markup:
    """The list itself from left to right: a tick for each positive."""
    x = _Axis(0.5, length + 0.5, 10.0, _WIDTH - 10.0)
    width = (x.end - x.begin) / max(length, 1)
    drawn = max(width * 0.8, 0.6)
    body = [f'<rect class="paper" x="{x.begin:.1f}" y="8" width="{x.end - x.begin:.1f}" '
            'height="34"/>']  # fmt: skip
    path = "".join(f"M{x(rank):.1f} 8v34" for rank in positives)
    body.append(f'<path class="ticks" d="{path}" stroke-width="{drawn:.2f}"/>')
    for tick in [1, *(t for t in ticks(1, length) if t > 1)]:
        body.append(_text(x(tick), 57, _short(tick), "middle"))
    body.append(_text(_WIDTH / 2, 73, label, "middle"))
    return _svg(title, body, height=78.0)


def grades_chart(
    ranks: Sequence[Mapping[str, Any]], grades: Sequence[str], *, title: str, label: str
) -> Markup:
    """Stacked shares of the grades at each rank, the best grade darkest and lowest."""
    x = _Axis(0.5, len(ranks) + 0.5, _LEFT, _WIDTH - _RIGHT)
    y = _Axis(0.0, 1.0, _HEIGHT - _BOTTOM, _TOP + 18)
    half = 0.4 * (x.end - x.begin) / len(ranks)
    body = [_grid(y, [0.0, 0.25, 0.5, 0.75, 1.0], x, "{:.0%}")]
    for each in ranks:
        foot = 0.0
        for number, grade in enumerate(reversed(grades)):
            share = each["shares"][grade]
            top = foot + share
            if share > 0:
                body.append(
                    f'<rect class="grade" fill-opacity="{_shade(number, len(grades)):.2f}" '
                    f'x="{x(each["rank"]) - half:.1f}" width="{2 * half:.1f}" y="{y(top):.1f}" '
                    f'height="{y(foot) - y(top):.1f}"><title>{escape(label)} {each["rank"]}: '
                    f"{share:.0%} {escape(grade)}</title></rect>"
                )
            foot = top
        body.append(_text(x(each["rank"]), _HEIGHT - _BOTTOM + 16, str(each["rank"]), "middle"))
    body.append(_text((x.begin + x.end) / 2, _HEIGHT - 6, label, "middle"))
    at = _LEFT
    for number, grade in enumerate(reversed(grades)):
        shade = _shade(number, len(grades))
        body.append(f'<rect class="grade" fill-opacity="{shade:.2f}" x="{at:.1f}" y="4" '
                    f'width="12" height="12"/>{_text(at + 16, 14, grade)}')  # fmt: skip
        at += 30 + 7 * len(grade)
    return _svg(title, body)


# -- parts -----------------------------------------------------------------------------------


def _axes(
    points: Sequence[Point], log: bool, room: float, top: float = _TOP
) -> tuple[_Axis, _Axis]:
    xs, ys = [a for a, _ in points], [b for _, b in points]
    low, high = min(ys), max(ys)
    if not log:
        pad = (0.06 * (high / 2 - low / 2) * 2) or 0.5
        low, high = low - pad - room * (high - low + 2 * pad), high + pad
    return (
        _Axis(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT),
        _Axis(low, high, _HEIGHT - _BOTTOM, top, log=log),
    )


def _frame(x: _Axis, y: _Axis, labels: tuple[str, str]) -> str:
    parts = [_grid(y, y.ticks(5), x, None)]
    for tick in x.ticks(5):
        parts.append(f'<path class="tick" d="M{x(tick):.1f} {y.begin:.1f}v4"/>')
        parts.append(_text(x(tick), y.begin + 17, _short(tick), "middle"))
    parts.append(_text((x.begin + x.end) / 2, _HEIGHT - 6, _cut(labels[0], 60), "middle"))
    middle = (y.begin + y.end) / 2
    parts.append(
        f'<text class="label" transform="translate(12 {middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(_cut(labels[1], 34))}</text>'
    )
    return "".join(parts)


def _grid(y: _Axis, at: Sequence[float], x: _Axis, form: str | None) -> str:
    parts = []
    for tick in at:
        parts.append(f'<path class="grid" d="M{x.begin:.1f} {y(tick):.1f}H{x.end:.1f}"/>')
        text = _short(tick) if form is None else form.format(tick)
        parts.append(_text(x.begin - 6, y(tick) + 4, text, "end"))
    return "".join(parts)


def _bars(x: _Axis, edges: Sequence[float], counts: Sequence[int]) -> str:
    most, foot = max([*counts, 1]), _HEIGHT - _BOTTOM
    tall = 0.17 * (foot - _TOP)
    parts = []
    for left, right, count in zip(edges, edges[1:], counts, strict=False):
        if count:
            height = max(tall * count / most, 1.0)
            begin, end = max(x(left), x.begin), min(x(right), x.end)
            parts.append(f"M{begin:.1f} {foot:.1f}v{-height:.1f}H{end:.1f}v{height:.1f}z")
    return f'<path class="bars" d="{"".join(parts)}"/>' if parts else ""


def _legend(names: Sequence[str]) -> str:
    """Two names to a line."""
    parts = []
    for number, name in enumerate(names):
        left = _LEFT + (number % 2) * (_WIDTH - _LEFT - _RIGHT) / 2
        at = 10 + 18 * (number // 2)
        parts.append(f'<path class="line s{number % 4}" d="M{left:.1f} {at:.1f}h24"/>')
        parts.append(_text(left + 30, at + 4, _cut(name, 22)))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, body: Sequence[str], height: float = _HEIGHT) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


def _shade(number: int, count: int) -> float:
    """Opacity of a grade: the best is full, the worst pale."""
    return 1.0 if count < 2 else 0.12 + 0.88 * (1 - number / (count - 1)) ** 1.3


def _short(value: float) -> str:
    if abs(value) >= 1e5 or 0 < abs(value) < 1e-3:
        return f"{value:.2g}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:.4g}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
