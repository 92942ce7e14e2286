"""Figures: what is drawn is a result object computed elsewhere; drawing adds nothing to it.

Functions take and return a matplotlib Axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from precede.inference import RankComparison

__all__ = ["draw_critical_difference"]


def draw_critical_difference(comparison: RankComparison, ax: Axes | None = None) -> Axes:
    """Draw average ranks on an axis, with bars under rankers that are not told apart.

    Parameters
    ----------
    comparison : RankComparison
        What `precede.inference.friedman` returns.
    ax : matplotlib Axes, optional

    References
    ----------
    Demšar, *Statistical Comparisons of Classifiers over Multiple Data Sets*, JMLR 2006,
    section 3.2.2.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from precede.inference import friedman
    >>> table = [[0.71, 0.69, 0.60], [0.55, 0.56, 0.48], [0.80, 0.77, 0.61]]
    >>> ax = draw_critical_difference(friedman(table, names=["a", "b", "c"]))
    >>> [text.get_text().strip() for text in ax.texts if text.get_gid() == "name"]
    ['a  1.33', 'b  1.67', 'c  3.00']
    """
    ax = _axes(len(comparison.names)) if ax is None else ax
    names, ranks = comparison.names, comparison.average_ranks
    lowest, highest = 1, len(names)
    half = (len(names) + 1) // 2
    depth = 0.6 + 0.45 * len(comparison.groups)
    ax.hlines(0, lowest, highest, color="black", lw=1)
    for tick in range(lowest, highest + 1):
        ax.vlines(tick, 0, 0.15, color="black", lw=1)
        ax.text(tick, 0.3, str(tick), ha="center", va="bottom", gid="tick")
    for number, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = number < half
        line = -depth - 0.7 * (number if left else len(names) - 1 - number)
        edge = lowest - 0.25 if left else highest + 0.25
        ax.plot([rank, rank, edge], [0, line, line], color="0.35", lw=1)
        side = "right" if left else "left"
        ax.text(edge, line, f" {name}  {rank:.2f} ", va="center", ha=side, gid="name")
    for row, group in enumerate(comparison.groups):
        inside = [rank for name, rank in zip(names, ranks, strict=True) if name in group]
        ax.hlines(-0.35 - 0.45 * row, min(inside) - 0.04, max(inside) + 0.04, color="C0", lw=4)
    reach = comparison.critical_difference
    ax.plot([lowest, lowest + reach], [1.3, 1.3], color="C3", lw=2, marker="|")
    ax.text(lowest, 1.5, f"critical difference {reach:.2f}", color="C3", va="bottom", gid="reach")
    ax.set_xlim(lowest - 1.6, max(highest, lowest + reach) + 1.6)
    ax.set_ylim(-depth - 0.7 * half, 2.4)
    ax.axis("off")
    return ax


def _axes(rows: int) -> Axes:
    import matplotlib.pyplot as plt  # noqa: PLC0415  (only for those who draw)

    return plt.subplots(figsize=(7, 1.4 + 0.3 * rows), layout="constrained")[1]
