"""scikit-learn's online dictionary learning: one pass over the rows, by coordinate descent."""

from __future__ import annotations

from sklearn.decomposition import MiniBatchDictionaryLearning

from benchmarks.speed.case import Case

ALPHA = 4.0
"""Penalty that leaves codes of digits sparse; the default of 1 takes almost three times as long."""


def fit(rows, n_components):
    return MiniBatchDictionaryLearning(
        n_components, alpha=ALPHA, max_iter=1, batch_size=256, fit_algorithm="cd", random_state=0
    ).fit(rows)


CASES = (Case("dictionary", "MiniBatchDictionaryLearning, one pass", "fit", fit),)
