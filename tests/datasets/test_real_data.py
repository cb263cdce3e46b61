"""The published data sets themselves, where DYNPART_DATA names a folder that holds them."""

import os
from pathlib import Path

import numpy as np
import pytest

from dynpart.datasets import (
    load_caltech_motorcycles,
    load_caltech_silhouettes,
    load_mnist,
    load_weizmann_horses,
)
from dynpart.datasets._pictures import resize
from dynpart.formats import read_npz


@pytest.fixture
def real_data():
    folder = os.environ.get("DYNPART_DATA")
    if not folder:
        pytest.skip("DYNPART_DATA names no folder with the published data sets")
    return Path(folder)


def load(loader, folder):
    """Load from this folder only; a folder may hold some of the sets and not others."""
    try:
        return loader(folder=folder)
    except FileNotFoundError:
        pytest.skip(f"{loader.__name__}: not in DYNPART_DATA")


def test_mnist_has_the_published_sizes_and_class_counts(real_data):
    mnist = load(load_mnist, real_data)
    assert (mnist.train.shape, mnist.test.shape) == ((60000, 784), (10000, 784))
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_array_equal(np.bincount(mnist.train_labels), counts)
    assert 0.12 < mnist.data.mean() < 0.14


def test_horses_have_the_papers_split_and_a_plausible_size(real_data):
    horses = load(load_weizmann_horses, real_data)
    assert (horses.train.shape, horses.test.shape) == ((300, 48000), (28, 48000))
    share = horses.data.mean(axis=1)
    assert 0.04 < share.min() < share.max() < 0.45
    # Horses stand in the middle: hardly one reaches the upper left corner.
    assert horses.images[:, :3, :3].mean() < 0.02 < horses.images[:, 80:120, 100:140].mean()


def test_our_resizing_of_the_original_masks_gives_the_stored_horses(real_data):
    path = real_data / "weizmann_horses_200x240.npz"
    if not path.is_file():
        pytest.skip("the npz file with the original masks is not in DYNPART_DATA")
    stored = read_npz(path, ["images", "orig_hw", "native_bits", "native_offset"])
    bounds = stored["native_offset"]
    for i in range(0, 328, 20):
        height, width = map(int, stored["orig_hw"][i])
        bits = np.unpackbits(stored["native_bits"][bounds[i] : bounds[i + 1]])
        mask = bits[: height * width].reshape(height, width) * np.uint8(255)
        resized = resize(mask, (200, 240), mask=True)
        np.testing.assert_array_equal(resized // 255, stored["images"][i])


def test_motorcycles_have_the_papers_split_and_gray_values(real_data):
    bikes = load(load_caltech_motorcycles, real_data)
    assert (bikes.train.shape, bikes.test.shape) == ((750, 18000), (48, 18000))
    assert bikes.data.dtype == np.float32
    assert (bikes.data.min(), bikes.data.max()) == (0, 1)
    # White frames and backgrounds: the corners are bright, the engine in the middle is dark.
    assert bikes.images[:, :10, :10].mean() > 0.7 > bikes.images[:, 45:65, 80:100].mean()


def test_silhouettes_have_the_published_splits_and_the_object_in_the_middle(real_data):
    silhouettes = load(load_caltech_silhouettes, real_data)
    parts = (silhouettes.train, silhouettes.validation, silhouettes.test)
    assert [len(part) for part in parts] == [4100, 2264, 2307]
    assert len(silhouettes.label_names) == 101
    assert set(np.unique(silhouettes.labels)) <= set(range(101))
    assert silhouettes.images[:, 10:18, 10:18].mean() > 0.6
    assert silhouettes.images[:, ::27, ::27].mean() < 0.3
