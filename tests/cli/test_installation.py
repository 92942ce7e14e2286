"""The commands `warmup` and `demo`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import precede
from cli.session import objects, run
from precede.cli import installation

LATER = Path(__file__).with_name("later_fits.py")
# One step, as `precede warmup` takes it.
ONE = (
    "from precede.cli.installation import STEPS, WarmupSteps; "
    "STEPS['fit AdaBoostRanker'](WarmupSteps())"
)


def session(cache, *arguments):
    """What a fresh process prints whose compiled code is in a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, arguments)], env=environment, check=True,
        capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip


def test_every_step_is_told(monkeypatch):
    taken = []
    steps = {name: lambda _, name=name: taken.append(name) for name in installation.STEPS}
    monkeypatch.setattr(installation, "STEPS", steps)
    found = objects(run("warmup", "--json")[0])
    assert [row["step"] for row in found] == taken == list(steps)
    assert all(row["seconds"] >= 0 for row in found)
    assert "compiled code is kept in" in run("warmup")[1]


def test_each_algorithm_has_a_step():
    algorithms = {
        name for name in precede.__all__
        if isinstance(each := getattr(precede, name), type)
        and issubclass(each, precede.BaseRanker) and each is not precede.BaseRanker
    }  # fmt: skip
    assert {f"fit {name}" for name in algorithms} <= set(installation.STEPS)


def test_nothing_of_an_algorithm_is_left_to_compile_after_its_step(tmp_path):
    """Only that of AdaBoost, which needs few kernels; the next test is about all of them."""
    assert session(tmp_path, "-c", ONE) == []
    assert any(tmp_path.rglob("*.nbc"))
    assert session(tmp_path, LATER, "AdaBoostRanker") == ["12 fits"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_left_to_compile(tmp_path):
    session(tmp_path, "-m", "precede.cli", "warmup")
    told = session(tmp_path, LATER)
    assert told == [told[-1]], told
    assert int(told[-1].split()[0]) > 500


# -- demo --------------------------------------------------------------------------------------


def test_the_demo(tmp_path):
    out, _ = run("demo", tmp_path / "one", "--rounds", "2")
    assert "AUC" in out
    out, talk = run("demo", tmp_path / "two", "--rounds", "2", "--json")
    assert objects(out) == [{"model": str(tmp_path / "two" / "model.json")}]
    assert "AUC" in talk


def test_the_demo_reads_well_on_80_columns(tmp_path, monkeypatch, capsys):
    """No line is broken twice, and what is shown at the end are defaults."""
    monkeypatch.setenv("COLUMNS", "80")
    installation.run_demo(tmp_path / "demo", rounds=2)
    lines = capsys.readouterr().out.splitlines()
    end = next(at for at, line in enumerate(lines) if "RankBoost chooses" in line)
    told = lines[end : lines.index("", end)]
    assert all(len(line) > 60 for line in told[:-1]), told
    assert "learning_rate=0.1" not in lines[-2]


def test_the_demo_tells_and_saves(tmp_path, capsys):
    path = installation.run_demo(tmp_path / "demo", rounds=5)
    out = capsys.readouterr().out
    assert "RB-D" in out
    assert "AUC" in out
    assert "the same to the bit" in re.sub(r"\s+", " ", out)
    assert precede.load(path).n_estimators_ == 5
