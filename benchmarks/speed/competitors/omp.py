"""scikit-learn's orthogonal matching pursuit with 12 atoms: the yardstick of the encoders."""

from __future__ import annotations

import os

from sklearn.decomposition import SparseCoder

from benchmarks.speed.case import Case

N_ATOMS = 12


def encode(dictionary, rows, n_jobs=None):
    return SparseCoder(
        dictionary.components_,
        transform_algorithm="omp",
        transform_n_nonzero_coefs=min(N_ATOMS, len(dictionary.components_)),
        n_jobs=n_jobs,
    ).transform(rows)


def encode_in_processes(dictionary, rows):
    """The same rows shared among as many processes as others have threads."""
    return encode(dictionary, rows, n_jobs=int(os.environ.get("OMP_NUM_THREADS", "1")))


CASES = (
    Case("omp", "SparseCoder, OMP-12", "encode", encode, model="dictionary"),
    Case(
        "omp-jobs", "SparseCoder, OMP-12, n_jobs", "encode", encode_in_processes,
        model="dictionary", one_process=False,
    ),
)  # fmt: skip
