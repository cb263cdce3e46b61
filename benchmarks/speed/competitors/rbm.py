"""scikit-learn's restricted Boltzmann machine: the yardstick of the fits."""

from __future__ import annotations

from sklearn.neural_network import BernoulliRBM

from benchmarks.speed.case import Case


def fit(rows, n_components):
    return BernoulliRBM(n_components, n_iter=10, batch_size=100, random_state=0).fit(rows)


def encode(model, rows):
    return model.transform(rows)


CASES = (
    Case("rbm", "BernoulliRBM, 10 iterations", "fit", fit),
    Case("rbm-encode", "BernoulliRBM, one product", "encode", encode, model="rbm"),
)
