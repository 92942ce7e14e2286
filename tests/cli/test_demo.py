"""The demonstration."""

import re

from cli.session import objects, run


def test_the_demo(tmp_path):
    out, _ = run("demo", tmp_path / "one", "--rounds", "2")
    assert "AUC" in out
    out, talk = run("demo", tmp_path / "two", "--rounds", "2", "--json")
    assert objects(out) == [{"model": str(tmp_path / "two" / "model.json")}]
    assert "AUC" in talk


def test_the_demo_reads_well_on_80_columns(tmp_path, monkeypatch, capsys):
    """No line is broken twice, and what is shown at the end are defaults."""
    from precede.cli.installation import run_demo

    monkeypatch.setenv("COLUMNS", "80")
    run_demo(tmp_path / "demo", rounds=2)
    lines = capsys.readouterr().out.splitlines()
    end = next(at for at, line in enumerate(lines) if "RankBoost chooses" in line)
    told = lines[end : lines.index("", end)]
    assert all(len(line) > 60 for line in told[:-1]), told
    assert "learning_rate=0.1" not in lines[-2]


def test_the_demo_tells_and_saves(tmp_path, capsys):
    from precede import load
    from precede.cli.installation import run_demo

    path = run_demo(tmp_path / "demo", rounds=5)
    out = capsys.readouterr().out
    assert "RB-D" in out
    assert "AUC" in out
    assert "the same to the bit" in re.sub(r"\s+", " ", out)
    assert load(path).n_estimators_ == 5
