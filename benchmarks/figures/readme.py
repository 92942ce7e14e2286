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


def main() -> None:
    mpl.use("agg")
    import matplotlib.pyplot as plt

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, 1 - y, test_size=0.5, stratify=y, random_state=0)
    model = RankBoost(n_estimators=100, learning_rate=0.1).fit(X, y)
    order = np.argsort(-model.predict(X_test), kind="stable")
    malignant = y_test.to_numpy()[order] == 1

    figure = plt.figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplot_mosaic([["list", "list"], ["shape", "pair"]], height_ratios=[1, 4])
    draw_list(malignant, axes["list"])
    draw_shape(shape_info(model, "worst concave points", X), axes["shape"])
    axes["shape"].set_title("Effect of one feature on the score", loc="left", fontsize=10)
    first_benign = int(np.argmin(malignant))
    draw_pair(model.explain_pair(X_test, order[0], order[first_benign]), axes["pair"])
    figure.savefig(PATH, dpi=110)


def draw_list(malignant: np.ndarray, ax: Any) -> None:
    place = np.arange(1, malignant.size + 1)
    for chosen, colour, name in ((malignant, "C3", "malignant"), (~malignant, "0.8", "benign")):
        ax.bar(place[chosen], 1, width=1.0, color=colour, label=name)
    ax.set(xlim=(0.5, malignant.size + 0.5), yticks=[], xticks=[1, 100, 200, malignant.size])
    title = f"{malignant.size} held-out tumours, ranked by score"
    ax.set_title(title, loc="left", fontsize=10)
    ax.legend(loc="lower right", ncols=2, frameon=False, bbox_to_anchor=(1, 0.95), fontsize=9)


def draw_pair(pair: Any, ax: Any) -> None:
    names, terms = pair.names, pair.contributions
    if len(names) > SHOWN:
        names = [*names[: SHOWN - 1], f"{len(names) - SHOWN + 1} others"]
        terms = [*terms[: SHOWN - 1], sum(terms[SHOWN - 1 :])]
    ax.barh(names, terms, color=["C0" if term > 0 else "C1" for term in terms])
    ax.invert_yaxis()
    ax.axvline(0, color="0.7", lw=0.8)
    ax.set_title("Why the first case ranks above the first benign one", loc="left", fontsize=10)
    ax.set_xlabel(f"contributions to the difference in score ({pair.difference:.2f})")


if __name__ == "__main__":
    main()
