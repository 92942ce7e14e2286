"""Cycles and fragility, pages and files of boards."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_leaderboard as naive
from precede import Leaderboard
from samples import simulated_votes as simulated
from samples import votes_with_length as with_length


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_the_likeliest_cycle_is_that_of_all_permutations(seed, clustered):
    rng = np.random.default_rng(seed)
    m = 60
    a = rng.integers(0, 4, m)
    b = (a + rng.integers(1, 4, m)) % 4
    outcome = np.array(["a", "b", "tie"])[rng.integers(0, 3, m)]
    voter = rng.integers(0, 9, m)
    names = np.array(list("wxyz"))
    votes = pd.DataFrame({"a": names[a], "b": names[b], "outcome": outcome, "voter": voter})
    board = Leaderboard(ties="half", cluster="voter" if clustered else None).fit(votes)
    found = board.transitivity()
    margins, sums = {}, {}
    for row, (i, j, won, who) in enumerate(zip(a, b, outcome, voter, strict=True)):
        pair = (int(min(i, j)), int(max(i, j)))
        sign = {"a": 1, "b": -1, "tie": 0}[won] * (1 if i < j else -1)
        margins[pair] = margins.get(pair, 0) + sign
        unit = (pair, who if clustered else row)
        sums[unit] = sums.get(unit, 0) + sign
    alone = {}
    for row, (i, j, won) in enumerate(zip(a, b, outcome, strict=True)):
        pair = (int(min(i, j)), int(max(i, j)))
        alone[pair] = alone.get(pair, 0) + (won != "tie")
        del row
    squares = {pair: max(sum(v**2 for (p, _), v in sums.items() if p == pair), alone[pair], 1e-300)
               for pair in margins}  # fmt: skip
    assert math.isclose(found.p_value, naive.cycle_p_value(margins, squares), rel_tol=1e-9)
    for one, other in zip(found.cycle, found.cycle[1:] + found.cycle[:1], strict=True):
        i, j = (list("wxyz").index(each) for each in (one, other))
        margin = margins[min(i, j), max(i, j)]
        assert margin * (1 if i < j else -1) > 0
    assert (found.n_cycles == 0) <= (len(found.cycle) != 3)


def test_a_real_cycle_is_found_and_an_order_is_not():
    rows = [("rock", "scissors", "a")] * 60 + [("scissors", "paper", "a")] * 60
    votes = pd.DataFrame(rows + [("paper", "rock", "a")] * 60, columns=["a", "b", "outcome"])
    found = Leaderboard().fit(votes).transitivity()
    assert found.p_value < 1e-9
    assert {*found.cycle} == {"rock", "scissors", "paper"}
    assert found.n_cycles == found.n_triangles == 1
    assert Leaderboard().fit(simulated(m=20_000)).transitivity().p_value > 0.05


def test_fragility_is_confirmed_by_a_fit_without_the_votes():
    votes = simulated(n=5, m=400, seed=3)
    board = Leaderboard(cluster=None).fit(votes)
    found = board.fragility()
    assert found.first == board.items_[0]
    assert 0 < found.n_removed == sum(row["votes"] for row in found.rows())
    left = votes.copy()
    for a, b, outcome, many in found.removed:
        turned = {"a": "b", "b": "a", "tie": "tie"}[outcome]
        same = (left["a"] == a) & (left["b"] == b) & (left["outcome"] == outcome)
        same |= (left["a"] == b) & (left["b"] == a) & (left["outcome"] == turned)
        left = left.drop(left.index[same][:many])
    assert len(left) == len(votes) - found.n_removed
    again = Leaderboard(cluster=None).fit(left)
    assert again.items_[0] == found.new_first != found.first
    assert f"without {found.n_removed} of 400 votes" in str(found)


def test_few_votes_change_a_narrow_lead():
    """No single vote is more influential than the best one of all, tried one by one."""
    votes = simulated(n=3, m=60, seed=5)
    board = Leaderboard(cluster=None, ties="half").fit(votes)
    found = board.fragility()
    flips = [Leaderboard(cluster=None, ties="half").fit(votes.drop(row)).items_[0]
             != board.items_[0] for row in votes.index]  # fmt: skip
    assert (found.n_removed == 1) == any(flips)


def test_fragility_may_take_the_last_tie():
    rows = [("x", "y", "a")] * 4 + [("y", "x", "a")] * 3 + [("x", "y", "tie")]
    board = Leaderboard().fit(pd.DataFrame(rows, columns=["a", "b", "outcome"]))
    found = board.fragility()
    assert (found.first, found.new_first) == ("x", "y")
    assert found.n_removed == 2


# -- files and pages -------------------------------------------------------------------------------


def test_a_saved_board_says_the_same(tmp_path):
    votes = pd.concat([simulated(), pd.DataFrame([("king", "item 1", "a", 0)] * 5,
                      columns=["a", "b", "outcome", "voter"])])  # fmt: skip
    board = Leaderboard(scale="elo", anchor="item 2").fit(votes, items=["absent"])
    board.save(tmp_path / "board.json")
    again = Leaderboard.load(tmp_path / "board.json")
    assert again.to_frame().equals(board.to_frame())
    assert again.next_pairs(3, "top@2") == board.next_pairs(3, "top@2")
    assert again.confidence("top@2") == board.confidence("top@2")
    assert again.unranked_ == board.unranked_
    assert again.win_probability("item 1", "item 2") == board.win_probability("item 1", "item 2")
    assert "king has no strength" in again.to_html()
    with pytest.raises(ValueError, match="needs the votes"):
        again.fragility()


def test_a_saved_board_with_curves(tmp_path):
    _, votes = with_length(500)
    board = Leaderboard(controls="curves").fit(votes)
    board.save(tmp_path / "board.json")
    again = Leaderboard.load(tmp_path / "board.json")
    x = np.linspace(-1, 5, 50)
    assert np.array_equal(again.curves_["length"](x), board.curves_["length"](x))
    assert "length" in again.to_html()


def changed(text, **fields):
    return json.dumps({**json.loads(text), **fields})


def test_files_that_are_no_board_are_refused(tmp_path):
    board = Leaderboard().fit(simulated(m=300))
    path = tmp_path / "board.json"
    board.save(path)
    text = path.read_text()
    wrong = {
        "items": ["a"], "theta": [0.0], "covariance": [[1.0]], "pairs": {"a": [0], "b": [0]},
        "degrees": "few", "effects": [1], "curves": {"x": {}}, "unranked": {"nobody": "why"},
        "leaderboard": {"ties": "rao"}, "n_votes": None,
    }  # fmt: skip
    for name, value in wrong.items():
        path.write_text(changed(text, **{name: value}))
        with pytest.raises(ValueError, match="not a usable leaderboard"):
            Leaderboard.load(path)
    lame = json.loads(text)
    del lame["items"]
    path.write_text(json.dumps(lame))
    with pytest.raises(ValueError, match="it has no 'items'"):
        Leaderboard.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="format"):
        Leaderboard.load(path)


def test_the_page_escapes_names_and_says_what_matters(tmp_path):
    votes = simulated().replace("item 0", "<b>&one</b>")
    board = Leaderboard(shown_first=True).fit(votes.assign(order="a").assign(
        order=lambda frame: np.where(np.arange(len(frame)) % 2, "a", "b")))  # fmt: skip
    board.to_html(tmp_path / "board.html", title="The board", date="2026-11-20")
    page = (tmp_path / "board.html").read_text()
    assert "<b>&one" not in page
    assert "&lt;b&gt;&amp;one&lt;/b&gt;" in page
    for words in ("The board", "2026-11-20", "is first", "The first place is", "shown first",
                  "Without", "triples", "Davidson"):  # fmt: skip
        assert words in page
    facts = json.loads(page.split('id="facts">')[1].split("</script>")[0])
    assert [row["item"] for row in facts["items"]] == board.items_


def test_plots():
    pytest.importorskip("matplotlib").use("agg")
    _, votes = with_length(400)
    board = Leaderboard(controls="curves").fit(votes)
    assert board.plot().get_xlabel().startswith("rank")
    assert [label.get_text() for label in board.plot().get_yticklabels()] == board.items_
    assert "expected" in board.plot("wins").get_xlabel()
    assert board.plot("length").get_xlabel() == "length"
    with pytest.raises(ValueError, match="'ranks', 'wins', 'length'"):
        board.plot("shape")


def test_expected_wins_are_those_of_the_model():
    board = Leaderboard(cluster=None).fit(simulated(m=30_000))
    expected, observed, weight = board.wins()
    assert weight.sum() == 30_000
    assert np.abs(expected - observed).max() < 0.08
    found = board.win_probability("item 0", "item 1")
    best = np.argmin(np.abs(expected - (found["win"] + found["tie"] / 2)))
    assert math.isclose(expected[best], found["win"] + found["tie"] / 2, abs_tol=1e-12)
