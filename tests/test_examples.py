"""What the examples of serving promise: limits, errors that name the field, one model a request."""

import asyncio
import importlib.util
import json
import time
from pathlib import Path

import numpy as np
import pytest

from precede import RankBoost, export

FOLDER = Path(__file__).parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def serving():
    pytest.importorskip("fastapi", reason="the service is an example, not part of the package")
    pytest.importorskip("httpx")
    return example("serve_with_fastapi")


@pytest.fixture
def ranker(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + rng.normal(size=300) > 0).astype(int)
    models = [RankBoost(n_estimators=rounds, learning_rate=0.1).fit(X, y) for rounds in (5, 50)]
    path = tmp_path / "ranker.py"
    export(models[0], path)
    return models, X, path


def rows_of(X):
    return [{f"x{j}": None if np.isnan(x) else x for j, x in enumerate(row)} for row in X.tolist()]


def answers(serving, app, *requests, meanwhile=None):
    return asyncio.run(serving.ask(app, requests, meanwhile))


def test_scores_are_those_of_predict(serving, ranker):
    (model, _), X, path = ranker
    (answer,) = answers(serving, serving.create_app(path), {"json": {"rows": rows_of(X)}})
    assert answer.status_code == 200
    assert answer.json()["scores"] == model.predict(X).tolist()


@pytest.mark.parametrize(
    ("row", "where", "what"),
    [
        ({"x0": "tall", "x1": 1.0}, ["body", "rows", 0, "x0"], "valid number"),
        ({"x0": 1.0}, ["body", "rows", 0, "x1"], "Field required"),
        ({"x0": 1.0, "x1": 2.0, "x7": 3.0}, ["body", "rows", 0, "x7"], "Extra inputs"),
        ({"x0": True, "x1": 2.0}, ["body", "rows", 0, "x0"], "valid number"),
        ({"x0": 10**400, "x1": 2.0}, ["body", "rows", 0, "x0"], "valid number"),
        ([1.0, 2.0], ["body", "rows", 0], "valid dictionary"),
    ],
)
def test_errors_name_the_field(serving, ranker, row, where, what):
    (answer,) = answers(serving, serving.create_app(ranker[2]), {"json": {"rows": [row]}})
    assert answer.status_code == 422
    (error,) = answer.json()["detail"]
    assert error["loc"] == where
    assert what in error["msg"]


def test_numbers_that_json_has_not_are_refused(serving, ranker):
    app = serving.create_app(ranker[2])
    for text in ("NaN", "Infinity", "1e999"):
        body = f'{{"rows": [{{"x0": {text}, "x1": 0.0}}]}}'
        header = {"content-type": "application/json"}
        (answer,) = answers(serving, app, {"content": body, "headers": header})
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["body", "rows", 0, "x0"]


def test_too_many_rows_or_bytes_are_refused(serving, ranker):
    app = serving.create_app(ranker[2], most_rows=3, most_bytes=1000)
    few, many = rows_of(np.zeros((3, 2))), rows_of(np.zeros((4, 2)))
    long = {"rows": [{"x0": 0.0, "x1": 0.0, "note": "x" * 1000}]}

    async def in_parts():
        for _ in range(1000):
            yield b"x" * 100

    good, rows, none, bytes_, parts = answers(
        serving, app, {"json": {"rows": few}}, {"json": {"rows": many}}, {"json": {"rows": []}},
        {"json": long}, {"content": in_parts()},
    )  # fmt: skip
    assert good.status_code == 200
    assert rows.status_code == none.status_code == 422
    assert rows.json()["detail"][0]["loc"] == ["body", "rows"]
    assert "at most 3" in rows.json()["detail"][0]["msg"]
    assert bytes_.status_code == parts.status_code == 413
    assert json.loads(bytes_.content) == {"detail": "the body is longer than 1000 bytes"}


def long_bodies():
    """Bodies of nearly 2 MB that are wrong in as many ways as possible."""
    yield "wrong rows", '{"rows": [' + ",".join(["{}"] * 600_000) + "]}"
    yield "wrong cells", '{"rows": [' + ",".join(['{"x0":"","x1":[]}'] * 5000) + "]}"
    extra = ",".join(f'"{j}":0' for j in range(180_000))
    yield "one row", '{"rows": [{' + extra + "}]}"
    yield "other fields", "{" + extra + "}"
    yield "nested", '{"rows": ' + "[" * 900_000 + "]" * 900_000 + "}"
    yield "digits", '{"rows": [{"x0": ' + "9" * 1_800_000 + ', "x1": 0}]}'
    yield "a cell", '{"rows": [{"x0": [' + ",".join(["[]"] * 600_000) + '], "x1": 0}]}'
    yield "not UTF-8", b"\xff" * 1_800_000


def test_long_invalid_bodies_do_not_keep_other_clients_waiting(serving, ranker):
    """Errors are not collected: their number, and so their time, had no limit."""
    app = serving.create_app(ranker[2])
    header = {"content-type": "application/json"}
    for name, body in long_bodies():
        assert len(body) < serving.MOST_BYTES
        start = time.process_time()
        (answer,) = answers(serving, app, {"content": body, "headers": header})
        assert time.process_time() - start < 1.0, name
        assert answer.status_code == 422, name
        assert len(answer.content) < 5000, name


def test_a_body_is_refused_by_its_announced_length(serving, ranker):
    """Before any of it is read."""
    app, sent = serving.create_app(ranker[2]), []

    async def never():
        raise AssertionError("the body is read")

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": [(b"content-length", b"2000001")]}
    asyncio.run(serving.Limit(app, serving.MOST_BYTES)(scope, never, send))
    assert sent[0]["status"] == 413


def test_a_row_without_a_score_is_an_error_of_the_client(serving, ranker, tmp_path):
    _, X, path = ranker
    X = np.nan_to_num(X)
    export(
        RankBoost(n_estimators=2, weak_rankers="columns").fit(X, (X[:, 0] > 0).astype(int)), path
    )
    (answer,) = answers(
        serving, serving.create_app(path), {"json": {"rows": [{"x0": None, "x1": None}]}}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "rows", 0]


def test_a_model_is_replaced_under_load(serving, ranker):
    """Every answer is wholly of one model, and the last ones are of the new."""
    models, X, path = ranker
    app = serving.create_app(path)
    request = {"json": {"rows": rows_of(X)}}

    def replace():
        for model in (models[1], models[0], models[1]):
            export(model, path)

    expected = [model.predict(X).tolist() for model in models]
    assert expected[0] != expected[1]
    found = answers(serving, app, *[request] * 40, meanwhile=replace)
    assert {answer.status_code for answer in found} == {200}
    assert all(answer.json()["scores"] in expected for answer in found)
    (last,) = answers(serving, app, request)
    assert last.json()["scores"] == expected[1]


@pytest.mark.parametrize("other", ["features", "text", "empty", "gone", "no score", "nan"])
def test_a_file_that_is_no_model_of_these_features_changes_nothing(serving, ranker, other):
    models, X, path = ranker
    app = serving.create_app(path)
    if other == "features":
        export(RankBoost(n_estimators=2).fit(X[:, :1], (X[:, 0] > 0).astype(int)), path)
    elif other == "gone":
        path.unlink()
    elif other in ("no score", "nan"):  # it loads, but has no scores
        answer = "1 / 0" if other == "no score" else "[float('nan')] * len(rows)"
        path.write_text(f"{path.read_text()}\ndef scores(rows):\n    return {answer}\n")
    else:
        path.write_text("no model" if other == "text" else "")

    async def health():
        transport = serving.httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with serving.httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            return await client.get("/health")

    answer = asyncio.run(health())
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("ranker.py: ")
    (answer,) = answers(serving, app, {"json": {"rows": rows_of(X)}})
    assert answer.json()["scores"] == models[0].predict(X).tolist()  # the old one goes on
    export(models[1], path)
    assert asyncio.run(health()).status_code == 200


def test_trials_of_optuna_are_pruned():
    pytest.importorskip("optuna")
    tuning = example("tune_with_optuna")
    tuning.optuna.logging.set_verbosity(tuning.optuna.logging.WARNING)
    sample = tuning.search_results(60, features=10, informative=6, per_query=20, random_state=0)
    always = tuning.optuna.pruners.ThresholdPruner(lower=2.0)  # no ndcg is as large
    study = tuning.optuna.create_study(direction="maximize", pruner=always)
    study.optimize(lambda trial: tuning.objective(trial, sample), n_trials=1)
    (trial,) = study.trials
    assert trial.state == tuning.optuna.trial.TrialState.PRUNED
    assert len(trial.intermediate_values) == 1  # after its first round


@pytest.mark.filterwarnings("ignore")  # MLflow's own are many
def test_mlflow_gives_the_same_scores(capsys):
    pytest.importorskip("mlflow", reason="MLflow is large; pip install precede[examples] has it")
    example("log_with_mlflow").main()
    assert "gives the same scores: True" in capsys.readouterr().out
