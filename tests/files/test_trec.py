"""TREC's runs and judgments in and out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from files.test_reading import put
from precede.files.text import object_array
from precede.files.trec import Judged, Run, joined, read_qrels, read_run, write_qrels, write_run
from precede.metrics import evaluate


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
    run = Run(np.array([1, 1, 2, 3]), object_array(list("abcd")), np.array([5.0, 4.0, 1.0, 1.0]))
    judged = Judged(
        np.array([1, 1, 2, 4]), object_array(list("bxcy")), np.array([1.0, 2.0, 1.0, 1.0])
    )
    grades, scores, qid, counts = joined(run, judged)
    assert grades.tolist() == [2, 1, 0, 1, 1]
    assert scores.tolist() == [-np.inf, 4, 5, 1, -np.inf]
    assert qid.tolist() == [1, 1, 1, 2, 4]
    assert counts == {
        "judged documents not returned": 2,
        "returned documents not judged": 1,
        "queries without results": 1,
        "queries not judged": 1,
    }


TREC = {"nDCG": "ndcg", "nDCG@3": "ndcg@3", "AP": "map", "AP@2": "map@2", "RR": "mrr",
        "P@3": "precision@3", "R@2": "recall@2", "AP(rel=2)": "map(relevant=2)"}  # fmt: skip
documents = st.sampled_from(["a", "B", "d10", "d9", "ä", "z"])
queries = st.sampled_from(["1", "2", "10", "q"])


def listed(values):
    """Queries, documents and values of a file, no document of a query twice."""
    return st.dictionaries(st.tuples(queries, documents), values, min_size=1, max_size=14)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(grade=listed(st.integers(-2, 3)), score=listed(st.sampled_from([0.0, 0.5, 1.0, -2.0])))
def test_runs_are_evaluated_as_trec_eval_does(grade, score):
    """Incomplete runs, queries without results, negative grades, ties and unjudged documents."""
    ir_measures = pytest.importorskip("ir_measures")
    for query in {query for query, _ in grade}:  # trec_eval crashes if all grades are below 0
        grade[query, "0"] = max(0, grade.get((query, "0"), 0))
    made = {}
    for kind, table in ((Judged, grade), (Run, score)):
        qid, docid = (object_array([key[part] for key in table]) for part in (0, 1))
        made[kind] = kind(qid, docid, np.array(list(table.values()), np.float64))
    grades, scores, qid, _ = joined(made[Run], made[Judged])
    found = evaluate(grades, scores, qid, metrics=list(TREC.values()), preset="trec")
    measures = [ir_measures.parse_measure(name) for name in TREC]
    qrels = [ir_measures.Qrel(*key, value) for key, value in grade.items()]
    run = [ir_measures.ScoredDoc(*key, value) for key, value in score.items()]
    place = {str(query): number for number, query in enumerate(found.queries.tolist())}
    seen = 0
    for query, measure, value in ir_measures.iter_calc(measures, qrels, run):
        ours = found.per_query[TREC[str(measure)]][place[query]]
        assert ours == pytest.approx(value, rel=1e-12), (query, measure)
        seen += 1
    assert seen == len(TREC) * len(place)  # queries without results too: 0, as trec_eval -c does


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
