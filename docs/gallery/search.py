# %% [markdown]
# # Search: graded documents
#
# Documents were graded from 0 (useless) to 4 (perfect) for a number of queries. We fit a ranker,
# see how good it is on queries it has not seen, and look at the worst of them.

# %%
import pandas as pd

from precede import BoostedRanker, RankBoost, compare, evaluate
from precede.datasets import search_results

sample = search_results(240, features=8, informative=6, per_query=20, random_state=0)
names = ["bm25", "title", "clicks", "anchor", "age", "length", "links", "spam"]
X = pd.DataFrame(sample.X, columns=names)
y, qid = sample.y, sample.qid
X.assign(grade=y, qid=qid).head()

# %% [markdown]
# Split by query, never by row: a document of the same query in both parts would make the
# estimate optimistic.

# %%
train, valid, test = qid < 120, (qid >= 120) & (qid < 160), qid >= 160
model = RankBoost(
    n_estimators=500, learning_rate=0.1, early_stopping_rounds=30, eval_metric="ndcg@10"
)
model.fit(X[train], y[train], qid=qid[train], eval_set=(X[valid], y[valid]), eval_qid=qid[valid])
_ = model.plot_history()
# %% [markdown]
# Early stopping has kept the rounds up to the dashed line. On new queries:

# %%
scores = model.predict(X[test])
result = evaluate(y[test], scores, qid[test], metrics=("ndcg@10", "map", "pairwise_accuracy"))
result

# %% [markdown]
# Would trees do better? Both models rank the same test queries, so the test is paired.

# %%
trees = BoostedRanker(n_estimators=100).fit(X[train], y[train], qid=qid[train])
compare(y[test], scores, trees.predict(X[test]), qid[test], metric="ndcg@10")

# %% [markdown]
# The grades of these data are additive in the features by construction, so that trees have
# nothing to add. On your data they may. What the additive model has learned about each feature:

# %%
_ = model.plot_shapes(X[train])
# %% [markdown]
# The query with the lowest NDCG, and why its first document ranks above the best one:

# %%
per_query = pd.Series(result.per_query["ndcg@10"], index=result.queries)
worst = per_query.idxmin()
rows = X[qid == worst].assign(grade=y[qid == worst])
rows["score"] = model.predict(rows[names])
rows.sort_values("score", ascending=False).head()

# %%
first, best = rows["score"].to_numpy().argmax(), rows["grade"].to_numpy().argmax()
print(model.explain_pair(rows[names], first, best))
