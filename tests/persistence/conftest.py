"""Fitted models of both families, and a way to write files that only pretend to be ours."""

import json

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.persistence import _container


@pytest.fixture(scope="session")
def binary_model():
    return DynamicPartitionModel(4, max_iter=6, random_state=0).fit(make_pairs(2))


@pytest.fixture(scope="session")
def gaussian_model():
    X = np.random.default_rng(0).normal(size=(40, 5)).round(3) + np.arange(5)
    return DynamicPartitionModel(
        3, max_iter=4, max_active=2, random_state=1, variance_floor=0.1
    ).fit(X)


@pytest.fixture
def forge():
    """Rewrite a file with changed content and a correct checksum: only the checks can notice."""

    def forged(path, *, meta=None, arrays=None, drop=()):
        content = _container.read_container(path)
        new_meta = {**content.meta, **(meta or {})}
        new_arrays = {**content.arrays, **(arrays or {})}
        for name in drop:
            new_meta.pop(name, None)
            new_arrays.pop(name, None)
        from safetensors.numpy import save

        text = json.dumps(new_meta)
        words = {"dynpart": text, "sha256": _container._checksum(text, new_arrays)}
        path.write_bytes(save(new_arrays, words))

    return forged
