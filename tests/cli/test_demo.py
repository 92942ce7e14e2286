"""The demonstration."""

import re

from cli.session import objects, run


def test_the_demo(tmp_path):
    out, _ = run("demo", tmp_path / "one", "--rounds", "2")
    assert "AUC" in out
    out, talk = run("demo", tmp_path / "two", "--rounds", "2", "--json")
    assert objects(out) == [{"model": str(tmp_path / "two" / "model.json")}]
    assert "AUC" in talk


def test_the_demo_tells_and_saves(tmp_path, capsys):
    from precede import load
    from precede.cli.demo import main

    path = main(tmp_path / "demo", rounds=5)
    out = capsys.readouterr().out
    assert "RB-D" in out
    assert "AUC" in out
    assert "the same to the bit" in re.sub(r"\s+", " ", out)
    assert load(path).n_estimators_ == 5
