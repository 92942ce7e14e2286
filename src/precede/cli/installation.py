"""Commands for a new installation: warmup compiles kernels ahead of time, demo shows results."""

from __future__ import annotations

import io
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

import precede
from precede.cli.console import printable, progress_bar, say, write_json, write_rows
from precede.cli.options import AsJson

if TYPE_CHECKING:
    from rich.console import Console

    from precede.engine.arrays import Array, Floats, Integers, Json

Result = TypeVar("Result")


# -- warmup ------------------------------------------------------------------------------------


def warmup(*, as_json: AsJson = False) -> None:
    """Compile what fits and their results need ahead of time, for container images and CI.

    All algorithms with each of their losses, weak rankers and kinds of data, on one thread and on
    several; predictions, metrics, explanations, reports, files. This takes some minutes. What only
    a cluster, a loss of your own, bounds or rounded scorecards need is compiled when called.
    The result is kept in the folder that NUMBA_CACHE_DIR names, or next to the package.
    """
    from precede.engine.compiling import announce_compiling, cache_folder

    announce_compiling(False)
    rows, calls = [], WarmupSteps()
    with progress_bar("compiling", len(STEPS)) as advance:
        for name, step in STEPS.items():
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such short fits warn of too few rounds
                step(calls)
            rows.append({"step": name, "seconds": round(time.perf_counter() - began, 2)})
            advance()
    write_rows(rows, as_json=as_json)
    say(f"compiled code is kept in {cache_folder()}")


# Rows of a long list, above the sizes at which parallel and long-list kernels are used.
LONG_LIST_ROWS = 1 << 18
# Rows that several threads share, but whose sums are not packed.
MEDIUM_LIST_ROWS = 30_000
# Rows of a list whose pairs are enumerated, just enough for several threads.
ENUMERATED_ROWS = 5000
# Rows of all others, in queries of 20.
ROWS = 2000

# Rounds are few, except where some kernels are only used later.
ROUNDS: dict[str, Json] = {
    "ConvexRiskRanker": {"n_estimators": 40},
    "GlassBoxRanker": {"n_estimators": 5, "pair_estimators": 5},
    "RankBoostPlus": {"n_estimators": 25},
}
# Algorithms and risks that may enumerate pairs.
PAIR_ENUMERATING = ("RankBoostPlus", "SmoothMarginRanker", "ConvexRiskRanker")
PAIRWISE: list[Json] = [{"price": 2, "loss": "logistic"}, {"price": 2, "loss": "hinge"}]
RANKED: list[Json] = [{"rank_weight": rule} for rule in ("ndcg", "ndcg@10", "gap", "precision@5")]

# Variants fitted besides the defaults: each loss, weak ranker, search and step rule with separate
# kernels. All others differ in numbers only.
VARIANTS: dict[str, list[Json]] = {
    "RankBoost": [
        {"select": "decrease"}, {"step": "bound"}, {"weak_rankers": "features"},
        {"weak_rankers": "columns"},
        {"weak_rankers": "trees"}, {"nonnegative": True}, {"monotone_constraints": [1, -1, 0, 0]},
        {"balance": "queries"}, {"max_features": 0.5}, *RANKED,
    ],
    "PushRanker": [
        {"price": "exp"}, {"price": 1, "loss": "logistic"}, {"price": 1, "loss": "hinge"},
        {"price": 1, "loss": "squared_hinge"}, {"scope": "global"}, {"weak_rankers": "trees"},
        {"weak_rankers": "features"}, *PAIRWISE,
    ],
    "BoostedRanker": [
        {"loss": "exponential"}, {"loss": "hinge"}, {"loss": "squared_hinge"},
        {"loss": "softmax"}, {"loss": "xendcg"}, {"loss": "query_rmse"},
        {"loss": "query_cross_entropy"}, {"hessian": "bound"}, {"targets": "average"},
        {"line_search": True}, {"reg_alpha": 0.1}, {"subsample": 0.5}, {"max_features": 0.5},
        {"max_features_by_split": 0.5}, {"max_depth": 2}, {"bags": 2},
        {"categorical_features": [3]}, {"monotone_constraints": [1, -1, 0, 0]},
        {"interaction_constraints": [[0, 1], [2, 3]]},
        {"num_leaves": 100, "min_child_samples": 1},
        {"num_leaves": 100, "min_child_samples": 1, "categorical_features": [3]},
        *RANKED, *PAIRWISE,
    ],
    "QBRank": [{"targets": "sum"}, *RANKED],
    "GlassBoxRanker": [{"categorical_features": [3]}, {"loss": "exponential"}],
    "SmoothMarginRanker": [{"weak_rankers": "features"}, {"nonnegative": True}],
    "ConvexRiskRanker": [{"loss": "logistic"}, {"loss": "hinge"}, {"weak_rankers": "features"}],
    "RankBoostPlus": [{"search": "optimal"}],
    "AdaBoostRanker": [{"weak_rankers": "features"}],
}  # fmt: skip


class WarmupSteps:
    """Calls on rows with every kind of judgments, and on one long list."""

    def __init__(self) -> None:
        self.models: dict[str, precede.BaseRanker] = {}
        self.X, self.y, self.qid = _rows(ROWS)

    @cached_property
    def kinds(self) -> list[tuple[Array, Json]]:
        """Rows and the arguments of `fit`, for every kind of judgments."""
        import numpy as np

        missing = self.X.copy()
        missing[::7, 1] = np.nan
        pairs = np.arange(ROWS).reshape(-1, 2)
        weight = np.linspace(0.5, 1.5, ROWS)
        return [
            (missing, {"y": self.y, "qid": self.qid}),
            (self.X, {"y": self.y > 1}),
            (self.X, {"y": self.y}),
            (self.X.astype("f4"), {"y": self.y, "qid": self.qid, "sample_weight": weight}),
            (self.X, {"y": self.X[:, 0], "qid": self.qid}),  # as many grades as rows
            (self.X, {"pairs": pairs}),
            (self.X, {"y": self.y, "qid": self.qid, "pairs": pairs}),
        ]

    def fit(self, name: str) -> None:
        """Fit an algorithm and its variants to every kind of judgments, and with two threads."""
        for number, given in enumerate([{}, *VARIANTS[name]]):
            for X, judged in self.kinds:
                model = _fitted(name, X, judged, n_jobs=1, **given)
                if model is not None:
                    self.models.setdefault(f"{name} {number}", model)
            slow = name in PAIR_ENUMERATING or given in RANKED or given in PAIRWISE
            X, y, _ = _rows(ENUMERATED_ROWS if slow else LONG_LIST_ROWS)
            _fitted(name, X, {"y": y > 1}, n_jobs=2, **given)
            X, y, qid = _rows(ENUMERATED_ROWS if name in PAIR_ENUMERATING else LONG_LIST_ROWS)
            _fitted(name, X, {"y": y, "qid": qid}, n_jobs=2, **given)

    def fit_large(self) -> None:
        """Grow trees by two threads, on enough cells for packed sums and on fewer."""
        import numpy as np

        from precede.weak_rankers.tree_grower import MAX_WIDE_CELLS

        X, y, qid = _rows(LONG_LIST_ROWS)
        wide = np.tile(X, (1, 1 + MAX_WIDE_CELLS // X.size))
        for given in ({}, {"categorical_features": [3]}):
            _fitted("BoostedRanker", wide, {"y": y, "qid": qid}, n_jobs=2, **given)
            few = slice(MEDIUM_LIST_ROWS)
            _fitted("BoostedRanker", X[few], {"y": y[few], "qid": qid[few]}, n_jobs=2, **given)

    def fit_labels(self) -> None:
        """Fit several labels for each row."""
        import numpy as np

        labels = np.stack([self.y > 1, self.y > 2, self.X[:, 0] > 0.5], axis=1).astype(int)
        for method in ("MR", "MH"):
            model = precede.MultilabelRanker(method=method, n_estimators=3).fit(self.X, labels)
            model.score(self.X, labels)

    def far_apart(self) -> None:
        """Evaluate risks at large differences of scores, which occur after many rounds."""
        judgments = precede.Judgments(self.y, self.qid)
        for loss in ("exponential", "logistic", "hinge"):
            for rule in (None, "ndcg", "ndcg@10"):
                risk = precede.PairRisk(loss, rank_weight=rule)
                for factor in (20, 1000, -1000):
                    scores = float(factor) * self.y
                    risk.value(judgments, scores)
                    risk.pull(judgments, scores)
                    risk.edge_weights(judgments, scores, self.X[:, 0] > 0.5)

    def predict(self) -> None:
        """Score rows of both precisions and orders in memory, on one thread and on several."""
        import numpy as np

        for model in self.models.values():
            for rows in (self.X, _rows(LONG_LIST_ROWS)[0]):
                for X in (rows, rows.astype(np.float32), np.asfortranarray(rows)):
                    model.set_params(n_jobs=2).predict(X)

    def evaluate(self) -> None:
        """Compute every metric, margins, and the share of pairs in order."""
        from precede.metrics.registry import REGISTRY, TIES

        for model in self.models.values():
            model.score(self.X, self.y, self.qid)
        model = self.models["RankBoost 0"]
        scores, (X, y, _) = model.predict(self.X), _rows(LONG_LIST_ROWS)
        for rows in ((self.y, scores, self.qid), (self.y > 1, scores), (y > 1, model.predict(X))):
            precede.evaluate(*rows)
            for name, end, ties in itertools.product(REGISTRY, ("", "@10", "@100%"), TIES):
                metrics = [f"{name}{end}"]
                _unless_refused(partial(precede.evaluate, *rows, metrics=metrics, ties=ties))
        precede.margins(model, self.X, self.y, qid=self.qid)

    def compare(self) -> None:
        """Compare two models over queries."""
        one, other = (self.models[name].predict(self.X) for name in ("RankBoost 0", "QBRank 0"))
        for metric in ("ndcg@10", "pair_error"):
            precede.compare(self.y, one, other, self.qid, metric=metric)

    def report(self) -> None:
        """Make reports on queries and on one list."""
        for name, model in self.models.items():
            if name.endswith(" 0"):
                precede.Report(model, self.X, self.y, qid=self.qid)
                precede.Report(model, self.X, self.y > 1)

    def explain(self) -> None:
        """Explain scores and a pair."""
        for model in self.models.values():
            model.explain(self.X)
            model.explain(self.X[:50], background=self.X[:20])
            model.explain_pair(self.X, 0, 1)

    def read(self) -> None:
        """Read lines of LETOR."""
        from precede.files.letor import read_letor

        lines = b"2 qid:7 1:0.5 2:1e1 3:0.12345678901234567890123 # a\n1 qid:7 1:0.5 # b\n" * ROWS
        for n_jobs in (1, 2):
            read_letor(io.BufferedReader(io.BytesIO(lines)), n_jobs=n_jobs)


def _rows(size: int) -> tuple[Array, Integers, Integers]:
    """Return numbers in [0, 1] and a category in four columns, grades, and queries of 20 rows."""
    import numpy as np

    generator = np.random.default_rng(0)
    X = generator.random((size, 4))
    y = np.digitize(X[:, 0] + X[:, 1] + generator.random(size), [1.0, 1.5, 2.0])
    X[:, 2], X[:, 3] = np.round(X[:, 2], 1), generator.integers(0, 6, size)
    return X, y, np.arange(size) // 20


def _fitted(name: str, X: Array, judged: Json, **parameters: object) -> precede.BaseRanker | None:
    """Fit an algorithm; return None if it does not support such judgments."""
    model = getattr(precede, name)(**ROUNDS.get(name, {"n_estimators": 5}), **parameters)
    return _unless_refused(partial(model.fit, X, **judged))


def _unless_refused(call: Callable[[], Result]) -> Result | None:
    """Return the result of a call; None if it raises ValueError."""
    try:
        return call()
    except ValueError:
        return None


STEPS: dict[str, Callable[[WarmupSteps], None]] = {
    **{f"fit {name}": partial(WarmupSteps.fit, name=name) for name in VARIANTS},
    "fit large trees": WarmupSteps.fit_large,
    "fit MultilabelRanker": WarmupSteps.fit_labels,
    "scores far apart": WarmupSteps.far_apart,
    "predict": WarmupSteps.predict,
    "evaluate": WarmupSteps.evaluate,
    "compare": WarmupSteps.compare,
    "report": WarmupSteps.report,
    "explain": WarmupSteps.explain,
    "read": WarmupSteps.read,
}


# -- demo --------------------------------------------------------------------------------------

_CHOICES: dict[str, Json] = {
    "RankBoost": {"select": "decrease"},
    "RB-D": {"select": "slope", "step": "exact"},
    "RB-C": {"select": "slope", "step": "bound"},
    "RB-D, rate 0.1": {"learning_rate": 0.1},
    "RB-D, features": {"weak_rankers": "features"},
}


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for the model.")] = Path("demo"),
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, help="Number of boosting rounds.")
    ] = 200,
    *,
    as_json: AsJson = False,
) -> None:
    """Run a short demonstration on data that come with scikit-learn."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        path = run_demo(folder, rounds)
    if as_json:
        write_json({"model": str(path)})


def run_demo(folder: Path, rounds: int) -> Path:
    """Compare variants of RankBoost, and return the path of the model that was saved."""
    from rich.console import Console
    from rich.table import Table
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    console = Console(highlight=False)
    X, y = load_breast_cancer(return_X_y=True)
    y = 1 - y  # rank malignant before benign
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    pairs = int(y_train.sum() * (1 - y_train).sum())
    console.print(
        f"\n[bold]precede[/bold] learns what should precede what. Here: {len(y_train)} breast "
        f"tumors, {X.shape[1]} measurements, {pairs:,} pairs (malignant before benign).\n"
    )
    _warm_up(X_train, y_train, console)
    grid = Table(title=f"{len(y_test)} held-out tumors, ranked")
    grid.add_column("algorithm")
    for column in ("rounds", "training risk", "AUC", "positives on top", "s"):
        grid.add_column(column, justify="right")
    models = {}
    for name, choice in _CHOICES.items():
        model, seconds = _timed_fit(precede.RankBoost(n_estimators=rounds, verbose=1, **choice),
                                    X_train, y_train)  # fmt: skip
        scores = model.predict(X_test)
        grid.add_row(
            name,
            str(model.n_estimators_),
            f"{model.history_['risk'][-1]:.2g}",
            f"{model.score(X_test, y_test):.4f}",
            f"{positives_above_first_negative(y_test, scores)} of {int(y_test.sum())}",
            f"{seconds:.2f}",
        )
        models[name] = model
    console.print(grid)
    console.print(
        "RankBoost chooses weak rankers by the largest decrease of the risk, RB-D (its coordinate "
        "descent) and RB-C by the steepest slope; RB-C takes more conservative steps. All have "
        'learning rate 1, as in the papers, but the fourth. "Positives on top" rank above '
        "every negative."
    )
    return _save(models["RB-D, rate 0.1"], X_test, folder, console)


def _warm_up(X: Floats, y: Array, console: Console) -> None:
    """Compile the kernels of the demonstration, so that its times exclude compilation."""
    from precede.engine.compiling import announce_compiling

    announce_compiling(False)
    begin = time.perf_counter()
    with console.status("compiling for this machine, once"):
        for choice in _CHOICES.values():
            model, _ = _timed_fit(precede.RankBoost(n_estimators=2, **choice), X, y)
            model.score(X, y)
    seconds = time.perf_counter() - begin
    console.print(f"Compiled for this machine, or loaded from an earlier run: {seconds:.1f} s.\n")


def _timed_fit(model: precede.RankBoost, X: Floats, y: Array) -> tuple[precede.RankBoost, float]:
    from precede.boosting.steps import SmoothedStepWarning

    begin = time.perf_counter()
    with warnings.catch_warnings():
        # wdbc is separable, so perfect weak rankers are expected.
        warnings.simplefilter("ignore", SmoothedStepWarning)
        model.fit(X, y)
    return model, time.perf_counter() - begin


def positives_above_first_negative(y: Array, scores: Floats) -> int:
    """Count the positives that score above every negative.

    `precede.metrics` has it too, but compiling all metrics takes longer than the demonstration.

    >>> import numpy as np
    >>> positives_above_first_negative(np.array([1, 1, 0, 1]), np.array([4.0, 3.0, 2.0, 1.0]))
    2
    """
    return int((scores[y == 1] > scores[y == 0].max()).sum())


def _save(model: precede.RankBoost, X: Floats, folder: Path, console: Console) -> Path:
    import numpy as np
    from rich.markup import escape

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.json"
    model.save(path)
    same = np.array_equal(precede.load(path).predict(X), model.predict(X))
    name = escape(printable(str(path)))
    console.print(
        f"\nSaved to [bold]{name}[/bold] ({path.stat().st_size // 1024} KB of JSON); loaded again "
        f"it scores {'the same to the bit' if same else '[red]differently[/red]'}."
    )
    console.print("Now yours:  [bold]RankBoost().fit(X, y, qid=qid).predict(X)[/bold]\n")
    return path
