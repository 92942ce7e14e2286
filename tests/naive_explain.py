"""Shapley's values by their definition: over every set of features."""

import itertools
import math

import numpy as np


def goes_left(nodes, node, x):
    if nodes.categories and nodes.categories[node]:
        return x >= 0 and int(x) in nodes.categories[node]
    return nodes.missing_left[node] if math.isnan(x) else x <= nodes.threshold[node]


def leaf_value(nodes, row):
    node = 0
    while nodes.feature[node] >= 0:
        x = row[nodes.feature[node]]
        node = nodes.left[node] if goes_left(nodes, node, x) else nodes.right[node]
    return nodes.value[node]


def expected_value(nodes, row, known, node=0):
    """Value of a tree when only some features are known: the others follow the cover."""
    feature = nodes.feature[node]
    if feature < 0:
        return nodes.value[node]
    if feature in known:
        x = row[feature]
        left = goes_left(nodes, node, x)
        return expected_value(nodes, row, known, nodes.left[node] if left else nodes.right[node])
    a, b = nodes.left[node], nodes.right[node]
    total = nodes.cover[a] + nodes.cover[b]
    share = nodes.cover[a] / total if total else 0.5
    return share * expected_value(nodes, row, known, a) + (1 - share) * expected_value(
        nodes, row, known, b
    )


def shapley(worth, n):
    """Values of a game: `worth` maps a set of players to a number."""
    phi = np.zeros(n)
    for j in range(n):
        rest = [k for k in range(n) if k != j]
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for chosen in itertools.combinations(rest, size):
                phi[j] += weight * (worth({*chosen, j}) - worth(set(chosen)))
    return phi


def mixed(row, other, known):
    """A row whose unknown features are those of another."""
    return np.array([row[k] if k in known else other[k] for k in range(len(row))])
