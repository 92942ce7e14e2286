"""Named problems. Real data stay where they are; nothing here is shipped or committed."""

from pathlib import Path

import numpy as np

from precede.datasets import search_results

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDS = {  # train parts, validation part, test part of MQ2008
    1: ((1, 2, 3), 4, 5),
    2: ((2, 3, 4), 5, 1),
    3: ((3, 4, 5), 1, 2),
    4: ((4, 5, 1), 2, 3),
    5: ((5, 1, 2), 3, 4),
}


def web10k(queries=10_000, features=136):
    """Synthetic, shaped like MSLR-WEB10K: 10,000 queries are about 1.2 million rows."""
    return search_results(queries, features=features, random_state=0)


def one_query(rows, features=30):
    """Two classes and no queries."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    score = np.tanh(X[:, :10]) @ rng.normal(0, 1, 10)
    return X, (score + rng.standard_normal(rows) > 0.8).astype(np.int64)


def mq2008(fold):
    """(X, y, qid) of train, validation and test; None where the data are absent."""
    path = SHARED / "mq2008" / "mq2008.npz"
    if not path.exists():
        return None
    data = np.load(path, allow_pickle=False)
    parts = {name: data[name] for name in ("X", "y", "qid", "part")}
    train, valid, test = FOLDS[fold]

    def rows(chosen):
        where = np.isin(parts["part"], chosen)
        return parts["X"][where], parts["y"][where], parts["qid"][where]

    return rows(train), rows([valid]), rows([test])
