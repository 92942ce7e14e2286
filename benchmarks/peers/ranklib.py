"""RankLib, if the environment variable RANKLIB_JAR names its jar: RankBoost or LambdaMART.

It is a command: a run reads a LETOR file, trains and writes a model. Rounds are timed as the
whole run less a run of one round, so that reading and the start of Java are not counted.
Without the jar `run` raises `ImportError`, and the benchmark leaves the line out. Written from
RankLib's documentation and not tried yet, for want of a jar.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

RANKERS = {"RankBoost": "2", "LambdaMART": "6"}


def run(X, y, qid, *, rounds, learning_rate, leaves=2, threads=2, objective="RankBoost"):  # noqa: ARG001
    jar = os.environ.get("RANKLIB_JAR")
    if not jar:
        raise ImportError("RANKLIB_JAR names no jar of RankLib")
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "train.txt", Path(folder) / "model.txt"
        dump_svmlight_file(X, y, str(data), query_id=qid, zero_based=False)
        shape = ["-round"] if objective == "RankBoost" else ["-tree"]
        command = ["java", "-jar", jar, "-train", str(data), "-ranker", RANKERS[objective],
                   "-metric2t", "NDCG@10", "-tc", "255", "-silent",
                   "-save", str(model)]  # fmt: skip
        if objective == "LambdaMART":
            command += ["-leaf", str(leaves), "-shrinkage", str(learning_rate)]

        def seconds(count):
            begin = time.perf_counter()
            subprocess.run([*command, *shape, str(count)], check=True, capture_output=True)
            return time.perf_counter() - begin

        one, total = seconds(1), seconds(rounds)
        text = model.read_text()
    stamps = one + (total - one) / (rounds - 1) * np.arange(rounds)
    return {
        "model": text,
        "setup": one,
        "stamps": stamps,
        "round": np.diff(stamps),
        "total": total,
    }
