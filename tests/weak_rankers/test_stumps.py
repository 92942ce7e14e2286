"""Stumps and the search for the best stump, compared with brute force."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

import naive
import strategies as some
from emulated_device import EmulatedDevice, assert_same_fit, needs_compiler
from precede import (
    AdaBoostRanker,
    Columns,
    ConvexRiskRanker,
    Features,
    GlassBoxRanker,
    Judgments,
    PairRisk,
    PushRanker,
    RankBoost,
    RankBoostPlus,
    SmoothMarginRanker,
    Stump,
    Stumps,
)
from precede.engine import histograms
from precede.engine.exact import TIE, TIE_OF_DECREASES
from precede.engine.execution import Context
from precede.engine.table import Table
from precede.model import Ensemble
from precede.weak_rankers.base import weak_ranker_from_dict
from precede.weak_rankers.columns import Constants
from precede.weak_rankers.stumps import SignedStump, SignedStumps, StumpSearch, signed_stumps


def as_candidate(found):
    ranker = found.weak_ranker
    return naive.Candidate(ranker.feature, ranker.threshold, ranker.missing)


# -- a stump ---------------------------------------------------------------------------------


@given(st.integers(3, 12).flatmap(some.tables))
def test_values_on_rows_and_on_codes_are_equal(X):
    """`Stump(X)` compares raw values, `Stump.on(table)` compares codes: thresholds are cuts."""
    table = Table.build(X)
    for stump in naive.candidates(X, table.bins.cuts, one_way=True):
        ours = Stump(stump.feature, stump.threshold, stump.missing)
        assert_array_equal(ours(X), stump.values(X))
        assert_array_equal(ours.on(table), stump.values(X))


@pytest.mark.parametrize("threshold", [-math.inf, -0.3, 0.0, 0.4999, 1.7, math.inf])
def test_a_threshold_that_is_not_a_cut_uses_the_raw_values(threshold):
    """A model fitted to other rows has thresholds that are not cuts of this table."""
    X = np.array([[0.0], [0.5], [math.nan], [2.0], [-1.0]])
    table = Table.build(X)
    for missing in (0, 1):
        stump = Stump(0, threshold, missing)
        assert_array_equal(stump.on(table), stump(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_cut_between_adjacent_floats_separates_them(dtype, steps):
    """No float32 lies between them, but the cut is a float64."""
    low = dtype(1.0) + dtype(steps) * np.finfo(dtype).eps  # an even last digit, and an odd one
    X = np.array([[low], [np.nextafter(low, dtype(2))]], dtype)
    table = Table.build(X)
    stump = Stump(0, float(table.bins.cuts[0][0]))
    assert_array_equal(stump.on(table), [0, 1])
    assert_array_equal(stump(X), [0, 1])


def test_stumps_round_trip_through_dicts():
    for stump in (Stump(3, -math.inf, 1), Stump(3, math.inf, 1)):
        assert weak_ranker_from_dict(stump.to_dict()) == stump


# -- the steepest stump ----------------------------------------------------------------------


@st.composite
def searches(draw, most=12):
    n = draw(st.integers(2, most))
    return draw(some.tables(n)), draw(some.pulls(n))


@given(searches())
@settings(max_examples=200)
def test_the_steepest_stump_is_the_best_by_brute_force(search):
    """Same feature, threshold and side of the missing, ties included."""
    X, pull = search
    expected, edge = naive.best_stump(X, pull, tie=TIE)
    found = Stumps().search(Table.build(X), pull)
    if expected is None:
        assert found is None or abs(found.edge) < 1e-15
        return
    assert as_candidate(found) == expected
    assert found.edge == pytest.approx(edge, abs=1e-15)


@given(searches(), st.data())
def test_features_that_are_not_allowed_are_not_used(search, data):
    X, pull = search
    size = X.shape[1]
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    found = Stumps().start(Table.build(X)).best(pull, allowed)
    masked = np.where(allowed[None, :], X.astype(float), 0.0)
    expected, _ = naive.best_stump(masked, pull, tie=TIE)
    if expected is None:
        assert found is None or abs(found.edge) < 1e-15
    else:
        assert as_candidate(found) == expected


@pytest.mark.parametrize(
    ("X", "pull", "expected"),
    [
        # Two columns alike: the lowest feature.
        ([[0, 0], [1, 1]], [-1, 1], Stump(0, 0.5)),
        # Two thresholds alike, the pull between them being 0: the lowest.
        ([[0], [1], [2]], [-1, 0, 1], Stump(0, 0.5)),
        # A threshold and its reverse are one ranker with another sign.
        ([[0], [1]], [1, -1], Stump(0, 0.5)),
        # The missing row pulls nowhere: below.
        ([[0], [1], [math.nan]], [-1, 1, 0], Stump(0, 0.5, 0)),
        # Missing rows go up: above everything else.
        ([[0], [1], [math.nan]], [-1, 0.5, 0.5], Stump(0, 0.5, 1)),
        # Only being missing matters: present (1) against missing (0).
        ([[0], [1], [math.nan], [math.nan]], [0.5, 0.5, -0.5, -0.5], Stump(0, -math.inf, 0)),
    ],
)
def test_ties_go_to_the_lowest_feature_then_threshold_then_missing_below(X, pull, expected):
    found = Stumps().search(Table.build(np.array(X, float)), np.array(pull, float))
    assert found.weak_ranker == expected


def test_edges_that_differ_by_rounding_alone_are_tied():
    """0.1 + 0.2 - 0.3 is not 0 in floating point; the choice must not depend on it."""
    X = np.array([[0, 0], [0, 1], [0, 1], [1, 1]], float)
    pull = np.array([-1.0, 0.1 + 0.2, -0.3, 1.0])
    assert Stumps().search(Table.build(X), pull).weak_ranker.feature == 0
    assert Stumps().search(Table.build(X), pull * (1 - 2**-45)).weak_ranker.feature == 0


@pytest.mark.parametrize("X", [[[1.0], [1.0]], [[math.nan], [math.nan]]])
def test_constant_columns_have_no_best_stump(X):
    assert Stumps().search(Table.build(np.array(X)), np.array([1.0, -1.0])) is None


def test_a_zero_pull_has_no_best_stump():
    assert Stumps().search(Table.build(np.array([[1.0], [2.0]])), np.zeros(2)) is None


# -- the stump of the largest decrease -------------------------------------------------------


@st.composite
def decreases(draw, most=9):
    X, made = draw(some.problems(most=most))
    balance = draw(st.sampled_from(["pairs", "queries"]))
    return X, made, draw(some.scores(len(made), spread=2.0)), balance


def find_decrease(X, made, scores, balance, one_way=False):
    bound = PairRisk("exponential", balance=balance).bind(made)
    order = bound.layout.order
    state = bound.state(scores[order])
    table = Table.build(X, order=order)
    search = StumpSearch(table, Context(1))
    if one_way:
        search.restrict_to_positive()
    return table, search.best_decrease(bound.factors(state))


@given(decreases(), st.booleans())
@settings(max_examples=160)
def test_the_largest_decrease_is_the_best_by_brute_force(situation, one_way):
    """1 - Z after the step taken, over the list of pairs, for every threshold and side."""
    X, made, scores, balance = situation
    table, found = find_decrease(X, made, scores, balance, one_way)
    rows = table.order
    stumps = naive.candidates(X[rows], table.bins.cuts, one_way)
    splits = [
        naive.edge_weights(
            made, scores, stump.values(X), naive.exponential(), naive.power_price(1),
            balance=balance,
        )
        for stump in stumps
    ]  # fmt: skip
    half_a_pair = 0.5 / naive.pair_count(made)
    worth = [
        naive.decrease(right, wrong, half_a_pair) if right > wrong or not one_way else 0.0
        for right, wrong, _ in splits
    ]
    chosen = naive.first_of_the_best(worth, TIE_OF_DECREASES)
    if chosen is None:
        assert found is None or found.decrease < 1e-15
        return
    assert as_candidate(found) in stumps
    ours = stumps.index(as_candidate(found))
    assert found.decrease == pytest.approx(worth[ours], abs=1e-9)
    assert found.edge == pytest.approx(splits[ours][0] - splits[ours][1], abs=1e-12)
    # Decreases are squares of differences of roots: masses of 1e-18 are 1e-9 by then.
    assert worth[ours] >= max(worth) - 1e-8
    if all(abs(w - max(worth)) > 1e-8 or w >= max(worth) * (1 - 1e-12) for w in worth):
        assert ours == chosen


@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
@pytest.mark.parametrize("weak_rankers", ["stumps", "features"])
def test_the_largest_decrease_is_that_of_the_step_that_is_taken(weak_rankers):
    """The cautious ranker wins by the exact step, the bold one by that of the bound."""
    made = Judgments.preferences(range(0, 40, 2), range(1, 40, 2), n=40)
    cautious, bold = np.zeros(40), np.zeros(40)
    cautious[0:20:2] = 1  # 10 of 20 pairs in order, the others tied
    bold[0:28:2] = 1  # 14 in order
    bold[29:33:2] = 1  # 2 reversed
    X = np.stack([cautious, bold, np.full(40, 0.5)], axis=1)
    if weak_rankers == "features":
        X[0, 0], X[0, 1] = 1.0, 0.99  # no longer two values
    risk = PairRisk("exponential")
    for step in ("exact", "bound"):
        fits = [
            RankBoost(step=step, weak_rankers=weak_rankers, n_estimators=1, learning_rate=1.0).fit(
                X[:, [j]], made
            )
            for j in (0, 1)
        ]
        after = [risk.value(made, fit.predict(X[:, [j]])) for j, fit in enumerate(fits)]
        model = RankBoost(
            select="decrease",
            step=step,
            weak_rankers=weak_rankers,
            n_estimators=1,
            learning_rate=1.0,
        ).fit(X, made)
        assert model.ensemble_.weak_rankers[0].feature == int(np.argmin(after)) == (step == "bound")


def test_the_largest_decrease_may_be_another_stump_than_the_steepest():
    """d+ = .5, d- = 0 beats d+ = .75, d- = .2, although its edge .5 is below .55.

    Its step is smoothed by e = 1/40, so it lowers the risk by .5 (1 - sqrt(e / (.5 + e))).
    """
    made = Judgments.preferences(range(0, 40, 2), range(1, 40, 2), n=40)
    cautious, bold = np.zeros(40), np.zeros(40)
    cautious[0:20:2] = 1  # 10 of 20 pairs in order, the others tied
    bold[0:30:2] = 1  # 15 in order
    bold[31:39:2] = 1  # 4 reversed
    X = np.stack([bold, cautious], axis=1)
    table, found = find_decrease(X, made, np.zeros(40), "pairs")
    assert found.weak_ranker == Stump(1, 0.5)
    assert found.decrease == pytest.approx(0.5 * (1 - math.sqrt(1 / 21)))
    bound = PairRisk("exponential").bind(made)
    steep = Stumps().search(table, bound.state(np.zeros(40)).pull)
    assert steep.weak_ranker == Stump(0, 0.5)
    assert steep.edge == pytest.approx(0.55)


# -- lazy search -----------------------------------------------------------------------------


def gradual_pulls(rng, n, rounds, length):
    """Pulls that change gradually, as in boosting."""
    pull = rng.standard_normal(n)
    for _ in range(rounds):
        pull = pull + length * rng.standard_normal(n) * (rng.random(n) < 0.3)
        centered = pull - pull.mean()
        yield centered / centered[centered > 0].sum()


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("length", [0.0, 1e-3, 0.1, 3.0])
def test_lazy_search_finds_what_full_search_finds(length, jobs, tiny_thresholds):
    """In every round, for constant, slowly changing and jumping pulls."""
    rng = np.random.default_rng(int(length * 1000))
    X = rng.integers(0, 6, (60, 12)).astype(float)
    X[rng.random(X.shape) < 0.1] = math.nan
    X[:, 5] = X[:, 2]  # a tie at every threshold
    X[:, 9] = -X[:, 2]
    table = Table.build(X)
    with Context(jobs) as context:
        lazy = StumpSearch(table, context, lazy=True)
        full = StumpSearch(table, context, lazy=False)
        for pull in gradual_pulls(rng, 60, 60, length):
            assert lazy.best(pull) == full.best(pull)


def test_lazy_search_evaluates_fewer_features():
    rng = np.random.default_rng(0)
    table = Table.build(rng.standard_normal((200, 30)))
    lazy, full = StumpSearch(table, Context(1)), StumpSearch(table, Context(1), lazy=False)
    for pull in gradual_pulls(rng, 200, 40, 1e-3):
        lazy.best(pull)
        full.best(pull)
    assert full.evaluated == 40 * 30
    assert lazy.evaluated < 0.7 * full.evaluated


def test_lazy_search_with_features_drawn_at_random_finds_what_full_search_finds():
    """The drift of a feature accumulates while it is not allowed."""
    rng = np.random.default_rng(1)
    table = Table.build(rng.integers(0, 9, (50, 8)).astype(float))
    lazy, full = StumpSearch(table, Context(1)), StumpSearch(table, Context(1), lazy=False)
    for pull in gradual_pulls(rng, 50, 80, 0.05):
        allowed = rng.random(8) < 0.4
        assert lazy.best(pull, allowed) == full.best(pull, allowed)


def test_stumps_print_and_compare_as_values():
    assert repr(Stumps(lazy=False)) == "Stumps(lazy=False)"
    assert Stumps() == Stumps()
    assert Stumps() != Stumps(lazy=False)
    assert repr(Stumps(thresholds="all")) == "Stumps(thresholds='all')"
    with pytest.raises(ValueError, match="thresholds='some' is unknown"):
        Stumps(thresholds="some")


# -- all thresholds ------------------------------------------------------------------------------


def edges_of_all_thresholds(X, pull):
    """Edge of every stump 1[x > t], t between two distinct values, missing on either side."""
    for feature, column in enumerate(X.T):
        for value in np.unique(column[~np.isnan(column)])[:-1]:
            above = pull[column > value].sum()
            yield feature, value, above
            yield feature, value, above + pull[np.isnan(column)].sum()
        yield feature, np.inf, pull[np.isnan(column)].sum()


@pytest.mark.parametrize("lazy", [True, False])
def test_all_thresholds_are_searched(lazy):
    """Features with more values than bins; integer pulls make the sums exact."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.permutation(900), rng.integers(0, 300, 900), rng.integers(0, 3, 900)], 1)
    X = np.where(rng.random(X.shape) < 0.02, np.nan, X.astype(float))
    table = Table.build(X)
    search = Stumps(thresholds="all", lazy=lazy).start(table)
    larger = 0
    for _ in range(20):
        pull = rng.integers(-8, 9, 900) / 2.0**13
        pull[0] -= pull.sum()
        edges = list(edges_of_all_thresholds(X, pull))
        found, binned = search.best(pull), Stumps().start(table).best(pull)
        assert abs(found.edge) == max(abs(edge) for *_, edge in edges)
        assert found.edge == pull @ found.weak_ranker(X) == pull @ found.weak_ranker.on(table)
        larger += abs(found.edge) > abs(binned.edge)
        only = search.best(pull, np.array([False, True, False]))
        assert abs(only.edge) == max(abs(edge) for feature, _, edge in edges if feature == 1)
    assert larger > 2


@pytest.mark.filterwarnings("ignore:the model has no rounds")
@given(some.problems(most=8, tied=False), st.booleans())
def test_all_thresholds_of_few_values_are_those_of_bins(problem, nonnegative):
    X, made = problem
    options = {"n_estimators": 4, "step": "bound", "nonnegative": nonnegative}
    binned = RankBoost(**options).fit(X, made)
    every = RankBoost(weak_rankers=Stumps(thresholds="all"), **options).fit(X, made)
    assert every.ensemble_.weak_rankers == binned.ensemble_.weak_rankers
    assert every.ensemble_.weights == binned.ensemble_.weights


def test_all_thresholds_by_largest_decrease_and_with_constraints():
    X = np.arange(600.0)[:, None]
    y = (X[:, 0] >= 301).astype(int)
    rising = Stumps(thresholds="all", monotone_constraints=[1])
    for options in ({"select": "decrease"}, {"weak_rankers": rising}):
        settings = {"weak_rankers": Stumps(thresholds="all"), "n_estimators": 1, **options}
        assert RankBoost(**settings).fit(X, y).ensemble_.weak_rankers == [Stump(0, 300.5)]


@pytest.mark.parametrize("model", [AdaBoostRanker, RankBoostPlus])
def test_algorithms_that_are_made_for_bins_refuse_all_thresholds(model):
    with pytest.raises(ValueError, match="thresholds of bins; use 'stumps'"):
        model(weak_rankers=Stumps(thresholds="all")).fit([[0.0], [1.0]], [0, 1])


# -- monotone constraints ------------------------------------------------------------------------


@given(st.data())
def test_constrained_search_is_the_best_of_those_allowed(data):
    """Compared with brute force over the stumps whose edge has the sign of the feature."""
    X = data.draw(st.integers(3, 12).flatmap(some.tables))
    table = Table.build(X)
    signs = data.draw(
        st.lists(st.sampled_from([-1, 0, 1]), min_size=X.shape[1], max_size=X.shape[1])
    )
    pull = data.draw(some.pulls(len(X)))
    context = Context(1)
    found = Stumps(monotone_constraints=signs).start(table, context).best(pull)
    edges = [
        edge
        for each in naive.candidates(X, table.bins.cuts, one_way=True)
        if (edge := float(pull @ each.values(X))) * signs[each.feature] > 0
        or signs[each.feature] == 0
    ]
    most = max(map(abs, edges), default=0.0)
    if found is None:
        assert most <= 1e-12
        return
    assert found.edge * signs[found.weak_ranker.feature] >= 0
    assert abs(found.edge) == pytest.approx(most, rel=1e-9, abs=1e-12)
    assert pull @ found.weak_ranker(X) == pytest.approx(found.edge, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("select", ["slope", "decrease"])
@pytest.mark.parametrize("make", [RankBoost, PushRanker])
def test_scores_of_a_constrained_model_move_in_one_direction(make, select):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).round(1)
    y = (X @ [1.0, -1.0, 0.5] + np.sin(3 * X[:, 0]) + rng.normal(size=300) > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = {"learning_rate": 0.1} | ({"select": select} if make is RankBoost else {})
    wanted = {"a": 1, "b": 1}  # against the data for b
    model = make(n_estimators=60, monotone_constraints=wanted, **options).fit(frame, y)
    free = make(n_estimators=60, **options).fit(frame, y)
    for name, sign in wanted.items():
        grid = np.linspace(-4, 4, 200)
        values = model.shape_function(name)(grid)
        assert (sign * np.diff(values) >= 0).all()
    assert (np.diff(free.shape_function("b")(grid)) < 0).any()
    by_number = make(n_estimators=60, monotone_constraints=[1, 1, 0], **options).fit(X, y)
    assert_array_equal(by_number.predict(X), model.predict(frame))
    two = make(n_estimators=60, monotone_constraints=wanted, n_jobs=2, **options).fit(frame, y)
    assert_array_equal(two.predict(frame), model.predict(frame))
    given = Stumps(monotone_constraints={0: 1, 1: 1})
    assert_array_equal(
        make(n_estimators=60, weak_rankers=given, **options).fit(X, y).predict(X),
        model.predict(frame),
    )


def test_constraints_that_cannot_be_kept_are_refused():
    X, y = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]}), [0, 1, 0]
    for weak_rankers in ("features", "columns", "trees", Stumps() | Features()):
        with pytest.raises(ValueError, match="monotone_constraints"):
            RankBoost(weak_rankers=weak_rankers, monotone_constraints={"a": 1}).fit(X, y)
    for wrong in ([1], [1, 2], {"c": 1}, {"a": 1, 0: 1}, 3):
        with pytest.raises(ValueError, match="monotone_constraints"):
            RankBoost(monotone_constraints=wrong).fit(X, y)
    with pytest.raises(ValueError, match="nonnegative=True"):
        RankBoost(nonnegative=True, monotone_constraints={"a": -1}).fit(X, y)
    with pytest.raises(ValueError, match="may miss the largest edge"):
        SmoothMarginRanker(weak_rankers=Stumps(monotone_constraints=[1, 0])).fit(X, y)
    with pytest.raises(ValueError, match="votes go in either direction"):
        AdaBoostRanker(weak_rankers=Stumps(monotone_constraints=[1, 0])).fit(X, y)


# -- missing values that tell the classes apart ----------------------------------------------------

EVERY_USE = [
    RankBoost(), RankBoost(nonnegative=True), RankBoost(nonnegative=True, select="decrease"),
    RankBoost(nonnegative=True, step="bound"), RankBoost(nonnegative=True, n_jobs=2),
    *(RankBoost(monotone_constraints=[sign, 0], select="decrease") for sign in (-1, 1)),
    *(make(monotone_constraints=[sign, 0]) for make in (RankBoost, PushRanker) for sign in (-1, 1)),
    PushRanker(), AdaBoostRanker(), ConvexRiskRanker(radius=3.0), RankBoostPlus(),
    SmoothMarginRanker(), SmoothMarginRanker(nonnegative=True), GlassBoxRanker(min_child_samples=1),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("missing_above", [True, False])
@pytest.mark.parametrize("model", EVERY_USE, ids=lambda model: repr(model).replace("\n", ""))
def test_every_algorithm_learns_from_missing_values_in_both_directions(model, missing_above):
    """Also with weights of one sign and with monotone constraints."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 2)).astype(float)
    X[rng.random(60) < 0.4, 0] = math.nan
    y = (np.isnan(X[:, 0]) == missing_above).astype(int)
    model = clone(model).set_params(n_estimators=5).fit(X, y)
    assert model.score(X, y) == 1.0
    assert_array_equal(model.explain(X).total(), model.predict(X))
    again = Ensemble.from_dict(json.loads(json.dumps(model.ensemble_.to_dict())))
    assert_array_equal(again.predict(X), model.predict(X))
    # What it learned holds for values that were not seen in training.
    new = model.predict([[math.nan, 1.0], [-1e9, 1.0], [1e9, 1.0]])
    assert ((new[0] > new[1:]) == missing_above).all()


def test_missing_values_alone_are_the_last_of_tied_stumps():
    """On ties the lowest threshold wins, with missing values below."""
    X = np.array([[0.0], [1.0], [math.nan], [math.nan]])
    for given_pull, stump in [
        ([-0.5, -0.5, 0.5, 0.5], Stump(0, math.inf, 1)),
        ([-1.0, 0.0, 0.5, 0.5], Stump(0, 0.5, 1)),
        ([0.5, 0.5, -0.5, -0.5], Stump(0, -math.inf)),
    ]:
        table, pull = Table.build(X), np.array(given_pull)
        assert Stumps().start(table).restrict_to_positive().best(pull).weak_ranker == stump
        for sign in (-1, 1):
            found = Stumps(monotone_constraints=[sign]).start(table).best(sign * pull)
            assert (found.weak_ranker, found.edge) == (stump, sign)


def test_as_many_bins_as_there_are_codes_leave_room_for_the_missing():
    X = np.append(np.arange(255.0), [math.nan] * 5)[:, None]
    table = Table.build(X)
    assert table.bins.n_bins[0] == 255
    pull = np.where(np.isnan(X[:, 0]), 0.2, -1 / 255)
    stump = Stumps().start(table).restrict_to_positive().best(pull).weak_ranker
    assert stump == Stump(0, math.inf, 1)
    assert stump.first_code(table) == 255
    assert_array_equal(stump.on(table), np.isnan(X[:, 0]))


# -- signed stumps ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::precede.boosting.steps.SmoothedStepWarning")
@given(some.tables(9), st.data())
def test_the_best_signed_stump_is_the_best_by_brute_force(X, data):
    pull = np.array(data.draw(st.lists(st.integers(-50, 50), min_size=9, max_size=9)), float)
    pull /= max(np.abs(pull).sum(), 1)
    found = SignedStumps().search(Table.build(X), pull)
    edges = [
        math.fsum(p * (2 * v - 1) for p, v in zip(pull, stump.values(X), strict=True))
        for stump in naive.candidates(X)
    ]
    if found is None:
        assert max(map(abs, edges), default=0.0) < 1e-12
    else:
        assert edges
        assert abs(found.edge) == pytest.approx(max(map(abs, edges)), abs=1e-12)
        assert found.edge == pytest.approx(float(pull @ found.weak_ranker(X)), abs=1e-12)


def test_families_with_signed_stumps():
    assert signed_stumps(Stumps(), constant=False) == SignedStumps()
    assert signed_stumps(Columns(), constant=True).families == (Columns(), Constants())
    assert SignedStump(0, 1.5)(np.array([[1.0], [2.0], [np.nan]])).tolist() == [-1, 1, -1]


# -- on a GPU: the same bits as on the CPU ---------------------------------------------------


def gpu_problem(seed, rows=300, features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features))
    X[:, 1] = rng.integers(0, 3, rows)
    X[:, -1] = X[:, 0]  # ties
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=rows), [0, 1, 2])
    X[rng.random((rows, features)) < 0.1] = np.nan
    return X, y, rng.integers(0, 12, rows)


def assert_same_stumps(given, X, y, qid, estimator=RankBoost, sample_weight=None):
    model = estimator(**{"n_estimators": 6, "learning_rate": 0.4, **given})
    columns = "risk", "log_risk", "edge", "step", "smoothed", "perfect"
    there = assert_same_fit(model, columns, X, y, qid=qid, sample_weight=sample_weight)
    assert len(there.ensemble_) == 6
    return there


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"step": "bound"},
        {"nonnegative": True},
        {"monotone_constraints": {0: -1, 2: 1}},
        {"max_features": 0.4, "random_state": 2},
        {"balance": "queries"},
        {"max_bins": 7},
        {"rank_weight": "ndcg"},
    ],
    ids=str,
)
def test_models_have_the_same_bits_on_a_gpu(device, given):
    assert_same_stumps(given, *gpu_problem(1))
    assert {"stump_fill", "stump_search", "stump_values"} <= {*device.launched}
    assert ("level_pulls" in device.launched) == ("rank_weight" not in given)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("price", [1, 4])
@pytest.mark.parametrize("queries", [False, True])
def test_push_on_a_gpu(price, queries):
    X, y, qid = gpu_problem(2)
    rest = (y, qid) if queries else (y > 1, None)
    there = assert_same_stumps({"price": price}, X, *rest, PushRanker)
    here = PushRanker(price=price, n_estimators=6, learning_rate=0.4).fit(X, rest[0], qid=rest[1])
    assert here.effective_losers_ == there.effective_losers_


@pytest.mark.usefixtures("device")
def test_other_losses_on_a_gpu():
    X, y, qid = gpu_problem(3, 120)
    assert_same_stumps({"loss": "logistic", "price": 1}, X, y, qid, PushRanker)


@pytest.mark.usefixtures("device")
def test_weights_one_list_and_many_features_on_a_gpu():
    X, y, _ = gpu_problem(4, 250, 40)
    weight = np.random.default_rng(0).exponential(size=y.size)
    assert_same_stumps({}, X, y, None, sample_weight=weight)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("estimator", [RankBoost, PushRanker])
def test_trees_by_exact_steps_on_a_gpu(estimator):
    assert_same_stumps({"weak_rankers": "trees"}, *gpu_problem(7), estimator)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("estimator", [RankBoost, PushRanker])
def test_perfect_weak_rankers_on_a_gpu(estimator):
    X, y, _ = gpu_problem(8)
    X[:, 0] = 2 * (y > 1)
    assert assert_same_fit(estimator(), [], X, y > 1).history_["perfect"][-1]


@pytest.mark.usefixtures("device")
def test_early_stops_on_a_gpu():
    X, y, qid = gpu_problem(9)
    given = {"eval_set": (X[:150], y[:150]), "eval_qid": qid[:150]}
    assert_same_fit(RankBoost(early_stopping_rounds=2), [], X, y, qid=qid, **given)


@pytest.mark.usefixtures("device")
def test_warm_starts_on_a_gpu():
    X, y, qid = gpu_problem(5)
    models = []
    for name in ("cpu", "cuda"):
        model = RankBoost(n_estimators=3, warm_start=True, device=name).fit(X, y, qid=qid)
        models.append(model.set_params(n_estimators=6).fit(X, y, qid=qid))
    assert models[0].ensemble_.to_dict() == models[1].ensemble_.to_dict()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"weak_rankers": "features"}, r"is for trees and stumps.*use device='cpu'"),
        ({"select": "decrease"}, r"use select='slope', or device='cpu'"),
    ],
)
def test_searches_of_the_cpu_only_raise(given, match):
    with pytest.raises(ValueError, match=match):
        RankBoost(**given, device="cuda").fit(*gpu_problem(6)[:2])


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_searches_with_ties_on_a_gpu(data):
    """Few distinct pulls, so that many edges tie, and columns repeated with the sign changed."""
    rows, features = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    X = rng.integers(0, data.draw(st.integers(1, 5)), (rows, features)).astype(float)
    X[rng.random(X.shape) < data.draw(st.sampled_from([0.0, 0.2, 1.0]))] = np.nan
    X[:, -1] = -X[:, 0]
    pull = rng.choice([-1.0, 0.0, 1.0], rows) / rows
    if data.draw(st.booleans()):
        pull += rng.normal(size=rows) * 2.0**-58
    allowed = rng.random(features) < 0.7 if data.draw(st.booleans()) else None
    signs = data.draw(
        st.sampled_from([None, [int(each) for each in rng.integers(-1, 2, features)]])
    )
    positive_only = signs is None and data.draw(st.booleans())
    table, device = Table.build(X), EmulatedDevice()
    found = []
    for context in (Context(1), Context(1, device)):
        search = Stumps(monotone_constraints=signs).start(table, context)
        search = search.restrict_to_positive() if positive_only else search
        found.append([search.best(each, allowed) for each in (pull, -pull, pull[::-1].copy())])
    assert found[0] == found[1]
    for one, other in zip(*found, strict=True):
        if one is not None:
            assert_array_equal(other.values, one.weak_ranker.on(table))


@needs_compiler
@pytest.mark.parametrize("rows", [4100, 9000])
def test_carries_between_words_on_a_gpu(monkeypatch, rows):
    """More rows per block than words of 20 bits hold, and pulls with all bits set."""
    monkeypatch.setattr(histograms, "TARGET_BLOCKS", 1)
    rng = np.random.default_rng(rows)
    table = Table.build(rng.integers(0, 2, (rows, 2)).astype(float))
    pull = np.full(rows, (2.0**50 - 1) / 2.0**61)
    pull[::3] *= -1
    found = [
        Stumps().start(table, w).best(pull) for w in (Context(1), Context(1, EmulatedDevice()))
    ]
    assert found[0] == found[1]
