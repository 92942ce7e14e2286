"""Running commands in this process, and what they print."""

import json

import numpy as np
from typer.testing import CliRunner

from precede import cli
from precede.datasets import search_results
from precede.files import Data


def run(*words, code=0, stdin=None):
    """Run a command in this process; its output and its talk."""
    done = CliRunner().invoke(cli.app, [str(word) for word in words], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def rows(text):
    head, *lines = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def make(queries, seed):
    sample = search_results(queries, features=5, informative=3, per_query=8, random_state=seed)
    names = [f"d{row}" for row in range(len(sample.y))]
    return Data(
        np.round(sample.X, 3), y=np.asarray(sample.y, float), qid=np.asarray(sample.qid),
        docid=np.array(names, object), feature_names=[str(c + 1) for c in range(5)],
    )  # fmt: skip
