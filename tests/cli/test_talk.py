"""What commands say, and the codes they exit with."""

import json

from cli.session import run
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
        (["fit", folder / "train.txt", "-s", "learning_rate=7"], 1, "learning_rate=7"),
        (["fit", folder / "train.txt", "-s", "=7"], 1, "is not NAME=VALUE"),
        (["predict", folder / "train.txt", folder / "train.txt"], 1, "is not a precede model"),
        (["evaluate", folder / "a.json", folder / "test.txt", "--level", "2"], 1, "level=2"),
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
    monkeypatch.setattr("precede.files.tables.find_spec", lambda name: None)
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
    _, talk = run("fit", folder / "train.txt", "-s", "n_estimators=2", "-s", "rankers=features",
                  "-o", tmp_path / "m.json")  # fmt: skip
    fields = json.loads((tmp_path / "m.json").read_text())
    fields["parameters_left_out"] = ["callbacks"]
    (tmp_path / "m.json").write_text(json.dumps(fields))
    _, talk = run("predict", tmp_path / "m.json", folder / "test.txt")
    assert talk.startswith("note: ")
    assert "could not hold callbacks" in talk
