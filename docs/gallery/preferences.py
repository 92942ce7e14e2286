# %% [markdown]
# # Preferences: which of the two is better?
#
# People were shown two answers at a time and chose one. There are no grades. We learn a score
# from the choices, check it on choices that were held out, and rank answers that nobody has
# compared.

# %%
import numpy as np
import pandas as pd

from precede import BoostedRanker, Judgments, RankBoost, evaluate
from precede.datasets import bradley_terry

X, votes = bradley_terry(300, 5000, features=5, random_state=0)
X = pd.DataFrame(X, columns=["length", "citations", "tone", "code", "hedging"])
votes

# %% [markdown]
# A pair is (winner, loser), as numbers of rows of X. Hold out a quarter of the votes:

# %%
held = np.random.default_rng(0).random(len(votes.pairs)) < 0.25
fit, test = votes.pairs[~held], votes.pairs[held]
model = RankBoost(n_estimators=300, learning_rate=0.1).fit(X, pairs=fit)
_ = model.plot_shapes(X)
# %% [markdown]
# People do not always agree with themselves, so no ranking gets all votes right. How many does
# this one?

# %%
judgments = Judgments(pairs=test, n=len(X))
evaluate(judgments, model.predict(X), metrics="pairwise_accuracy")

# %% [markdown]
# Counting wins is the obvious alternative. It needs no features, and cannot score an answer that
# nobody has voted on:

# %%
wins, losses = (np.bincount(fit[:, side], minlength=len(X)) for side in (0, 1))
rate = (wins + 1) / (wins + losses + 2)
trees = BoostedRanker(n_estimators=100, min_child_samples=5).fit(X, pairs=fit)
right = {"win rate": rate, "stumps": model.predict(X), "trees": trees.predict(X)}
pd.Series({
    name: evaluate(judgments, scores, metrics="pairwise_accuracy").mean["pairwise_accuracy"]
    for name, scores in right.items()
}).round(3)  # fmt: skip

# %% [markdown]
# Three new answers, best first, and why the first is preferred to the last:

# %%
new = pd.DataFrame(
    [[0.2, 1.0, -0.5, 0.0, 0.3], [1.5, -1.0, 0.2, 0.8, -0.7], [-0.4, 0.3, 1.1, -1.2, 0.0]],
    columns=X.columns, index=["draft", "rewrite", "short"],
)  # fmt: skip
scores = pd.Series(model.predict(new), index=new.index).sort_values(ascending=False)
scores

# %%
first, last = new.index.get_loc(scores.index[0]), new.index.get_loc(scores.index[-1])
print(model.explain_pair(new, first, last))
