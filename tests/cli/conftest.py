"""A small problem in files that the tests of commands share."""

import pytest

from cli.session import make, run
from precede.files import write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a small problem, and two models of it."""
    folder = tmp_path_factory.mktemp("session")
    for name, queries, seed in (("train", 30, 0), ("vali", 10, 1), ("test", 15, 2)):
        data = make(queries, seed)
        write(folder / f"{name}.txt", data)
        write(folder / f"{name}.csv", data)
    run("fit", folder / "train.txt", "-a", "RankBoost", "-s", "n_estimators=20",
        "-o", folder / "a.json")  # fmt: skip
    run("fit", folder / "train.txt", "-a", "rankboost", "-s", "n_estimators=1",
        "-s", "step=bound", "-o", folder / "b.json")  # fmt: skip
    return folder
