# %% [markdown]
# # Reading a model
#
# A score that nobody can explain is hard to defend. `GlassBoxRanker` fits a curve for each
# feature and a table for each pair of features that interact, and nothing else. Here it ranks
# tumors by how likely they are malignant, on the breast cancer data that come with
# scikit-learn.

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import train_test_split

from precede import GlassBoxRanker, Report
from precede.inference import auc

cancer = load_breast_cancer(as_frame=True)
X, y = cancer.data.filter(like="mean"), 1 - cancer.target  # malignant is 1
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = GlassBoxRanker(interactions=3, random_state=0).fit(X_train, y_train)
auc(y_test, model.predict(X_test))

# %% [markdown]
# The terms by importance, the mean absolute contribution to a score:

# %%
[(term.name, round(term.importance, 3)) for term in model.terms_]

# %%
_ = model.plot_shapes(X_train)
# %% [markdown]
# Bars at the foot of a curve count the training rows. Where there are none, the curve is an
# extrapolation.
#
# The curves are the model, not an approximation of it: the contributions of a row add up to its
# score exactly. Why does the first of the test tumors rank where it does, compared with the
# last?

# %%
scores = model.predict(X_test)
print(model.explain_pair(X_test, int(scores.argmax()), int(scores.argmin())))

# %% [markdown]
# scikit-learn's partial dependence works as well. For an additive model it is the curve, up to a
# constant:

# %%
_ = PartialDependenceDisplay.from_estimator(model, X_train, ["mean concave points", "mean texture"])
# %% [markdown]
# A report puts all of this on one page, with warnings, to be read or shared. Its first lines:

# %%
report = Report(model, X_test, y_test)
print("\n".join(report.to_markdown().splitlines()[:24]))
