"""The command line: a whole session, every command, exit codes, and what help imports."""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import precede
from cli.session import run
from precede import cli

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "algorithms", "ask", "compare", "convert", "demo", "evaluate", "explain", "export", "fit",
    "leaderboard", "metrics", "predict", "report", "tune", "warmup",
)  # fmt: skip


# -- help --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys, precede.cli\n"
        "try:\n    precede.cli.app(sys.argv[1:])\n"
        "finally:\n    print('\\nloaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told, _, loaded = done.stdout.partition("loaded:")
    assert told.strip()
    heavy = {"numba", "lightgbm", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "narwhals"}
    assert not set(loaded.split()) & heavy


def test_every_command_has_help_and_is_known():
    out, _ = run("--help")
    for name in COMMANDS:
        assert name in out
        assert run(name, "--help")[0]
    assert sorted(c.name or c.callback.__name__ for c in cli.app.registered_commands) == sorted(
        COMMANDS
    )


def test_every_command_speaks_json():
    for command in cli.app.registered_commands:
        assert "--json" in run(command.callback.__name__, "--help")[0]


def test_the_version():
    assert run("--version")[0].strip() == precede.__version__


# -- a true process ----------------------------------------------------------------------------


def test_a_session_in_processes_of_its_own(folder, tmp_path):
    """What the page of the command line shows: two models, judged, compared, explained."""

    def precede_(*words, **options):
        return subprocess.run(
            [sys.executable, "-m", "precede.cli", *map(str, words)],
            capture_output=True, cwd=tmp_path, check=False, **options,
        )  # fmt: skip

    train = (folder / "train.txt").read_bytes()
    fitted = precede_(
        "fit", "-", "-a", "RankBoost", "-s", "n_estimators=20", "-o", "a.json", input=train
    )
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stdout == b""
    assert b"written to a.json" in fitted.stderr
    one, two = (json.loads((place / "a.json").read_text()) for place in (tmp_path, folder))
    assert one["model"] == two["model"]
    compared = precede_("compare", "a.json", folder / "b.json", folder / "test.txt", "--json")
    assert [json.loads(line)["metric"] for line in compared.stdout.splitlines()] == [
        "ndcg@10",
        "pair_error",
    ]
    failed = precede_("evaluate", "a.json", "nothing.txt")
    assert failed.returncode == 3
    assert failed.stderr == b"precede: nothing.txt: no such file or directory\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_pipes_are_read_once(folder):
    test, precede_ = folder / "test.txt", f"{sys.executable} -m precede.cli"
    words = f"{precede_} evaluate <({precede_} predict {folder}/a.json {test}) <(cat {test})"
    done = subprocess.run(
        ["bash", "-c", f"{words} -m ndcg@5"], capture_output=True, text=True, check=False
    )
    assert done.stdout == run("evaluate", folder / "a.json", test, "-m", "ndcg@5")[0], done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_closed_pipe_is_no_error(folder):
    words = f"{sys.executable} -m precede.cli predict {folder}/a.json {folder}/test.txt --as csv"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -n 0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


# -- the page ----------------------------------------------------------------------------------


def test_the_session_of_the_page(tmp_path, monkeypatch):
    """Every command of docs/command_line.md, in order, and what it shows."""
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(import.*?)```", text, re.S).group(1), {})
    steps = [
        step
        for block in re.findall(r"```console\n(.*?)```", text, re.S)
        for step in re.split(r"^\$ precede ", block, flags=re.M)[1:]
    ]
    assert len(steps) >= 10
    for step in steps:
        command, _, wanted = step.partition("\n")
        command, _, head = command.partition(" | head -n ")
        found, _ = run(*shlex.split(command))
        lines = found.splitlines(keepends=True)
        found = "".join(lines[: int(head)] if head else lines)
        assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), found
