"""Caltech-101 silhouettes from the published mat file and from npz: the same upright images."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from dynpart.datasets import caltech, load_caltech_silhouettes

NAMES = ["Faces", "Leopards", "accordion"]
SIZES = {"train": 5, "val": 3, "test": 2}


@pytest.fixture
def splits():
    """Upright images with 1 for the object, and labels from 0, by split."""
    rng = np.random.default_rng(0)
    return {
        split: (rng.integers(0, 2, (n, 28, 28), dtype=np.uint8), rng.integers(0, 3, n))
        for split, n in SIZES.items()
    }


def published(splits):
    """The arrays of the mat file: background 1, pixels column by column, labels from 1."""
    arrays = {"classnames": np.array([NAMES], dtype=object)}
    for split, (images, labels) in splits.items():
        arrays[f"{split}_data"] = (1 - images).transpose(0, 2, 1).reshape(-1, 784)
        arrays[f"{split}_labels"] = (labels[:, None] + 1).astype(np.uint8)
    return arrays


@pytest.fixture
def write_mat(tmp_path, monkeypatch):
    """Write a mat file and declare it to be the published one."""

    def write(arrays):
        path = tmp_path / "caltech101_silhouettes_28_split1.mat"
        savemat(path, arrays, do_compression=True)
        checksum = "md5:" + hashlib.md5(path.read_bytes()).hexdigest()
        remote = replace(caltech._SILHOUETTE_FILE, checksum=checksum)
        monkeypatch.setattr(caltech, "_SILHOUETTE_FILE", remote)
        return path

    return write


def as_npz(splits):
    arrays = {"classnames": np.array(NAMES)}
    for split, (images, labels) in splits.items():
        arrays[f"{split}_images"] = 1 - images
        arrays[f"{split}_labels"] = (labels + 1).astype(np.uint8)
    return arrays


@pytest.mark.parametrize("form", ["mat", "npz"])
def test_silhouettes_are_upright_with_the_object_as_one(tmp_path, splits, form, write_mat):
    if form == "mat":
        write_mat(published(splits))
    else:
        np.savez(tmp_path / "caltech101_silhouettes_28_split1.npz", **as_npz(splits))
    dataset = load_caltech_silhouettes(folder=tmp_path)
    expected = np.concatenate([images for images, _ in splits.values()])
    np.testing.assert_array_equal(dataset.images, expected)
    assert dataset.data.dtype == np.uint8
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [5, 3, 2]
    np.testing.assert_array_equal(dataset.test_labels, splits["test"][1])
    assert dataset.label_names == tuple(NAMES)
    assert "5 train + 3 validation + 2 test" in repr(dataset)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("val_data", np.zeros((3, 256)), "'val_data' must have shape"),
        ("train_data", np.full((5, 784), 2.0), "train images must be 28 x 28 with values 0 and 1"),
        ("test_labels", np.array([[1], [4]]), "label from 1 to 3 for each test image"),
        ("test_labels", np.array([[1], [2], [3]]), "label from 1 to 3 for each test image"),
        ("test_labels", None, "no array 'test_labels'"),
    ],
)
def test_wrong_contents_are_refused(tmp_path, splits, key, value, message, write_mat):
    arrays = published(splits)
    del arrays[key]
    if value is not None:
        arrays[key] = value
    write_mat(arrays)
    with pytest.raises(ValueError, match=message):
        load_caltech_silhouettes(folder=tmp_path)


def test_a_mat_file_that_is_not_the_published_one_is_not_even_parsed(
    tmp_path, splits, write_mat, monkeypatch
):
    path = write_mat(published(splits))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    monkeypatch.setattr(caltech, "read_mat", lambda *_: pytest.fail("the file was parsed"))
    with pytest.raises(ValueError, match=r"split1\.mat is not the published"):
        load_caltech_silhouettes(folder=tmp_path)


def test_npz_of_other_size_is_refused(tmp_path, splits):
    arrays = as_npz(splits)
    arrays["val_images"] = arrays["val_images"][:, :14]
    np.savez(tmp_path / "caltech101_silhouettes_28_split1.npz", **arrays)
    with pytest.raises(ValueError, match="val images must be 28 x 28"):
        load_caltech_silhouettes(folder=tmp_path)
