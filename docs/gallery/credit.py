# %% [markdown]
# # Credit: who will not pay back?
#
# There are no queries: all applicants form one list, and few of them default. Reviewers can look
# at the hundred riskiest applications, so the top of the list is what counts. The rules of the
# desk say that more income must never raise the risk.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import RocCurveDisplay
from sklearn.model_selection import train_test_split

from precede import PushRanker, RankBoost, compare
from precede.inference import auc

rng = np.random.default_rng(0)
n = 6000
X = pd.DataFrame({
    "income": rng.lognormal(10.3, 0.5, n).round(-2),
    "debt_ratio": rng.beta(2, 4, n).round(3),
    "age": rng.integers(19, 76, n).astype(float),
    "years_employed": rng.exponential(6, n).round(1),
    "late_payments": rng.poisson(0.4, n).astype(float),
    "enquiries": rng.poisson(1.0, n).astype(float),
})  # fmt: skip
risk = -0.9 * np.log(X["income"] / 30_000) + 3 * X["debt_ratio"] + 0.9 * X["late_payments"]
risk += 0.02 * np.abs(X["age"] - 45) - 0.08 * X["years_employed"].clip(upper=10)
y = (risk + rng.logistic(0, 1, n) > 4.5).astype(int)
X.loc[rng.random(n) < 0.08, "years_employed"] = np.nan  # not stated
print(f"{y.mean():.1%} default")
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %% [markdown]
# Constraints are given by name: with -1 the risk may only fall as the feature grows, with 1 only
# rise. Missing values need no preparation.

# %%
rules = {"income": -1, "debt_ratio": 1, "late_payments": 1, "years_employed": -1}
model = RankBoost(n_estimators=200, learning_rate=0.1, monotone_constraints=rules)
model.fit(X_train, y_train)
auc(y_test, model.predict(X_test))

# %%
_ = model.plot_shapes(X_train)
# %% [markdown]
# Every curve follows its rule. The cross marks the value for applicants who did not state their
# years of employment.
#
# scikit-learn's displays take the scores:

# %%
push = PushRanker(price=4, n_estimators=200, learning_rate=0.1).fit(X_train, y_train)
ax = plt.subplots(figsize=(5, 5), layout="constrained")[1]
for name, each in {"RankBoost": model, "PushRanker": push}.items():
    RocCurveDisplay.from_predictions(y_test, each.predict(X_test), ax=ax, name=name)

# %% [markdown]
# `PushRanker` gives more weight to mistakes at the top. Is it better among the first hundred?

# %%
compare(y_test, model.predict(X_test), push.predict(X_test), metric="precision@100", random_state=0)

# %% [markdown]
# The interval says how certain that is; with so few defaults only a large difference can be
# detected. A letter to an applicant needs reasons: what raises the risk above that of the usual
# applicant?

# %%
reasons = model.explain(X_test, background=X_train[:500])
riskiest = int(model.predict(X_test).argmax())
shares = pd.Series(reasons.contributions[riskiest], index=X.columns, name="contribution")
X_test.iloc[[riskiest]].T.set_axis(["value"], axis=1).join(shares).sort_values(
    "contribution", ascending=False
)
