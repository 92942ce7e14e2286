"""Draw the figure of docs/glass_box.md; run from the root: python benchmarks/figures/glass_box.py.

The data are those of the page, whose first blocks are run.
"""

import re
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
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for name, ax in zip(("price", "distance"), axes[0], strict=True):
        draw_shape(shape_info(model, name, X[train]), ax)
    for pair, ax in zip((("distance", "car"), ("breakfast", "early_flight")), axes[1], strict=True):
        draw_pair(pair_info(model, pair), ax)
    figure.savefig(DOCS / "figures" / "glass_box.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
