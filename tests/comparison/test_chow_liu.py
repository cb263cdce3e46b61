"""Chow-Liu trees: of all trees the likeliest, and a distribution."""

from itertools import combinations, product

import numpy as np
import pytest

from dynpart.comparison import chow_liu
from dynpart.comparison.chow_liu import chow_liu_tree, mutual_information, pair_counts


def chained(n_rows=400, n_features=4, seed=0):
    """Rows in which columns depend on each other, some more than others."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(2, size=(n_rows, n_features))
    for d in range(1, n_features):
        same = rng.random(n_rows) < rng.uniform(0.3, 0.9)
        rows[:, d] = np.where(same, rows[:, rng.integers(d)], rows[:, d])
    return rows.astype(np.uint8)


def spanning_trees(n_features):
    """All sets of edges that join all columns."""
    edges = list(combinations(range(n_features), 2))
    for chosen in combinations(edges, n_features - 1):
        reached = {0}
        for _ in chosen:
            reached |= {d for edge in chosen if reached & set(edge) for d in edge}
        if len(reached) == n_features:
            yield chosen


def log_likelihood(rows, edges):
    """Of training rows under the tree of these edges, frequencies taken as they are."""

    def entropy(*columns):
        _, counts = np.unique(rows[:, columns], axis=0, return_counts=True)
        p = counts / len(rows)
        return -np.sum(p * np.log(p))

    singles = [entropy(d) for d in range(rows.shape[1])]
    gained = sum(singles[i] + singles[j] - entropy(i, j) for i, j in edges)
    return len(rows) * (gained - sum(singles))


@pytest.mark.parametrize("seed", range(5))
def test_no_other_tree_makes_the_rows_likelier(seed, monkeypatch):
    rows = chained(seed=seed)
    trees = list(spanning_trees(4))
    assert len(trees) == 4**2  # Cayley
    monkeypatch.setattr(chow_liu, "SMOOTHING", 0.0)
    found = chow_liu_tree(rows).log_prob(rows).sum()
    assert found == pytest.approx(max(log_likelihood(rows, edges) for edges in trees))


def test_probabilities_of_all_rows_sum_to_one():
    tree = chow_liu_tree(chained(n_features=6))
    every = np.array(list(product([0, 1], repeat=6)))
    assert np.exp(tree.log_prob(every)).sum() == pytest.approx(1)
    assert (tree.parent == -1).sum() == 1


def test_half_a_row_is_added_for_each_value():
    rows = np.array([[0, 0], [0, 0], [1, 1]], dtype=np.uint8)
    tree = chow_liu_tree(rows)
    p = np.exp(tree.log_prob(np.array([[0, 0], [1, 0]])))
    assert p == pytest.approx([2.5 / 4 * 2.5 / 3, 1.5 / 4 * 0.5 / 2])


def test_columns_that_are_constant_or_alone_are_no_trouble():
    constant = np.zeros((5, 3), dtype=np.uint8)
    assert np.isfinite(chow_liu_tree(constant).log_prob(1 - constant)).all()
    alone = np.array([[0], [1], [1]], dtype=np.uint8)
    p = np.exp(chow_liu_tree(alone).log_prob(np.array([[1]])))
    assert p == pytest.approx(2.5 / 4)


def test_counts_of_pairs_are_those_of_the_rows_in_any_blocks(monkeypatch):
    rows = chained(n_rows=50)
    expected = np.array(
        [
            [
                [
                    [np.sum((rows[:, i] == a) & (rows[:, j] == b)) for j in range(4)]
                    for i in range(4)
                ]
                for b in (0, 1)
            ]
            for a in (0, 1)
        ]
    )
    monkeypatch.setattr(chow_liu, "ROWS_AT_ONCE", 7)
    assert np.array_equal(pair_counts(rows), expected)


def test_a_copy_tells_all_and_an_independent_column_nothing():
    coin = np.arange(8) % 2
    other = np.arange(8) // 2 % 2
    told = mutual_information(pair_counts(np.c_[coin, coin, other]))
    assert told[0, 1] == pytest.approx(np.log(2))
    assert told[0, 2] == pytest.approx(0)
