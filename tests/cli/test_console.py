"""What commands say, and the codes they exit with."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cli.session import run
from precede.cli import console, evaluation
from precede.cli.options import Reading


def test_exit_codes(folder, tmp_path):
    (tmp_path / "bad.txt").write_text("1 1:1\n0 1:x\n")
    cases = [
        (["fit", tmp_path / "nothing.txt"], 3, "no such file"),
        (["fit", tmp_path], 3, "directory"),
        (["fit", folder / "train.txt", "-o", tmp_path / "no" / "m.json"], 3, "does not exist"),
        (["fit", tmp_path / "bad.txt"], 1, "bad.txt, line 2: '1:x' is not the value"),
        (["fit", folder / "train.txt", "-a", "nothing"], 1, "there are"),
        (["fit", folder / "train.txt", "-s", "nothing=1"], 1, "has no parameter 'nothing'"),
        (["fit", folder / "train.txt", "-s", "learning_rate=7"], 1, "-s learning_rate=7"),
        (["fit", folder / "train.txt", "-s", "=7"], 1, "is not NAME=VALUE"),
        (["predict", folder / "train.txt", folder / "train.txt"], 1, "is not a precede model"),
        (["evaluate", folder / "a.json", folder / "test.txt", "--level", "2"], 1, "--level 2"),
        (["fit"], 2, "DATA"),
        (["nothing"], 2, "nothing"),
        (["fit", folder / "train.txt", "--nothing"], 2, "nothing"),
    ]
    for words, code, told in cases:
        out, talk = run(*words, code=code)
        assert out == ""
        assert told in talk, (words, talk)
        assert "Traceback" not in talk


def test_a_missing_package_is_an_exit_code(folder, tmp_path, monkeypatch):
    run("convert", folder / "test.txt", tmp_path / "x.parquet")
    monkeypatch.setattr("precede.files.arrow.find_spec", lambda name: None)
    _, talk = run("fit", tmp_path / "x.parquet", code=4)
    assert "install" in talk


def test_interruption_is_an_exit_code(folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reading, "read", interrupt)
    assert "interrupted" in run("predict", folder / "a.json", folder / "test.txt", code=130)[1]


def test_quiet_says_errors_only(folder, tmp_path):
    words = ["fit", folder / "train.txt", "-s", "n_estimators=1", "-o", tmp_path / "m.json"]
    assert run(*words)[1]
    assert run("--quiet", *words) == ("", "")
    assert "no such file" in run("--quiet", "fit", tmp_path / "nothing", code=3)[1]


def test_warnings_are_notes(folder, tmp_path):
    _, talk = run("fit", folder / "train.txt", "-s", "n_estimators=2", "-s",
    "weak_rankers=features",
                  "-o", tmp_path / "m.json")  # fmt: skip
    fields = json.loads((tmp_path / "m.json").read_text())
    fields["parameters_left_out"] = ["callbacks"]
    (tmp_path / "m.json").write_text(json.dumps(fields))
    _, talk = run("predict", tmp_path / "m.json", folder / "test.txt")
    assert talk.startswith("note: ")
    assert "could not store callbacks" in talk


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"grade;qid;a\n1;1;2\n0;1;3\n", "separated by semicolons"),
        (b"grade;a\n1;0,5\n0;1,5\n", "with decimal=',' in read_csv if numbers are written 0,5"),
        (b"grade|qid|a\n1|1|2\n0|1|3\n", "separated by vertical bars"),
        (b"grade\tqid\ta\n1\t1\t2\n", "separated by tabs"),
        (b"1,1,2.5\n0,1,1.5\n", "add a header with column names"),
        (b"PK\x03\x04 and so on", "is a zip archive or an Excel workbook; extract it first"),
        (b"BZh91AY", "compressed with bzip2; extract it first"),
        (b"\xfd7zXZ\x00\x00", "compressed with xz"),
        (b"grade,qid,a\n1,1,2\n0,1,x\n", "row 2, column 'a': 'x' is not a finite number; leave the "
         "column out (--drop a)"),
        (b"target,a\n1,2\n0,3\n", "name the column that holds the grades (--label NAME)"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_get_a_hint(tmp_path, content, told):
    (tmp_path / "t.csv").write_bytes(content)
    assert told in run("fit", tmp_path / "t.csv", code=1)[1]


def test_lines_end_between_words_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    command = "precede fit train.csv " + "-s learning_rate=0.1 " * 4
    console.say("note: " + "a few words more " * 9 + "\n" + command + "\n  end")
    told = capsys.readouterr().err.splitlines()
    assert told[-2:] == [command, "  end"]  # a command can be copied
    assert len(told) == 5
    assert all(
        len(line) <= 60 and line.endswith(("words", "few", "more", "a")) for line in told[:3]
    )


def test_messages_name_options_and_not_arguments(folder, tmp_path):
    words = ["fit", folder / "train.csv", "-o", tmp_path / "m.json"]
    talk = run(*words, "-s", "early_stopping_rounds=3", code=1)[1]
    assert "give --valid DATA" in talk
    (tmp_path / "numbers.csv").write_text("1,2\n3,4\n")
    assert "(--no-header)" in run("fit", tmp_path / "numbers.csv", code=1)[1]
    talk = run("export", folder / "a.json", tmp_path / "m", "--to", "nothing", code=1)[1]
    assert "--to nothing is unknown" in talk
    talk = run("fit", folder / "train.csv", "--format", "nothing", code=1)[1]
    assert "--format nothing is unknown" in talk
    (tmp_path / "v.csv").write_text("grade,1,2,3,4,5\n1,1,2,3,4,5\n0,5,4,3,2,1\n")
    talk = run(*words, "--valid", tmp_path / "v.csv", code=1)[1]
    assert "evaluation set 0 has no queries" in talk
    assert "pass --qid NAME" in talk
    assert "eval_" not in talk


def test_tables_fit_on_a_terminal_of_80_columns(monkeypatch, capsys):
    """All digits are there: narrow tables in rows, wide ones turned."""
    monkeypatch.setenv("COLUMNS", "80")
    names = ["ndcg@10", "pair_error"]
    rows = [{"metric": name, "a": 0.743178, "b": 0.713407, "difference": 0.0297707,
             "low": -0.00779276, "high": 0.0673341, "p_value": 0.117664, "units": 50,
             "unit": "query", "convention": "mean over queries, ties half",
             "p_holm": 0.117664} for name in names]  # fmt: skip
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for drawn in (evaluation.narrow_rows(rows, 0.95), rows):
        console.write_rows(rows, as_json=False, drawn=drawn)
        out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out
        assert all(len(re.findall(r"0\.\d{4}", line)) != 1 for line in out.splitlines())
        assert "0.7432" in out
        assert "0.7134" in out
        assert "[-0.0078, +0.0673]" in out or "-0.007793" in out


@pytest.mark.parametrize("count", [2, 5, 40])
def test_no_cell_of_a_wide_table_is_cut(monkeypatch, capsys, count):
    """Tables that are too wide go on below, with the first column again."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    rows = [{"qid": f"query {1000 + at}", **{f"metric{name}@10": (at + name) / 997
             for name in range(9)}} for at in range(count)]  # fmt: skip
    console.write_rows(rows, as_json=False)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, out.splitlines())) <= 80
    told = out.split()
    for row in rows:
        for name, value in row.items():
            assert name in told
            assert all(word in told for word in console.format_cell(value).split())


def test_metrics_fit_on_a_terminal_of_80_columns(monkeypatch, capsys):
    from precede.cli.evaluation import metrics
    from precede.metrics import REGISTRY

    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    metrics(as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 3 * len(REGISTRY)
    assert "ndcg: discounted gain, as a share of the best order's" in lines


def test_notes_name_options_and_not_arguments(folder, tmp_path):
    lines = (folder / "test.csv").read_text().splitlines()
    at = lines[0].split(",").index("qid")
    cut = [",".join(cell for c, cell in enumerate(line.split(",")) if c != at) for line in lines]
    (tmp_path / "one.csv").write_text("\n".join(cut) + "\n")
    told = run("evaluate", folder / "a.json", tmp_path / "one.csv")[1]
    assert "the model was fitted with queries and is scored without" in told
    assert "--qid" in told
    assert "Judgments" not in told


def test_a_missing_folder_or_a_wrong_suffix_is_told_before_the_fit(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("the data were read first")

    monkeypatch.setattr(Reading, "read", fail)
    train, missing = folder / "train.txt", tmp_path / "no" / "m.json"
    for words in (["fit", train], ["tune", train], ["report", folder / "a.json", train]):
        output = missing.with_suffix(".html") if words[0] == "report" else missing
        told = run(*words, "-o", output, code=3)[1]
        assert "does not exist; create it first" in told
    for words in (["fit", train], ["tune", train]):
        told = run(*words, "-o", tmp_path / "m.onnx", code=1)[1]
        assert "saved as JSON, not as .onnx; name the file .json" in told
        assert "precede.export writes other formats" in told


NAMES = ["[/b]x", "speed [km/h]", "[red]", "evil\x1b[2Jname", "c1\x9b31m", ":smile:", "tab\tname"]


def in_terminal(command, folder):
    """What a command prints on a terminal of 400 columns, and the code it exits with."""
    pty = pytest.importorskip("pty")
    code = (
        "import os, pty, sys\n"
        "os.environ.update(COLUMNS='400', LINES='50', TERM='xterm')\n"
        "status = pty.spawn(sys.argv[1:])\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    assert pty
    words = [sys.executable, "-m", "precede.cli", *map(str, command)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, stdin=subprocess.DEVNULL,
        cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    return done.stdout.decode(), done.returncode


def test_names_on_a_terminal_are_neither_markup_nor_escape_codes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, len(NAMES)))
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "grade", (X.sum(axis=1) > 0).astype(int))
    frame.insert(1, "docid", [f"d{i}\x1b[31m[/i]" for i in range(60)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = "m[b].json"
    read = ("--label", "grade", "--docid", "docid")
    fit = ("fit", "t.csv", *read, "-a", "RankBoost", "-s", "n_estimators=200",
           "-s", "learning_rate=0.1", "-o", model, "-s", "max_bins=4")  # fmt: skip
    commands = [
        (fit, []),
        (("explain", model, "t.csv", "--top", "9"), NAMES),
        (("explain", model, "t.csv", "--pair", "d0\x1b[31m[/i]", "d1\x1b[31m[/i]"), []),
        (("explain", model, "t.csv", "--shape", NAMES[3]), [NAMES[3]]),
        (("evaluate", model, "t.csv"), [model]),
        (("evaluate", "no\x1b[31mfile", "t.csv"), ["no\x1b[31mfile"]),
        (("predict", model, "t.csv", "--as", "csv"), ["d7\x1b[31m[/i]"]),
        (("explain", model, "t.csv", "--json"), []),
    ]
    for words, names in commands:
        text, code = in_terminal(words, tmp_path)
        assert "Traceback" not in text, text
        assert code == (3 if "no\x1b[31mfile" in words else 0), (words, text)
        # What is left are colors of the tables and bars; names bring none.
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
        assert "\x9b" not in text
        assert "\x1b[2J" not in text
        for name in names:
            shown = name.encode("unicode_escape").decode()
            assert shown in " ".join(plain.split()), (words, name, plain)


def test_names_of_evaluation_sets_are_no_markup_in_the_progress_bar(tmp_path, monkeypatch):
    from precede.boosting.callbacks import ProgressBar

    bar = ProgressBar("RankBoost", rounds=2, verbose=1)
    with bar:
        bar(SimpleNamespace(history=[{"risk": 0.5, "a[/b]\x1b[2J auc": 0.5}], round=1))
        (task,) = bar._bar.tasks
        assert task.fields["shown"] == "risk 0.5  a[/b][2J auc 0.5000"
        bar._bar.refresh()


@pytest.mark.skipif(os.name != "posix", reason="the shell of POSIX closes streams")
def test_a_closed_stream_is_no_traceback(tmp_path):
    """Data for a closed stdout are an error; with a file nothing is missing."""
    (tmp_path / "d.svm").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.2\n")
    command = f"{sys.executable} -m precede.cli convert d.svm"
    closed = {
        f"{command} - >&-": (3, "precede: standard output is closed; name a file, or open it\n"),
        f"{command} o.csv >&-": (0, "written to o.csv\n"),
        f"{command} o.csv >&- 2>&- <&-": (0, ""),
        f"{command} - 2>&- >/dev/null": (0, ""),
        f"{command} - | true; exit ${{PIPESTATUS[0]}}": (141, ""),
    }
    for line, (code, told) in closed.items():
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (code, told), line
