"""Damaged tables on disk: each is refused by a ValueError, or a fit from it ends.

Run as a program, in a process of its own: compiled code that indexes by a number of a file ends the
interpreter. Arguments: the first seed, and how many tables to try.
"""

import json
import shutil
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from precede import BoostedRanker, DiskTable, GlassBoxRanker, RankBoost, write_table
from precede.files.disk import METADATA_FILE, _encode_metadata

ROWS, BINS = 60, 9
TREES = dict(num_leaves=4, min_child_samples=1, max_bins=BINS, n_estimators=2, n_jobs=1)
MODELS = [
    BoostedRanker(**TREES),
    BoostedRanker(rank_weight="ndcg@5", **TREES),
    GlassBoxRanker(max_bins=BINS, n_estimators=2, interactions=1, n_jobs=1),
    RankBoost(max_bins=BINS, n_estimators=2, n_jobs=1),
]
EXTREME = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e-300, 1e300, -1e308, np.inf, -np.inf, np.nan],
    "i": [0, 1, -1, 2, ROWS - 1, ROWS, ROWS + 1, 2**31, 2**62, 2**63 - 1, -(2**63)],
    "u": [0, 1, 2, 3, BINS - 1, BINS, 127, 200, 254, 255],
}
NUMBERS = [None, True, "x", [], {}, 0, 1, -1, 0.5, 5e-324, 1e300, 10**400, float("inf"), [[]]]


def write_all(folder):
    """Tables of every kind: missing values, categories, weights, listed pairs, one list."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4)).round(1)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 2] = rng.integers(0, 5, ROWS)
    X[:, 3] = rng.integers(0, 3, ROWS)
    y, qid = rng.integers(0, 3, ROWS), np.repeat(np.arange(6), 10)
    weight = rng.choice([0.5, 1.0, 3.7], ROWS)
    pairs = rng.permutation(ROWS).reshape(-1, 2)[:9]
    named = dict(max_bins=BINS, categorical_features=[2])
    write_table(folder / "plain", [(X, y, qid)], max_bins=BINS)
    write_table(folder / "list", [(X, y, None, weight)], **named)
    write_table(folder / "pairs", [(X, y, qid, weight)], pairs=pairs, **named)


def damage(path, rng):
    """Change some numbers of some members; usually with checksums that agree."""
    fields = json.loads((path / METADATA_FILE).read_text())
    del fields["checksum"]
    for _ in range(rng.integers(1, 3)):
        name = rng.choice([*fields["members"], "codes", "codes", METADATA_FILE])
        if name == METADATA_FILE:
            key = rng.choice([key for key in fields if key != "members"])
            old, new = fields[key], NUMBERS[rng.integers(len(NUMBERS))]
            scaled = isinstance(old, float) and rng.random() < 0.5
            fields[key] = old * 10.0 ** rng.integers(-300, 300) if scaled else new
            continue
        array = np.load(path / f"{name}.npy")
        values, flat = EXTREME[array.dtype.kind], array.reshape(-1)
        for at in rng.integers(0, flat.size, rng.integers(1, 4)) if flat.size else ():
            kind = rng.integers(3)
            if kind == 0:
                flat[at] = values[rng.integers(len(values))]
            elif kind == 1:
                flat[at] = flat[rng.integers(flat.size)]
            else:
                np.copyto(flat, flat[::-1].copy()) if rng.random() < 0.3 else flat[at:].sort()
        np.save(path / f"{name}.npy", array)
        fields["members"][name]["checksum"] = zlib.crc32((path / f"{name}.npy").read_bytes())
    (path / METADATA_FILE).write_bytes(_encode_metadata(fields))


def attempt(path, model, verify):
    """Open a table and fit from it; "refused" or "used". Anything but a ValueError goes through."""
    refusal = None
    try:
        model.fit(DiskTable(path, verify=verify))
    except ValueError as error:
        refusal = str(error)
    assert refusal is None or 10 < len(refusal) < 3000, f"this helps nobody: {refusal:.100}"
    return "used" if refusal is None else "refused"


def main(first, count):
    counts = Counter()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(folder)
        tables = sorted(folder.iterdir())
        for table in tables:  # as they are; some models refuse pairs or categories
            used = [attempt(table, model, verify=True) for model in MODELS]
            assert used.count("used") >= 2, used
        for seed in range(first, first + count):
            rng, here = np.random.default_rng(seed), folder / "damaged"
            shutil.copytree(tables[rng.integers(len(tables))], here)
            damage(here, rng)
            try:
                for model in MODELS:
                    counts[attempt(here, model, verify=bool(rng.integers(2)))] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, {model}")
                raise
            shutil.rmtree(here)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
