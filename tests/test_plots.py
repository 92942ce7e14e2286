"""Figures show what the results say."""

import matplotlib as mpl

mpl.use("agg")

from precede.inference import friedman
from precede.plots import draw_critical_difference

TABLE = [[0.9, 0.8, 0.7, 0.1], [0.9, 0.8, 0.7, 0.2], [0.9, 0.7, 0.8, 0.1], [0.8, 0.9, 0.7, 0.1]]


def test_the_diagram_names_every_ranker_with_its_rank_and_bars_the_groups():
    import matplotlib.pyplot as plt

    result = friedman(TABLE, names=["one", "two", "three", "four"])
    ax = draw_critical_difference(result)
    told = [text.get_text().strip() for text in ax.texts if text.get_gid() == "name"]
    assert told == [
        f"{n}  {r:.2f}" for n, r in zip(result.names, result.average_ranks, strict=True)
    ]
    bars = [c for c in ax.collections if c.get_linewidth()[0] == 4]
    assert len(bars) == len(result.groups)
    plt.close(ax.figure)


def test_it_draws_on_the_axes_it_is_given():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    assert draw_critical_difference(friedman(TABLE), ax) is ax
    plt.close(figure)


def test_importing_plots_does_not_import_matplotlib():
    from test_conventions import loaded_by

    assert "matplotlib" not in loaded_by("import precede.plots")
