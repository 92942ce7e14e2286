"""Score where the data is: a model as SQL, run by DuckDB over a file."""

import tempfile
from pathlib import Path

import numpy as np

from precede import BoostedRanker, export
from precede.datasets import search_results

try:
    import duckdb
except ImportError:
    duckdb = None


def main():
    if duckdb is None:
        print("this example needs DuckDB: pip install duckdb")
        return
    sample = search_results(60, features=6, informative=4, per_query=20, random_state=0)
    model = BoostedRanker(n_estimators=30, num_leaves=8).fit(sample.X, sample.y, qid=sample.qid)
    with tempfile.TemporaryDirectory() as folder:
        data, query = Path(folder) / "documents.csv", Path(folder) / "ranker.sql"
        header = "doc,query," + ",".join(f"x{j}" for j in range(6))
        rows = np.column_stack([np.arange(len(sample.y)), sample.qid, sample.X])
        np.savetxt(data, rows, delimiter=",", header=header, comments="",
                   fmt=["%d"] * 2 + ["%.17g"] * 6)  # fmt: skip

        export(model, query, table="documents", key=["doc", "query"])
        with duckdb.connect() as base:
            base.execute(f"CREATE VIEW documents AS SELECT * FROM read_csv('{data}')")
            scored = query.read_text()
            first = base.execute(
                f"SELECT query, doc, score FROM ({scored}) "
                "QUALIFY row_number() OVER (PARTITION BY query ORDER BY score DESC, doc) = 1 "
                "ORDER BY query LIMIT 3"
            ).fetchall()
            scores = dict(base.execute(f"SELECT doc, score FROM ({scored})").fetchall())
    expected = model.predict(sample.X)
    assert all(scores[doc] == expected[doc] for doc in range(len(expected)))  # to the last bit
    for number, doc, score in first:
        print(f"query {number}: document {doc} first, score {score:.4f}")


if __name__ == "__main__":
    main()
