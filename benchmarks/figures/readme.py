"""Draw the figure of README.md; run from the root: python benchmarks/figures/readme.py."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from precede import RankBoost
from precede.plots import draw_shape, shape_info

PATH = Path(__file__).parents[2] / "docs" / "figures" / "readme.png"
SHOWN = 7  # terms of the pair
CURVES = ["worst concave points", "worst area"]
TITLE: dict[str, Any] = {"x": 0.01, "ha": "left", "fontsize": 11, "fontweight": "bold"}
STYLE = {"axes.spines.top": False, "axes.spines.right": False}


def main() -> None:
    mpl.use("agg")
    import matplotlib.pyplot as plt

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, 1 - y, test_size=0.5, stratify=y, random_state=0)
    model = RankBoost(n_estimators=100, learning_rate=0.1).fit(X, y)
    order = np.argsort(-model.predict(X_test), kind="stable")
    malignant = y_test.to_numpy()[order] == 1

    plt.rcParams.update(STYLE)
    figure = plt.figure(figsize=(10, 4.8), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 3])
    left, right = below.subfigures(1, 2, width_ratios=[5, 4])
    draw_list(malignant, above.subplots())
    left.suptitle("2. Read the score: a curve for each feature", **TITLE)
    for feature, ax in zip(CURVES, left.subplots(1, 2, sharey=True), strict=True):
        draw_shape(shape_info(model, feature, X), ax)
        ax.label_outer()
    right.suptitle("3. Explain: why one ranks above another", **TITLE)
    first_benign = int(np.argmin(malignant))
    draw_pair(model.explain_pair(X_test, order[0], order[first_benign]), right.subplots())
    figure.savefig(PATH, dpi=160)
    plt.close(figure)


def draw_list(malignant: np.ndarray, ax: Any) -> None:
    place = np.arange(1, malignant.size + 1)
    for chosen, color, name in ((malignant, "C3", "malignant"), (~malignant, "0.85", "benign")):
        ax.bar(place[chosen], 1, width=1.0, color=color, label=name)
    ax.set(xlim=(0.5, malignant.size + 0.5), ylim=(0, 1), yticks=[])
    ax.set(xticks=[1, 100, 200, malignant.size])
    title = f"1. Rank: {malignant.size} held-out tumors, highest score first"
    ax.figure.suptitle(title, **TITLE)
    ax.figure.legend(loc="upper right", ncols=2, frameon=False)
    ax.spines["left"].set_visible(False)


def draw_pair(pair: Any, ax: Any) -> None:
    names, terms = pair.names, pair.contributions
    if len(names) > SHOWN:
        names = [*names[: SHOWN - 1], f"{len(names) - SHOWN + 1} others"]
        terms = [*terms[: SHOWN - 1], sum(terms[SHOWN - 1 :])]
    ax.barh(names, terms, color=["C0" if term > 0 else "C1" for term in terms])
    ax.invert_yaxis()
    ax.axvline(0, color="0.7", lw=0.8)
    ax.set_xlabel(f"contributions to the difference, {pair.difference:.2f}")


if __name__ == "__main__":
    main()
