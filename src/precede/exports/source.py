"""Export a model as a Python module or a C function without dependencies.

Both add in the order of `predict`, in double precision, so that scores are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from precede.decomposition import Nodes
from precede.exports.base import ExportedModel

# -- Python ----------------------------------------------------------------------------------

PYTHON = '''\
"""Scores of a ranking model ({title}). Needs nothing but Python.

score(row) takes {n} numbers in the order of NAMES and returns one: the higher ranks first.
None and NaN are missing values. Where CATEGORIES lists texts, a text is read as its number, and one
that is not listed as a missing value. A dict of names and values will do as well.
"""

from bisect import bisect_left
from collections.abc import Mapping

inf, nan = float("inf"), float("nan")

NAMES = {names}

# texts of columns of categories, and their numbers
CATEGORIES = {categories}

# feature, thresholds, value above so many of them, value if missing
STEPS = {steps}

# nodes: (value,) or (feature, threshold, categories, missing goes left, left, right)
TREES = {trees}

# feature, low, width, what to multiply by first, weight: clipped to [0, 1], 0 if missing
LINES = {lines}


def numbers(row):
    """A row as numbers; a dict is read by name, and may hold more."""
    if isinstance(row, Mapping):
        absent = [name for name in NAMES if name not in row]
        if absent:
            raise ValueError(f"the row has no {{absent[0]!r}}; give None for a missing value")
        row = [row[name] for name in NAMES]
    if len(row) != {n}:
        raise ValueError(f"a row has {n} numbers, not {{len(row)}}")
    for j, known in CATEGORIES.items():
        if isinstance(row[j], str):
            row = [*row[:j], known.get(row[j], nan), *row[j + 1 :]]
    return [nan if x is None else float(x) for x in row]


def leaf(nodes, row):
    """Value of a tree."""
    node = nodes[0]
    while len(node) > 1:
        feature, threshold, categories, missing_left, left, right = node
        x = row[feature]
        if categories:
            goes_left = x >= 0 and x != inf and int(x) in categories
        else:
            goes_left = missing_left if x != x else x <= threshold
        node = nodes[left if goes_left else right]
    return node[0]


def score(row):
    """Score of one row."""
    row = numbers(row)
    total = 0.0
    for feature, thresholds, values, missing in STEPS:
        x = row[feature]
        total += missing if x != x else values[bisect_left(thresholds, x)]
    for nodes in TREES:
        total += leaf(nodes, row)
    for feature, low, width, factor, weight in LINES:
        if feature is None:
            total += weight
        elif width is None:
            total += weight * row[feature]
        else:
            scaled = (row[feature] * factor - low) / width
            total += weight * (0.0 if scaled != scaled else min(max(scaled, 0.0), 1.0))
    return total


def scores(rows):
    """Scores of many rows."""
    return [score(row) for row in rows]
'''


def python_text(model: ExportedModel) -> str:
    """Return the source of a module with ``score(row)``, ``scores(rows)`` and ``NAMES``."""
    steps = [
        f"({each.feature}, {_tuple(each.thresholds.tolist())}, {_tuple(each.values.tolist())}, "
        f"{each.missing!r})"
        for each in model.parts.steps
    ]
    return PYTHON.format(
        title=_one_line(model.title + model.probability).replace('"', "'"),
        n=len(model.names),
        names=_list([repr(name) for name in model.names]),
        categories=_texts(model.names, model.categories),
        steps=_list(steps),
        trees=_list([python_tree(nodes) for nodes in model.parts.nodes()]),
        lines=_list([repr(tuple(line)) for line in model.lines]),
    )


def python_tree(nodes: Nodes) -> str:
    """Return a tree as a list of nodes, in the format of ``leaf`` of the module."""
    return _list([_python_node(nodes, j) for j in range(len(nodes.feature))], indent=4)


def _texts(
    names: Sequence[str], categories: Mapping[str, Sequence[str | float]]
) -> dict[int, dict[str, float]]:
    """Return the category number of each text, by column; numeric categories are left out."""
    found = {}
    for name, known in categories.items():
        texts = {each: float(code) for code, each in enumerate(known) if isinstance(each, str)}
        if texts:
            found[names.index(name)] = texts
    return found


def _python_node(nodes: Nodes, node: int) -> str:
    if nodes.is_leaf(node):
        return f"({float(nodes.value[node])!r},)"
    return (
        f"({nodes.feature[node]}, {float(nodes.threshold[node])!r}, "
        f"{_tuple(nodes.categories_of(node))}, {bool(nodes.missing_left[node])}, "
        f"{nodes.left[node]}, {nodes.right[node]})"
    )


def _tuple(values: Iterable[float]) -> str:
    return repr(tuple(values))


def _list(entries: list[str], indent: int = 0) -> str:
    if not entries:
        return "[]"
    space = " " * (indent + 4)
    return "[\n" + "".join(f"{space}{entry},\n" for entry in entries) + " " * indent + "]"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("\\", "/")


# -- C ---------------------------------------------------------------------------------------

C = """\
/* Scores of a ranking model ({title}).
 *
 * double {name}(const double *x): x holds {n} numbers, NaN being a missing value; the higher
 * score ranks first. C99; link with -lm. To get precede's scores to the last bit, do not let
 * the compiler change the arithmetic: no -ffast-math, and -ffp-contract=off where the machine
 * multiplies and adds in one step.
 *
{features}
 */
#include <math.h>

enum {{ STEPS = {n_steps}, TREES = {n_trees}, LINES = {n_lines} }};

/* Step functions: feature, first threshold, value if missing; one value more than thresholds. */
static const int step_feature[] = {step_feature};
static const int step_start[] = {step_start};
static const double step_missing[] = {step_missing};
static const double step_threshold[] = {step_threshold};
static const double step_value[] = {step_value};

/* Trees: feature (-1 at a leaf), threshold or value, children; words of categories that go left. */
static const int tree_root[] = {tree_root};
static const int node_feature[] = {node_feature};
static const double node_number[] = {node_number};
static const int node_left[] = {node_left};
static const int node_right[] = {node_right};
static const unsigned char node_missing_left[] = {node_missing_left};
static const int node_set[] = {node_set};
static const unsigned int set_word[] = {set_word};

/* Lines: feature (-1: a constant), low, width (0: the value itself), factor, weight. */
static const int line_feature[] = {line_feature};
static const double line_number[] = {line_number};

static double tree_value(const double *x, int node)
{{
    while (node_feature[node] >= 0) {{
        double value = x[node_feature[node]];
        int words = node_set[node + 1] - node_set[node], left;
        if (words > 0)
            left = value >= 0 && value < 32.0 * words
                && (set_word[node_set[node] + (int)value / 32] >> ((int)value % 32) & 1u);
        else
            left = isnan(value) ? node_missing_left[node] : value <= node_number[node];
        node = left ? node_left[node] : node_right[node];
    }}
    return node_number[node];
}}

double {name}(const double *x)
{{
    double total = 0.0;
    for (int s = 0; s < STEPS; s++) {{
        double value = x[step_feature[s]];
        int low = step_start[s], high = step_start[s + 1];
        if (isnan(value)) {{
            total += step_missing[s];
            continue;
        }}
        while (low < high) {{ /* the number of thresholds below the value */
            int middle = low + (high - low) / 2;
            if (step_threshold[middle] < value)
                low = middle + 1;
            else
                high = middle;
        }}
        total += step_value[low + s];
    }}
    for (int t = 0; t < TREES; t++)
        total += tree_value(x, tree_root[t]);
    for (int l = 0; l < LINES; l++) {{
        const double *number = line_number + 4 * l;
        if (line_feature[l] < 0)
            total += number[3];
        else if (number[1] == 0.0)
            total += number[3] * x[line_feature[l]];
        else {{
            double scaled = (x[line_feature[l]] * number[2] - number[0]) / number[1];
            total += number[3] * (isnan(scaled) ? 0.0 : fmin(fmax(scaled, 0.0), 1.0));
        }}
    }}
    return total;
}}
"""


def c_text(model: ExportedModel, *, name: str = "precede_score") -> str:
    """Return the source of ``double name(const double *x)`` in C99."""
    if not name.isidentifier() or not name.isascii():
        raise ValueError(f"name={name!r} is not a valid function name in C")
    steps, lines, trees = model.parts.steps, model.lines, model.parts.nodes()
    sizes = [each.thresholds.size for each in steps]
    return C.format(
        title=_comment(model.title + model.probability),
        name=name,
        n=len(model.names),
        features="\n".join(f" * x[{j}]: {_comment(each)}" for j, each in enumerate(model.names)),
        n_steps=len(steps),
        n_trees=len(trees),
        n_lines=len(lines),
        step_feature=_array([each.feature for each in steps]),
        step_start=_array([0, *np.cumsum(sizes, dtype=int).tolist()]),
        step_missing=_array([each.missing for each in steps]),
        step_threshold=_array([t for each in steps for t in each.thresholds.tolist()]),
        step_value=_array([v for each in steps for v in each.values.tolist()]),
        line_feature=_array([-1 if each.feature is None else each.feature for each in lines]),
        line_number=_array(
            [number for each in lines
             for number in (each.low or 0.0, each.width or 0.0, each.factor, each.weight)]
        ),
        **_c_trees(trees),
    )  # fmt: skip


def _c_trees(trees: list[Nodes]) -> dict[str, str]:
    """Return all trees in one array of nodes."""
    roots: list[int] = []
    rows: list[tuple[int | float, ...]] = []
    words: list[str] = []
    first_word = [0]
    for nodes in trees:
        first = len(rows)
        roots.append(first)
        for node in range(len(nodes.feature)):
            number = nodes.value[node] if nodes.is_leaf(node) else nodes.threshold[node]
            children = first + int(nodes.left[node]), first + int(nodes.right[node])
            goes_left = int(nodes.missing_left[node])
            rows.append((int(nodes.feature[node]), float(number), *children, goes_left))
            words += [f"{word}u" for word in _bits(nodes.categories_of(node))]
            first_word.append(len(words))
    names = ("node_feature", "node_number", "node_left", "node_right", "node_missing_left")
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        "tree_root": _array(roots),
        "node_set": _array(first_word),
        "set_word": _array(words),
        **{name: _array(column) for name, column in zip(names, columns, strict=True)},
    }


def _bits(categories: tuple[int, ...]) -> list[int]:
    """Return a set of categories as words of 32 bits."""
    words = [0] * (max(categories, default=-1) // 32 + 1)
    for category in categories:
        words[category // 32] |= 1 << (category % 32)
    return words


def _array(values: Sequence[int | float | str]) -> str:
    """Return an array definition; C has no empty arrays, so these hold an unused 0."""
    shown = [_c_number(value) for value in values] or ["0"]
    lines = [", ".join(shown[j : j + 8]) for j in range(0, len(shown), 8)]
    return "{\n    " + ",\n    ".join(lines) + "\n}" if len(lines) > 1 else f"{{ {lines[0]} }}"


def _c_number(value: int | float | str) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return value if isinstance(value, str) else repr(value)


def _comment(text: str) -> str:
    """Return text that cannot end a comment."""
    return _one_line(text).replace("*/", "* /")
