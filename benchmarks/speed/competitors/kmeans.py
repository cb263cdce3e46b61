"""scikit-learn's k-means: one centre per row, the shortest code."""

from __future__ import annotations

from sklearn.cluster import KMeans

from benchmarks.speed.case import Case


def fit(rows, n_components):
    return KMeans(n_components, n_init=1, max_iter=30, random_state=0).fit(rows)


def encode(model, rows):
    return model.predict(rows)


CASES = (
    Case("kmeans", "KMeans, at most 30 iterations", "fit", fit),
    Case("kmeans-encode", "KMeans, nearest centre", "encode", encode, model="kmeans"),
)
