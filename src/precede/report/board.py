"""The page of a leaderboard: ranks with intervals, the fit, controls and votes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from precede.engine.arrays import Floats, Json
from precede.engine.parameters import pluralize
from precede.plots.drawing import Chart, Dots, Line, Ranges
from precede.plots.figures import shape_chart, shape_info
from precede.report.data import versions
from precede.report.document import (
    Block,
    Bullets,
    Cell,
    Document,
    Figure,
    Group,
    Paragraph,
    Section,
    Table,
)
from precede.report.wording import interval, listed, percent, rounded, share

if TYPE_CHECKING:
    from precede.explain.shapes import ShapeFunction
    from precede.leaderboard import Leaderboard

MOST_ROWS, FIRST = 60, 10  # of the chart of ranks, and of that on the first screen
HALF = 1.959963984540054  # standard errors on each side of a band of 95 %


class _Model:
    """A curve in the form in which `shape_info` reads models."""

    def __init__(self, curve: ShapeFunction):
        self.curve, self.categories_ = replace(curve, feature=0), dict[str, list[str]]()

    def shape_function(self, _: object) -> ShapeFunction:
        return self.curve


def ranks_chart(rows: Sequence[Json], level: float) -> Chart:
    """Return the ranks of the first items with their intervals, which hold together."""
    shown = [row for row in rows if row["rank"] is not None][:MOST_ROWS]
    at = np.arange(len(shown))
    layer = Ranges(
        at, [row["rank"] for row in shown], [row["rank_low"] for row in shown],
        [row["rank_high"] for row in shown],
    )  # fmt: skip
    return Chart(
        "ranks of the items", (f"rank, {percent(level)} for all items together", ""), [layer],
        rows=[row["item"] for row in shown],
        x_limits=(0.5, max((row["rank_high"] for row in shown), default=1) + 0.5),
    )  # fmt: skip


def wins_chart(expected: Floats, observed: Floats, weight: Floats) -> Chart:
    """Return the share of wins of each pair of items against that of the model."""
    shade = np.log1p(weight) / np.log1p(weight.max(initial=1.0))
    return Chart(
        "wins of each pair of items, expected and observed",
        ("expected share of wins, a tie counting half", "observed share"),
        [Line([0.0, 1.0], [0.0, 1.0], series=-2), Dots(expected, observed, shade)],
        x_limits=(0.0, 1.0), y_limits=(-0.02, 1.02), percent=(True, True),
    )  # fmt: skip


def curve_chart(curve: ShapeFunction, values: Floats | None) -> Chart:
    """Return a curve with its band of 95 %, over the values of the feature."""
    X = None if values is None else values.reshape(-1, 1)
    chart = shape_chart(shape_info(_Model(curve), curve.name, X, reach=HALF))  # type: ignore[arg-type]
    return replace(chart, labels=(curve.name, "log-odds of winning"))


def board_page(board: Leaderboard, level: float, title: str | None, date: str | None) -> str:
    """Return the page."""
    rows = board.rows(level)
    head = title or f"Leaderboard of {pluralize(len(rows), 'item')}"
    checks = board.checks()
    sections = [
        _ranks(rows, board, level), _fit(board, checks), _controls(board), _votes(board),
    ]  # fmt: skip
    document = Document(
        head, date, _first_screen(board, rows, level, checks),
        [each for each in sections if each is not None],
    )  # fmt: skip
    facts = {"level": level, "items": _plain(rows), "tiers": board.tiers(level),
             "unranked": board.unranked_, **checks}  # fmt: skip
    return document.html(facts, versions()["precede"])


def _plain(rows: Sequence[Json]) -> list[Json]:
    return [{name: None if isinstance(each, float) and not math.isfinite(each) else each
             for name, each in row.items()} for row in rows]  # fmt: skip


def _first_screen(
    board: Leaderboard, rows: Sequence[Json], level: float, checks: Mapping[str, str]
) -> list[Block]:
    first, sure = rows[0], board.confidence("first")
    text = f"{first['item']} is first"
    if first["rank_high"] == 1:
        text += f", surely so ({percent(level)}). "
    else:
        text += f"; its rank is {first['rank_low']} to {first['rank_high']} ({percent(level)}). "
    text += (
        f"The first place is settled to {math.floor(100 * sure)} %."
        if sure >= 0.01
        else ("The first place is open.")
    )
    top = board.tiers(level)[:1]
    if top and len(top[0]) > 1:
        text += f" No item is surely above {listed(top[0][:8])}"
        text += f" and {len(top[0]) - 8} more." if len(top[0]) > 8 else "."
    notes = [*checks.values()]
    if board.inflation_ > 1.1 and board.clusters_:
        notes.append(
            f"Votes depend on each other: {board.inflation_:.1f} votes of these clusters are worth "
            "one independent vote."
        )
    few = [f"{count} {name}s" for name, count in board.clusters_.items() if count < 30]
    if few:
        notes.append(f"There are only {listed(few)}: the intervals are rough.")
    notes += [f"{item} has no strength: {why}." for item, why in [*board.unranked_.items()][:8]]
    if len(board.unranked_) > 8:
        notes.append(f"{len(board.unranked_) - 8} more items have no strength.")
    blocks: list[Block] = [Paragraph(text)]
    blocks += [Bullets(notes, "warnings")] if notes else []
    figure = Figure(ranks_chart(rows[:FIRST], level), f"The ranks of the first {FIRST} items.")
    return [Group([Group(blocks, "sentences"), figure], "first")]


def _ranks(rows: Sequence[Json], board: Leaderboard, level: float) -> Section:
    cells = [
        [row["rank"], row["item"], _strength(row["strength"]),
         interval(_known(row["low"]), _known(row["high"])),
         f"{row['rank_low']} to {row['rank_high']}", row["tier"],
         row["wins"], row["losses"], row["ties"]]
        for row in rows
    ]  # fmt: skip
    what = "Elo points" if board.scale == "elo" else "log-odds"
    heads = (
        "",
        "item",
        f"strength, {what}",
        percent(level),
        "rank",
        "tier",
        "wins",
        "losses",
        "ties",
    )
    return Section("ranks", "Ranks", "Ranks and strengths", [
        Paragraph(
            f"All intervals of ranks hold together with {percent(level)}; an interval of a "
            "strength holds for that item alone. No item is surely above another of its tier.",
            "note",
        ),
        Figure(ranks_chart(rows, level)),
        Table(heads, cells, kinds="n name n span span n n n n"),
    ])  # fmt: skip


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _strength(value: float) -> object:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return Cell("above all measured" if value > 0 else "below all measured")
    return f"{value:.1f}" if abs(value) >= 100 else rounded(value)


def _fit(board: Leaderboard, checks: Mapping[str, str]) -> Section | None:
    expected, observed, weight = board.wins()
    if not weight.size:
        return None
    return Section("fit", "Fit", "Does one order explain the votes?", [
        Figure(wins_chart(expected, observed, weight),
               "Each dot is a pair of items, darker red with more votes."),
        *(Paragraph(text) for text in checks.values()),
    ])  # fmt: skip


def _controls(board: Leaderboard) -> Section | None:
    blocks: list[Block] = []
    if board.effects_:
        cells = [
            [name, rounded(each), interval(each - HALF * board.effect_errors_[name],
                                           each + HALF * board.effect_errors_[name])]
            for name, each in board.effects_.items()
        ]  # fmt: skip
        blocks.append(Table(("effect on the log-odds", "", "95 %"), cells, kinds="name n span"))
    for name, curve in board.curves_.items():
        blocks.append(Figure(curve_chart(curve, board.control_values(name)), heading=name))
    if not blocks:
        return None
    text = "Strengths compare the items at equal values of these. The band is 95 % at each value."
    return Section("controls", "Controls", "At equal features", [Paragraph(text, "note"), *blocks])


def _votes(board: Leaderboard) -> Section:
    ties, total = board.totals()[2], board.n_votes_
    cells: list[list[object]] = [["votes", round(total)], ["items", len(board.items_)]]
    cells += [[f"{name}s", size] for name, size in board.clusters_.items()]
    cells.append(["ties", share(float(ties.sum()) / 2 / total if total else 0.0)])
    if board.tie_ is not None:
        cells.append(["Davidson's ν", rounded(board.tie_)])
    cells += [[name, str(value)] for name, value in board.get_params().items() if value is not None]
    return Section("votes", "Votes", "Votes and settings", [Table(("", ""), cells, kinds="head n")])
