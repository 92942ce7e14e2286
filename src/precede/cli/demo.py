"""Demonstration: ``make demo``, or ``python -m precede.cli.demo``."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from precede import RankBoost, load
from precede.boosting.steps import SmoothedStepWarning
from precede.cli.console import printable
from precede.engine.arrays import Array, Floats
from precede.engine.compiling import announce_compiling

_CHOICES: dict[str, dict[str, Any]] = {
    "RankBoost": {"select": "decrease"},
    "RB-D": {"select": "slope", "step": "exact"},
    "RB-C": {"select": "slope", "step": "bound"},
    "RB-D, rate 0.1": {"learning_rate": 0.1},
    "RB-D, features": {"weak_rankers": "features"},
}


def main(folder: str | Path = "demo", rounds: int = 200) -> Path:
    """Run the demonstration and return the path of the saved model."""
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
    grid = Grid(title=f"{len(y_test)} held-out tumors, ranked")
    grid.add_column("algorithm")
    for column in ("rounds", "training risk", "AUC", "positives on top", "s"):
        grid.add_column(column, justify="right")
    models = {}
    for name, choice in _CHOICES.items():
        model, seconds = _timed_fit(RankBoost(n_estimators=rounds, verbose=1, **choice),
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
    return _save(models["RB-D, rate 0.1"], X_test, Path(folder), console)


def _warm_up(X: Floats, y: Array, console: Console) -> None:
    """Compile the kernels of the demonstration, so that its times exclude compilation."""
    announce_compiling(False)
    begin = time.perf_counter()
    with console.status("compiling for this machine, once"):
        for choice in _CHOICES.values():
            model, _ = _timed_fit(RankBoost(n_estimators=2, **choice), X, y)
            model.score(X, y)
    seconds = time.perf_counter() - begin
    console.print(f"Compiled for this machine, or loaded from an earlier run: {seconds:.1f} s.\n")


def _timed_fit(model: RankBoost, X: Floats, y: Array) -> tuple[RankBoost, float]:
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
    return int(np.sum(scores[y == 1] > scores[y == 0].max()))


def _save(model: RankBoost, X: Floats, folder: Path, console: Console) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.json"
    model.save(path)
    same = np.array_equal(load(path).predict(X), model.predict(X))
    name = escape(printable(str(path)))
    console.print(
        f"\nSaved to [bold]{name}[/bold] ({path.stat().st_size // 1024} KB of JSON); loaded again "
        f"it scores {'the same to the bit' if same else '[red]differently[/red]'}."
    )
    console.print("Now yours:  [bold]RankBoost().fit(X, y, qid=qid).predict(X)[/bold]\n")
    return path


if __name__ == "__main__":
    main()
