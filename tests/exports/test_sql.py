"""Models as SQL, run by SQLite, DuckDB and, where they are installed, PostgreSQL and MariaDB."""

import math
import sqlite3
import struct
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from exports.databases import mariadb, postgresql
from exports.readers import FOUR, MIXED, stump_models, tree_models, written
from precede import BoostedRanker, GlassBoxRanker, RankBoost, Stump, Tree
from precede.exports.sql import number
from precede.exports.write import export
from precede.model import Ensemble
from precede.weak_rankers.columns import Column, Constant
from precede.weak_rankers.terms import Term
from test_model import ensembles, some_rows
from weak_rankers.test_terms import terms

duckdb = pytest.importorskip("duckdb")
pytestmark = pytest.mark.filterwarnings("ignore::precede.boosting.SmoothedStepWarning")


def in_sqlite(query, X, names, table="features"):
    with sqlite3.connect(":memory:") as base:
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        base.execute(f'CREATE TABLE "{table}" (id INTEGER PRIMARY KEY, {columns})')
        rows = [(row, *values) for row, values in enumerate(X)]
        places = ", ".join("?" * (len(names) + 1))
        base.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
        found = dict(base.execute(query).fetchall())
    base.close()
    return [found[row] for row in range(len(X))]


def in_duckdb(query, X, names, kind="DOUBLE"):
    with duckdb.connect() as base:
        columns = ", ".join('"' + name.replace('"', '""') + f'" {kind}' for name in names)
        base.execute(f"CREATE TABLE features (id INTEGER, {columns})")
        for row, values in enumerate(X):
            base.execute(
                f"INSERT INTO features VALUES ({', '.join('?' * (len(names) + 1))})",
                [row, *values],
            )
        found = dict(base.execute(query).fetchall())
    return [found[row] for row in range(len(X))]


def sql(ensemble, names=None, key="id", **options):
    return written(ensemble, "sql", names, key=key, **options)


def check(ensemble, rows, names=None, **options):
    """Both give the scores of `predict` to the last bit; NaN and NULL alike."""
    X = np.array(rows, float)
    names = names or [f"x{j}" for j in range(X.shape[1])]
    query = sql(ensemble, names, **options)
    expected = ensemble.predict(X)
    cells = [[float(x) for x in row] for row in X]
    nulls = [[None if math.isnan(x) else x for x in row] for row in cells]
    assert_array_equal(in_sqlite(query, nulls, names), expected)
    own = sql(ensemble, names, dialect="sqlite", **options)
    assert_array_equal(in_sqlite(own, nulls, names), expected)
    assert_array_equal(in_duckdb(query, nulls, names), expected)
    assert_array_equal(in_duckdb(query, cells, names), expected)


def test_missing_values_of_stumps_have_the_value_that_the_model_gives_them():
    stumps = [Stump(0, 0.5, 1), Stump(0, -1.0), Stump(1, 0.0, 1), Stump(2, 3.0)]
    ensemble = Ensemble(stumps, [0.1, 0.7, -0.3, 0.9], 3)
    rows = [[a, b, c] for a in (math.nan, 0.5, 2.0) for b in (math.nan, -1.0, 1.0)
            for c in (math.nan, 3.0, 4.0)]  # fmt: skip
    values = ensemble.predict(np.array(rows))
    assert len(set(values.tolist())) > 8
    check(ensemble, rows)


@settings(max_examples=15)
@given(ensembles(), some_rows)
def test_stumps_features_columns_and_constants(ensemble, rows):
    X = np.array(rows)
    if any(isinstance(ranker, Column) for ranker in ensemble.weak_rankers):
        X = np.nan_to_num(X)
    check(ensemble, X)


@settings(max_examples=15)
@given(stump_models(), st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1,
                                max_size=4))  # fmt: skip
def test_thresholds_with_many_digits(ensemble, rows):
    at = [stump.threshold for stump in ensemble.weak_rankers]
    check(ensemble, [*rows, *([t, t, t] for t in at)])


@settings(max_examples=15)
@given(tree_models(categories=True), FOUR, st.booleans())
def test_trees_with_categories(ensemble, rows, materialized):
    odd = [[2.5, -0.5, 1e300, 2.7], [math.inf, -math.inf, 0.0, -0.0], [0.0, 0.0, 0.0, 1e9]]
    check(ensemble, [*rows, *odd], materialized=materialized)


@settings(max_examples=15)
@given(st.lists(terms(), min_size=1, max_size=3), FOUR)
def test_terms_of_one_and_two_features(found, rows):
    ensemble = Ensemble([*found, Constant()], [*(0.1 + j for j in range(len(found))), 0.7], 4)
    check(ensemble, rows)


def test_mixtures_are_added_in_the_order_of_predict():
    check(MIXED, [[0.2, 0.3, 0.4], [math.nan] * 3, [0.7, -1.0, -math.inf], [1e9, 2.0, 1e308]])


def test_the_order_of_the_sum_matters_and_is_kept():
    leaves = (1e16, 1.0, -1e16, 1.0, 0.1, 1e16, -1e16, 0.3)
    trees = [Tree((0,), (0.0,), (True,), (-1,), (-2,), (v, v / 3), (1, 1), (1.0,)) for v in leaves]
    curve = Term((0,), ((0.0,),), (False,), (0.7, 1e15, 3.0), (1,) * 3)
    ensemble = Ensemble([*trees, curve, Stump(0, 0.0), Constant()], [1.0] * 9 + [1 / 3, 0.1], 1)
    check(ensemble, [[-1.0], [1.0], [math.nan]])


def test_single_precision_columns_are_compared_in_double():
    model = Ensemble([Stump(0, 0.1)], [1.0], 1)
    x = float(np.float32(0.1))
    assert x > 0.1
    assert in_duckdb(sql(model), [[x], [0.0]], ["x0"], kind="FLOAT") == [1.0, 0.0]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_back_as_they_were(value):
    """SQLite's own error is too large for its numbers below 1e-290."""
    text = number(value)
    assert float(text) == value
    assert duckdb.execute(f"SELECT {text}").fetchone()[0] == value
    if abs(value) > 1e-290:
        base = sqlite3.connect(":memory:")
        assert base.execute(f"SELECT {text}").fetchone()[0] == value
        base.close()


def test_many_numbers_are_read_back_by_sqlite():
    """Digits as short as they come are not enough: some of these fail with repr alone."""
    bits = np.random.default_rng(0).integers(0, 2**64, 20000, dtype=np.uint64)
    values = [struct.unpack("d", struct.pack("Q", int(b)))[0] for b in bits]
    values = [v for v in values if math.isfinite(v) and abs(v) > 1e-290]
    with sqlite3.connect(":memory:") as base:
        for first in range(0, len(values), 1000):
            part = values[first : first + 1000]
            assert list(base.execute("SELECT " + ", ".join(map(number, part))).fetchone()) == part
    base.close()


def chain(depth, features=3):
    """A tree that is a list: each split has a leaf on its left."""
    rng = np.random.default_rng(depth)
    right = [*range(1, depth), -depth - 1]
    return Tree(
        tuple(j % features for j in range(depth)), tuple(rng.normal(size=depth) - 1),
        tuple(bool(j % 2) for j in range(depth)), tuple(-1 - j for j in range(depth)),
        tuple(right), tuple(rng.normal(size=depth + 1)), (1,) * (depth + 1), (1.0,) * depth,
    )  # fmt: skip


def test_deep_trees_and_long_sums_are_within_the_limits_of_parsers():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    rows[::3, 1] = math.nan
    check(Ensemble([chain(300), chain(40)], [1.0, 0.5], 3), rows)
    stump = Tree((0,), (0.1,), (True,), (-1,), (-2,), (0.1, 0.2), (1, 1), (1.0,))
    check(Ensemble([stump] * 450, [0.1] * 450, 3), rows)


def test_large_sets_of_categories():
    rng = np.random.default_rng(0)
    left = tuple(sorted(rng.choice(3000, 1200, replace=False).tolist()))
    tree = Tree((0,), (0.0,), (False,), (-1,), (-2,), (1.0, 2.0), (1, 1), (1.0,), (left,))
    check(Ensemble([tree], [1.0], 1), [[float(c)] for c in (*left[:5], 0, 2999, -1, 4000)])


def test_names_and_tables_are_quoted():
    names = ['a "b"', "se'lect;--"]
    model = Ensemble([Stump(0, 0.5), Stump(1, 0.5)], [1.0, 2.0], 2)
    check(model, [[1.0, 0.0], [1.0, 1.0]], names)
    query = sql(model, names, table="my table", name="the score")
    assert in_sqlite(query, [[1.0, 1.0]], names, "my table") == [3.0]
    query = sql(model, names, key=None, table=("main", "features"))
    with duckdb.connect() as base:
        base.execute('CREATE TABLE features ("a ""b""" DOUBLE, "se\'lect;--" DOUBLE)')
        base.execute("INSERT INTO features VALUES (1, NULL)")
        assert base.execute(query).fetchall() == [(1.0, None, 1.0)]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["a", "A"], {}, "features have the name 'a' twice"),
        (["a", "score"], {}, "'score' twice, as databases read it; .* choose another"),
        (["a", "b"], {"key": "Score"}, "'Score' twice"),
        (["a", "precede_1"], {}, "begins with 'precede_'"),
        (["a", ""], {}, "'' is not a valid name"),
    ],
)
def test_names_that_a_database_would_mix_up_are_refused(names, options, message):
    with pytest.raises(ValueError, match=message):
        sql(Ensemble([Stump(0, 0.5)], [1.0], 2), names, **{"key": None, **options})


def test_categories_of_text_are_read_as_text(tmp_path):
    frame = pd.DataFrame({
        "color": pd.Categorical(["red", "blue", "it's", "red", "blue", None] * 10),
        "size": np.arange(60.0),
    })  # fmt: skip
    y = [int(c == "red") + (s > 30) for c, s in zip(frame["color"], frame["size"], strict=True)]
    unseen = pd.DataFrame(
        {"color": ["red", "green", None, "it's", "blue"], "size": [1.0, 50, 2, 3, 9]}
    )
    for model in (
        BoostedRanker(n_estimators=3, min_child_samples=1),
        GlassBoxRanker(interactions=1, n_estimators=5, min_child_samples=1),
    ):
        model.fit(frame, y)
        export(model, tmp_path / "m.sql", key="id")
        query = (tmp_path / "m.sql").read_text()
        expected = model.predict(unseen.astype({"color": "category"}))
        cells = [
            [None if isinstance(c, float) else c, s]
            for c, s in zip(unseen["color"], unseen["size"], strict=True)
        ]
        assert_array_equal(in_sqlite(query, cells, ["color", "size"]), expected)
        with duckdb.connect() as base:
            rows = unseen.assign(id=range(5))
            base.register("features", rows)
            found = dict(base.execute(query).fetchall())
        assert_array_equal([found[row] for row in range(5)], expected)


def test_a_model_of_nothing_scores_nothing():
    check(Ensemble([], [], 2), [[1.0, 2.0]])
    flat = Term((0,), ((),), (False,), (2.0, 2.0), (1, 1))
    check(Ensemble([flat], [1.0], 2), [[1.0, 2.0], [math.nan, 0.0]])


def test_a_column_that_is_missing_gives_null():
    query = sql(Ensemble([Column(0), Stump(1, 0.0)], [1.0, 1.0], 2))
    assert in_sqlite(query, [[None, 1.0], [2.0, 1.0]], ["x0", "x1"]) == [None, 3.0]


def test_a_fitted_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X[rng.random(X.shape) < 0.1] = math.nan
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int)
    for model in (RankBoost(n_estimators=30), BoostedRanker(n_estimators=5)):
        check(model.fit(X, y).ensemble_, X[:50])


def test_a_statement_may_be_part_of_another():
    """SQLite's parser has room for the deepest trees and a query around them."""
    tree = chain(60)
    mirrored = Tree(
        tree.split_feature, tree.threshold, tree.missing_left, tree.right, tree.left, tree.value,
        tree.count, tree.gain,
    )  # fmt: skip
    model = Ensemble([tree, mirrored, Stump(0, 0.0)], [1.0, 0.5, 2.0], 3)
    rows = np.random.default_rng(1).normal(size=(5, 3))
    query = f"SELECT id, 0 + (score) FROM (SELECT * FROM ({sql(model)}) AS a) AS b"
    found = in_sqlite(query, rows.tolist(), ["x0", "x1", "x2"])
    assert_array_equal(found, model.predict(rows))


# -- dialects --------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["mariadb", "postgresql"])
def server(request):
    """A dialect, and a function that runs statements on its server."""
    with {"mariadb": mariadb, "postgresql": postgresql}[request.param]() as ask:
        yield request.param, ask


def in_server(server, query, rows, columns):
    """Scores of rows in a new table; `columns` are names and types, cells are literals."""
    dialect, ask = server
    quote = {"mariadb": "`", "postgresql": '"'}[dialect]
    named = [f"{quote}{name.replace(quote, 2 * quote)}{quote} {kind}" for name, kind in columns]
    listed = ", ".join(f"({', '.join([str(i), *row])})" for i, row in enumerate(rows))
    table = f"CREATE TABLE features (id INTEGER, {', '.join(named)})"
    made = f"DROP TABLE IF EXISTS features; {table}; INSERT INTO features VALUES {listed}"
    lines = [line.split("\t") for line in ask(f"{made};\n{query}").splitlines()]
    found = {int(row): None if text in ("NULL", "") else float(text) for row, text in lines}
    return [found[row] for row in range(len(rows))]


def text_models():
    """Models with every kind of ranker, and rows with missing values for them."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(20, 3))
    wide[::3, 1] = math.nan
    stump = Tree((0,), (0.1,), (True,), (-1,), (-2,), (0.1, 0.2), (1, 1), (1.0,))
    left = tuple(sorted(rng.choice(300, 120, replace=False).tolist()))
    sets = Tree((0,), (0.0,), (False,), (-1,), (-2,), (1.0, 1 / 3), (1, 1), (1.0,), (left,))
    yield MIXED, [[0.2, 0.3, 0.4], [math.nan] * 3, [0.7, -1.0, 2.0], [1e9, 2.0, 1e300]]
    yield Ensemble([chain(300), chain(40)], [1.0, 0.5], 3), wide
    yield Ensemble([stump] * 450, [0.1] * 450, 3), wide
    yield Ensemble([sets], [0.7], 1), [[float(c)] for c in (*left[:5], 0, 299, -1, 400, math.nan)]


def test_servers_give_the_scores_of_predict_to_the_last_bit(server):
    """PostgreSQL with and without AS MATERIALIZED, which MariaDB does not have."""
    kind = {"mariadb": "DOUBLE", "postgresql": "DOUBLE PRECISION"}[server[0]]
    for ensemble, rows in text_models():
        X = np.array(rows, float)
        cells = [["NULL" if math.isnan(x) else repr(float(x)) for x in row] for row in X]
        for materialized in (False, True)[: 1 + (server[0] == "postgresql")]:
            query = sql(ensemble, dialect=server[0], materialized=materialized)
            names = [(f"x{j}", kind) for j in range(X.shape[1])]
            assert_array_equal(in_server(server, query, cells, names), ensemble.predict(X))


TEXTS = ["a", "A", "a ", "", "it's", 'quo"te', "back\\slash", "\\",
         "\\' THEN 0 END, (SELECT 1) -- ", "\\'' OR 1=1", "%",
         "ä", "😀", "line\nbreak", "--", "/*", "`", "NULL", "${x}"]  # fmt: skip


def model_of_texts():
    """A score that names the category: 2 to the power of its number."""
    trees = [
        Tree((0,), (0.0,), (False,), (-1,), (-2,), (2.0**k, 0.0), (1, 1), (1.0,), ((k,),))
        for k in range(len(TEXTS))
    ]
    name = 'na`"\\me'
    model = Ensemble(trees, [1.0] * len(trees), 1), [name]
    expected = [2.0**k for k in range(len(TEXTS))] + [0.0, 0.0]
    return partial(sql, *model, categories={name: TEXTS}), expected


def test_text_of_categories_stays_text_on_servers(server):
    """Whatever the server takes for a quote or an escape, and although it ignores case."""
    dialect, ask = server
    write, expected = model_of_texts()
    query = write(dialect=dialect)
    hexes = [text.encode().hex() for text in [*TEXTS, "not seen"]]
    if dialect == "mariadb":
        cells = [[f"X'{each}'"] for each in hexes]
        modes = ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"]
        servers = [(dialect, lambda text, mode=mode: ask(text, mode)) for mode in modes]
        kind = "VARCHAR(99) CHARACTER SET utf8mb4"
    else:
        cells = [[f"convert_from(decode('{each}', 'hex'), 'UTF8')"] for each in hexes]
        before = [f"SET standard_conforming_strings={value};" for value in ("on", "off")]
        servers = [(dialect, lambda text, first=first: ask(first + text)) for first in before]
        kind = "TEXT"
    for each in servers:
        found = in_server(each, query, [*cells, ["NULL"]], [('na`"\\me', kind)])
        assert found == expected


def test_text_of_categories_stays_text_in_sqlite_and_duckdb():
    write, expected = model_of_texts()
    cells = [[text] for text in [*TEXTS, "not seen", None]]
    query = write(dialect="sqlite")
    assert in_sqlite(query, cells, ['na`"\\me']) == expected
    query = write(dialect="duckdb")
    assert in_duckdb(query, cells, ['na`"\\me'], "VARCHAR") == expected


def test_a_backslash_needs_the_name_of_the_database():
    """MySQL would take it for an escape, which ends the literal elsewhere than it ends here."""
    write, _ = model_of_texts()
    with pytest.raises(ValueError, match=r"has a backslash.*dialect='duckdb' or 'mariadb'"):
        write(key=None)
    assert "\\" not in write(dialect="mysql").replace('na`"\\me', "").replace('na``"\\me', "")
    with pytest.raises(ValueError, match="dialect='oracle'; choose one of ansi, duckdb, mariadb"):
        write(dialect="oracle")
    with pytest.raises(ValueError, match="mysql has no AS MATERIALIZED"):
        write(dialect="mysql", materialized=True)


def test_sqlite_says_that_a_column_is_not_there():
    """A name in double quotes would be text where there is no such column, and text a number."""
    model = Ensemble([Stump(0, 0.5), Stump(1, 0.5)], [1.0, 2.0], 2)
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        in_sqlite(sql(model, ["a", "b"], dialect="sqlite"), [[1.0]], ["a"])
