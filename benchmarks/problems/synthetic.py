"""Problems that are made up here, of any size."""

import numpy as np

from precede.datasets import search_results


def web10k(queries=10_000, features=136):
    """Synthetic, shaped like MSLR-WEB10K: 10,000 queries are about 1.2 million rows."""
    return search_results(queries, features=features, random_state=0)


def one_query(rows, features=30):
    """Two classes and no queries."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, features), dtype=np.float32)
    score = np.tanh(X[:, :10]) @ rng.normal(0, 1, 10)
    return X, (score + rng.standard_normal(rows) > 0.8).astype(np.int64)


def web10k_parts(queries, judged=300):
    """The last queries judge, all others train."""
    sample = web10k(queries + judged)
    last = sample.qid >= queries
    columns = sample.X, sample.y, sample.qid
    return tuple(tuple(each[rows] for each in columns) for rows in (~last, last))


def one_query_parts(rows, judged=50_000):
    X, y = one_query(rows + judged)
    return (X[:rows], y[:rows], None), (X[rows:], y[rows:], None)
