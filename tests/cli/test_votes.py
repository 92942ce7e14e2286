"""The command `leaderboard`."""

import pandas as pd
import pytest

from cli.session import objects, rows, run
from precede import Leaderboard


@pytest.fixture
def votes(tmp_path):
    table = [("gpt", "llama", "model_a"), ("llama", "qwen", "tie"), ("qwen", "gpt", "model_b"),
             ("llama", "gpt", "model_a"), ("qwen", "gpt", "model_a")] * 8  # fmt: skip
    frame = pd.DataFrame(table, columns=["model_a", "model_b", "winner"])
    frame["judge"] = [f"u{row % 7}" for row in range(len(frame))]
    frame["length_a"], frame["length_b"] = range(len(frame)), [3] * len(frame)
    frame.to_csv(tmp_path / "votes.csv", index=False)
    return tmp_path / "votes.csv"


def test_the_table_is_that_of_the_library(votes):
    board = Leaderboard(scale="elo").fit(pd.read_csv(votes))
    found = rows(run("leaderboard", votes, "--scale", "elo")[0])
    assert [row["item"] for row in found] == board.items_
    told = objects(run("leaderboard", votes, "--json", "--cluster", "none", "--level", "0.8")[0])
    wanted = Leaderboard(cluster=None).fit(pd.read_csv(votes)).rows(0.8)
    assert told == wanted
    assert rows(run("leaderboard", votes, "--control", "length")[0]) != found


def test_a_page_and_a_board_are_written(votes, tmp_path):
    out, told = run("leaderboard", votes, "-o", tmp_path / "board.html", "--title", "Models")
    assert out == ""
    assert "written to" in told
    assert "<h1>Models</h1>" in (tmp_path / "board.html").read_text()
    run("leaderboard", votes, "-o", tmp_path / "board.json")
    assert Leaderboard.load(tmp_path / "board.json").items_ == ["gpt", "llama", "qwen"]


def test_bad_names_are_errors(votes, tmp_path):
    assert "name a page .html" in run("leaderboard", votes, "-o", tmp_path / "x.pdf", code=1)[1]
    assert "no column" in run("leaderboard", votes, "--a", "nobody", code=1)[1]
