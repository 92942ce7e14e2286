"""`Leaderboard`: items ranked by votes on pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

from precede.engine.arrays import Floats, Integers, Json
from precede.engine.exact import sums_at
from precede.engine.frames import pandas_frame
from precede.engine.parameters import check_bool, check_choice, check_integer, pluralize
from precede.estimator.signatures import declare_parameters
from precede.explain.shapes import ShapeFunction
from precede.files.data import quoted
from precede.inference import Estimate
from precede.leaderboard.checks import (
    Fragility,
    bootstrap_covariance,
    find_cycles,
    find_fragility,
)
from precede.leaderboard.controls import boosted_curves, scaled
from precede.leaderboard.likelihood import Fit, Information, fit_strengths
from precede.leaderboard.pairs import bounds_of_ratios, without_strength
from precede.leaderboard.planning import next_pairs, planned
from precede.leaderboard.saving import read_board, write_board
from precede.leaderboard.variance import Covariance, sandwich
from precede.metrics import Interval
from precede.model import write_file
from precede.rank_sets import Ranks, Transitivity
from precede.report.board import board_page, curve_chart, ranks_chart, wins_chart
from precede.votes import UNITS, Counts, PairTable, Votes, count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from typing_extensions import Self

ELO = 400 / math.log(10)  # points of a factor e of the odds


class Leaderboard(BaseEstimator):
    """Items ranked by votes on pairs: Bradley-Terry strengths with intervals of ranks.

    Parameters
    ----------
    ties : {"davidson", "half"}, default "davidson"
        A tie has a probability of its own (Davidson, 1970), or is half a win for each side.
    shown_first : bool, default False
        Estimate the advantage of the answer that was shown first; needs a column `order`.
    controls : {None, "linear", "curves"}, default None
        Compare at equal features of the answers: their differences enter the log-odds with a
        coefficient each, or as curves that are boosted.
    features : list of names, optional
        The features to control for; by default all. "length" has the columns ``length_a`` and
        ``length_b``.
    bags : int, default 10
        Number of bootstrap samples of the votes, or of the clusters, that give the curves their
        standard errors; 1 is a single fit without them.
    ridge : float, default 0.0
        The penalty ridge / 2 · Σ θ² of the strengths, added to the sum over the votes. Controls
        are never shrunk.
    cluster : {"auto", "voter", "prompt", "both", None}, default "auto"
        Groups of dependent votes: by voter, by prompt, or by either of them. "auto" uses the
        columns that are present; None treats all votes as independent.
    intervals : {"sandwich", "bootstrap"}, default "sandwich"
        Covariance of the strengths: from the scores of the clusters, or over `resamples` of them.
    resamples : int, default 200
        Number of bootstrap samples of the clusters, or of the votes if they are independent.
    scale : {"natural", "elo"}, default "natural"
        Differences are log-odds, or 400 points for odds of 10 to 1.
    anchor : name of an item, optional
        The item whose strength is `center`; by default the mean is.
    center : float, optional
        By default 0, and 1000 on the Elo scale.
    both_bad : {"tie", "drop"}, default "tie"
        How a vote that finds both bad counts.
    random_state : int, default 0
        Seed of all random draws.
    n_jobs : int, optional
        Number of threads; by default all cores.

    Attributes
    ----------
    items_ : list of the names of the items, the strongest first
    strengths_ : strength of each item; ±inf for items that won or lost every comparison with
        items that have a strength, NaN for those that nothing connects to them
    covariance_ : covariance of the finite strengths
    tie_ : Davidson's ν, None without one
    effects_ : dictionary of the effects on the log-odds: "shown first", and linear controls
    effect_errors_ : dictionary of their standard errors
    curves_ : dictionary of the curves of the controls, `ShapeFunction` with standard errors
    clusters_ : dictionary of the number of clusters of each kind
    inflation_ : how many votes are worth an independent one
    unranked_ : dictionary of the items without a strength, with the reason
    n_votes_ : sum of the weights of the votes

    Notes
    -----
    Votes are counted first: O(votes). A step of Newton's method takes the time of a sparse
    factorization in the number of items and of different pairs; the covariance O(items³).

    Examples
    --------
    >>> import pandas as pd
    >>> votes = pd.DataFrame(
    ...     [("a", "b", "a"), ("b", "c", "a"), ("a", "c", "a"), ("c", "a", "a"), ("b", "a", "tie")],
    ...     columns=["a", "b", "outcome"],
    ... )
    >>> board = Leaderboard(ties="half").fit(votes)
    >>> board.items_
    ['a', 'b', 'c']
    """

    ties: str = "davidson"
    shown_first: bool = False
    controls: str | None = None
    features: Sequence[str] | None = None
    bags: int = 10
    ridge: float = 0.0
    cluster: str | None = "auto"
    intervals: str = "sandwich"
    resamples: int = 200
    scale: str = "natural"
    anchor: Hashable = None
    center: float | None = None
    both_bad: str = "tie"
    random_state: int = 0
    n_jobs: int | None = None

    # -- fitting ---------------------------------------------------------------------------------

    def fit(
        self,
        votes: Any,
        *,
        items: Iterable[Hashable] | None = None,
        columns: Mapping[str, str] | None = None,
    ) -> Self:
        """Fit the strengths.

        Parameters
        ----------
        votes : data frame
            Columns for the two items and the outcome, and optionally the voter, the prompt, the
            weight (how many votes a row stands for) and the order of presentation. They are known
            by the names that `precede.files.read_votes` lists.
        items : names of items, optional
            They are on the board even without votes.
        columns : dictionary of the names of columns by role, optional
            For columns called otherwise: ``{"a": "one", "b": "other"}``.
        """
        self._check_parameters()
        # Limit BLAS to one thread: results do not depend on the number of cores, nor wait for them.
        with threadpool_limits(1, "blas"):
            return self._fit(Votes.of(
                votes, items=items, columns=columns, both_bad=self.both_bad,
                features=self.features if self.controls else (),
            ))  # fmt: skip

    def _fit(self, read: Votes) -> Self:
        if len(read.items) < 2:
            raise ValueError(f"there is {pluralize(len(read.items), 'item')}; compare at least 2")
        if self.controls and not read.feature_names:
            raise ValueError(
                f"controls={self.controls!r} needs features of the answers: columns of numbers "
                "whose names end in _a and _b, such as length_a and length_b"
            )
        counts = count(read)
        kept, apart = (np.arange(len(read.items)), {}) if self.ridge else without_strength(
            counts, read.items, davidson=self.ties == "davidson")  # fmt: skip
        inner = read.among(kept)
        self.curves_: dict[str, ShapeFunction] = {}
        inside = counts if inner is read else count(inner)
        if kept.size and (self.shown_first or self.controls):
            inside = count(
                inner, shown_first=self.shown_first, controls=self._differences(inner, inside)
            )
        fit, covariance = self._estimates(inner, inside)
        place = self._store(read, counts, kept, fit, covariance, apart)
        expected = inside.weight.sum(axis=1)[:, None] * fit.probabilities(fit.log_odds(inside))
        sides = place[kept][inside.a], place[kept][inside.b]
        self._expected = PairTable.of(*sides, expected, len(read.items))
        self._fitted = inner, inside, fit
        return self

    def _differences(self, votes: Votes, counts: Counts) -> Floats | None:
        """Return the differences of the controls of every vote, through curves if these are used.

        Curves are boosted twice, with the strengths that the first ones leave the second time. The
        fit of the strengths then scales each of them: boosting stops early, which shrinks them.
        """
        if self.controls is None:
            return None
        if self.controls == "linear":
            return votes.features[0] - votes.features[1]
        unit = next(iter(votes.units(self.cluster).values()), None)
        differences = None
        for bags in (1, self.bags):
            if differences is not None:
                counts = count(votes, controls=differences)
            theta = fit_strengths(counts, len(votes.items), davidson=False, ridge=self.ridge).theta
            found = boosted_curves(
                votes, theta, unit, bags=bags, random_state=self.random_state, n_jobs=self.n_jobs
            )
            self.curves_ = {each.name: each for each in found if each.range}
            used = [votes.feature_names.index(name) for name in self.curves_]
            if not used:
                return None
            a, b = (np.column_stack([found[each](side[:, each]) for each in used])
                    for side in votes.features)  # fmt: skip
            differences = a - b
        return differences

    def _estimates(self, votes: Votes, counts: Counts) -> tuple[Fit, Covariance]:
        """Return the strengths of items that are all connected, and their covariance."""
        n = len(votes.items)
        if not n:
            self.clusters_: dict[str, int] = {}
            return Fit(np.zeros(0), np.zeros(0), None), Covariance(np.zeros((0, 0)), math.inf, 1.0)
        davidson, clusters = self.ties == "davidson", votes.units(self.cluster)
        self.clusters_ = {
            name: int((np.bincount(number) > 0).sum()) for name, number in clusters.items()
        }
        fit = fit_strengths(
            counts, n, davidson=davidson, ridge=self.ridge, names=self._effect_names(votes)
        )
        covariance = sandwich(
            counts, fit, Information(counts, fit, self.ridge), clusters, votes.weight, self.n_jobs
        )
        if self.intervals == "bootstrap":
            covariance = replace(covariance, matrix=bootstrap_covariance(
                votes, counts, fit, clusters, davidson=davidson, ridge=self.ridge,
                resamples=self.resamples, random_state=self.random_state,
            ))  # fmt: skip
        return fit, covariance

    def _check_parameters(self) -> None:
        check_choice("ties", self.ties, ("davidson", "half"))
        check_choice("scale", self.scale, ("natural", "elo"))
        if self.controls is not None:
            check_choice("controls", self.controls, ("linear", "curves"))
        if self.cluster is not None:
            check_choice("cluster", self.cluster, ("auto", *UNITS, "both"))
        check_choice("intervals", self.intervals, ("sandwich", "bootstrap"))
        check_integer("resamples", self.resamples, least=2)
        check_integer("bags", self.bags, least=1)
        check_bool("shown_first", self.shown_first)
        if not isinstance(self.ridge, int | float) or not 0 <= self.ridge < math.inf:
            raise ValueError(f"ridge={self.ridge!r} is out of range; use 0 or more")

    def _effect_names(self, votes: Votes) -> tuple[str, ...]:
        first = ("shown first",) if self.shown_first else ()
        names = votes.feature_names if self.controls == "linear" else self.curves_
        return (*first, *(names if self.controls else ()))

    def _store(
        self, votes: Votes, counts: Counts, kept: Integers, fit: Fit, covariance: Covariance,
        apart: dict[int, tuple[str, float]],
    ) -> Integers:  # fmt: skip
        """Set the fitted attributes, with the items from the strongest; return their places."""
        n, names = len(votes.items), self._effect_names(votes)
        theta = np.full(n, np.nan)
        theta[kept] = fit.theta
        theta[[*apart]] = [end for _, end in apart.values()]
        sides = np.append(counts.a, counts.b)
        net = counts.weight[:, 0] - counts.weight[:, 1]
        net = sums_at(sides, np.append(net, -net), n)  # orders the items without a strength
        order = np.lexsort((-net, np.where(np.isnan(theta), np.inf, -theta)))
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        inside = np.argsort(place[kept])
        self.items_ = [votes.items[item] for item in order]
        self.unranked_ = {votes.items[item]: why for item, (why, _) in apart.items()}
        self.n_votes_ = float(counts.weight.sum())
        self.tie_ = None if fit.log_ties is None else math.exp(fit.log_ties)
        effects = dict(zip(names, fit.gamma.tolist(), strict=False))
        others = np.sqrt(np.maximum(np.diag(covariance.matrix)[kept.size :], 0.0)).tolist()
        self.curves_ = {name: scaled(curve, effects[name]) for name, curve in self.curves_.items()}
        self.effects_ = {name: each for name, each in effects.items() if name not in self.curves_}
        errors = dict(zip(names, others, strict=False))
        self.effect_errors_ = {name: errors[name] for name in self.effects_}
        self.inflation_ = covariance.inflation
        self._theta = theta[order]
        self._table = PairTable.of(place[counts.a], place[counts.b], counts.weight, n)
        self._ranks = Ranks(
            self._theta, covariance.matrix[np.ix_(inside, inside)], covariance.degrees,
            bounds_of_ratios(self._theta, self._table, covariance.inflation) if apart else None,
            self.random_state,
        )  # fmt: skip
        self._place_on_scale()
        return place

    def _place_on_scale(self) -> None:
        """Set the strengths and their covariance on the scale, relative to the anchor."""
        ranks, unit = self._ranks, self._unit
        center = self.center if self.center is not None else 1000.0 * (self.scale == "elo")
        anchor = np.full(ranks.known.size, 1 / max(ranks.known.size, 1))
        if self.anchor is not None:
            index = self._index(self.anchor)
            if index not in ranks.known:
                raise ValueError(
                    f"anchor={self.anchor!r} has no strength: {self.unranked_[self.items_[index]]}"
                )
            anchor = (ranks.known == index).astype(np.float64)
        moved = np.eye(ranks.known.size) - anchor
        zero = float(anchor @ self._theta[ranks.known])
        self.strengths_ = center + unit * (self._theta - zero)
        self.covariance_ = unit**2 * moved @ ranks.covariance @ moved.T

    @property
    def _unit(self) -> float:
        return ELO if self.scale == "elo" else 1.0

    def _index(self, item: Hashable) -> int:
        self._check_fitted()
        if str(item) not in self.items_:
            raise ValueError(f"{item!r} is not on the board; its items are {quoted(self.items_)}")
        return self.items_.index(str(item))

    def _check_fitted(self) -> None:
        if not hasattr(self, "items_"):
            raise NotFittedError("this board has no votes yet; call fit(votes) first")

    # -- strengths -------------------------------------------------------------------------------

    def interval(self, item: Hashable, level: float = 0.95) -> Interval:
        """Return the interval of the strength of one item, relative to the anchor or the mean."""
        index = self._index(item)
        half = self._ranks.half_width(level)
        error = self._errors()[index]
        middle = float(self.strengths_[index])
        return Interval(middle - half * error, middle + half * error, level)

    def difference(self, a: Hashable, b: Hashable) -> Estimate:
        """Return by how much a is stronger than b, with its standard error and interval."""
        one, other = self._index(a), self._index(b)
        ranks, reason, error = self._ranks, "", None
        away = [self.items_[each] for each in (one, other) if each not in ranks.known]
        if away:
            reason = self.unranked_[away[0]]
        else:
            at = np.searchsorted(ranks.known, [one, other])
            error = self._unit * float(ranks.errors[at[0], at[1]])
        return Estimate(
            f"strength of {self.items_[one]} minus {self.items_[other]}",
            float(self.strengths_[one] - self.strengths_[other]), error, "sandwich", 0, 0,
            reason=reason, scale="plain", degrees=ranks.degrees,
        )  # fmt: skip

    def _errors(self) -> Floats:
        """Return the standard error of each strength, NaN where there is none."""
        errors = np.full(len(self.items_), np.nan)
        errors[self._ranks.known] = np.sqrt(np.maximum(np.diag(self.covariance_), 0.0))
        return errors

    def win_probability(self, a: Hashable, b: Hashable) -> Json:
        """Return the probabilities that a wins, that b wins and of a tie.

        Both answers have equal features, and neither is shown first.
        """
        gap = self._theta[self._index(a)] - self._theta[self._index(b)]
        if math.isnan(gap):
            raise ValueError(
                f"nothing connects {a!r} and {b!r}: {'; '.join({*self.unranked_.values()})}"
            )
        log_tie = None if self.tie_ is None else math.log(self.tie_)
        model = Fit(np.zeros(0), np.zeros(0), log_tie)
        win, loss, tie = model.probabilities(np.clip([gap], -1e3, 1e3))[0].tolist()
        return {"win": win, "loss": loss, "tie": tie}

    # -- ranks -----------------------------------------------------------------------------------

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return the board: a row for each item, the strongest first.

        `low` and `high` are the ends of the interval of the strength alone; `rank_low` and
        `rank_high` are the ranks that each item may have, all of them together with this level.
        """
        return pandas_frame(self.rows(level)).astype({"rank": "Int64", "tier": "Int64"})

    def rows(self, level: float = 0.95) -> list[Json]:
        """Return the rows of `to_frame` as dictionaries."""
        self._check_fitted()
        ranks, errors = self._ranks, self._errors()
        half = ranks.half_width(level) * errors
        best, worst = ranks.rank_sets(level)
        wins, losses, ties = self._table.totals(len(self.items_))
        columns = {
            "rank": [None if math.isnan(each) else rank
                     for rank, each in enumerate(self.strengths_, 1)],
            "item": self.items_,
            "strength": self.strengths_, "std_error": errors,
            "low": self.strengths_ - half, "high": self.strengths_ + half,
            "rank_low": best, "rank_high": worst,
            "tier": [tier or None for tier in ranks.tiers(level).tolist()],
            "wins": wins, "losses": losses, "ties": ties,
        }  # fmt: skip
        listed = [each if isinstance(each, list) else np.asarray(each).tolist()
                  for each in columns.values()]  # fmt: skip
        return [dict(zip(columns, row, strict=True)) for row in zip(*listed, strict=True)]

    def surely_above(self, level: float = 0.95) -> pd.DataFrame:
        """Return whether the item of the row is surely above that of the column: a partial order.

        All its statements hold together with this level.
        """
        self._check_fitted()
        above = self._ranks.surely_above(level)
        return pandas_frame(dict(zip(self.items_, above.T, strict=True)), self.items_)

    def tiers(self, level: float = 0.95) -> list[list[str]]:
        """Return the items by tier: no item is surely above another of its tier."""
        self._check_fitted()
        tier = self._ranks.tiers(level)
        return [[self.items_[item] for item in np.flatnonzero(tier == number)]
                for number in range(1, int(tier.max()) + 1)]  # fmt: skip

    def confidence(self, goal: str = "first") -> float:
        """Return the level with which a goal is settled, 0 if with none.

        The goals are "first", "top@5" (which items are the first five) and "order".
        """
        self._check_fitted()
        return self._ranks.confidence(goal)

    # -- how far to trust them -------------------------------------------------------------------

    def _data(self) -> tuple[Votes, Counts, Fit]:
        """Return the votes of the fit, which a board read from a file does not have."""
        self._check_fitted()
        if not hasattr(self, "_fitted") or not self._fitted[2].theta.size:
            why = "no item of it has a strength" if hasattr(self, "_fitted") else "it was read"
            raise ValueError(f"this needs the votes of the board, but {why}; fit it to votes")
        return self._fitted

    def transitivity(self) -> Transitivity:
        """Test whether significant majorities form a cycle, such as a over b over c over a."""
        votes, counts, _ = self._data()
        return find_cycles(votes, counts, votes.units(self.cluster))

    def fragility(self) -> Fragility:
        """Find how few votes, if left out, change the first place."""
        votes, counts, fit = self._data()
        return find_fragility(
            counts, fit, votes.items, float(self.ridge), davidson=self.ties == "davidson"
        )

    # -- planning --------------------------------------------------------------------------------

    def next_pairs(
        self, k: int = 1, goal: str = "first", *, level: float = 0.95
    ) -> list[tuple[str, str]]:
        """Return the k pairs of items to compare next.

        They are expected to rule out the most ranks among those that a goal leaves open. Strengths
        are given a prior N(0, 4) for this, so that there is a plan for items without votes.
        """
        check_integer("k", k, least=1)
        self._check_fitted()
        votes = np.stack(self._table.totals(len(self.items_))).sum(axis=0)
        with threadpool_limits(1, "blas"):
            ranks, information = planned(self._table, self.tie_, self.inflation_, len(self.items_))
            found = next_pairs(ranks, information, goal, k, level=level, fresh=votes)
        return [(self.items_[one], self.items_[other]) for one, other in found]

    # -- pictures, pages and files ---------------------------------------------------------------

    def totals(self) -> list[Floats]:
        """Return the wins, the losses and the ties of each item."""
        self._check_fitted()
        return self._table.totals(len(self.items_))

    def wins(self) -> tuple[Floats, Floats, Floats]:
        """Return the expected and the observed share of wins of each pair, and its votes.

        A tie is half a win. Pairs with an item without a strength are left out.
        """
        self._check_fitted()
        known = np.isfinite(self._theta)
        seen = known[self._table.a] & known[self._table.b]
        return (self._expected.shares(), self._table.shares()[seen],
                self._table.weight[seen].sum(axis=1))  # fmt: skip

    def checks(self) -> dict[str, str]:
        """Return what `fragility` and `transitivity` find, in a sentence each.

        A board that was read from a file has no votes, and returns nothing.
        """
        if not hasattr(self, "_fitted") or not self._fitted[2].theta.size:
            return {}
        found = {"fragility": self.fragility().summary(), "transitivity": str(self.transitivity())}
        return {name: f"{text[0].upper()}{text[1:]}." for name, text in found.items()}

    def control_values(self, feature: str) -> Floats | None:
        """Return the values of a feature in both answers of all votes, None after `load`."""
        if not hasattr(self, "_fitted"):
            return None
        votes = self._fitted[0]
        return votes.features[:, :, votes.feature_names.index(feature)].ravel()

    def plot(self, what: str = "ranks", *, level: float = 0.95, ax: Axes | None = None) -> Axes:
        """Draw the ranks with their intervals, the "wins" or the curve of a control.

        "wins" draws the observed against the expected number of wins of each pair of items.
        """
        self._check_fitted()
        if what == "ranks":
            chart = ranks_chart(self.rows(level), level)
        elif what == "wins":
            chart = wins_chart(*self.wins())
        elif what in self.curves_:
            chart = curve_chart(self.curves_[what], self.control_values(what))
        else:
            raise ValueError(f"there is no plot of {what!r}; draw "
                             f"{quoted(['ranks', 'wins', *self.curves_])}")  # fmt: skip
        return chart.onto(ax, height=max(4.0, 0.25 * len(chart.rows)))

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, level: float = 0.95,
        title: str | None = None, date: str | None = None,
    ) -> str | None:  # fmt: skip
        """Write a self-contained page, atomically; without a path, return its text."""
        self._check_fitted()
        page = board_page(self, level, title, date)
        if path is None:
            return page
        write_file(path, page.encode("utf-8"))
        return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the board as JSON, without the votes: only their number for each pair of items."""
        self._check_fitted()
        write_board(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a board that `save` wrote."""
        return read_board(cls, path)


declare_parameters(Leaderboard, BaseEstimator)
