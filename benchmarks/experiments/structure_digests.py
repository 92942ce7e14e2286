"""Small fits of every estimator in one version of the package, and digests of what they give.

`structure.py` runs it in a process that imports this version, with the tests of the same commit:

    PYTHONPATH=TREE/src:TREE/tests python benchmarks/experiments/structure_digests.py MODELS FROZEN

A digest is of the bits of all scores, of the probabilities where there are any, and of the risk
after every round. MODELS and FROZEN are folders of saved models, of this version and of the frozen
one, which are opened and scored.
"""

import hashlib
import json
import math
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from structure_names import FORMER, call, named

LONG = 20_000  # rows of a list that has ways of its own to sum over pairs


# -- data ----------------------------------------------------------------------------------------


def graded(rows=600, queries=20, seed=0):
    """Grades in queries that stand mixed, ties and missing values."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((rows, 6)), 2)
    X[:, 4] = rng.integers(0, 5, rows)
    signal = X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3] + 0.7 * rng.standard_normal(rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return {
        "X": X,
        "y": np.digitize(signal, [-1.0, 0.5, 1.5]),
        "qid": rng.integers(0, queries, rows),
    }


def weighted():
    data = graded(seed=1)
    return data | {"sample_weight": np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.7], 600)}


def shares():
    """Grades from 0 to 1."""
    data = graded()
    return data | {"y": data["y"] / 3}


def bipartite(rows=400):
    data = graded(rows, seed=3)
    return {"X": np.nan_to_num(data["X"]), "y": (data["y"] > 1).astype(int)}


def rare():
    data = bipartite(600)
    kept = (data["y"] == 0) | (np.arange(600) % 8 == 0)
    return {name: values[kept] for name, values in data.items()}


def weighted_classes():
    return bipartite() | {"sample_weight": np.random.default_rng(4).choice([0.5, 1.0, 3.0], 400)}


def listed():
    """Pairs with weights, and neither grades nor queries."""
    data, rng = graded(seed=5), np.random.default_rng(5)
    pairs = rng.integers(0, 600, (1500, 2))
    pairs = pairs[data["y"][pairs[:, 0]] > data["y"][pairs[:, 1]]]
    return {"X": data["X"], "pairs": pairs, "pair_weight": rng.choice([0.5, 1.0, 2.0], len(pairs))}


def graded_and_listed():
    data, more = graded(seed=5), listed()
    return data | {"y": data["y"] > 1, "pairs": more["pairs"][:200]}


def categories():
    data, rng = graded(seed=6), np.random.default_rng(6)
    data["X"][:, 4] = rng.integers(0, 7, 600)
    data["X"][:, 5] = np.minimum(rng.zipf(1.6, 600), 30)
    data["y"] = data["y"] + 2 * np.isin(data["X"][:, 4], [1, 4])
    return data


def long_list():
    """One list of many grades."""
    data = graded(LONG, seed=7)
    return {"X": data["X"], "y": np.round(np.nan_to_num(data["X"][:, 0]) + data["y"], 1)}


def long_classes():
    return bipartite(LONG)


def many_queries():
    return graded(60_000, 600, seed=8)


def labelled():
    data = graded(seed=9)
    y = np.stack([data["y"] > 0, data["y"] > 1, data["X"][:, 4] > 2], axis=1).astype(int)
    return {"X": data["X"], "y": y}


# -- fits: estimator, parameters, data -----------------------------------------------------------

SMALL = {"n_estimators": 5, "num_leaves": 7, "min_child_samples": 3}


def stump_fits():
    """Estimators that add weak rankers one by one."""
    trees = call("Trees", num_leaves=4, min_child_samples=5)
    mixed = call("Stumps") | call("Features")
    few, some = {"n_estimators": 8}, {"n_estimators": 8, "learning_rate": 0.3}
    slow = few | {"learning_rate": 0.1}
    return [
        ("RankBoost", "stumps", slow, graded),
        ("RankBoost", "stumps, weights", some, weighted),
        ("RankBoost", "stumps, two classes", some, bipartite),
        ("RankBoost", "stumps, listed pairs", some, listed),
        ("RankBoost", "stumps, grades and listed pairs", some, graded_and_listed),
        ("RankBoost", "features", slow | {"weak_rankers": "features"}, graded),
        ("RankBoost", "columns", slow | {"weak_rankers": "columns"}, bipartite),
        ("RankBoost", "trees", slow | {"n_estimators": 4, "weak_rankers": trees}, graded),
        ("RankBoost", "stumps and features", slow | {"weak_rankers": mixed}, graded),
        ("RankBoost", "largest decrease", some | {"select": "decrease"}, weighted),
        ("RankBoost", "bound of the step", some | {"step": "bound"}, weighted),
        ("RankBoost", "positive weights", some | {"nonnegative": True}, graded),
        ("RankBoost", "some features", some | {"max_features": 0.5, "random_state": 3}, graded),
        ("RankBoost", "monotone", some | {"monotone_constraints": {0: -1, 1: -1}}, graded),
        ("RankBoost", "weights by rank", some | {"rank_weight": "ndcg@10"}, graded),
        ("RankBoost", "rounds chosen", slow | {"n_estimators": "auto", "random_state": 0}, graded),
        ("RankBoost", "long list", some, long_list),
        ("RankBoost", "many queries", some, many_queries),
        ("PushRanker", "p-norm", some, bipartite),
        ("PushRanker", "p-norm, weights", some | {"price": 2}, weighted_classes),
        ("PushRanker", "p-norm, queries", some | {"price": 8}, graded),
        ("PushRanker", "price exp", some | {"price": "exp"}, bipartite),
        ("PushRanker", "logistic", some | {"price": 2, "loss": "logistic"}, graded),
        ("PushRanker", "logistic, linear", some | {"price": 1, "loss": "logistic"}, weighted),
        ("PushRanker", "squared hinge", some | {"price": 1, "loss": "squared_hinge"}, weighted),
        ("PushRanker", "hinge", some | {"price": 1, "loss": "hinge"}, graded),
        ("PushRanker", "listed pairs", some | {"price": 2}, listed),
        ("PushRanker", "price chosen", some | {"price": "cv", "prices": (2, 8), "cv": 3,
                                               "random_state": 0}, graded),
        ("SmoothMarginRanker", "two classes", {"n_estimators": 20}, bipartite),
        ("SmoothMarginRanker", "exact step", {"n_estimators": 20, "step": "exact"}, graded),
        ("SmoothMarginRanker", "tolerance", {"n_estimators": 60, "tol": 0.3}, listed),
        ("ConvexRiskRanker", "exponential", {"radius": 2.0, "n_estimators": 20}, bipartite),
        ("ConvexRiskRanker", "logistic ball", {"loss": "logistic", "tol": 0.05}, graded),
        ("ConvexRiskRanker", "hinge ball", {"loss": "hinge", "n_estimators": 20}, rare),
        ("ConvexRiskRanker", "radius chosen", {"radius": "cv", "cv": 3, "tol": 0.1,
                                               "n_estimators": 20, "random_state": 0}, graded),
        ("AdaBoostRanker", "constant", few, rare),
        ("AdaBoostRanker", "without constant", few | {"constant": False}, weighted_classes),
        ("RankBoostPlus", "efficient", few, graded),
        ("RankBoostPlus", "optimal", few | {"search": "optimal"}, bipartite),
        ("MultilabelRanker", "pairs of labels", few, labelled),
        ("MultilabelRanker", "every label", few | {"method": "MH"}, labelled),
        ("MultilabelRanker", "across items", few | {"across": True}, labelled),
    ]  # fmt: skip


def tree_fits():
    """Boosted trees, quadratic boosting and glass boxes."""
    drawn = {"subsample": 0.6, "random_state": 3}
    glass = {
        "n_estimators": 5,
        "pair_estimators": 5,
        "min_child_samples": 5,
        "pair_bins": 8,
        "random_state": 0,
    }
    pairwise = ("logistic", "exponential", "squared_hinge", "hinge")
    listwise = ("softmax", "xendcg", "query_rmse", "query_cross_entropy")
    of_losses = [
        ("BoostedRanker", f"{loss}, {data.__name__}", SMALL | {"loss": loss}, data)
        for losses, data in ((pairwise, weighted), (pairwise, long_list), (listwise, shares))
        for loss in losses
    ]
    boosted = {
        "two classes": (SMALL, weighted_classes),
        "listed pairs": (SMALL, listed),
        "grades and listed pairs": (SMALL, graded_and_listed),
        "listed pairs, hinge": (SMALL | {"loss": "hinge"}, listed),
        "categories": (SMALL | {"categorical_features": [4, 5], "cat_smooth": 1.0}, categories),
        "weights by rank": (SMALL | {"rank_weight": "ndcg@10"}, weighted),
        "weights by gap": (SMALL | {"rank_weight": "gap", "loss": "exponential"}, graded),
        "precision": (SMALL | {"rank_weight": "precision@5", "loss": "squared_hinge"}, graded),
        "bags": (SMALL | {"bags": 3, "random_state": 1}, graded),
        "some rows": (SMALL | drawn, weighted),
        "some queries": (SMALL | drawn | {"subsample_by": "query", "max_features": 0.7}, graded),
        "some features by split": (SMALL | drawn | {"max_features_by_split": 0.5}, graded),
        "constraints": (
            SMALL | {"monotone_constraints": {0: 1}, "interaction_constraints": [[0, 1], [2, 3]]},
            graded,
        ),
        "line search": (SMALL | {"line_search": True, "hessian": "bound"}, graded),
        "averages": (SMALL | {"targets": "average", "hessian": "terms"}, graded),
        "price": (SMALL | {"loss": "exponential", "price": 2, "balance": "queries"}, weighted),
        "sizes chosen": ({"n_estimators": "auto", "num_leaves": "auto", "random_state": 0,
                          "learning_rate": 0.3}, graded),
        "stumps": ({"n_estimators": 5, "weak_rankers": "stumps"}, graded),
        "classes, long list": (SMALL, long_classes),
        "many queries": ({"n_estimators": 4, "num_leaves": 31}, many_queries),
        "many queries, softmax": ({"n_estimators": 3, "loss": "softmax"}, many_queries),
        "many queries, ranks": ({"n_estimators": 3, "rank_weight": "ndcg@10"}, many_queries),
    }  # fmt: skip
    return [
        *of_losses,
        *(("BoostedRanker", title, *fit) for title, fit in boosted.items()),
        ("QBRank", "grades", SMALL, graded),
        ("QBRank", "weights", SMALL | {"weight": 0.8, "margin": 1.0}, weighted),
        ("QBRank", "listed pairs", SMALL | {"weight": 1.0}, listed),
        ("GlassBoxRanker", "main effects", glass | {"interactions": 0}, weighted),
        ("GlassBoxRanker", "pairs found", glass | {"interactions": 3}, graded),
        ("GlassBoxRanker", "pairs given",
         glass | {"interactions": [(0, 1), (2, 3)], "validation_fraction": 0}, graded),
        ("GlassBoxRanker", "categories",
         glass | {"interactions": 2, "categorical_features": [4, 5]}, categories),
        ("GlassBoxRanker", "bags", glass | {"interactions": 2, "bags": 2}, graded),
    ]  # fmt: skip


# -- ways to fit the same model ------------------------------------------------------------------


def digest(*arrays):
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array, np.float64).tobytes())
    return whole.hexdigest()[:16]


def in_memory(name, given, data, **others):
    return call(name, **given, **others).fit(**data())


def on_disk(name, given, data, **_):
    """Rows in three blocks of a table on disk."""
    data, model = data(), call(name, **given)
    columns = [data.get(each) for each in ("X", "y", "qid", "sample_weight")]
    cuts = [len(data["X"]) // 3, len(data["X"]) // 2]
    blocks = zip(*([None] * 3 if each is None else np.split(each, cuts) for each in columns),
                 strict=True)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        table = call(
            "write_table", Path(folder) / "table", blocks, n_jobs=1,
            categorical_features=given.get("categorical_features"),
            **{each: data[each] for each in ("pairs", "pair_weight") if each in data},
        )  # fmt: skip
        return model.fit(table)


def on_cluster(name, given, data, client, **_):
    """Rows in chunks of different sizes on two workers."""
    from clusters import chunked

    data, cut = data(), (3, 160)
    cut = (*cut, len(data["X"]) - sum(cut))
    split = [each for each in ("X", "y", "qid", "sample_weight") if each in data]
    data |= dict(zip(split, chunked(cut, *(data[each] for each in split)), strict=True))
    return call(f"Dask{name}", module="precede.dask", **given).fit(**data, client=client)


def emulated_device():
    """The device of the tests, opened by whatever is imported after this call."""
    from emulated_device import EmulatedDevice, cuda

    device = EmulatedDevice()
    if hasattr(cuda, "open_device"):  # commits without a table of backends
        known = cuda.open_device
        cuda.open_device = lambda name, *number: device if name == "cuda" else known(name, *number)
    else:
        from precede.engine.backend import BACKENDS

        BACKENDS["cuda"] = lambda _: device
    return device


def has(name, way):
    """Whether an estimator can be fitted in a way at all."""
    if way == "Dask":
        dask = [f"Dask{each}" for each in (name, FORMER.get(name, name))]
        return any(hasattr(sys.modules["precede.dask"], each) for each in dask)
    if way == "emulated device":
        return "device" in named(name)().get_params()
    return not (way == "disk" and name == "MultilabelRanker")


WAYS = {
    "one thread": (in_memory, {"n_jobs": 1}),
    "two threads": (in_memory, {"n_jobs": 2}),
    "emulated device": (in_memory, {"n_jobs": 1, "device": "cuda"}),
    "disk": (on_disk, {}),
    "Dask": (on_cluster, {}),
}


def outcome(fit, name, given, data, others):
    """Digests of scores and risks, or that the fit is refused or fails."""
    try:
        model = fit(name, given, data, **others)
    except Exception as error:
        print(f"{name} {given} {data.__name__}: {error!r}", file=sys.stderr)
        return {"scores": "refused" if isinstance(error, ValueError) else f"fails: {error!r}"}
    X = data()["X"]
    scores = [model.predict(X)]
    if hasattr(model, "predict_proba"):
        scores.append(model.predict_proba(X))
    return {"scores": digest(*scores), "risks": digest(model.history_["risk"])}


def all_fits(client):
    """Digests by estimator, fit and way."""
    found = {}
    for name, title, given, data in stump_fits() + tree_fits():
        slow = data in (long_list, long_classes, many_queries) or "auto" in given.values()
        for way, (fit, others) in WAYS.items():
            if (slow and way in ("emulated device", "Dask")) or not has(name, way):
                continue
            more = {"client": client} if way == "Dask" else others
            for what, value in outcome(fit, name, given, data, more).items():
                found[f"{name}, {title}, {way}, {what}"] = value
    return found


# -- other results -------------------------------------------------------------------------------


def numbers_in(value):
    """All numbers of nested dictionaries and lists."""
    if isinstance(value, dict | list | tuple):
        inside = value.values() if isinstance(value, dict) else value
        return [number for each in inside for number in numbers_in(each)]
    return [float(value)] if isinstance(value, int | float) else []


def ends(interval):
    return interval.low, interval.high


def other_results():
    """Digests of metrics, intervals, comparisons, explanations, reports and exported models."""
    data = graded()
    X, y, qid = data["X"], data["y"], data["qid"]
    stumps = call("RankBoost", n_estimators=8, learning_rate=0.1).fit(**data)
    trees = call("BoostedRanker", **SMALL).fit(**data)
    one, other = stumps.predict(X), trees.predict(X)
    evaluation = call("evaluate", y, one, qid)
    explanation, background = trees.explain(X), trees.explain(X[:50], background=X[50:80])
    comparison = call("compare", y, one, other, qid)
    found = {
        "metrics": digest(list(evaluation.mean.values()), *evaluation.per_query.values()),
        "intervals": digest(*(ends(evaluation.interval(each)) for each in ("ndcg@10", "mrr"))),
        "comparison": digest(ends(comparison.interval())),
        "explanations, trees": digest(explanation.contributions, explanation.baseline),
        "explanations, background": digest(background.contributions, background.baseline),
        "explanations, stumps": digest(stumps.explain(X).contributions),
        "margins": digest(sorted(numbers_in(vars(call("margins", stumps, X, y, qid=qid))))),
        "report": digest(sorted(numbers_in(call("Report", stumps, X, y, qid=qid).facts))),
        "synthetic data": digest(
            call("search_results", 20, random_state=0, module="precede.datasets").X
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("python", "c", "sql", "xgboost"):
            path = Path(folder) / kind
            call("export", trees, path, kind)
            found[f"export, {kind}"] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return {f"other, {name}": value for name, value in found.items()}


def saved_models(folder):
    """How many saved models give the scores stored with them, of how many; a digest of all these.

    The digest does not depend on the names of the files.
    """
    right, stored, paths = 0, [], sorted(Path(folder).glob("*.json"))
    for path in paths:
        fields = json.loads(path.read_text())
        X = np.array([[math.nan if x is None else x for x in row] for row in fields["rows"]])
        stored.append(digest(X, fields["scores"]))
        try:
            right += np.array_equal(named("load")(path).predict(X), fields["scores"])
        except (ValueError, KeyError) as error:
            print(f"{path.name}: {error!r}", file=sys.stderr)
    whole = hashlib.sha256("".join(sorted(stored)).encode()).hexdigest()[:16]
    return [right, len(paths)], whole


def main(own, frozen):
    warnings.simplefilter("ignore")
    device = emulated_device()  # before anything else is imported
    import dask
    from dask.distributed import Client

    import precede.dask  # noqa: F401
    from clusters import PATIENT

    with tempfile.TemporaryDirectory() as folder:
        dask.config.set(PATIENT | {"temporary-directory": folder})
        client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
        found = all_fits(client)
        client.close()
    found |= other_results()
    models, found["other, saved models and their scores"] = saved_models(own)
    result = {"digests": found, "saved models": models, "frozen models": saved_models(frozen)[0],
              "kernels launched": len(set(device.launched))}  # fmt: skip
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
