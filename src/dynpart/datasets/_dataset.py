"""The shape in which every loader returns its images. Knows no other module."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRAY_THRESHOLD = 127  # of 255: the paper's binary images are those above it


@dataclass(frozen=True, eq=False, repr=False)
class ImageDataset:
    """Images as rows, with their split.

    The rows of `data` are ordered: first those for training, then those for validation (if the
    data set has any), then those for testing. The splits are views, so nothing is stored twice.

    Attributes
    ----------
    name : str
        Name of the data set.
    data : ndarray of shape (n_samples, n_pixels)
        uint8 with values 0 and 1 for binary images, float32 between 0 and 1 for gray ones;
        pixels in row-major order.
    image_shape : tuple of int
        (height, width); ``height * width == n_pixels``.
    n_train : int
        Number of training rows.
    n_validation : int
        Number of validation rows (0 for most data sets).
    labels : ndarray of shape (n_samples,) or None
        Class of each image, where the data set has classes.
    label_names : tuple of str
        Name of each class, where the classes have names.

    Examples
    --------
    >>> from dynpart.datasets import load_digits
    >>> digits = load_digits()
    >>> digits
    ImageDataset('digits', 1500 train + 297 test, 8 x 8 binary)
    >>> digits.train.shape, digits.test.shape, digits.images.shape
    ((1500, 64), (297, 64), (1797, 8, 8))
    """

    name: str
    data: NDArray[Any]
    image_shape: tuple[int, int]
    n_train: int
    n_validation: int = 0
    labels: NDArray[Any] | None = None
    label_names: tuple[str, ...] = field(default=())

    @property
    def images(self) -> NDArray[Any]:
        """All images, (n_samples, height, width)."""
        return self.data.reshape(-1, *self.image_shape)

    @property
    def train(self) -> NDArray[Any]:
        """Training rows, (n_train, n_pixels)."""
        return self.data[: self.n_train]

    @property
    def validation(self) -> NDArray[Any]:
        """Validation rows, (n_validation, n_pixels)."""
        return self.data[self.n_train : self.n_train + self.n_validation]

    @property
    def test(self) -> NDArray[Any]:
        """Test rows, (n_test, n_pixels)."""
        return self.data[self.n_train + self.n_validation :]

    @property
    def train_labels(self) -> NDArray[Any] | None:
        """Classes of the training rows, if there are classes."""
        return None if self.labels is None else self.labels[: self.n_train]

    @property
    def test_labels(self) -> NDArray[Any] | None:
        """Classes of the test rows, if there are classes."""
        return None if self.labels is None else self.labels[self.n_train + self.n_validation :]

    def __repr__(self) -> str:
        sizes = {"train": self.train, "validation": self.validation, "test": self.test}
        split = " + ".join(f"{len(rows)} {name}" for name, rows in sizes.items() if len(rows))
        height, width = self.image_shape
        kind = "binary" if self.data.dtype == np.uint8 else "gray"
        return f"ImageDataset({self.name!r}, {split}, {height} x {width} {kind})"


def as_rows(images: NDArray[np.uint8], binarize: bool) -> NDArray[Any]:
    """Flatten gray images 0..255 (n, height, width) to binary or float32 rows (n, n_pixels)."""
    rows = images.reshape(len(images), -1)
    if binarize:
        return (rows > GRAY_THRESHOLD).astype(np.uint8)
    return rows.astype(np.float32) / np.float32(255)
