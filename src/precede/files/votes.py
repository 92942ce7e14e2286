r"""Votes on pairs of items, read from CSV, TSV, parquet and JSON lines.

The columns are known by the names that collections of votes use: Chatbot Arena and its derivatives
(``model_a``, ``model_b``, ``winner``, ``judge``), llmfao (``left``, ``right``, ``winner``,
``worker``), evalica (``left``, ``right``, ``winner``, ``weight``) and Argilla (``chosen_model``,
``rejected_model``, ``prompt``).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from precede.engine.arrays import Array, Signs
from precede.files.arrow import Block, delimited_blocks, parquet_blocks, parquet_names
from precede.files.data import installed_frame, quoted
from precede.files.reading import DELIMITERS, format_of_name, read_header
from precede.files.streams import FileName, opened, size_of, suffix_of
from precede.files.text import object_array
from precede.judgments import check_column

# The names of the columns of each role, the most specific first.
COLUMNS = {
    "a": ("a", "model_a", "item_a", "left", "chosen_model", "chosen-model", "model_x"),
    "b": ("b", "model_b", "item_b", "right", "rejected_model", "rejected-model", "model_y"),
    "outcome": ("outcome", "winner", "label", "preference"),
    "voter": ("voter", "judge", "worker", "annotator", "user", "user_id", "judge_hash"),
    "prompt": ("prompt", "question_id", "prompt_id", "instruction"),
    "weight": ("weight", "weights"),
    "order": ("order", "shown_first", "first"),
}
# Of these two columns, the first holds the winner.
CHOSEN = (("chosen_model", "rejected_model"), ("chosen-model", "rejected-model"))
# Kaggle's form of an outcome, a column of zeros and ones for each.
ONE_HOT = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}
JSON_LINES = (".jsonl", ".ndjson", ".json")

A, B, TIE, BOTH_BAD = 0, 1, 2, 3
OUTCOMES = ("a", "b", "tie", "both bad")
# What collections of votes write for each outcome, in lower case.
WORDS = {
    A: ("a", "model_a", "left", "x", "first", "win", "true"),
    B: ("b", "model_b", "right", "y", "second", "loss", "false"),
    TIE: ("tie", "tied", "draw", "equal", "both", "0.5"),
    BOTH_BAD: ("both bad", "both_bad", "bothbad", "tie (bothbad)", "neither", "both are bad"),
}
# The same as numbers, which mean something only beside each other.
NUMBERS = ({"1": A, "-1": B, "0": TIE}, {"1": A, "0": B, "0.5": TIE})


def vote_columns(names: Sequence[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the column of every role that a table of votes has.

    `given` names columns that are called otherwise.

    >>> vote_columns(["question_id", "model_a", "model_b", "winner", "tstamp"])
    {'a': 'model_a', 'b': 'model_b', 'outcome': 'winner', 'prompt': 'question_id'}
    """
    found = {}
    given = dict(given or {})
    unknown = [role for role in given if role not in COLUMNS]
    if unknown:
        raise ValueError(f"columns names a role {unknown[0]!r}; the roles are {quoted([*COLUMNS])}")
    for role, known in COLUMNS.items():
        if role in given and given[role] not in names:
            raise ValueError(f"there is no column {given[role]!r}; there are {quoted(names)}")
        chosen = given.get(role) or next((name for name in known if name in names), None)
        if chosen is not None:
            found[role] = chosen
    missing = [role for role in ("a", "b", "outcome") if role not in found]
    implied = (found.get("a"), found.get("b")) in CHOSEN or {*ONE_HOT} <= {*names}
    if missing and not (missing == ["outcome"] and implied):
        raise ValueError(
            f"the votes have no column for {missing[0]!r}, which is usually called "
            f"{quoted(COLUMNS[missing[0]])}; name it, such as columns={{{missing[0]!r}: ...}}. "
            f"There are {quoted(names)}"
        )
    return found


def feature_columns(
    names: Sequence[str], roles: Mapping[str, str], wanted: Sequence[str] | None
) -> dict[str, tuple[str, str]]:
    """Return the two columns of every feature of the answers, by its name; by default of all.

    A feature "length" has the columns ``length_a`` and ``length_b``.

    >>> feature_columns(["a", "b", "length_a", "length_b"], {"a": "a", "b": "b"}, ["length"])
    {'length': ('length_a', 'length_b')}
    """
    found = {}
    for name in names:
        other = f"{name[:-2]}_b"
        if name.endswith("_a") and other in names and not {name, other} & {*roles.values()}:
            found[name[:-2]] = (name, other)
    if wanted is None:
        return found
    absent = [name for name in wanted if name not in found]
    if absent:
        raise ValueError(
            f"feature {absent[0]!r} needs columns {absent[0] + '_a'!r} and {absent[0] + '_b'!r}; "
            f"the votes have features {quoted([*found]) or 'of no answer'}"
        )
    return {name: found[name] for name in wanted}


def outcome_codes(values: Sequence[object], column: str) -> Signs:
    """Return `A`, `B`, `TIE` or `BOTH_BAD` for each of the distinct outcomes of a column.

    >>> outcome_codes(["model_a", "tie (bothbad)", "model_b"], "winner").tolist()
    [0, 3, 1]
    >>> outcome_codes([0.0, 1.0, -1.0], "winner").tolist()
    [2, 0, 1]
    """
    code = {word: outcome for outcome, words in WORDS.items() for word in words}
    texts = [_number_word(str(value).strip().lower()) for value in values]
    for numbers in NUMBERS:
        if {*texts} <= {*numbers} and not {*texts} <= {"0", "1"}:
            code = {**code, **numbers}
    for text, value in zip(texts, values, strict=True):
        if text not in code:
            raise ValueError(
                f"{column} holds {str(value)!r}, which is no outcome: use {quoted(OUTCOMES)}; or "
                "1, -1 and 0 for a tie; or 1, 0 and 0.5 for a tie"
            )
    return np.array([code[text] for text in texts], np.int8)


def _number_word(text: str) -> str:
    return text[:-2] if text.endswith(".0") else text


def read_votes(
    path: FileName,
    *,
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    format: str | None = None,
) -> Any:
    r"""Read votes on pairs of items.

    Parameters
    ----------
    path : name of a file, plain or gzip; ``-`` is standard input
    columns : the column of each role that has another name than the usual ones, such as
        ``{"a": "one", "b": "other", "voter": "who"}``; the roles are a, b, outcome, voter, prompt,
        weight and order
    features : features of the answers to read: "length" reads ``length_a`` and ``length_b``
    format : "csv", "tsv", "parquet" or "jsonl"; by default that of the suffix

    Returns
    -------
    A data frame of pandas, polars or pyarrow, whichever is installed, with the roles as columns,
    outcomes "a", "b", "tie" and "both bad", and the features.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     name = pathlib.Path(folder, "votes.csv")
    ...     _ = name.write_text("model_a,model_b,winner,judge\ngpt,llama,model_a,ann\n")
    ...     read_votes(name).to_dict("records")
    [{'a': 'gpt', 'b': 'llama', 'outcome': 'a', 'voter': 'ann'}]
    """
    form = format or ("jsonl" if suffix_of(path) in JSON_LINES else format_of_name(path)) or "csv"
    if form not in ("csv", "tsv", "parquet", "jsonl"):
        raise ValueError(f"{path}: votes are read from csv, tsv, parquet and jsonl, not {form}")
    with opened(path) as stream:
        names, read = _READERS[form](stream, path)
        roles = vote_columns(names, columns)
        sides = feature_columns(names, roles, features)
        numbers = [name for both in sides.values() for name in both]
        numbers += [roles[role] for role in ("weight",) if role in roles]
        texts = [name for role, name in roles.items() if role != "weight"]
        texts += [name for name in ONE_HOT if name in names and "outcome" not in roles]
        found = read(numbers, list(dict.fromkeys(texts)))
    table = {role: found[name] for role, name in roles.items()}
    for role in ("a", "b"):
        empty = np.flatnonzero(table[role] == "")
        if empty.size:
            raise ValueError(f"{path}, row {empty[0] + 1} has no {roles[role]}; name the item")
    column = roles.get("outcome", "winner_model_a")
    words, code = np.unique(implied_outcomes(found, table), return_inverse=True)
    table["outcome"] = np.array(OUTCOMES, object)[outcome_codes(words.tolist(), column)][code]
    return installed_frame(table | {name: found[name] for both in sides.values() for name in both})


def implied_outcomes(found: Mapping[str, Array], table: Mapping[str, Array]) -> Array:
    """Return the outcomes as text: the column of outcomes, or what other columns imply."""
    if "outcome" in table:
        return np.asarray(table["outcome"]).astype(str)
    rows = len(table["a"])
    if not {*ONE_HOT} <= {*found}:  # the chosen item comes first
        return np.full(rows, "a")
    flags = np.stack([np.asarray(found[name]).astype(float) for name in ONE_HOT])
    wrong = np.flatnonzero(flags.sum(axis=0) != 1)
    if wrong.size:
        raise ValueError(f"row {wrong[0] + 1}: one of {quoted([*ONE_HOT])} must be 1, the others 0")
    return np.array([*ONE_HOT.values()])[flags.argmax(axis=0)]


_Reader = Callable[[Sequence[str], Sequence[str]], dict[str, Array]]


def _open_delimited(delimiter: str, stream: Any, path: FileName) -> tuple[list[str], _Reader]:
    names, _ = read_header(stream.readline(), str(path), delimiter, True)

    def read(numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Array]:
        blocks = delimited_blocks(
            stream, str(path), delimiter, names, numbers=numbers, texts=texts,
            roles={name: "weight" for name in numbers},
        )  # fmt: skip
        return _joined(blocks, path, numbers)

    return names, read


def _open_parquet(stream: Any, path: FileName) -> tuple[list[str], _Reader]:
    source = Path(path) if size_of(path) else io.BytesIO(stream.read())

    def read(numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Array]:
        return _joined(
            parquet_blocks(source, str(path), numbers=numbers, texts=texts), path, numbers
        )

    return parquet_names(source, str(path)), read


def _joined(blocks: Iterable[Block], path: FileName, numbers: Sequence[str]) -> dict[str, Array]:
    """Return the columns of all blocks."""
    parts = list(blocks)
    if not parts:
        raise ValueError(f"{path} holds no vote")
    found: dict[str, Array] = {
        name: np.concatenate([each.texts[name] for each in parts]) for name in parts[0].texts
    }
    matrix = np.concatenate([each.numbers for each in parts])
    return found | {name: matrix[:, index] for index, name in enumerate(numbers)}


def _open_json_lines(stream: Any, path: FileName) -> tuple[list[str], _Reader]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is not an object; write one vote on a line")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path} holds no vote")
    names = list(dict.fromkeys(name for row in rows for name in row))

    def read(numbers: Sequence[str], texts: Sequence[str]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name in texts:
            values = [row.get(name) for row in rows]
            found[name] = object_array("" if each is None else str(each) for each in values)
        for name in numbers:
            found[name] = check_column([row.get(name) for row in rows], name, missing=True)
        return found

    return names, read


_READERS: dict[str, Callable[[Any, FileName], tuple[list[str], _Reader]]] = {
    "csv": partial(_open_delimited, DELIMITERS["csv"]),
    "tsv": partial(_open_delimited, DELIMITERS["tsv"]),
    "parquet": _open_parquet,
    "jsonl": _open_json_lines,
}
