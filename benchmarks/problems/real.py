"""Real data, read from where they are; nothing is shipped or committed."""

import zipfile
from pathlib import Path

import numpy as np

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDS = {  # train parts, validation part, test part of LETOR
    1: ((1, 2, 3), 4, 5),
    2: ((2, 3, 4), 5, 1),
    3: ((3, 4, 5), 1, 2),
    4: ((4, 5, 1), 2, 3),
    5: ((5, 1, 2), 3, 4),
}


def mq2008_parts():
    found = mq2008(1)
    if found is None:
        return None
    by_query = [np.argsort(part[2], kind="stable") for part in found]
    train, _, test = (
        tuple(each[order] for each in part)
        for part, order in zip(found, by_query, strict=True)
    )  # fmt: skip
    return train, test


def credit():
    """(X, y) of GiveMeSomeCredit; None where it is absent."""
    path = SHARED / "givemesomecredit" / "cs-training.csv.zip"
    if not path.exists():
        return None
    with zipfile.ZipFile(path) as archive, archive.open("cs-training.csv") as file:
        data = np.genfromtxt(file, delimiter=",", skip_header=1, missing_values="NA")
    return data[:, 2:], data[:, 1].astype(np.int64)


def credit_parts():
    """A random half to learn from, the other to judge on."""
    found = credit()
    if found is None:
        return None
    X, y = found
    rows = np.random.default_rng(0).permutation(y.size)
    return tuple((X[half], y[half], None) for half in np.array_split(rows, 2))


def mq2008(fold):
    """(X, y, qid) of train, validation and test; None where the data are absent."""
    return _letor_fold("mq2008", fold)


def ohsumed(fold):
    """The same of OHSUMED, which has 106 queries of some 150 rows and grades 0 to 2."""
    return _letor_fold("ohsumed", fold)


def _letor_fold(name, fold):
    """A fold of a set in the five parts of LETOR."""
    path = SHARED / name / f"{name}.npz"
    if not path.exists():
        return None
    data = np.load(path, allow_pickle=False)
    parts = {name: data[name] for name in ("X", "y", "qid", "part")}
    train, valid, test = FOLDS[fold]

    def rows(chosen):
        where = np.isin(parts["part"], chosen)
        return parts["X"][where], parts["y"][where], parts["qid"][where]

    return rows(train), rows([valid]), rows([test])


def lightgbm_rank():
    """(X, y, qid) of LightGBM's ranking sample: train, validation (a fifth of it), test."""
    folder = SHARED / "lightgbm_rank"
    if not folder.exists():
        return None
    data, test = (np.load(folder / f"{name}.npz", allow_pickle=False) for name in ("train", "test"))
    held = data["qid"] % 5 == 0
    train, valid = (tuple(data[name][rows] for name in ("X", "y", "qid")) for rows in (~held, held))
    return train, valid, (test["X"], test["y"], test["qid"])


def movielens(fold):
    """(X, y, qid) of train, validation and test users of MovieLens 100K; None if absent.

    Every user is a query. The earlier half of a user's ratings is history: it makes the
    features of all users. The later half is to be ranked, graded 0 to 4 (one to five stars).
    Users are dealt into five parts; three train, one validates, one tests.
    """
    path = SHARED / "movielens100k" / "ratings.npz"
    if not path.exists():
        return None
    data = np.load(path, allow_pickle=False)
    user, item = data["user"].astype(int), data["item"].astype(int)
    user, item = user - user.min(), item - item.min()
    rating, genres = data["rating"].astype(float), data["genres"].astype(float)
    order = np.lexsort((item, data["timestamp"], user))
    user, item, rating = user[order], item[order], rating[order]
    first = np.searchsorted(user, user, side="left")
    past = np.arange(user.size) - first < np.bincount(user)[user] // 2
    X = _movie_features(user, item, rating, genres, past)
    y, qid = (rating[~past] - 1).astype(int), user[~past]
    part = np.random.default_rng(0).permutation(user.max() + 1)[qid] % 5 + 1
    train, valid, test = FOLDS[fold]

    def rows(chosen):
        where = np.isin(part, chosen)
        return X[where], y[where], qid[where]

    return rows(train), rows([valid]), rows([test])


def _movie_features(user, item, rating, genres, past):
    """Genres, popularity, tastes by genre, neighbors and eight factors, from history alone."""
    known = np.zeros((user.max() + 1, item.max() + 1))
    known[user[past], item[past]] = rating[past]
    seen = known > 0
    overall = known[seen].mean()
    of_user = (known.sum(1) + 5 * overall) / (seen.sum(1) + 5)
    centered = np.where(seen, known - of_user[:, None], 0.0)
    of_item = centered.sum(0) / (seen.sum(0) + 5)
    rest = np.where(seen, centered - of_item, 0.0)
    taste = rest @ genres / (seen @ genres + 3)
    length = np.sqrt((rest**2).sum(0)) + 1e-9
    alike = (rest.T @ rest) / np.outer(length, length) * (seen.T.astype(float) @ seen >= 3)
    neighbors = rest @ alike / (seen @ np.abs(alike) + 1)
    left, sizes, right = np.linalg.svd(rest, full_matrices=False)
    factors = (left[:, :8] * sizes[:8]) @ right[:8]
    u, i = user[~past], item[~past]
    spread = np.sqrt((rest**2).sum(0) / (seen.sum(0) + 1))
    columns = [of_item[i], np.log1p(seen.sum(0))[i], spread[i], of_user[u], seen.sum(1)[u]]
    columns += [(taste[u] * genres[i]).sum(1), neighbors[u, i], factors[u, i]]
    return np.column_stack([*columns, right[:8].T[i] * sizes[:8], genres[i], taste[u] * genres[i]])
