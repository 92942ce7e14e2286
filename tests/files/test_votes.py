"""Votes in files of every format, with the column names of known collections."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from precede import Leaderboard
from precede.files import read_votes
from precede.files.votes import outcome_codes, vote_columns
from precede.votes import Votes, count

ARENA = pd.DataFrame({
    "question_id": ["q1", "q1", "q2", "q3"], "model_a": ["gpt", "llama", "gpt", "qwen"],
    "model_b": ["llama", "qwen", "qwen", "gpt"], "judge": ["u1", "u2", "u1", "u3"],
    "winner": ["model_a", "tie (bothbad)", "tie", "model_b"], "turn": [1, 1, 2, 1],
})  # fmt: skip
WANTED = {"a": ["gpt", "llama", "gpt", "qwen"], "b": ["llama", "qwen", "qwen", "gpt"],
          "outcome": ["a", "both bad", "tie", "b"], "voter": ["u1", "u2", "u1", "u3"],
          "prompt": ["q1", "q1", "q2", "q3"]}  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl", "csv.gz", "jsonl.gz"])
def test_chatbot_arena_in_every_format(tmp_path, suffix):
    path = tmp_path / f"votes.{suffix}"
    kind = suffix.split(".")[0]
    if kind == "parquet":
        ARENA.to_parquet(path)
    elif kind == "jsonl":
        ARENA.to_json(path, orient="records", lines=True)
    else:
        ARENA.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    found = read_votes(path)
    assert found.to_dict("list") == WANTED


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        # llmfao
        ({"id": [0], "prompt": [8], "model_x": [97], "model_y": [98], "worker": [58],
          "winner": ["right"], "left": ["Airoboros"], "right": ["Weaver"]},
         ("Airoboros", "Weaver", "b")),
        # evalica
        ({"left": ["Pizza"], "right": ["Sushi"], "winner": ["left"], "weight": [2.0]},
         ("Pizza", "Sushi", "a")),
        # Argilla: the chosen answer has won
        ({"prompt": ["p"], "chosen": ["text"], "chosen-model": ["x"], "rejected": ["text"],
          "rejected-model": ["y"], "chosen-rating": [4.0]}, ("x", "y", "a")),
        ({"chosen_model": ["x"], "rejected_model": ["y"]}, ("x", "y", "a")),
        # Kaggle
        ({"model_a": ["x"], "model_b": ["y"], "winner_model_a": [0], "winner_model_b": [0],
          "winner_tie": [1]}, ("x", "y", "tie")),
    ],
)  # fmt: skip
def test_other_collections(tmp_path, table, rows):
    pd.DataFrame(table).to_csv(tmp_path / "votes.csv", index=False)
    found = read_votes(tmp_path / "votes.csv")
    assert tuple(found.loc[0, ["a", "b", "outcome"]]) == rows
    if "weight" in table:
        assert found["weight"].tolist() == [2.0]
    direct = Votes.of(pd.DataFrame(table))
    assert tuple(direct.items[side[0]] for side in direct.sides) == rows[:2]
    assert direct.outcome.tolist() == [["a", "b", "tie"].index(rows[2])]


def test_features_and_columns_by_name(tmp_path):
    table = pd.DataFrame({"one": ["x", "y"], "other": ["y", "x"], "won": [1, 0], "who": ["u", "v"],
                          "length_a": [1.5, 2.0], "length_b": [3.0, 4.0]})  # fmt: skip
    table.to_csv(tmp_path / "votes.csv", index=False)
    columns = {"a": "one", "b": "other", "outcome": "won", "voter": "who"}
    with pytest.raises(ValueError, match="no outcome"):
        read_votes(tmp_path / "votes.csv", columns=columns, features=["length"])
    table["won"] = [1, -1]  # beside 1, 0 could be a loss or a tie
    table.to_csv(tmp_path / "votes.csv", index=False)
    with pytest.raises(ValueError, match="no outcome"):
        outcome_codes(["1", "5"], "won")
    found = read_votes(tmp_path / "votes.csv", columns=columns, features=["length"])
    assert list(found) == ["a", "b", "outcome", "voter", "length_a", "length_b"]
    assert found["length_b"].tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="'tone'"):
        read_votes(tmp_path / "votes.csv", columns=columns, features=["tone"])
    with pytest.raises(ValueError, match="no column 'two'"):
        read_votes(tmp_path / "votes.csv", columns={"a": "two"})
    with pytest.raises(ValueError, match="'team'"):
        vote_columns(["a"], {"team": "a"})
    with pytest.raises(ValueError, match="usually called"):
        vote_columns(["left", "right"])


def test_numbers_that_are_outcomes_need_each_other():
    assert outcome_codes(["1.0", "0.5", "0"], "won").tolist() == [0, 2, 1]
    assert outcome_codes([1, -1, 0], "won").tolist() == [0, 1, 2]
    assert outcome_codes([True, False], "won").tolist() == [0, 1]
    with pytest.raises(ValueError, match="1, -1 and 0"):
        outcome_codes([1, 0], "won")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no vote|no line|empty"),
        ("model_a,model_b,winner\n", "no vote"),
        ("model_a,model_b,winner\nx,,model_a\n", "row 1 has no model_b"),
        ("model_a,model_b,winner\nx,y,z\n", "'z', which is no outcome"),
        ("model_a,model_b,winner,weight\nx,y,tie,heavy\n", "weights are numbers"),
    ],
)
def test_bad_files_name_what_is_wrong(tmp_path, text, message):
    (tmp_path / "votes.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_votes(tmp_path / "votes.csv")


def test_bad_json_lines(tmp_path):
    path = tmp_path / "votes.jsonl"
    for text, message in [("{", "line 1 is not JSON"), ("[1]\n", "line 1 is not an object"),
                          ("\n", "no vote")]:  # fmt: skip
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_votes(path)
    row = {"model_a": "x", "model_b": "y", "winner": "model_a", "weight": 2}
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    assert read_votes(path)["weight"].tolist() == [2.0]
    with pytest.raises(ValueError, match="not letor"):
        read_votes(path, format="letor")


# -- votes as numbers ------------------------------------------------------------------------------


def frame(**columns):
    return pd.DataFrame({"a": ["x", "y", "x"], "b": ["y", "z", "z"],
                         "outcome": ["a", "tie", "b"], **columns})  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", None, "x"]}, r"a\[1\] is missing"),
        ({"a": ["x", "y", "z"]}, "vote 2 compares 'z' with itself"),
        ({"weight": [1.0, -1.0, 1.0]}, "weight"),
        ({"order": ["a", "b", "c"]}, "order holds 'c'"),
        ({"outcome": ["a", "b", "maybe"]}, "'maybe'"),
        ({"voter": ["u", None, "v"]}, r"voter\[1\] is missing"),
    ],
)
def test_bad_votes_name_what_is_wrong(columns, message):
    with pytest.raises(ValueError, match=message):
        Votes.of(frame(**columns))
    with pytest.raises(ValueError, match="not a data frame"):
        Votes.of([("x", "y", "a")])


def test_votes_are_counted_by_comparison():
    table = pd.concat([frame(order=["a", "b", "a"])] * 3, ignore_index=True)
    votes = Votes.of(table)
    counts = count(votes)
    assert votes.items == ["x", "y", "z"]
    assert counts.weight.tolist() == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]
    assert list(zip(counts.a, counts.b, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    turned = table.rename(columns={"a": "b", "b": "a"}).replace({"outcome": {"a": "b", "b": "a"}})
    assert np.array_equal(count(Votes.of(turned)).weight, counts.weight)
    shown = count(votes, shown_first=True)
    assert shown.design.ravel().tolist() == [1.0, 1.0, -1.0]
    zero = Votes.of(frame(weight=[0.0, 1.0, 1.0]))
    assert len(zero) == 2


def test_what_finds_both_bad_is_a_tie_or_dropped():
    table = frame()
    table.loc[0, "outcome"] = "both bad"
    assert Votes.of(table).outcome.tolist() == [2, 2, 1]
    assert Votes.of(table, both_bad="drop").outcome.tolist() == [2, 1]
    assert Leaderboard(both_bad="drop").fit(table).n_votes_ == 2
