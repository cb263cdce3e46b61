"""Digits: the bundled ones, and MNIST in its common file layouts."""

import gzip

import numpy as np
import pytest

from dynpart.datasets import load_digits, load_mnist


def test_bundled_digits_come_binary_or_gray():
    binary, gray = load_digits(), load_digits(binarize=False)
    assert binary.data.dtype == np.uint8
    assert set(np.unique(binary.data)) == {0, 1}
    assert gray.data.dtype == np.float32
    assert (gray.data.min(), gray.data.max()) == (0, 1)
    np.testing.assert_array_equal(binary.data, gray.data >= 0.5)
    assert binary.images.shape == (1797, 8, 8)
    np.testing.assert_array_equal(np.unique(binary.labels), range(10))


def test_splits_are_views_that_cover_the_data():
    digits = load_digits()
    assert digits.train.base is not None
    np.testing.assert_array_equal(
        np.concatenate([digits.train, digits.validation, digits.test]), digits.data
    )
    np.testing.assert_array_equal(
        np.concatenate([digits.train_labels, digits.test_labels]), digits.labels
    )
    with pytest.raises(AttributeError):
        digits.n_train = 3


@pytest.mark.parametrize("place", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_is_read_from_a_folder(tmp_path, tiny_mnist, place, zipped):
    arrays, write = tiny_mnist
    write(tmp_path / place, zipped)
    mnist = load_mnist(folder=tmp_path)
    expected = np.concatenate([arrays["train-images-idx3-ubyte"], arrays["t10k-images-idx3-ubyte"]])
    np.testing.assert_array_equal(mnist.images, expected > 127)
    assert mnist.data.dtype == np.uint8
    assert (len(mnist.train), len(mnist.test)) == (7, 3)
    np.testing.assert_array_equal(mnist.test_labels, [9, 0, 4])
    gray = load_mnist(folder=tmp_path, binarize=False)
    assert gray.data.dtype == np.float32
    np.testing.assert_array_equal(np.round(gray.images * 255), expected)


def test_mnist_is_read_under_the_names_with_a_dot(tmp_path, tiny_mnist):
    _, write = tiny_mnist
    write(tmp_path, zipped=False, rename=lambda name: name.replace("-idx", ".idx"))
    assert len(load_mnist(folder=str(tmp_path)).data) == 10


def test_mnist_is_read_from_the_folder_of_the_environment(tmp_path, tiny_mnist, monkeypatch):
    _, write = tiny_mnist
    write(tmp_path)
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path))
    assert len(load_mnist().data) == 10


def test_a_folder_without_the_files_is_named_with_what_it_lacks(tmp_path, tiny_mnist):
    with pytest.raises(FileNotFoundError, match=r"(?s)folder=.*train-images-idx3-ubyte\.gz"):
        load_mnist(folder=tmp_path)
    _, write = tiny_mnist
    write(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"t10k-labels-idx1-ubyte\.gz"):
        load_mnist(folder=tmp_path)


def test_images_and_labels_have_to_match(tmp_path, tiny_mnist, idx_bytes):
    _, write = tiny_mnist
    write(tmp_path)
    path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros(4))))
    with pytest.raises(ValueError, match=r"t10k.*3 images do not match 4 labels"):
        load_mnist(folder=tmp_path)


def test_images_of_another_size_are_refused(tmp_path, tiny_mnist, idx_bytes):
    _, write = tiny_mnist
    write(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros((7, 32, 32)))))
    with pytest.raises(ValueError, match=r"wrong shape: expected \(n, 28, 28\)"):
        load_mnist(folder=tmp_path)


@pytest.mark.parametrize("kind", ["missing", "file"])
@pytest.mark.parametrize("by", ["folder", "DYNPART_DATA"])
def test_what_is_no_folder_is_refused_by_the_name_of_its_argument(tmp_path, monkeypatch, kind, by):
    path = tmp_path / "not-a-folder"
    if kind == "file":
        path.touch()
    if by == "DYNPART_DATA":
        monkeypatch.setenv(by, str(path))
    with pytest.raises(NotADirectoryError, match=f"{by}=.*not-a-folder"):
        load_mnist(folder=path if by == "folder" else None)


def test_an_empty_folder_name_is_refused():
    with pytest.raises(ValueError, match="folder"):
        load_mnist(folder="")
