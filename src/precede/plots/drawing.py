"""Charts as lists of layers, drawn as SVG or onto matplotlib's axes.

`Chart.svg` needs no library; the style sheet of the page sets the colors, so that one drawing
serves light mode, dark mode and print. `Chart.onto` draws the same layers onto matplotlib's axes,
for the figures of `precede.plots` and `precede.top`. No other module uses matplotlib, which comes
with ``pip install "precede[plots]"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from precede.engine.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Numbers = Sequence[float] | Array
Span = tuple[float, float]

_WIDTH, _HEIGHT = 440.0, 270.0
_LETTER = 7.6  # mean width of a letter
_LINE = 17.0  # height of a line of text
_INCHES = 0.08  # width of a letter on matplotlib's axes
_MAX_LETTERS = int((0.45 * _WIDTH - 10.0) / _LETTER)  # letters per line of the name of a row
_TICK_LETTERS = 24  # letters of a category or bin on matplotlib's axes
_ROW_LETTERS = 40  # letters per line of the name of a row beside matplotlib's axes
_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_\-./,;:])")  # where a part of a word begins


# -- ticks -----------------------------------------------------------------------------------


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about `count` round numbers between low and high.

    >>> ticks(0.0, 1.0), ticks(3.0, 17.0, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [5.0, 10.0, 15.0])
    """
    if not high > low:
        return [low]
    raw = high / count - low / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(k * step, digits) + 0.0 for k in range(first, last + 1)]


def tick_labels(values: Numbers, *, percent: bool = False) -> list[str]:
    """Return distinct labels of the ticks of one axis.

    Thousands are grouped, except in years; millions are abbreviated.

    >>> tick_labels([0.0, 5000.0, 10000.0]), tick_labels([1990.0, 2000.0, 2010.0])
    (['0', '5,000', '10,000'], ['1990', '2000', '2010'])
    >>> tick_labels([0.0, 2e6]), tick_labels([0.0, 0.25]), tick_labels([0.0, 0.5], percent=True)
    (['0', '2 M'], ['0.00', '0.25'], ['0 %', '50 %'])
    """
    numbers = [100 * value for value in values] if percent else [float(v) for v in values]
    most = max((abs(value) for value in numbers), default=0.0)
    if most >= 1e15 or 0 < most < 1e-4:
        return [f"{value:.3g}" for value in numbers]
    unit, letter = next(
        (
            (unit, letter)
            for unit, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"))
            if most >= unit
        ),
        (1.0, ""),
    )
    years = all(1500 <= value <= 2100 and value == int(value) for value in numbers)
    form = "{:.{digits}f}" if years else "{:,.{digits}f}"
    scaled = [value / unit for value in numbers]
    digits = next(d for d in range(13) if d == 12 or all(_is_round(v, d) for v in scaled))
    texts = [form.format(value + 0.0, digits=digits) for value in scaled]
    ends = " %" if percent else letter
    return [text + (ends if percent or float(value) else "") for text, value in
            zip(texts, scaled, strict=True)]  # fmt: skip


def _is_round(value: float, digits: int) -> bool:
    return abs(round(value, digits) - value) <= 1e-6 * max(abs(value), 10.0**-digits)


def _powers(low: float, high: float) -> list[float]:
    """Return at most seven powers of ten between two positive numbers."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    apart = max(1, math.ceil((last - first) / 6))
    return [10.0**k for k in range(first, last + 1, apart)] or [low]


class Scale:
    """Map from values to coordinates of the drawing."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, log: bool = False):
        if not high > low:
            low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log
        # Halves, so that the width of the widest range does not overflow.
        self._half = self._of(high) / 2 - self._of(low) / 2

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else float(value)

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; values outside the scale are clipped to its ends."""
        share = (self._of(value) / 2 - self._of(self.low) / 2) / self._half
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)

    def ticks(self, count: int) -> list[float]:
        """Return round values within the scale."""
        return _powers(self.low, self.high) if self.log else ticks(self.low, self.high, count)


# -- layers ----------------------------------------------------------------------------------


class Layer:
    """A part of a chart, in the legend if it has a `name`.

    `series` is the index of the color; reference lines are gray: -1 for chance, -2 for the best
    possible. `depth`, for series with an order, is a shade from light (0) to dark (1) instead.
    """

    name: str = ""
    series: int = 0
    depth: float | None = None

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values of x and of y that the axes must include."""
        return (), ()

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        raise NotImplementedError

    def onto(self, ax: Axes) -> None:
        """Draw onto matplotlib's axes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Line(Layer):
    """A line through the finite points; if `stepped`, y keeps its value up to the next x."""

    x: Numbers
    y: Numbers
    name: str = ""
    series: int = 0
    marked: bool = False
    gid: str = ""
    stepped: bool = False
    depth: float | None = None

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return self.x, self.y

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        known = [(a, b) for a, b in zip(self.x, self.y, strict=True) if math.isfinite(b)]
        at = [(f"{x(a):.1f}", f"{y(b):.1f}") for a, b in known]
        points = [f"{a} {b}" for a, b in at]
        marks = "".join(f"M{point}h0" for point in points) if self.marked else ""
        dots = f'<path {_stroke("dots", self)} d="{marks}"/>' if marks else ""
        path = "L".join(points)
        if self.stepped:
            path = "".join([*points[:1], *(f"H{a}V{b}" for a, b in at[1:])])
        return f'<path {_stroke("line", self)} d="M{path}"/>{dots}'

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        style: dict[str, Any] = {"lw": 1.8, "color": _color(self), "gid": self.gid or None}
        style |= {"marker": "o", "ms": 3 if len(self.x) > 1 else 5} if self.marked else {}
        style |= {"drawstyle": "steps-post"} if self.stepped else {}
        ax.plot(self.x, self.y, label=self.name or None, **style)


@dataclass(frozen=True)
class Segments(Layer):
    """Vertical lines from low to high at values of x."""

    at: Numbers
    low: Numbers
    high: Numbers
    depth: float | None = None

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return self.at, [*self.low, *self.high]

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        ends = zip(self.at, self.low, self.high, strict=True)
        path = "".join(f"M{x(at):.1f} {y(low):.1f}V{y(high):.1f}" for at, low, high in ends)
        return f'<path {_stroke("stroke", self)} d="{path}"/>' if path else ""

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        ax.vlines(self.at, self.low, self.high, color=_color(self), lw=1)


@dataclass(frozen=True)
class Band(Layer):
    """The area between two lines: an interval at every x, or the area below a line."""

    x: Numbers
    low: Numbers
    high: Numbers
    series: int = 0
    gid: str = ""

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return self.x, [*self.low, *self.high]

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        forth = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(self.x, self.high, strict=True)]
        back = [f"{x(a):.1f} {y(b):.1f}" for a, b in zip(self.x, self.low, strict=True)]
        return f'<path class="area {_classes(self.series)}" d="M{"L".join(forth + back[::-1])}Z"/>'

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        style: dict[str, Any] = {"alpha": 0.22, "lw": 0, "gid": self.gid or None}
        ax.fill_between(self.x, self.low, self.high, color=_color(self), **style)


@dataclass(frozen=True)
class Foot(Layer):
    """A histogram of the data along the foot of the chart."""

    edges: Numbers
    counts: Sequence[int] | Array
    room = 0.2  # share of the height that the other layers leave free

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        most, foot = max([*self.counts, 1]), y.begin
        tall = 0.16 * abs(y.begin - y.end)
        parts = []
        for left, right, count in zip(self.edges, self.edges[1:], self.counts, strict=False):
            if count:
                high = max(tall * count / most, 1.0)
                parts.append(f"M{x(left):.1f} {foot:.1f}v{-high:.1f}H{x(right):.1f}v{high:.1f}z")
        return f'<path class="bars" d="{"".join(parts)}"/>' if parts else ""

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        most = max([*self.counts, 1])
        heights = [0.16 * count / most for count in self.counts]
        widths = [b - a for a, b in zip(self.edges, self.edges[1:], strict=False)]
        ax.bar(
            self.edges[:-1], heights, widths, align="edge", color="0.85",
            transform=ax.get_xaxis_transform(), zorder=-1, gid="data",
        )  # fmt: skip


@dataclass(frozen=True)
class Dots(Layer):
    """Points colored from low (0) to high (1); NaN is gray."""

    x: Numbers
    y: Numbers
    shade: Numbers
    tones = 5

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return self.x, ()

    def _tone(self, shade: float) -> str:
        return "n" if math.isnan(shade) else str(min(int(shade * self.tones), self.tones - 1))

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        paths: dict[str, list[str]] = {}
        for a, b, shade in zip(self.x, self.y, self.shade, strict=True):
            paths.setdefault(self._tone(shade), []).append(f"M{x(a):.1f} {y(b):.1f}h0")
        return "".join(
            f'<path class="swarm t{tone}" d="{"".join(paths[tone])}"/>' for tone in sorted(paths)
        )

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        known = [0.5 if math.isnan(each) else each for each in self.shade]
        ax.scatter(self.x, self.y, c=known, cmap="coolwarm", s=5, vmin=0, vmax=1)


@dataclass(frozen=True)
class Ranges(Layer):
    """A point with an interval on each row of a chart with named rows."""

    at: Numbers
    middle: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return [each for each in (*self.middle, *self.low, *self.high) if each is not None], ()

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        bars, dots = [], []
        for row, middle, low, high in zip(self.at, self.middle, self.low, self.high, strict=True):
            if middle is None:
                continue
            dots.append(f"M{x(middle):.1f} {y(row):.1f}h0")
            if low is not None and high is not None:
                bars.append(f"M{x(low):.1f} {y(row):.1f}H{x(high):.1f}")
        lines = f'<path class="reach s0" d="{"".join(bars)}"/>' if bars else ""
        return f'{lines}<path class="dots s0" d="{"".join(dots)}"/>'

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        middle, low, high = (np.array(each, float) for each in (self.middle, self.low, self.high))
        reach = [np.nan_to_num(middle - low), np.nan_to_num(high - middle)]
        ax.errorbar(middle, self.at, xerr=reach, fmt="o", ms=4, color="C0")


@dataclass(frozen=True)
class Blocks(Layer):
    """Rectangles (left, right, bottom, top), colored by value, each with a tooltip.

    `tone` is "grade" for shades from 0 to 1, "signed" for values from -1 to 1, "bar" for bars.
    """

    boxes: Sequence[tuple[float, float, float, float]]
    values: Numbers
    tips: Sequence[str]
    tone: str = "grade"

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        x, y = ([end for box in self.boxes for end in box[k : k + 2]] for k in (0, 2))
        return x, y

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        parts = []
        for box, value, tip in zip(self.boxes, self.values, self.tips, strict=True):
            left, right, bottom, top = x(box[0]), x(box[1]), y(box[2]), y(box[3])
            tone = self.tone
            if tone == "signed":
                tone = "plus-cell" if value > 0 else "minus-cell"
            opacity = "" if self.tone == "bar" else f' fill-opacity="{abs(value):.2f}"'
            title = f"<title>{escape(tip)}</title>" if tip else ""
            parts.append(
                f'<rect x="{min(left, right):.1f}" y="{min(bottom, top):.1f}" '
                f'width="{max(abs(right - left), 0.4):.1f}" height="{abs(top - bottom):.1f}" '
                f'class="{tone}"{opacity}>{title}</rect>'
            )
        return "".join(parts)

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        for (left, right, bottom, top), value in zip(self.boxes, self.values, strict=True):
            color = "C0" if self.tone != "signed" else "C3" if value > 0 else "C0"
            alpha = 1.0 if self.tone == "bar" else min(abs(value), 1.0)
            ax.bar(left, top - bottom, right - left, bottom, align="edge", color=color, alpha=alpha)


@dataclass(frozen=True)
class Cells(Layer):
    """A function of two features: red cells raise the score, blue ones lower it.

    ``values[a][b]`` and the number of rows ``counts[a][b]`` belong to the bins a and b, whose names
    are `labels`, shown by tooltips in pages. Cells without rows are blank. On matplotlib's axes
    the number of rows is written into the cells if they are few; else cells of few rows are paler.
    """

    values: Array
    counts: Array
    labels: Sequence[Sequence[str]]
    most_written = 10

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return (0, len(self.labels[0])), (0, len(self.labels[1]))

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        most = float(np.abs(self.values).max(initial=0.0)) or 1.0
        boxes, shades, tips = [], [], []
        for (a, b), count in np.ndenumerate(self.counts):
            value = float(self.values[a, b])
            if count:
                boxes.append((a, a + 1, b, b + 1))
                shades.append(value / most)
                bins = f"{self.labels[0][a]}; {self.labels[1][b]}"
                tips.append(f"{bins}: {value:+.4g}, {count:,} rows")
        return Blocks(boxes, shades, tips, "signed").svg(x, y)

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        most = float(np.abs(self.values).max(initial=0.0)) or 1.0
        few, rows = max(self.values.shape) <= self.most_written, self.counts > 0
        usual = np.median(self.counts[rows]) if rows.any() else 1.0
        alpha = np.where(rows, 1.0 if few else np.clip(self.counts / usual, 0.25, 1.0), 0.0)
        drawn = ax.imshow(
            self.values.T, cmap="RdBu_r", vmin=-most, vmax=most, origin="lower", aspect="auto",
            alpha=alpha.T, gid="pair", extent=(0, len(self.labels[0]), 0, len(self.labels[1])),
        )  # fmt: skip
        for (a, b), count in np.ndenumerate(self.counts) if few else ():
            dark = abs(self.values[a, b]) > 0.6 * most and count > 0
            style: dict[str, Any] = {"fontsize": 7, "color": "white" if dark else "0.2"}
            ax.text(a + 0.5, b + 0.5, f"{count}", ha="center", va="center", **style)
        ax.figure.colorbar(drawn, ax=ax, label="added to the score")


@dataclass(frozen=True)
class Cross(Layer):
    """A separate point, such as the value for missing features."""

    x: float
    y: float
    name: str

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return (self.x,), (self.y,)

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        a, b = x(self.x), y(self.y)
        path = f"M{a - 4:.1f} {b - 4:.1f}l8 8m0-8l-8 8"
        mark = f'<path class="cross s1" d="{path}"/>'
        return mark + _text(a - 7, b + 4, self.name, "end")

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        ax.plot([self.x], [self.y], "x", color="C3", ms=8, label=self.name, gid="missing")


@dataclass(frozen=True)
class Rule(Layer):
    """A line across the chart at a value of x (`upright`) or of y, with its name."""

    at: float
    name: str = ""
    upright: bool = True

    def covers(self) -> tuple[Numbers, Numbers]:
        """Return the values that the axes must include."""
        return ((self.at,), ()) if self.upright else ((), (self.at,))

    def svg(self, x: Scale, y: Scale) -> str:
        """Return SVG elements."""
        if not self.upright:
            return f'<path class="zero" d="M{x.begin:.1f} {y(self.at):.1f}H{x.end:.1f}"/>'
        at, near_end = x(self.at), x(self.at) > (x.begin + x.end) / 2
        line = f'<path class="mark" d="M{at:.1f} {y.begin:.1f}V{y.end:.1f}"/>'
        return line + _text(at + (-4 if near_end else 4), max(y.begin, y.end) - 6, self.name,
                            "end" if near_end else "start")  # fmt: skip

    def onto(self, ax: Axes) -> None:
        """Draw onto axes."""
        draw = ax.axvline if self.upright else ax.axhline
        label: dict[str, Any] = {"label": self.name} if self.name else {}
        draw(self.at, color="0.6", lw=0.9, ls="--" if self.upright else "-", zorder=0, **label)


# -- charts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """Layers on two axes.

    Parameters
    ----------
    title : text alternative of the chart
    labels : labels of the x axis and the y axis
    layers : drawn in this order
    x_limits, y_limits : ends of the axes; by default those of the layers
    rows : names of rows from the top; on the y axis they are numbered from 0
    log : whether the y axis is logarithmic
    percent : whether the ticks of x and of y are shares
    x_ticks, y_ticks : values to label and their labels; by default round values
    keys : further entries of the legend: SVG attributes and name
    heading : text above matplotlib's axes; pages have it in their text
    """

    title: str
    labels: tuple[str, str]
    layers: Sequence[Layer]
    x_limits: Span | None = None
    y_limits: Span | None = None
    rows: Sequence[str] = ()
    log: bool = False
    percent: tuple[bool, bool] = (False, False)
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()
    keys: Sequence[tuple[str, str]] = ()
    heading: str = ""

    def svg(self) -> Markup:
        """Return the chart as an SVG element; empty where there is nothing to draw."""
        (x_low, x_high), (y_low, y_high) = self._limits()
        if x_low > x_high or y_low > y_high:
            return Markup("")
        legend, legend_height = self._legend()
        height = 74.0 + self._row_height() * len(self.rows) if self.rows else _HEIGHT
        height += legend_height
        top = 8.0 + legend_height + (_LINE if self.labels[1] else 4.0)
        bottom = height - (42.0 if self.labels[0] else 24.0)
        y: Scale = Scale(y_low, y_high, bottom, top, log=self.log)
        if self.rows:
            y = _Rows(len(self.rows), bottom, top)
        marks = self._y_marks(y)
        left = min(12.0 + _LETTER * max((len(text) for _, text in marks), default=0), 0.45 * _WIDTH)
        x = Scale(x_low, x_high, left, _WIDTH - 16.0)
        frame = self._frame(x, y, marks, legend_height)
        body = [legend, frame, *(each.svg(x, y) for each in self.layers)]
        return Markup(
            f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
            f'aria-label="{escape(self.title)}">{"".join(body)}</svg>'
        )

    def onto(self, ax: Axes | None = None, height: float = 4.0) -> Axes:
        """Draw onto matplotlib's axes, by default new ones of this height in inches or more."""
        ax = new_axes(height + self.ticks_height()) if ax is None else ax
        _draw_layers([self], [ax])
        return self.finish(ax)

    def finish(self, ax: Axes) -> Axes:
        """Set limits, labels, ticks, legend and heading of axes on which the layers were drawn."""
        if self.x_limits:
            ax.set_xlim(self.x_limits)
        if self.y_limits:
            ax.set_ylim(self.y_limits)
        if self.rows:
            self._name_rows(ax)
        if self.log:
            ax.set_yscale("log")
        room = [max(int(1.2 * inches / _INCHES), 12) for inches in _inches(ax)]
        across, up = (_fitted(*each, 3) for each in zip(self.labels, room, strict=True))
        ax.set(xlabel=across, ylabel=up)
        self._name_ticks(ax, room[0])
        if any(layer.name for layer in self.layers):
            ax.legend(frameon=False)
        if self.heading:
            ax.set_title(self.heading, fontsize=10)
        return ax

    def rows_height(self) -> float:
        """Return the height in inches of new axes on which the names of all rows fit."""
        lines = max((len(_wrapped(name, _ROW_LETTERS)) for name in self.rows), default=1)
        return 1.2 + (0.03 + 0.22 * lines) * len(self.rows)

    def ticks_height(self) -> float:
        """Return the height in inches of the names of categories below the axes."""
        longest = max((len(text) for _, text in self.x_ticks), default=0)
        return 0.05 * min(longest, _TICK_LETTERS)

    def _name_rows(self, ax: Axes) -> None:
        """Name the rows on as many lines as fit, or else without the middle of the name."""
        ax.set_yticks(range(len(self.rows)), list(self.rows))
        ax.set_ylim(len(self.rows) - 0.5, -0.5)
        width, height = _inches(ax)
        room = 72 * height / len(self.rows)  # in points
        size = min(float(ax.yaxis.get_ticklabels()[0].get_fontsize()), max(room / 1.2, 4.0))
        most = min(max(int(0.6 * width / _INCHES), 12), _ROW_LETTERS)
        lines = max(int(room / (1.2 * size)), 1)
        names = _abridged(self.rows, most, lambda name, most: _fitted(name, most, lines))
        ax.set_yticklabels(names, fontsize=size, linespacing=1.0)

    def _name_ticks(self, ax: Axes, room: int) -> None:
        """Set ticks that are not round numbers; long names are slanted to avoid overlaps."""
        for ticked, labeled in ((self.x_ticks, ax.set_xticks), (self.y_ticks, ax.set_yticks)):
            texts = _abridged([text for _, text in ticked], _TICK_LETTERS)
            style: dict[str, Any] = {}
            if ticked is self.x_ticks and len(texts) * (2 + max(map(len, texts), default=0)) > room:
                style = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "fontsize": 8}
            if ticked:
                labeled([at for at, _ in ticked], texts, **style)

    def _limits(self) -> tuple[Span, Span]:
        covered = [layer.covers() for layer in self.layers]
        xs, ys = ([float(v) for each in covered for v in each[axis] if math.isfinite(v)]
                  for axis in (0, 1))  # fmt: skip
        x = self.x_limits or (min(xs, default=1.0), max(xs, default=0.0))
        if self.rows:
            return _padded(x, 0.04) if not self.x_limits else x, (0.0, 1.0)
        y = self.y_limits or (min(ys, default=1.0), max(ys, default=0.0))
        if not self.y_limits and not self.log and y[0] <= y[1]:
            y = _padded(y, 0.06)
            room = max((layer.room for layer in self.layers if isinstance(layer, Foot)), default=0)
            y = (y[0] - room * (y[1] - y[0]), y[1])
        return x, y

    def _row_height(self) -> float:
        """Return the height of a row, which fits the lines of the longest name."""
        return 21.0 + 12.0 * (max(len(_wrapped(name, _MAX_LETTERS)) for name in self.rows) - 1)

    def _y_marks(self, y: Scale) -> list[tuple[float, str]]:
        if self.rows:
            return [(float(k), name) for k, name in enumerate(self.rows)]
        if self.y_ticks:
            return list(self.y_ticks)
        at = y.ticks(5)
        if y.log:
            return [(value, tick_labels([value])[0]) for value in at]
        return list(zip(at, tick_labels(at, percent=self.percent[1]), strict=True))

    def _frame(self, x: Scale, y: Scale, marks: Sequence[tuple[float, str]], above: float) -> str:
        """Return grid lines, ticks and labels, below a legend of the height `above`."""
        parts = []
        most = max(int((x.begin - 10.0) / _LETTER), 4)
        for at, text in marks:
            parts.append(f'<path class="grid" d="M{x.begin:.1f} {y(at):.1f}H{x.end:.1f}"/>')
            lines = _wrapped(text, most) if self.rows else [text]
            for number, line in enumerate(lines):
                down = 4 + 13 * (number - (len(lines) - 1) / 2)
                parts.append(_text(x.begin - 6, y(at) + down, line, "end", most))
        for at, text, anchor in self._x_marks(x):
            parts.append(f'<path class="tick" d="M{x(at):.1f} {y.begin:.1f}v4"/>')
            parts.append(_text(x(at), y.begin + 17, text, anchor))
        half = _LETTER * len(self.labels[0]) / 2
        middle = (x.begin + x.end) / 2
        middle = middle if half <= min(middle, _WIDTH - middle) else _WIDTH / 2
        parts.append(_text(middle, y.begin + 35, self.labels[0], "middle", 57))
        if self.labels[1]:
            parts.append(_text(4.0, above + 12.0, self.labels[1], "start", 60))
        return "".join(parts)

    def _x_marks(self, x: Scale) -> list[tuple[float, str, str]]:
        """Return ticks of x that fit without overlaps; the first and the last have priority."""
        if self.x_ticks:
            marks = list(self.x_ticks)
        else:
            values = x.ticks(6)
            marks = list(zip(values, tick_labels(values, percent=self.percent[0]), strict=True))
        kept: list[tuple[float, float, tuple[float, str, str]]] = []
        for at, text in [*marks[:1], *marks[-1:], *marks[1:-1]]:
            wide, middle, anchor = _LETTER * len(text), x(at), "middle"
            if middle + wide / 2 > _WIDTH:
                middle, anchor = middle - wide / 2, "end"
            elif middle - wide / 2 < 0:
                middle, anchor = middle + wide / 2, "start"
            begin, end = middle - wide / 2, middle + wide / 2
            if all(end + 6 < a or begin - 6 > b for a, b, _ in kept):
                kept.append((begin, end, (at, text, anchor)))
        return [mark for _, _, mark in kept]

    def _legend(self) -> tuple[str, float]:
        """Return the legend above the chart, on as many lines as needed, and its height."""
        named = [(_stroke("line", layer), layer.name) for layer in self.layers
                 if layer.name and not isinstance(layer, Rule | Cross)]  # fmt: skip
        entries = list(dict.fromkeys([*named, *self.keys]))
        if len(entries) < 2 and not self.keys:
            return "", 0.0
        parts, at, line = [], 6.0, 0
        for shape, name in entries:
            shown = _cut(name, 52)
            wide = 34.0 + _LETTER * len(shown)
            if at > 6.0 and at + wide > _WIDTH:
                at, line = 6.0, line + 1
            foot = 14.0 + _LINE * line
            if shape.startswith('class="line'):
                parts.append(f'<path {shape} d="M{at:.1f} {foot - 4:.1f}h22"/>')
            else:
                parts.append(f'<rect {shape} x="{at + 6:.1f}" y="{foot - 10:.1f}" width="12" '
                             'height="12"/>')  # fmt: skip
            parts.append(_text(at + 27, foot, shown))
            at += wide + 8.0
        return "".join(parts), _LINE * (line + 1) + 2.0


def side_by_side(charts: Sequence[Chart], columns: int = 3) -> Figure:
    """Draw several charts in one figure, with one scale of y for all of them."""
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    size = (1 + 3 * columns, (2.6 + max(map(Chart.ticks_height, charts))) * rows)
    figure, grid = _pyplot().subplots(
        rows, columns, figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    _draw_layers(charts, list(grid.flat))
    for chart, ax in zip(charts, grid.flat, strict=False):
        label = chart.finish(ax).get_xlabel()
        ax.label_outer(remove_inner_ticks=True)
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel(label)
    for ax in grid.flat[len(charts) :]:
        ax.remove()
    return figure


def _draw_layers(charts: Sequence[Chart], axes: Sequence[Axes]) -> None:
    """Draw charts onto one pair of axes, or onto several that share the scale of y.

    Histograms at the foot come last, when the scale is known, and extend it below the rest.
    """
    feet = []
    for chart, ax in zip(charts, axes, strict=False):
        for layer in chart.layers:
            if isinstance(layer, Foot):
                feet.append((layer, ax))
            else:
                layer.onto(ax)
    if feet:
        bottom, top = axes[0].get_ylim()
        axes[0].set_ylim(bottom - Foot.room * (top - bottom), top)
    for foot, ax in feet:
        foot.onto(ax)


def new_axes(height: float = 4.0) -> Axes:
    """Return the axes of a new figure."""
    return _pyplot().subplots(figsize=(7, height), layout="constrained")[1]


def _pyplot() -> Any:
    """Import matplotlib, which is only needed to draw."""
    if find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib; pip install 'precede[plots]'")
    return import_module("matplotlib.pyplot")


class _Rows(Scale):
    """Named rows from the top: row 0 is the highest."""

    def __init__(self, count: int, bottom: float, top: float):
        super().__init__(0.0, float(max(count, 1)), bottom, top)

    def __call__(self, value: float) -> float:
        share = (value + 0.5) / self.high
        return self.end + share * (self.begin - self.end)


def _padded(span: Span, share: float) -> Span:
    low, high = span
    pad = (share * (high / 2 - low / 2) * 2) or 0.5
    return low - pad, high + pad


def _classes(series: int) -> str:
    return f"reference r{-series}" if series < 0 else f"s{series % 6}"


def _stroke(kind: str, layer: Layer) -> str:
    """Return the SVG attributes that color a line: its class and lightness."""
    pale = "" if layer.depth is None else f' stroke-opacity="{0.3 + 0.7 * layer.depth:.2f}"'
    return f'class="{kind} {_classes(layer.series)}"{pale}'


def _color(layer: Layer) -> Any:
    """Return the color in matplotlib: that of the series, or a shade between light and dark."""
    if layer.depth is None:
        return f"C{layer.series}" if layer.series >= 0 else "0.6"
    return import_module("matplotlib").colormaps["viridis_r"](0.15 + 0.8 * layer.depth)


def _text(x: float, y: float, text: str, anchor: str = "start", most: int = 80) -> str:
    """Return an SVG text; a long one is cut and has the whole text as a tooltip."""
    short = _cut(text, most)
    whole = "" if short == text else f"<title>{escape(text)}</title>"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(short)}{whole}</text>'


def _wrapped(text: str, most: int) -> list[str]:
    """Wrap a text to up to four lines, at spaces, or else where parts of words begin.

    >>> _wrapped("documents in a query above 24", 20)
    ['documents in a query', 'above 24']
    >>> _wrapped("NumberOfTime60-89DaysPastDueNotWorse above 0", 20)
    ['NumberOfTime60-89', 'DaysPastDueNotWorse', 'above 0']
    """
    lines: list[str] = []
    while len(text) > most and len(lines) < 3:
        space = text.rfind(" ", 0, most + 1)
        parts = [each.start() for each in _PARTS.finditer(text, 0, most + 1)]
        at = next((cut for cut in (space, *parts[-1:]) if cut > most // 3), most)
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text]


def _fitted(text: str, most: int, lines: int) -> str:
    r"""Wrap a text to several lines; a longer one loses its middle.

    >>> _fitted("NumberOfTime60-89DaysPastDueNotWorse", 20, 1)
    'NumberOfTi…eNotWorse'
    >>> _fitted("NumberOfTime60-89DaysPastDueNotWorse", 20, 2)
    'NumberOfTime60-89\nDaysPastDueNotWorse'
    """
    lines = min(lines, 4)
    for kept in range(min(len(text), lines * most), 0, -1):
        parts = _wrapped(_without_middle(text, kept), most)
        if len(parts) <= lines and len(parts[-1]) <= most:
            return "\n".join(parts)
    return text


def _without_middle(text: str, most: int) -> str:
    """Shorten a text by cutting its middle: names differ at their ends.

    >>> _without_middle("sales_of_the_last_12_months", 15)
    'sales_o…_months'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def _abridged(
    texts: Sequence[str], most: int, fit: Callable[[str, int], str] = _without_middle
) -> list[str]:
    """Shorten texts and keep them distinct: equal results lose their common parts instead.

    >>> _abridged(["loan of 10 years, monthly", "loan of 20 years, monthly", "lease"], 12)
    ['…n of 10 ye…', '…n of 20 ye…', 'lease']
    """
    shown = {text: fit(text, most) for text in texts}
    for short in {*shown.values()}:
        alike = [text for text, each in shown.items() if each == short]
        if len(alike) > 1:
            shown |= _distinct(alike, most, fit)
    return [shown[text] for text in texts]


def _distinct(texts: Sequence[str], most: int, fit: Callable[[str, int], str]) -> dict[str, str]:
    """Return distinct texts without some of their common parts, or else numbered."""
    head = _common_prefix(texts)
    tail = _common_prefix([text[head:][::-1] for text in texts])
    room = max(most - 2 - max(len(text) - head - tail for text in texts), 0)  # for the common parts
    before, after = max(head - (room + 1) // 2, 0), max(tail - room // 2, 0)
    ends = "…" * (before > 0), "…" * (after > 0)
    found = {
        text: fit(ends[0] + text[before : len(text) - after] + ends[1], most) for text in texts
    }
    if len({*found.values()}) < len(texts):
        found = {text: fit(f"({number}) {text}", most) for number, text in enumerate(texts, 1)}
    return found


def _common_prefix(texts: Sequence[str]) -> int:
    """Return the length of the common prefix of all texts."""
    return sum(1 for _ in takewhile(lambda each: len(set(each)) == 1, zip(*texts, strict=False)))


def _inches(ax: Axes) -> tuple[float, float]:
    """Return width and height of axes in inches, before layout."""
    dots = ax.figure.dpi
    return ax.bbox.width / dots, ax.bbox.height / dots


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
