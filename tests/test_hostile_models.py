"""Model files that mean harm: each is refused at once, or loads into a model that is safe to use.

Compiled code does not check the bounds of arrays, so nothing in a file may lead it astray.
"""

import contextlib
import copy
import gzip
import json
import math
import os
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import hostile
from precede import (
    BoostedRanker,
    PushRanker,
    QBRank,
    RankBoost,
    RankBoostPlus,
    Report,
    SmoothMarginRanker,
    Stump,
    Tree,
    export,
    load,
    tune,
)
from precede.explain.contributions import explain
from precede.model import MIN_UNPACKED_LIMIT, Ensemble

TESTS = Path(__file__).parent
ORIGINAL = {path.stem: json.loads(path.read_text()) for path in hostile.MODELS}
TREES = "BoostedRanker_categorical_v1"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """One file for all; every model is used once as it is, which compiles what it needs."""
    for source in hostile.MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = load(source)
        fields = ORIGINAL[source.stem]
        model.predict(hostile.rows_for(model, fields))
    return tmp_path_factory.mktemp("hostile") / "model.json"


def attempt(path, fields, original):
    path.write_text(json.dumps(fields))
    return hostile.attempt(path, original)


# -- one value changed -----------------------------------------------------------------------


def try_without_compiler(one_of):
    """In a process in which an index beyond an array is an error."""
    done = subprocess.run(
        [sys.executable, TESTS / "hostile.py", str(one_of)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(hostile.MODELS)
    for line in lines:  # some of each, or nothing was tried
        assert min(json.loads(line).values()) > 0, line


def test_some_values_at_some_places():
    try_without_compiler(one_of=47)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_value_at_every_place():
    try_without_compiler(one_of=1)


STUMP = ("model", "weak_rankers", 0)
# Values that are refused, by place.
REFUSED = {
    ("format",): [hostile.GONE, 2, 0, "1", True, None, [1]],
    ("estimator",): ["os.system", None, ["RankBoost"], {"a": 1}],
    ("model",): [hostile.GONE, [], None],
    ("model", "weak_rankers"): [{}, "stump"],
    ("model", "weights"): [[0.5]],
    ("model", "weights", 0): ["0.5", True, None, [1.0], math.nan, math.inf, 10**400],
    ("model", "n_features"): [0, -1, 1.5, "2", True],
    STUMP: [3, ["stump"], {}, {"kind": "stump", "feature": 0},
            {"kind": "feature", "feature": 0, "low": 1.0, "high": "x"}],
    (*STUMP, "kind"): ["oracle", ["stump"], {}, None],
    (*STUMP, "feature"): [3, -1, 0.0, "0", False, "inf", 10**400],
    (*STUMP, "threshold"): [math.nan, "nan", [0.5], None, {}, 10**400],
    (*STUMP, "missing"): [2, -1, 0.5, "inf"],
    ("parameters",): [hostile.GONE, [1], "n_estimators"],
    ("parameters", "rank_weight"): [  # objects made up
        {"$class": "Popen", "arguments": {}},
        {"$class": "RankWeight", "arguments": {"nonsense": 1}},
        {"$class": "RankWeight", "arguments": {"k": -1}},
        {"$class": ["RankWeight"], "arguments": {}},
        {"$class": "RankWeight"}, {"$items": 3}, {"$items": [[[], 1]]},
    ],
    ("history",): [{}, [1, 2], "abc", None],
    ("features",): [["one"], "ab", 5],
    ("intercept",): ["0", [0], math.nan],
    ("link",): ["2"],
    ("classes",): [{"a": 1}, 5, [[1], [2, 3]], None],  # with an intercept
    ("best_iteration",): ["five"],
}  # fmt: skip


@pytest.mark.parametrize("way", REFUSED, ids=lambda way: ".".join(map(str, way)))
def test_values_that_no_model_has_are_refused(path, way):
    """Never another exception, never a model that fails later."""
    for value in REFUSED[way]:
        path.write_text(json.dumps(hostile.changed(ORIGINAL["rankboost_v1"], way, value)))
        with pytest.raises(ValueError, match=r"model\.json"):
            load(path)


@pytest.mark.parametrize("number", [{"intercept": 1.0}, {"link": 2.0}])
def test_numbers_of_two_classes_need_the_classes(path, number):
    without = {"classes": None, "intercept": None, "link": None}
    fields = {**ORIGINAL["rankboost_v1"], **without}
    assert attempt(path, fields, fields) == "used"
    assert attempt(path, fields | number, fields) == "refused"


# -- several values changed, or moved from elsewhere -----------------------------------------


@st.composite
def mutants(draw):
    """A saved model, and a copy of it with some values replaced, moved, doubled or removed."""
    original = ORIGINAL[draw(st.sampled_from(sorted(ORIGINAL)))]
    fields = hostile.changed(original, ("extra",), 0)
    for _ in range(draw(st.integers(1, 4))):
        ways = hostile.places(fields)
        way = draw(st.sampled_from(ways))
        kind = draw(st.sampled_from(["replace", "move", "double", "number"]))
        if kind == "replace":
            value = draw(st.sampled_from(hostile.VALUES))
            if isinstance(value, list | dict):  # a later change must not reach the list of values
                value = copy.deepcopy(value)
        elif kind == "number":
            value = draw(st.one_of(st.integers(-10, 10), st.integers(), st.floats()))
        else:
            value = hostile.GONE
            found = fields
            for key in draw(st.sampled_from(ways)):
                found = found[key]
            value = found * 2 if kind == "double" and isinstance(found, list) else found
            value = json.loads(json.dumps(value))
        hostile.change(fields, way, value)
    return original, fields


@given(mutants())
def test_models_with_several_changes(path, made):
    original, fields = made
    attempt(path, fields, original)


@pytest.mark.slow
@settings(max_examples=20_000, derandomize=False)
@given(mutants())
def test_many_models_with_several_changes(path, made):
    original, fields = made
    attempt(path, fields, original)


# -- trees -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("left", [0, 1]),  # the root again
        ("left", [1, 1]),
        ("right", [-1, -1]),
        ("left", [10**6, -2]),
        ("right", [-(10**6), -2]),
        ("split_feature", [0, 10**6]),
        ("split_feature", [0, -1]),
        ("threshold", [0.0, float("nan")]),
        ("threshold", [0.0]),
        ("value", [1.0, 2.0]),
        ("value", [1.0, 2.0, 3.0, 4.0]),
        ("value", [1.0, 2.0, 1e400]),
        ("missing_left", [True]),
        ("missing_left", "no"),
        ("count", [1, 2, -3]),
        ("count", [1, 2, 10**400]),
        ("gain", [1.0, 10**400]),
        ("categories", [[0]]),
        ("categories", [[], [2**40]]),
        ("categories", [[], [-1]]),
        ("categories", [[], [0.5]]),
        ("categories", [[], 3]),
    ],
)
def test_what_is_no_tree_is_refused(path, name, values):
    tree = {
        "kind": "tree", "split_feature": [0, 1], "threshold": [0.0, 1.0],
        "missing_left": [True, False], "left": [1, -1], "right": [-2, -3],
        "value": [1.0, 2.0, 3.0], "count": [1, 2, 3], "gain": [1.0, 1.0], "categories": [],
    }  # fmt: skip
    fields = hostile.changed(ORIGINAL[TREES], ("model", "weak_rankers", 0), tree)
    assert attempt(path, fields, ORIGINAL[TREES]) == "used"
    fields["model"]["weak_rankers"][0][name] = values
    assert attempt(path, fields, ORIGINAL[TREES]) == "refused"


def chain(splits, categories=()):
    """A saved tree in which every split has a leaf on its left."""
    return {
        "kind": "tree", "split_feature": [0] * splits, "threshold": [0.0] * splits,
        "missing_left": [False] * splits, "left": [-1 - j for j in range(splits)],
        "right": [*range(1, splits), -1 - splits], "value": [1.0] * (splits + 1),
        "count": [1] * (splits + 1), "gain": [1.0] * splits, "categories": [*categories],
    }  # fmt: skip


def test_a_tree_as_deep_as_it_is_long_is_scored(path):
    """Its depth is no recursion."""
    fields = hostile.changed(ORIGINAL[TREES], ("model", "weak_rankers", 0), chain(20_000))
    assert attempt(path, fields, ORIGINAL[TREES]) == "used"


def test_sets_of_categories_beyond_the_memory_are_refused(path):
    """A few bytes of text each may ask for megabytes of bits."""
    tree = chain(6000, [[2**24 - 1]] * 6000)
    path.write_text(
        json.dumps(hostile.changed(ORIGINAL[TREES], ("model", "weak_rankers", 0), tree))
    )
    with pytest.raises(ValueError, match=r"would take 12 GiB; number categories 0, 1, 2"):
        load(path)


def test_models_that_were_made_by_hand_read_no_foreign_memory():
    """Files are checked when they are loaded; objects when they are first used."""
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match="X has 2 features, the model 3"):
        Ensemble([Stump(2, 0.0)], [1.0], 3).predict(X)
    tree = Tree((5,), (1.5,), (True,), (-1,), (-2,), (10.0, 20.0), (3, 4), (1.0,))
    for ranker in (Stump(5, 0.0), Stump(-1, 0.0), tree):
        with pytest.raises(ValueError, match="reads features"):
            Ensemble([ranker], [1.0], 2).predict(X)
        with pytest.raises(ValueError, match="features"):
            explain(Ensemble([ranker], [1.0], 6), X)
    with pytest.raises(ValueError, match="X has 2 features, the model 6"):
        explain(Ensemble([tree], [1.0], 6), np.zeros((3, 6)), background=X)
    with pytest.raises(ValueError, match="a tree reads feature 5 of 2"):
        tree(X)


# -- weights and parameters ------------------------------------------------------------------


def test_scores_beyond_the_largest_number_are_refused(path):
    original = ORIGINAL["rankboost_v1"]
    fields = hostile.changed(original, ("model", "weights"), [1e308] * 12)
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="weights are too large"):
        load(path)


@pytest.mark.parametrize("jobs", [10**9, 10**30, 0, "all", 1.5, [2]])
def test_a_file_starts_no_crowd_of_threads(path, jobs):
    original = ORIGINAL["rankboost_v1"]
    path.write_text(json.dumps(hostile.changed(original, ("parameters", "n_jobs"), jobs)))
    with pytest.raises(ValueError, match=r"n_jobs.*use"):
        load(path)


# -- files that are no models ----------------------------------------------------------------


def refused_at_once(path, match, seconds=hostile.SECONDS):
    began = time.process_time()
    with pytest.raises(ValueError, match=match):
        load(path)
    assert time.process_time() - began < seconds


@pytest.mark.parametrize("depth", [100, 900, 990, 5000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("place", ["classes", "parameters", "history", "format", "estimator"])
def test_nesting_of_any_depth_is_refused(path, depth, opening, place):
    """Neither the parser nor what looks at its result runs out of stack."""
    closing = "]" if opening == "[" else "}"
    text = json.dumps(hostile.changed(ORIGINAL["rankboost_v1"], (place,), "HERE"))
    path.write_text(text.replace('"HERE"', opening * depth + "0" + closing * depth))
    refused_at_once(path, "model")


WHOLE = json.dumps(ORIGINAL["rankboost_v1"]).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" ",
        b"[]",
        b"null",
        b"42",
        b'"model"',
        b"not a model at all",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 99_999,
        WHOLE + b"}",
        WHOLE + WHOLE,
        WHOLE + b"\0",
        WHOLE.replace(b'"format"', b'"precede": 1, "format"'),  # which of the two counts?
        WHOLE.replace(b'"feature"', b'"feature": 0, "feature"'),
        WHOLE.replace(b'"RankBoost"', b'"\xff\xfe"'),
        WHOLE.replace(b"{", b"["),
        WHOLE.replace(b'"format": 1', b'"format": ' + b"1" * 5000),
        WHOLE.decode().encode("utf-16")[:-1],
        b"\x80\x04\x95" + WHOLE,
        gzip.compress(WHOLE)[:-4],
        gzip.compress(WHOLE)[:100],
        b"\x1f\x8b" + WHOLE,
    ],
    ids=["empty", "blank", "a list", "null", "a number", "text", "prose", "binary", "deep list",
         "deep object", "garbage", "twice", "zero", "key twice",
         "key of a ranker twice", "bytes", "list", "long number", "utf-16", "pickle",
         "gzip cut", "gzip half", "no gzip"],
)  # fmt: skip
def test_what_is_no_model_is_refused_at_once(path, content):
    path.write_bytes(content)
    refused_at_once(path, r"model\.json is not a")


def test_a_file_cut_off_anywhere_is_refused(path):
    """Nearly always with the words "it is cut short"."""
    told = []
    for length in [*range(0, len(WHOLE), 97), len(WHOLE) - 3]:
        path.write_bytes(WHOLE[:length])
        with pytest.raises(ValueError, match=r"model\.json is not a precede model") as refusal:
            load(path)
        told.append(": it is cut short" in str(refusal.value))
    assert told[-1]
    assert np.mean(told) > 0.7


def test_a_packed_model_is_a_model(path):
    path.write_bytes(gzip.compress(WHOLE))
    assert isinstance(load(path), RankBoost)


@pytest.mark.parametrize("start", [b"", b"{", b'{"format": 1, "model": "'])
def test_a_small_file_that_unpacks_to_a_large_one_is_refused(path, start):
    with gzip.open(path, "wb", compresslevel=1) as packer:
        packer.write(start)
        for _ in range(4 * MIN_UNPACKED_LIMIT >> 22):
            packer.write(bytes(1 << 22))
    assert path.stat().st_size < MIN_UNPACKED_LIMIT / 20
    refused_at_once(path, r"unpacks to more than 100 times its size|does not begin", seconds=30)


@pytest.mark.parametrize("start", [b"", b"not a model", b"[0, 1, 2"])
def test_a_large_file_of_nonsense_is_refused_at_once(path, start):
    with open(path, "wb") as file:
        file.write(start)
        file.truncate(200_000_000)
    tracemalloc.start()
    try:
        refused_at_once(path, r"does not begin with '\{'")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # it is not read as a whole
    finally:
        tracemalloc.stop()
    path.unlink()


def test_a_large_file_that_begins_like_a_model_is_refused(path):
    with open(path, "wb") as file:
        file.write(b'{"format": 1, ')
        file.truncate(200_000_000)
    refused_at_once(path, r"is not a precede model", seconds=30)
    path.unlink()


def test_what_is_no_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    if Path("/dev/zero").exists():
        refused_at_once("/dev/zero", "does not begin")


# -- checkpoints, logs of tune, reports --------------------------------------------------------

X = np.random.default_rng(0).normal(size=(60, 3)).round(2)
Y = (X[:, 0] + X[:, 1] > 0.3).astype(float)
QID = np.repeat(np.arange(10), 6)
FEW_LEAVES = {"num_leaves": 4, "min_child_samples": 1}
RESUMED = [
    RankBoost(), RankBoostPlus(), BoostedRanker(**FEW_LEAVES), PushRanker(), SmoothMarginRanker(),
    QBRank(**FEW_LEAVES),
]  # fmt: skip


# A fit may warn about data as good as any.
quiet = pytest.mark.filterwarnings("ignore")
few_or_all = pytest.mark.parametrize(
    "one_of", [41, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)


def resume(model, path, rounds):
    fitted = clone(model).set_params(n_estimators=rounds)
    return fitted.fit(X, Y, qid=QID, checkpoint=path).predict(X)


def search(path):
    space = {"learning_rate": [0.1, 0.5, 1.0]}
    found = tune(RankBoost(n_estimators=3), X, Y, qid=QID, cv=3, space=space, trials=3, log=path)
    return found.rows(), found.command(), str(found)


def use_all(fields, path, use, written, one_of):
    """Put values at places of a file; each is used or refused, and nothing else happens."""
    counts = {"used": 0, "refused": 0}
    trials = [(way, value) for way in hostile.places(fields) for value in hostile.VALUES]
    for way, value in trials[::one_of]:
        path.write_text(written(hostile.changed(fields, way, value)))
        try:
            use(path)
            counts["used"] += 1
        except ValueError:
            counts["refused"] += 1
        except BaseException as error:
            error.add_note(f"{'.'.join(map(str, way))} = {value!r:.60}")
            raise
    assert min(counts.values()) > 0


def lines_of(records):
    return "".join(f"{json.dumps(each)}\n" for each in records)


@quiet
@few_or_all
@pytest.mark.parametrize("model", RESUMED, ids=lambda model: type(model).__name__)
def test_checkpoints_with_other_values_are_used_or_refused(tmp_path, model, one_of):
    path = tmp_path / "checkpoint"
    resume(model, path, 3)
    use_all(json.loads(path.read_text()), path, lambda p: resume(model, p, 5), json.dumps, one_of)


@quiet
@few_or_all
def test_logs_of_tune_with_other_values_are_used_or_refused(tmp_path, one_of):
    path = tmp_path / "log"
    search(path)
    records = [json.loads(line) for line in path.read_text().splitlines()][:3]
    use_all(records, path, search, lines_of, one_of)


@quiet
@pytest.mark.parametrize("model", [RankBoostPlus(), SmoothMarginRanker()], ids=repr)
@pytest.mark.parametrize("value", [-(10**30), 10**400], ids=["large", "larger"])
def test_numbers_in_the_history_of_a_checkpoint_are_of_a_size_to_compute_with(
    tmp_path, model, value
):
    path = tmp_path / "checkpoint"
    resume(model, path, 3)
    fields = json.loads(path.read_text())
    for name in [name for name, each in fields["history"][-1].items() if each is not None]:
        path.write_text(json.dumps(hostile.changed(fields, ("history", -1, name), value)))
        with contextlib.suppress(ValueError):
            resume(model, path, 5)


@quiet
@pytest.mark.parametrize(
    "curve", ["x", 0, 1e308, [], [10**400], [None], hostile.GONE, hostile.deep(900), {}]
)
def test_a_log_of_tune_without_numbers_is_refused(tmp_path, curve):
    path = tmp_path / "log"
    search(path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(lines_of(hostile.changed(records, (2, "curve"), curve)))
    with pytest.raises(ValueError, match="is not the log of a search"):
        search(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is not the log of a search"):
        search(path)


@pytest.mark.parametrize(
    ("name", "way", "value"),
    [
        ("AdaBoostRanker_v1", ("history", 5, "smoothed"), 10**400),
        ("BoostedRanker_categorical_v1", ("parameters", "random_state"), [1e308] * 3),
    ],
    ids=["history", "seed"],
)
def test_a_report_on_a_loaded_model_ends(tmp_path, name, way, value):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(hostile.changed(ORIGINAL[name], way, value)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load(path)
    except ValueError:
        return
    rows = hostile.rows_for(model, ORIGINAL[name])
    assert Report(model, rows, np.arange(len(rows)) % 2).to_markdown()


def test_a_tree_too_deep_for_a_nested_format_is_refused(tmp_path):
    splits = 3000
    tree = Tree(
        (0,) * splits, tuple(map(float, range(splits))), (True,) * splits,
        tuple(-1 - j for j in range(splits)), (*range(1, splits), -1 - splits),
        (1.0,) * (splits + 1), (1,) * (splits + 1), (1.0,) * splits,
    )  # fmt: skip
    model = BoostedRanker(n_estimators=1, **FEW_LEAVES).fit(X, Y, qid=QID)
    model.ensemble_ = Ensemble([tree], [1.0], 3)
    with pytest.raises(ValueError, match=r"too deep for format='solr'.*max_depth"):
        export(model, tmp_path / "m.json", format="solr")
