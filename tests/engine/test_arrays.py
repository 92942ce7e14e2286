"""Type aliases of arrays are defined in one module."""

import ast
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from precede.engine import arrays

SOURCE = Path(__file__).parents[2] / "src" / "precede"
# `losses` imports nothing of the package.
OWN = {"losses.py"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Array", Any),
        ("Bytes", np.uint8),
        ("Flags", np.bool_),
        ("Floats", np.float64),
        ("Integers", np.int64),
        ("Keys", np.uint64),
        ("Objects", np.object_),
        ("Rows", np.int32),
        ("Signs", np.int8),
    ],
)
def test_an_alias_has_its_element_type(name, kind):
    (dtype,) = get_args(get_args(getattr(arrays, name))[1])
    assert dtype is kind


def defined(path):
    """Return the array aliases that a module defines."""
    return [
        ast.unparse(node.targets[0])
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("NDArray[")
    ]


def test_no_other_module_defines_an_array_alias():
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if defined(path)}
    assert found - OWN == {"engine/arrays.py"}
