"""Draw the figures of docs/glass_box.md; run from the root: python benchmarks/figures/glass_box.py.

The data are those of the page, whose first blocks are run.
"""

import re
import warnings
from pathlib import Path

import matplotlib as mpl

from precede import GlassBoxRanker
from precede.plots import draw_pair, draw_shape, pair_info, shape_info

DOCS = Path(__file__).parents[2] / "docs"


def data():
    """What the block that makes the data on the page leaves."""
    text = (DOCS / "glass_box.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.S)[1]
    code = "\n".join(line[4:] for line in block.splitlines() if line[:4] in (">>> ", "... "))
    found = {}
    exec(code, found)
    return found


def main():
    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "precede"
    import matplotlib.pyplot as plt

    found = data()
    X, train = found["X"], found["train"]
    model = GlassBoxRanker(interactions=10, bags=10, random_state=0)
    model.fit(X[train], found["y"][train], qid=found["qid"][train])

    def save(figure, name):
        figure.savefig(DOCS / "figures" / name, metadata={"Date": None})

    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for name, ax in zip(("price", "rating", "distance", "photos"), axes.ravel(), strict=True):
        draw_shape(shape_info(model, name, X[train]), ax)
    save(figure, "glass_box_curves.svg")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for pair, ax in zip((("distance", "car"), ("breakfast", "early_flight")), axes, strict=True):
        draw_pair(pair_info(model, pair), ax)
    save(figure, "glass_box.svg")
    model = GlassBoxRanker(interactions=10, random_state=0)
    model.fit(X[train], found["y"][train], qid=found["qid"][train])
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
    draw_shape(shape_info(model, "distance", X[train]), axes[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the pair stays as it is
        model.edit("distance", monotone="decreasing")
    draw_shape(shape_info(model, "distance", X[train]), axes[1])
    save(figure, "glass_box_edit.svg")


if __name__ == "__main__":
    main()
