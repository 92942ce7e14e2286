# %% [markdown]
# # Recommendations: what to show to whom
#
# A shop showed its customers items, and they bought some of them. A row is an item shown to a
# customer, a query is the customer, and the grade is 1 for a purchase. The data are simulated,
# so we know what matters: the price relative to the customer's budget, popularity, and whether
# the genre is the customer's favorite.

# %%
import numpy as np
import pandas as pd

from precede import BoostedRanker, evaluate

rng = np.random.default_rng(0)
customers, items, shown = 300, 200, 25
genres = np.array(["crime", "poetry", "science", "travel"])
catalogue = pd.DataFrame({
    "genre": pd.Categorical(rng.choice(genres, items), categories=genres),
    "price": rng.gamma(4, 4, items).round(2),
    "popularity": rng.exponential(1, items).round(2),
})  # fmt: skip
people = pd.DataFrame({
    "favorite": pd.Categorical(rng.choice(genres, customers), categories=genres),
    "budget": rng.gamma(6, 3, customers).round(2),
})  # fmt: skip
customer = np.repeat(np.arange(customers), shown)
item = np.concatenate([rng.choice(items, shown, replace=False) for _ in range(customers)])
X = catalogue.iloc[item].reset_index(drop=True).join(
    people.iloc[customer].reset_index(drop=True)
)  # fmt: skip
wish = X["popularity"] - 1.5 * np.maximum(X["price"] - X["budget"], 0) / X["budget"]
wish += 1.5 * (X["genre"].astype(str) == X["favorite"].astype(str))
y = (wish + rng.logistic(0, 0.7, len(X)) > 2.2).astype(int)
X.assign(bought=y).head()

# %% [markdown]
# Every genre can be a favorite, so a model has to combine columns: trees. Columns of categories
# are recognized by their dtype. `rank_weight` puts the weight on the top of each customer's
# list.

# %%
train = customer < 200
model = BoostedRanker(n_estimators=150, rank_weight="ndcg@5")
model.fit(X[train], y[train], qid=customer[train])
_ = model.plot_importance(X[~train])
# %% [markdown]
# For customers the model has never seen, compared with recommending what is popular:

# %%
metrics = ("ndcg@5", "precision@5", "mrr")
candidates = {
    "popularity": X["popularity"][~train].to_numpy(),
    "model": model.predict(X[~train]),
    "pairs alike": BoostedRanker(n_estimators=150)
    .fit(X[train], y[train], qid=customer[train])
    .predict(X[~train]),
}
pd.DataFrame({
    name: evaluate(y[~train], scores, customer[~train], metrics=metrics).mean
    for name, scores in candidates.items()
}).T.round(3)  # fmt: skip

# %% [markdown]
# To recommend, score the whole catalogue for one customer and take the first five:

# %%
someone = 250
offers = catalogue.assign(**people.iloc[someone])
offers["favorite"] = pd.Categorical(offers["favorite"], categories=genres)
offers["score"] = model.predict(offers[X.columns])
print(people.iloc[someone].to_dict())
offers.sort_values("score", ascending=False).head()
