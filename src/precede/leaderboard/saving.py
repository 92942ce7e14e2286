"""Boards as JSON; nothing in a file is executed, and what does not fit together is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any

import numpy as np

from precede.engine.arrays import Floats, Json
from precede.explain.shapes import ShapeFunction
from precede.leaderboard.pairs import bounds_of_ratios
from precede.model import FORMAT, read_model, spelled, write_model
from precede.rank_sets import Ranks
from precede.votes import PairTable

if TYPE_CHECKING:
    from precede.leaderboard.board import Leaderboard

CURVE = ("breakpoints", "values", "slopes", "references")  # arrays of a curve


def write_board(board: Leaderboard, path: str | os.PathLike[str]) -> None:
    """Write a fitted board."""
    curves = {name: {**vars(curve)} for name, curve in board.curves_.items()}
    write_model(path, {
        "format": FORMAT, "leaderboard": board.get_params(), "items": board.items_,
        "theta": board._theta, "covariance": board._ranks.covariance,
        "degrees": board._ranks.degrees, "pairs": vars(board._table),
        "expected": vars(board._expected), "curves": curves,
        **{name: getattr(board, f"{name}_") for name in _PLAIN},
    })  # fmt: skip


def _by_name(value: Any, name: str, kind: type | tuple[type, ...]) -> dict[str, Any]:
    """Return an object whose values are of some type."""
    if not isinstance(value, Mapping) or not all(isinstance(v, kind) for v in value.values()):
        raise ValueError(f"{name} is {shown(value)}, not an object as it should be")
    return {str(key): each for key, each in value.items()}


NUMBERS = (int, float)
# The fitted attributes that are saved as they are, and how they are read.
_PLAIN: dict[str, Callable[[Any, str], Any]] = {
    "n_votes": spelled,
    "inflation": spelled,
    "tie": lambda value, name: None if value is None else spelled(value, name),
    "effects": partial(_by_name, kind=NUMBERS),
    "effect_errors": partial(_by_name, kind=NUMBERS),
    "clusters": partial(_by_name, kind=int),
    "unranked": partial(_by_name, kind=str),
}


def read_board(kind: type[Leaderboard], path: str | os.PathLike[str]) -> Leaderboard:
    """Read a board, without its votes."""
    fields = read_model(path)
    try:
        if not isinstance(fields.get("leaderboard"), dict):
            raise ValueError("it has no 'leaderboard', so it is something else")
        return _board_of(kind, fields)
    except (KeyError, TypeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not a usable leaderboard: {what}") from error


def _board_of(kind: type[Leaderboard], fields: Json) -> Leaderboard:
    board = kind(**fields["leaderboard"])
    board._check_parameters()
    items = fields["items"]
    if not isinstance(items, list) or not all(isinstance(each, str) for each in items):
        raise ValueError(f"the items are {shown(items)}, not a list of names")
    if len(set(items)) < len(items):
        raise ValueError("two of the items have one name")
    n = len(items)
    board.items_, board._theta = items, _array(fields["theta"], "theta", (n,))
    known = int(np.isfinite(board._theta).sum())
    covariance = _array(fields["covariance"], "covariance", (known, known), finite=True)
    if not np.array_equal(covariance, covariance.T) or (np.diag(covariance) < 0).any():
        raise ValueError("the covariance is not that of strengths")
    for name, read in _PLAIN.items():
        setattr(board, f"{name}_", read(fields[name], name))
    if not {*board.unranked_} <= {*items}:
        raise ValueError("an item without a strength is not among the items")
    board._table = _pairs_of(fields["pairs"], n)
    board._expected = _pairs_of(fields["expected"], n)
    board.curves_ = {str(name): _curve_of(each) for name, each in fields["curves"].items()}
    bounds = None
    if board.unranked_:
        bounds = bounds_of_ratios(board._theta, board._table, board.inflation_)
    degrees = spelled(fields["degrees"], "degrees")
    board._ranks = Ranks(board._theta, covariance, degrees, bounds, board.random_state)
    board._place_on_scale()
    return board


def _array(value: Any, name: str, shape: tuple[int, ...], *, finite: bool = False) -> Floats:
    """Return numbers of this shape; −1 in the shape is any length."""
    if len(shape) == 2:
        rows = [_array(each, name, shape[1:], finite=finite) for each in value]
        found = np.array(rows, np.float64).reshape(len(rows), shape[1])
    else:
        found = np.array([spelled(each, name) for each in value], np.float64)
    if shape[0] not in (-1, len(found)):
        raise ValueError(f"{name} has {len(found)} entries, not {shape[0]}")
    if finite and not np.isfinite(found).all():
        raise ValueError(f"{name} is not finite")
    return found


def _pairs_of(fields: Json, n: int) -> PairTable:
    a, b = (_array(fields[side], f"side {side} of the pairs", (-1,)) for side in "ab")
    weight = _array(fields["weight"], "votes of the pairs", (len(a), 3), finite=True)
    whole = np.array_equal(a, np.floor(a)) and np.array_equal(b, np.floor(b))
    if not whole or len(a) != len(b) or not ((a >= 0) & (a < b) & (b < n)).all():
        raise ValueError("the pairs are not of two different items")
    if (weight < 0).any():
        raise ValueError("a pair has a negative number of votes")
    return PairTable(a.astype(np.int64), b.astype(np.int64), weight)


def _curve_of(fields: Json) -> ShapeFunction:
    arrays = {name: _array(fields[name], name, (-1,), finite=True) for name in CURVE}
    errors = None if fields["errors"] is None else _array(fields["errors"], "errors", (-1,))
    pieces = [each.size for each in (*arrays.values(), errors) if each is not None]
    if {*pieces[1:]} != {pieces[0] + 1}:
        raise ValueError("a curve has not one value for each piece")
    if (np.diff(arrays["breakpoints"]) <= 0).any():
        raise ValueError("the breakpoints of a curve do not rise")
    return ShapeFunction(
        str(fields["name"]), 0, arrays["breakpoints"], arrays["values"], arrays["slopes"],
        arrays["references"], spelled(fields["missing"], "missing"), errors,
    )  # fmt: skip
