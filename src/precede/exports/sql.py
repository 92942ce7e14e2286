"""Export a model as one SELECT statement.

The sum of `predict` is written as a sum of CASE expressions, in its order. Databases limit how
deep an expression may be (SQLite and DuckDB: 1000 levels; SQLite's parser far less for nested
CASE), so long sums are cut into a chain of common table expressions and deep trees are written
flat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np

from precede.decomposition import Nodes
from precede.engine.parameters import Argument, ParameterError
from precede.exports.base import ExportedModel

# Summands of one table expression: DuckDB's optimizer takes more than linear time in them. Levels
# of CASE inside CASE: SQLite's parser has a stack of 100 entries, of which a level takes five.
MOST_SUMMANDS = 25
MOST_NESTED = 12
LARGEST_DOUBLE = "1.7976931348623157e308"
TOTAL = "precede_total"


@dataclass(frozen=True)
class Dialect:
    """How a database writes names, text and the type of doubles.

    >>> print(DIALECTS["ansi"].identifier('an "x" too'), DIALECTS["mysql"].identifier("an `x` too"))
    "an ""x"" too" `an ``x`` too`
    """

    quote: str
    double: str
    text: Callable[[str], str]
    text_column: str = "{}"
    materialized: bool = True

    def identifier(self, name: str) -> str:
        """Return a quoted name."""
        if not isinstance(name, str) or not name or "\x00" in name:
            raise ValueError(f"{name!r} is not a valid name of a table or column")
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, value: str | float) -> str:
        """Return a category as a literal."""
        if isinstance(value, str):
            if "\x00" in value:
                raise ValueError(f"the category {value!r} cannot be written in SQL")
            return self.text(value)
        if isinstance(value, bool | np.bool_):
            return "TRUE" if value else "FALSE"
        return str(int(value)) if isinstance(value, int | np.integer) else number(float(value))


def _standard_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _ansi_text(text: str) -> str:
    """Text for an unknown database, in which a backslash may escape the next character."""
    if "\\" in text:
        first, *others = (name for name in DIALECTS if name != "ansi")
        raise ParameterError(
            f"the category {text!r} has a backslash, which databases read differently; name "
            "yours: ",
            Argument("dialect", first),
            "".join(f" or {name!r}" for name in others),
        )
    return _standard_text(text)


def _escaped_text(text: str) -> str:
    r"""Text that PostgreSQL reads alike whatever `standard_conforming_strings` is.

    >>> print(_escaped_text("it's"), _escaped_text("C:\\"))
    'it''s' E'C:\\'
    """
    standard = _standard_text(text)
    return "E" + standard.replace("\\", r"\\") if "\\" in text else standard


# MySQL and MariaDB read backslashes and quotes as the mode of the server says, but hexadecimal
# digits are unambiguous. Bytes are compared, as their text comparison ignores case and blanks.
_MYSQL = Dialect(
    "`", "DOUBLE", lambda text: f"X'{text.encode().hex()}'",
    "CAST(CONVERT({} USING utf8mb4) AS BINARY)", materialized=False,
)  # fmt: skip
# SQLite takes an unknown name in double quotes for text, and a missing column would be a score.
DIALECTS = {
    "ansi": Dialect('"', "DOUBLE PRECISION", _ansi_text),
    "duckdb": Dialect('"', "DOUBLE PRECISION", _standard_text),
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
    "postgresql": Dialect('"', "DOUBLE PRECISION", _escaped_text),
    "sqlite": Dialect("`", "DOUBLE PRECISION", _standard_text),
}


def sql_text(
    model: ExportedModel,
    *,
    dialect: str = "ansi",
    table: str | Sequence[str] = "features",
    key: str | Sequence[str] | None = None,
    name: str = "score",
    materialized: bool = False,
) -> str:
    """Return a SELECT statement that computes the score of each row of a table.

    NULL is a missing value, and so is NaN in databases that have it. Columns of categories that
    were text in the fit are read as that text; text that the fit did not see is a missing value.
    A model of raw columns, which refuses missing values, returns NULL for them.
    Numbers are written so that they are read back as the same doubles, and are added in the order
    of `predict`: a database that computes in double precision returns its scores to the last bit.
    """
    if dialect not in DIALECTS:
        raise ParameterError(Argument("dialect", dialect), f"; choose one of {', '.join(DIALECTS)}")
    chosen, names = DIALECTS[dialect], model.names
    if materialized and not chosen.materialized:
        raise ValueError(f"{dialect} has no AS MATERIALIZED: leave materialized=True out")
    kept = [*names] if key is None else [key] if isinstance(key, str) else [*key]
    _refuse_clashes(names, kept, name)
    summands = _summands(model)
    stages = [
        summands[first : first + MOST_SUMMANDS] for first in range(0, len(summands), MOST_SUMMANDS)
    ]
    shown = [chosen.identifier(each) for each in kept]
    used = sorted({feature for features, _ in summands for feature in features})
    inner = [_column(feature) for feature in used]
    numbers = [
        f"{_as_number(names[j], model.categories.get(names[j]), chosen)} AS {_column(j)}"
        for j in used
    ]
    source = ".".join(map(chosen.identifier, [table] if isinstance(table, str) else table))
    as_ = "AS MATERIALIZED" if materialized else "AS"
    tables = [f"precede_0 {as_} (\n  SELECT {_join_lines([*shown, *numbers])}\n  FROM {source}\n)"]
    total = f"CAST(0 AS {chosen.double})"
    for position, stage in enumerate(stages):
        total = "\n    + ".join([total, *(text for _, text in stage)])
        columns = [*shown, *inner, f"{total} AS {TOTAL}"]
        select = f"SELECT {_join_lines(columns)}\n  FROM precede_{position}"
        tables.append(f"precede_{position + 1} {as_} (\n  {select}\n)")
        total = TOTAL
    rows = ", ".join([*shown, f"{total} AS {chosen.identifier(name)}"])
    title = " ".join((model.title + model.probability).split())
    with_ = "WITH " + ",\n".join(tables)
    return f"-- {title}\n{with_}\nSELECT {rows}\nFROM precede_{len(stages)}\n"


def _refuse_clashes(names: Sequence[str], kept: list[str], name: str) -> None:
    """Refuse names that differ only in case, which databases do not distinguish."""
    for what, listed in (("features", names), ("the key and the score", [*kept, name])):
        lower = [each.lower() for each in listed]
        twice = [each for each in listed if lower.count(each.lower()) > 1]
        if twice:
            raise ValueError(
                f"{what} have the name {twice[0]!r} twice, as databases read it; rename a column "
                "before the fit, or choose another key= or name="
            )
    ours = [each for each in [*names, *kept] if each.lower().startswith("precede_")]
    if ours:
        raise ValueError(
            f"the column {ours[0]!r} begins with 'precede_', as those of the statement"
        )


def number(value: float) -> str:
    """Return a literal of double precision that is read back as the same number.

    Some databases round decimals with an error near half a unit in the last place. So digits are
    added until the decimal lies within 0.45 of a unit of the number.

    >>> number(0.5), number(0.1), number(1 / 3)
    ('0.5e0', '0.1e0', '0.3333333333333333e0')
    """
    exact, unit = Fraction(value), Fraction(math.ulp(value))
    texts = (repr(float(value)), *(f"{Decimal(value):.{digits}e}" for digits in (16, 17, 18)))
    text = next(t for t in texts if abs(Fraction(Decimal(t)) - exact) * 20 <= 9 * unit)
    return text if "e" in text else f"{text}e0"


def _as_number(name: str, categories: Sequence[str | float] | None, dialect: Dialect) -> str:
    """Return the expression of a column as a number, with NULL for NaN.

    NaN differs from itself in some databases and is larger than infinity, whose reciprocal is 0,
    in others.
    """
    column, double = dialect.identifier(name), dialect.double
    if categories is not None:
        cases = " ".join(f"WHEN {dialect.literal(c)} THEN {i}" for i, c in enumerate(categories))
        if any(isinstance(each, str) for each in categories):
            column = dialect.text_column.format(column)
        return f"CASE {column} {cases} END" if cases else f"CAST(NULL AS {double})"
    x = f"CAST({column} AS {double})"
    return (
        f"CASE WHEN {x} <> {x} THEN NULL "
        f"WHEN {x} > {LARGEST_DOUBLE} THEN CASE WHEN 1.0e0 / {x} > 0 THEN NULL ELSE {x} END "
        f"ELSE {x} END"
    )


def _join_lines(columns: list[str]) -> str:
    return ",\n    ".join(columns)


def _column(feature: int) -> str:
    return f"precede_x{feature}"


def _summands(model: ExportedModel) -> list[tuple[tuple[int, ...], str]]:
    """Return the features and the text of each summand, in the order of `predict`."""
    found: list[tuple[tuple[int, ...], str]] = []
    for steps in model.parts.steps:
        x = _column(steps.feature)
        known = _tree_case(Nodes.of_steps(steps, missing_left=True))
        missing = number(steps.missing)
        found.append(((steps.feature,), f"CASE WHEN {x} IS NULL THEN {missing} ELSE {known} END"))
    for nodes in model.parts.nodes():
        features = sorted(set(nodes.feature[nodes.feature >= 0].tolist()))
        found.append((tuple(features), _tree_case(nodes)))
    for line in model.lines:
        if line.feature is None:
            found.append(((), number(line.weight)))
        elif line.low is None or line.width is None:
            found.append(((line.feature,), f"{number(line.weight)} * {_column(line.feature)}"))
        else:
            x = _column(line.feature)
            x = x if line.factor == 1.0 else f"{x} * {number(line.factor)}"
            scaled = f"({x} - {number(line.low)}) / {number(line.width)}"
            found.append(((line.feature,), f"{number(line.weight)} * {_clipped(scaled)}"))
    return found


def _clipped(x: str) -> str:
    """Return the expression of a number limited to [0, 1], 0 if missing."""
    return f"CASE WHEN {x} > 0 THEN CASE WHEN {x} < 1 THEN {x} ELSE 1.0e0 END ELSE 0.0e0 END"


# -- trees -----------------------------------------------------------------------------------


def _tree_case(nodes: Nodes) -> str:
    """Return a tree as a CASE expression, nested near its root and flat below.

    A comparison with NULL is not true, so a missing value goes to ELSE.
    """

    def nested(node: int, level: int) -> str:
        if nodes.is_leaf(node):
            return number(float(nodes.value[node]))
        if level == MOST_NESTED:
            return _flat_case(nodes, node)
        left, right = (nested(int(c), level + 1) for c in (nodes.left[node], nodes.right[node]))
        if nodes.missing_left[node] and not nodes.categories_of(node):
            return f"CASE WHEN {_above(nodes, node)} THEN {right} ELSE {left} END"
        return f"CASE WHEN {_goes_left(nodes, node)} THEN {left} ELSE {right} END"

    return nested(0, 0)


def _flat_case(nodes: Nodes, root: int) -> str:
    """Return the leaves from left to right, with the conditions of the left branches."""
    found: list[tuple[tuple[str, ...], str]] = []
    stack: list[tuple[int, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, conditions = stack.pop()
        if nodes.is_leaf(node):
            found.append((conditions, number(float(nodes.value[node]))))
            continue
        condition = _goes_left(nodes, node)
        if nodes.missing_left[node] and not nodes.categories_of(node):
            condition = f"({condition} OR {_column(int(nodes.feature[node]))} IS NULL)"
        left, right = int(nodes.left[node]), int(nodes.right[node])
        stack += [(right, conditions), (left, (*conditions, condition))]
    cases = [f"WHEN {' AND '.join(conditions)} THEN {text}" for conditions, text in found[:-1]]
    return f"CASE {' '.join(cases)} ELSE {found[-1][1]} END"


def _goes_left(nodes: Nodes, node: int) -> str:
    x, threshold = _column(int(nodes.feature[node])), float(nodes.threshold[node])
    if categories := nodes.categories_of(node):
        return _is_one_of(x, categories)
    if math.isinf(threshold):
        return f"{x} IS NOT NULL" if threshold > 0 else f"{x} < -{LARGEST_DOUBLE}"
    return f"{x} <= {number(threshold)}"


def _above(nodes: Nodes, node: int) -> str:
    x, threshold = _column(int(nodes.feature[node])), float(nodes.threshold[node])
    if math.isinf(threshold):
        return "1 = 0" if threshold > 0 else f"{x} >= -{LARGEST_DOUBLE}"
    return f"{x} > {number(threshold)}"


def _is_one_of(x: str, categories: Sequence[int]) -> str:
    """Return the condition that a value is in a set of categories; 2.5 is in category 2."""
    ordered = sorted(categories)
    starts = [ordered[0], *(b for a, b in pairwise(ordered) if b > a + 1)]
    ends = [*(a for a, b in pairwise(ordered) if b > a + 1), ordered[-1]]
    ranges = [f"{x} >= {a} AND {x} < {b + 1}" for a, b in zip(starts, ends, strict=True)]
    return _any_of([f"({each})" for each in ranges])


def _any_of(conditions: list[str]) -> str:
    """Join conditions by OR as a balanced expression, whose depth is logarithmic."""
    if len(conditions) <= 2:
        return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"
    half = len(conditions) // 2
    return f"({_any_of(conditions[:half])} OR {_any_of(conditions[half:])})"
