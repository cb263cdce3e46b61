"""scikit-learn's online non-negative matrix factorisation: five passes over the rows."""

from __future__ import annotations

from sklearn.decomposition import MiniBatchNMF

from benchmarks.speed.case import Case


def fit(rows, n_components):
    return MiniBatchNMF(n_components, max_iter=5, random_state=0).fit(rows)


def encode(model, rows):
    return model.transform(rows)


CASES = (
    Case("nmf", "MiniBatchNMF, 5 passes", "fit", fit),
    Case("nmf-encode", "MiniBatchNMF", "encode", encode, model="nmf"),
)
