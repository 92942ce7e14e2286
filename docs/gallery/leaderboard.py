# %% [markdown]
# # A leaderboard from votes
#
# Forty people compared the answers of seven chatbots, two at a time. Who is best, and how sure is
# that? The votes are simulated, so the truth is known: the bots differ in strength, and everyone
# also likes long answers, up to a point.

# %%
import numpy as np
import pandas as pd

from precede import Leaderboard

rng = np.random.default_rng(0)
strength = {"ada": 0.9, "bo": 0.7, "cleo": 0.6, "dot": 0.2, "eve": 0.0, "fay": -0.3, "gus": -0.8}
names, theta = np.array([*strength]), np.array([*strength.values()])
a = rng.integers(0, 7, 5000)
b = (a + rng.integers(1, 7, 5000)) % 7
voter = rng.integers(0, 40, 5000)
length = 300 + 120 * rng.standard_normal((2, 5000)) + 150 * (np.stack([a, b]) == 3)  # dot is chatty
taste = 0.5 * rng.standard_normal((40, 7))
wordy = 0.8 * np.tanh((length - 300) / 100)
gap = theta[a] + taste[voter, a] + wordy[0] - theta[b] - taste[voter, b] - wordy[1]
chance = np.stack([np.exp(gap / 2), np.exp(-gap / 2), np.full(5000, 0.6)])
draw = (rng.random(5000) > np.cumsum(chance / chance.sum(axis=0), axis=0)).sum(axis=0)
votes = pd.DataFrame({
    "a": names[a], "b": names[b], "outcome": np.array(["a", "b", "tie"])[draw], "voter": voter,
    "length_a": length[0], "length_b": length[1],
})  # fmt: skip
votes.head(3)

# %% [markdown]
# A strength is a Bradley-Terry strength: differences are log-odds. The ranks that each bot may have
# hold for all of them together, with 95 %. Votes of one person depend on each other, and the
# intervals know that: the column `voter` is used where there is one.

# %%
board = Leaderboard().fit(votes)
board.to_frame().round(2)

# %%
_ = board.plot()

# %% [markdown]
# How much wider are the intervals than if every vote were independent? And for how many votes does
# the first place hang?

# %%
print(f"{board.inflation_:.1f} votes are worth an independent one")
print(board.fragility().summary())
print(board.transitivity())

# %% [markdown]
# `dot` writes long answers. At equal length it is weaker; the curve of length, with its band, is
# found by boosting.

# %%
even = Leaderboard(controls="curves").fit(votes)
_ = even.plot("length")

# %%
truth = pd.Series(strength) - np.mean(theta)
found = {
    name: pd.Series(each.strengths_, each.items_)
    for name, each in (("votes alone", board), ("at equal length", even))
}
pd.DataFrame({"truth": truth, **found}).round(2)

# %% [markdown]
# Who should be compared next, if only the first place matters?

# %%
print(f"settled to {100 * even.confidence('first'):.0f} %")
even.next_pairs(3, goal="first")
