# %% [markdown]
# # Migrating from LightGBM
#
# The same task in both libraries, line by line. Differences in calls and parameters are listed
# on [the page about migrating](../migrating.md).

# %%
import numpy as np
import pandas as pd
from lightgbm import LGBMRanker, early_stopping

from precede import BoostedRanker, compare, evaluate, export
from precede.datasets import search_results

sample = search_results(240, features=10, informative=8, per_query=20, random_state=1)
X = pd.DataFrame(sample.X, columns=[f"feature_{j}" for j in range(10)])
y, qid = sample.y, sample.qid
train, valid, test = qid < 120, (qid >= 120) & (qid < 160), qid >= 160

# %% [markdown]
# LightGBM needs the sizes of consecutive queries, and early stopping as a callback:

# %%
sizes = np.bincount(qid)
before = LGBMRanker(n_estimators=300, learning_rate=0.05, random_state=0, verbose=-1)
before.fit(
    X[train], y[train], group=sizes[:120], eval_X=X[valid], eval_y=y[valid],
    eval_group=[sizes[120:160]], eval_at=[10], callbacks=[early_stopping(30, verbose=False)],
)  # fmt: skip
before.best_iteration_

# %% [markdown]
# precede takes a query identifier per row, in any order (`group=sizes` works too). Early
# stopping and metrics are parameters of the estimator:

# %%
after = BoostedRanker(
    n_estimators=300, learning_rate=0.05, early_stopping_rounds=30, eval_metric="ndcg@10"
)
after.fit(X[train], y[train], qid=qid[train], eval_set=(X[valid], y[valid]), eval_qid=qid[valid])
after.best_iteration_

# %% [markdown]
# LightGBM's `lambdarank` weights a pair by the change in NDCG if it were exchanged. That is
# `rank_weight="ndcg"` here, and `loss="xendcg"` is the counterpart of `rank_xendcg`. Which of
# them is best depends on the data:

# %%
models = {"LightGBM": before, "logistic pairs": after}
for name, parameters in {
    "rank weights": {"rank_weight": "ndcg@10"}, "xendcg": {"loss": "xendcg"}
}.items():  # fmt: skip
    models[name] = BoostedRanker(n_estimators=after.best_iteration_, **parameters).fit(
        X[train], y[train], qid=qid[train]
    )
metrics = ("ndcg@10", "map", "pairwise_accuracy")
pd.DataFrame({
    name: evaluate(y[test], model.predict(X[test]), qid[test], metrics=metrics).mean
    for name, model in models.items()
}).T.round(3)  # fmt: skip

# %% [markdown]
# Is a difference of that size more than chance on these 80 queries?

# %%
compare(y[test], before.predict(X[test]), after.predict(X[test]), qid[test], metric="ndcg@10")

# %% [markdown]
# An existing model need not be replaced: its scores can be the offset that precede starts from.

# %%
start = before.predict(X)
more = BoostedRanker(n_estimators=30).fit(
    X[train], y[train], qid=qid[train], init_score=start[train]
)
combined = start[test] + more.predict(X[test])
evaluate(y[test], combined, qid[test], metrics="ndcg@10")

# %% [markdown]
# For a server that loads XGBoost models, export to that format; ONNX, C, Python, RankLib, Solr
# and others are supported too.

# %%
export(after, "ranker.py")
