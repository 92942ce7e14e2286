"""TREC's runs and judgments in and out."""

import numpy as np
import pytest

from files.test_tables import put
from precede.files import trec
from precede.files.trec import Judged, Run, joined, read_qrels, read_run, write_qrels, write_run


def test_runs_and_qrels_go_round(tmp_path):
    write_run(tmp_path / "r", [0.1, 0.3, 0.2], qid=["q2", "q1", "q2"], docid=["a", "b", "c"])
    assert (tmp_path / "r").read_text() == (
        "q2 Q0 c 1 0.2 precede\nq2 Q0 a 2 0.1 precede\nq1 Q0 b 1 0.3 precede\n"
    )
    run = read_run(tmp_path / "r")
    assert run.score.tolist() == [0.2, 0.1, 0.3]
    write_qrels(tmp_path / "q", [2, 0], qid=None, docid=None)
    assert (tmp_path / "q").read_text() == "1 0 row0 2\n1 0 row1 0\n"
    assert read_qrels(tmp_path / "q").grade.tolist() == [2, 0]


def test_a_run_is_joined_to_what_was_judged():
    run = Run(np.array([1, 1, 2, 3]), trec._objects(list("abcd")), np.array([5.0, 4.0, 1.0, 1.0]))
    judged = Judged(
        np.array([1, 1, 2, 4]), trec._objects(list("bxcy")), np.array([1.0, 2.0, 1.0, 1.0])
    )
    grades, scores, qid, counts = joined(run, judged)
    assert grades.tolist() == [1, 2, 1, 1, 0]
    assert scores.tolist() == [4, 3, 1, -1, 5]
    assert qid.tolist() == [0, 0, 1, 2, 0]
    assert counts == {"not in the run": 2, "not judged": 1, "queries not judged": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 0 a\n", "line 1: the line has fewer .*query 0 document grade"),
        ("1 0 a x\n", "line 1: 'x' is not a finite number"),
        ("1 0 a nan\n", "number of entry 1 is missing"),
        ("1 0 a 1\n1 0 a 2\n", "document 'a' of query 1 occurs twice"),
        ("", "holds no line of data"),
    ],
)
def test_qrels_that_are_refused(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_qrels(put(tmp_path / "q", content))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scores": [1.0, float("nan")]}, r"scores\[1\] is nan"),
        ({"qid": [7]}, "qid has 1 labels for 2 rows"),
        ({"docid": ["a"]}, "docid has 1 labels for 2 rows"),
        ({"qid": [7, None]}, r"qid\[1\] is None"),
    ],
)
def test_runs_that_are_not_written(tmp_path, given, message):
    """What would be a file that no reader understands, or an error in the middle of it."""
    path = tmp_path / "run.txt"
    with pytest.raises(ValueError, match=message):
        write_run(path, **{"scores": [1.0, 2.0], "qid": [7, 7], "docid": ["a", "b"], **given})
    assert not path.exists()


def test_names_with_blanks_do_not_fit_into_trec_files(tmp_path):
    with pytest.raises(ValueError, match="cannot be written to a TREC file"):
        write_run(tmp_path / "r", [1.0], qid=[1], docid=["a b"])
    with pytest.raises(ValueError, match="whole grades"):
        write_qrels(tmp_path / "r", [0.5], qid=[1], docid=["a"])
