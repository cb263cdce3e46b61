"""Fitted models of both families, and functions that write forged files."""

import json

import numpy as np
import pytest

from dynpart import DynamicPartitionModel, families
from dynpart.datasets import make_pairs
from dynpart.engines import Experts
from dynpart.storage import _container

PAIRS = np.tile(make_pairs(2), (5, 1))
"""Rows enough for four experts: fits of them end without a warning."""


def make_gray():
    """Five measured variables: two pairs and one by itself, each around another mean."""
    rng = np.random.default_rng(0)
    parts = np.hstack([PAIRS, rng.integers(0, 2, (len(PAIRS), 1))])
    return np.tile(parts, (2, 1)) + rng.normal(0, 0.2, (2 * len(parts), 5)) + np.arange(5)


def reseal(path, meta, arrays):
    """Write the content with a checksum that is right, whatever it says."""
    from safetensors.numpy import save

    text = json.dumps(meta)
    words = {"dynpart": text, "sha256": _container._checksum(text, arrays)}
    path.write_bytes(save(arrays, words))


def as_format_1(meta, arrays):
    """What earlier versions wrote for the same model: experts, and what they show beside them."""
    meta, arrays = dict(meta), dict(arrays)
    schema, family = meta.pop("schema"), meta.pop("family")
    experts = Experts(
        families.family_class(family["name"]).restored(
            family["numbers"],
            {"centre": arrays["family.centre"]} if "family.centre" in arrays else {},
            meta["n_features"],
        ),
        arrays["eta"],
        arrays["log2_expertise"],
    )
    arrays["means"] = np.array(experts.family.mean(experts.eta))
    arrays["expertise"] = np.exp2(experts.log2_expertise)
    if "family.centre" in arrays:
        arrays["centre"] = arrays.pop("family.centre")
        arrays["variances"] = experts.family.variance(experts.eta)
    return {
        **meta,
        "format": 1,
        "family": {"name": family["name"], **family["numbers"]},
        "feature_names": schema["names"],
        "image_shape": schema["image_shape"],
    }, arrays


@pytest.fixture
def downgrade():
    """Rewrite a file in format 1."""

    def downgraded(path):
        content = _container.read_container(path)
        reseal(path, *as_format_1(content.meta, content.arrays))

    return downgraded


@pytest.fixture(scope="session")
def binary_model():
    return DynamicPartitionModel(4, max_iter=6, random_state=0).fit(PAIRS)


@pytest.fixture(scope="session")
def gaussian_model():
    X = make_gray().round(3)
    return DynamicPartitionModel(
        3, family="gaussian", max_iter=4, max_active=2, random_state=1, variance_floor=0.1
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
        reseal(path, new_meta, new_arrays)

    return forged
