"""`Leaderboard` against its slow twin, and what it says of ranks."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import naive_leaderboard as naive
from precede import Leaderboard
from samples import simulated_votes as simulated
from samples import votes_with_length as with_length

NAMES = ["ann", "bob", "cyd", "dan", "eve"]
NAMES_6 = [f"item {i}" for i in range(6)]


@st.composite
def votes(draw, weighted=True, most=24):
    n = draw(st.integers(2, 4))
    weight = st.sampled_from([1.0, 1.0, 2.0, 0.5]) if weighted else st.just(1.0)
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] != p[1])
    row = st.tuples(pairs, st.sampled_from(["a", "b", "a", "b", "tie"]), weight)
    rows = draw(st.lists(row, min_size=n, max_size=most))
    return n, [(a, b, outcome, w, ()) for (a, b), outcome, w in rows]


def frame(rows, **columns):
    return pd.DataFrame({
        "a": [NAMES[row[0]] for row in rows], "b": [NAMES[row[1]] for row in rows],
        "outcome": [row[2] for row in rows], "weight": [row[3] for row in rows], **columns,
    })  # fmt: skip


def strengths(board, n):
    found = dict(zip(board.items_, board.strengths_, strict=True))
    return np.array([found[name] for name in NAMES[:n]])


# -- strengths -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(votes(), st.booleans())
def test_strengths_are_those_of_a_general_optimizer(drawn, davidson):
    n, rows = drawn
    board = Leaderboard(ties="davidson" if davidson else "half", cluster=None).fit(
        frame(rows), items=NAMES[:n]
    )
    if board.unranked_:
        # Without Davidson's parameter, every item has a strength exactly if all are connected.
        assert davidson or not naive.connected(rows, n)
        return
    assert naive.connected(rows, n)
    theta, _, log_ties = naive.fit(rows, n, davidson=davidson)
    assume(np.abs(theta).max() < 6)
    assert_allclose(strengths(board, n), theta - theta.mean(), atol=2e-5)
    if log_ties is not None:
        assert math.isclose(math.log(board.tie_), log_ties, abs_tol=2e-5)


@settings(max_examples=20, deadline=None)
@given(votes(), st.sampled_from([0.1, 1.0]))
def test_a_ridge_shrinks_the_strengths_only(drawn, ridge):
    n, rows = drawn
    board = Leaderboard(ties="half", ridge=ridge, cluster=None).fit(frame(rows), items=NAMES[:n])
    theta, _, _ = naive.fit(rows, n, davidson=False, ridge=ridge)
    assert_allclose(strengths(board, n), theta - theta.mean(), atol=1e-5)
    assert not board.unranked_


@settings(max_examples=25, deadline=None)
@given(votes(), st.data())
def test_the_covariance_is_that_of_the_slow_sandwich(drawn, data):
    n, rows = drawn
    board = Leaderboard(cluster=None).fit(frame(rows), items=NAMES[:n])
    assume(not board.unranked_ and np.abs(board._theta).max() < 4)
    estimates = naive.fit(rows, n)
    order = [NAMES.index(name) for name in board.items_]
    wanted = naive.sandwich(rows, None, estimates, n)[:n, :n][np.ix_(order, order)]
    assert_allclose(board._ranks.covariance, wanted, rtol=1e-3, atol=1e-4)
    voters = data.draw(st.lists(st.sampled_from("xyz"), min_size=len(rows), max_size=len(rows)))
    assume(len({*voters}) > 1)
    clustered = Leaderboard().fit(frame(rows, voter=voters), items=NAMES[:n])
    slow = naive.sandwich(rows, voters, estimates, n)[np.ix_([*order], [*order])]
    alone = naive.sandwich(rows, None, estimates, n)
    size = len(estimates[0]) + (estimates[2] is not None)
    share = size / (size + len({*voters}))
    whole = naive.sandwich(rows, voters, estimates, n)
    spread = max(np.trace(whole[:n, :n]) / np.trace(alone[:n, :n]), 1.0)
    wanted = (1 - share) * slow + share * spread * alone[np.ix_(order, order)]
    assert_allclose(clustered._ranks.covariance, wanted, rtol=2e-3, atol=2e-4)


def test_the_order_of_votes_names_and_threads_change_no_bit():
    votes = simulated()
    votes["weight"] = np.random.default_rng(1).uniform(0.1, 3, len(votes))
    board = Leaderboard(n_jobs=1).fit(votes)
    mixed = Leaderboard(n_jobs=2).fit(votes.sample(frac=1, random_state=3))
    assert board.to_frame().equals(mixed.to_frame())
    turned = votes.rename(columns={"a": "b", "b": "a"})
    turned["outcome"] = turned["outcome"].map({"a": "b", "b": "a", "tie": "tie"})
    assert board.to_frame()["strength"].equals(Leaderboard().fit(turned).to_frame()["strength"])
    whole = votes.drop(columns="weight")
    twice = whole.assign(weight=2.0)
    doubled = pd.concat([whole, whole], ignore_index=True)
    pd.testing.assert_frame_equal(
        Leaderboard().fit(twice).to_frame(), Leaderboard().fit(doubled).to_frame(), rtol=1e-11
    )


@pytest.mark.parametrize("kind", ["pandas", "categorical", "polars", "pyarrow"])
def test_frames_of_every_library(kind):
    votes = simulated(m=400)
    given = votes
    if kind == "categorical":
        given = votes.astype({"a": "category", "b": "category"})
    if kind in ("polars", "pyarrow"):
        module = pytest.importorskip(kind)
        given = module.from_pandas(votes) if kind == "polars" else module.Table.from_pandas(votes)
    assert Leaderboard().fit(given).to_frame().equals(Leaderboard().fit(votes).to_frame())


def test_scale_anchor_and_center():
    votes = simulated()
    natural, elo = Leaderboard().fit(votes), Leaderboard(scale="elo").fit(votes)
    assert math.isclose(natural.strengths_.mean(), 0, abs_tol=1e-12)
    assert_allclose(elo.strengths_, 1000 + 400 / math.log(10) * natural.strengths_)
    assert_allclose(elo.covariance_, (400 / math.log(10)) ** 2 * natural.covariance_)
    anchored = Leaderboard(anchor="item 3", center=5.0).fit(votes)
    frame = anchored.to_frame().set_index("item")
    assert frame.loc["item 3", "strength"] == 5.0
    assert frame.loc["item 3", "std_error"] == 0
    gap = natural.difference("item 0", "item 3")
    assert math.isclose(frame.loc["item 0", "strength"] - 5.0, gap.value)
    assert math.isclose(frame.loc["item 0", "std_error"], gap.std_error, rel_tol=1e-9)
    assert natural.interval("item 0").low < natural.strengths_[0] < natural.interval("item 0").high


def test_win_probabilities_add_up_and_know_ties():
    board = Leaderboard().fit(simulated(m=20_000))
    found = board.win_probability("item 0", "item 7")
    assert math.isclose(sum(found.values()), 1)
    chance = np.exp([1.2, -1.2, math.log(0.6)])
    assert_allclose(list(found.values()), chance / chance.sum(), atol=0.02)
    assert Leaderboard(ties="half").fit(simulated()).win_probability("item 1", "item 2")["tie"] == 0


def test_the_advantage_of_being_shown_first():
    votes = simulated(m=20_000, seed=2)
    rng = np.random.default_rng(0)
    first = rng.random(len(votes)) < 0.5
    # A share of the lost and tied votes of the answer shown first is won instead.
    won = rng.random(len(votes)) < 0.2
    votes.loc[won & first, "outcome"], votes.loc[won & ~first, "outcome"] = "a", "b"
    votes["order"] = np.where(first, "a", "b")
    board = Leaderboard(shown_first=True).fit(votes)
    plain = Leaderboard().fit(votes)
    assert 0.2 < board.effects_["shown first"] < 1
    assert board.effects_["shown first"] > 5 * board.effect_errors_["shown first"]
    assert abs(np.corrcoef(board._theta, plain._theta)[0, 1]) > 0.99
    with pytest.raises(ValueError, match="order"):
        Leaderboard(shown_first=True).fit(simulated())


# -- controls --------------------------------------------------------------------------------------


def test_linear_controls_are_those_of_a_general_optimizer_and_not_shrunk():
    _, votes = with_length(300)
    for ridge in (0.0, 3.0):
        board = Leaderboard(controls="linear", ridge=ridge).fit(votes)
        rows = [(NAMES_6.index(a), NAMES_6.index(b), o, 1.0, (x - y,))
                for a, b, o, x, y in votes.itertuples(index=False)]  # fmt: skip
        theta, gamma, _ = naive.fit(rows, 6, effects=1, davidson=False, ridge=ridge)
        found = dict(zip(board.items_, board.strengths_, strict=True))
        assert_allclose([found[name] for name in NAMES_6], theta - theta.mean(), atol=1e-4)
        assert math.isclose(board.effects_["length"], gamma[0], abs_tol=1e-4)


def test_curves_find_the_effect_that_a_line_misses():
    theta, votes = with_length(4000)
    board = Leaderboard(controls="curves").fit(votes)
    curve = board.curves_["length"]
    x = np.linspace(0, 4, 30)
    wanted = 1.5 * np.tanh(x - 2)
    assert np.abs((curve(x) - curve(x).mean()) - (wanted - wanted.mean())).max() < 0.4
    assert (curve.errors > 0).all()
    found = dict(zip(board.items_, board.strengths_, strict=True))
    strength = np.array([found[name] for name in NAMES_6])
    assert np.abs(strength - theta).max() < 0.25
    assert not board.effects_
    plain = Leaderboard().fit(votes)
    assert np.abs(plain.strengths_ - board.strengths_).max() > 0.15  # length hid in the strengths


def test_controls_need_features_and_say_so():
    with pytest.raises(ValueError, match="length_a and length_b"):
        Leaderboard(controls="linear").fit(simulated())
    _, votes = with_length(200)
    with pytest.raises(ValueError, match="'tone'"):
        Leaderboard(controls="linear", features=["tone"]).fit(votes)
    votes["copy_a"], votes["copy_b"] = votes["length_a"], votes["length_b"]
    with pytest.raises(ValueError, match="leave one out"):
        Leaderboard(controls="linear").fit(votes)


# -- ranks -----------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.9, 0.99]))
def test_rank_sets_tiers_and_the_partial_order(seed, level):
    board = Leaderboard().fit(simulated(n=7, m=150, seed=seed), items=["absent"])
    above = board.surely_above(level).to_numpy()
    steps = above.astype(int)
    assert not (above & above.T).any()
    assert ((steps @ steps > 0) <= above).all()  # transitive
    rows = board.rows(level)
    n = len(rows)
    for item, row in enumerate(rows):
        assert row["rank_low"] == 1 + above[:, item].sum()
        assert row["rank_high"] == n - above[item].sum()
        if row["rank"] is not None:
            assert row["rank_low"] <= row["rank"] <= row["rank_high"]
    slow = naive.tiers(above.tolist())
    known = [row["tier"] for row in rows if row["rank"] is not None]
    assert known == [tier for tier, row in zip(slow, rows, strict=True) if row["rank"] is not None]
    named = [item for tier in board.tiers(level) for item in tier]
    assert sorted(named) == sorted(row["item"] for row in rows if row["rank"] is not None)


def test_confidence_is_the_level_at_which_a_goal_is_settled():
    board = Leaderboard().fit(simulated(n=6, m=4000))
    for goal, first in (("first", 1), ("top@3", 3)):
        sure = board.confidence(goal)
        assert 0 < sure <= 1
        for level in (sure - 0.02, min(sure + 0.02, 0.9999)):
            above = board.surely_above(level).to_numpy()
            settled = above[:first, first:].all()
            assert settled == (level < sure) or sure == 1
    assert board.confidence("order") <= board.confidence("first")
    with pytest.raises(ValueError, match="top@5"):
        board.confidence("last")


def test_one_cluster_of_copies_is_one_vote():
    """Votes repeated by their voter add no information, and the clusters show it."""
    votes = simulated(m=600, voters=600)
    copied = pd.concat([votes] * 5, ignore_index=True)
    clustered, naively = Leaderboard().fit(copied), Leaderboard(cluster=None).fit(copied)
    single = Leaderboard().fit(votes)
    assert_allclose(clustered.covariance_, single.covariance_, rtol=0.01)
    assert_allclose(naively.covariance_ * 5, Leaderboard(cluster=None).fit(votes).covariance_)
    assert clustered.inflation_ > 3


def test_two_kinds_of_clusters_and_the_bootstrap():
    rng = np.random.default_rng(0)
    votes = simulated(m=3000).assign(prompt=rng.integers(0, 80, 3000))
    both = Leaderboard(cluster="both").fit(votes)
    assert both.clusters_ == {"voter": 100, "prompt": 80}
    spread = Leaderboard(cluster="prompt", intervals="bootstrap", resamples=150).fit(votes)
    ratio = np.diag(spread.covariance_) / np.diag(
        Leaderboard(cluster="prompt").fit(votes).covariance_
    )
    assert 0.6 < ratio.mean() < 1.5
    with pytest.raises(ValueError, match="two prompts"):
        Leaderboard(cluster="prompt").fit(simulated())


# -- items without a strength ----------------------------------------------------------------------


def test_winners_losers_and_strangers_are_named():
    votes = simulated(n=5, m=300)
    extra = pd.DataFrame(
        [("king", f"item {i % 5}", "a") for i in range(40)]
        + [("item 1", "fool", "a"), ("item 2", "fool", "a"), ("x", "y", "a"), ("y", "x", "a")],
        columns=["a", "b", "outcome"],
    )
    board = Leaderboard().fit(pd.concat([votes, extra.assign(voter=1)]), items=["absent"])
    assert board.items_[0] == "king"
    assert board.strengths_[0] == np.inf
    assert "won all of its 40 votes" in board.unranked_["king"]
    assert "lost all of its 2 votes" in board.unranked_["fool"]
    assert "connect" in board.unranked_["x"]
    assert "no votes" in board.unranked_["absent"]
    above = board.surely_above(0.9)
    assert above.loc["king", "item 0"]  # forty wins say something
    assert not above.loc["item 4", "fool"]  # two losses do not
    row = {row["item"]: row for row in board.rows()}
    assert row["x"]["rank_low"] == 1
    assert row["x"]["rank_high"] == len(board.items_)
    assert row["x"]["tier"] is None
    assert board.win_probability("king", "fool")["win"] == 1
    with pytest.raises(ValueError, match="nothing connects"):
        board.win_probability("x", "item 0")
    with pytest.raises(ValueError, match="no upper bound"):
        board.difference("king", "item 0").interval()
    with pytest.raises(ValueError, match="has no strength"):
        Leaderboard(anchor="king").fit(pd.concat([votes, extra.assign(voter=1)]))


def test_wins_that_outrank_all_ties_have_no_finite_strengths():
    """With one win and one tie, the likelihood grows as ν and the gap do."""
    votes = pd.DataFrame([("a", "b", "a"), ("a", "b", "tie")], columns=["a", "b", "outcome"])
    assert len(Leaderboard().fit(votes).unranked_) == 2
    board = Leaderboard(ties="half").fit(votes)
    assert math.isclose(board.strengths_[0] - board.strengths_[1], math.log(3))


def test_a_board_without_votes_plans_the_first_ones():
    empty = pd.DataFrame({"a": [], "b": [], "outcome": []}, dtype=object)
    board = Leaderboard().fit(empty, items=["c", "a", "b"])
    assert {*board.unranked_} == {"a", "b", "c"}
    assert np.isnan(board.strengths_).all()
    assert board.confidence("first") == 0
    assert len({*board.next_pairs(3)}) == 3
    assert board.to_frame()["rank_high"].tolist() == [3, 3, 3]
    assert "has no strength" in board.to_html()


# -- planning --------------------------------------------------------------------------------------


def test_next_pairs_ask_where_the_goal_is_open():
    votes = simulated(n=10, m=6000)
    board = Leaderboard().fit(votes)
    pairs = board.next_pairs(4, "first")
    assert len({frozenset(pair) for pair in pairs}) == 4
    assert all({*pair} & {*board.items_[:3]} for pair in pairs)
    boundary = board.next_pairs(4, "top@5")
    assert all({*pair} & {*board.items_[3:7]} for pair in boundary)
    with pytest.raises(ValueError, match="k="):
        board.next_pairs(0)
    everyone = f"top@{len(board.items_)}"
    with pytest.raises(ValueError, match=r"sets none of \d+ items apart; use goal='order'"):
        board.next_pairs(1, everyone)


def test_unfitted_boards_and_wrong_parameters():
    with pytest.raises(ValueError, match="call fit"):
        Leaderboard().to_frame()
    for wrong in ({"ties": "rao"}, {"scale": "log"}, {"controls": "cubic"}, {"ridge": -1},
                  {"cluster": "team"}, {"intervals": "none"}, {"resamples": 1}, {"bags": 0},
                  {"both_bad": "x"}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Leaderboard(**wrong).fit(simulated(m=50))
    with pytest.raises(ValueError, match="not on the board"):
        Leaderboard().fit(simulated(m=200)).interval("nobody")
    with pytest.raises(ValueError, match="all votes are ties"):
        Leaderboard(ridge=1.0).fit(simulated(m=60).assign(outcome="tie"))
