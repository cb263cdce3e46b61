"""Handwritten digits: the small set bundled with scikit-learn, and MNIST."""

import os
from pathlib import Path

import numpy as np

from dynpart.datasets._dataset import ImageDataset, as_rows
from dynpart.datasets._fetch import RemoteFile, find_file
from dynpart.formats import read_idx

_DIGIT_NAMES = tuple("0123456789")

_MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


def _mnist_file(stem: str, sha256: str) -> RemoteFile:
    name = f"{stem}-ubyte.gz"
    return RemoteFile(name, f"sha256:{sha256}", tuple(mirror + name for mirror in _MIRRORS))


_MNIST_IMAGES = (
    _mnist_file(
        "train-images-idx3", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    _mnist_file(
        "t10k-images-idx3", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
)
_MNIST_LABELS = (
    _mnist_file(
        "train-labels-idx1", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    _mnist_file(
        "t10k-labels-idx1", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
)


def load_digits(*, binarize: bool = True) -> ImageDataset:
    """Load the 8 x 8 digits that come with scikit-learn. Needs no file and no connection.

    Parameters
    ----------
    binarize : bool, default=True
        Values 0 and 1 (uint8; ink of at least half the range is 1) instead of gray ones.

    Returns
    -------
    dataset : ImageDataset
        1,797 images of 8 x 8 pixels with their classes 0..9; the first 1,500 are for training,
        the other 297 for testing. Ink is high.

    Notes
    -----
    Source: the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and
    C. Kaynak, UCI Machine Learning Repository), as distributed with scikit-learn.
    Terms: CC BY 4.0.

    Examples
    --------
    >>> from dynpart.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.train.shape, digits.train.dtype, digits.image_shape
    ((1500, 64), dtype('uint8'), (8, 8))
    """
    from sklearn.datasets import load_digits as load_bundled

    bundled = load_bundled()
    scaled = bundled.data / 16  # the file's values are 0..16
    data = (scaled >= 0.5).astype(np.uint8) if binarize else scaled.astype(np.float32)
    return ImageDataset(
        name="digits",
        data=data,
        image_shape=(8, 8),
        n_train=1500,
        labels=bundled.target.astype(np.uint8),
        label_names=_DIGIT_NAMES,
    )


def load_mnist(
    *, binarize: bool = True, folder: str | os.PathLike[str] | None = None
) -> ImageDataset:
    """Load MNIST from its four idx files.

    Parameters
    ----------
    binarize : bool, default=True
        Values 0 and 1 (uint8; gray values above 127 of 255 are 1), as the experiments need,
        instead of gray ones (float32 between 0 and 1).
    folder : path-like, default=None
        Folder with the four files, gzipped or not, directly in it or in its subfolder ``mnist``
        or ``MNIST/raw``. Default: the folder named by the environment variable DYNPART_DATA,
        and if the files are not there, a verified download into a cache (11 MB, once).

    Returns
    -------
    dataset : ImageDataset
        70,000 images of 28 x 28 pixels with their classes 0..9: 60,000 for training, 10,000
        for testing. Ink is high.

    Raises
    ------
    FileNotFoundError
        If `folder` lacks a file, or if a download fails; the message says what to put where.
    ValueError
        If a file is damaged or is not what its name says.

    Notes
    -----
    Source: Y. LeCun, C. Cortes and C. J. C. Burges, The MNIST database of handwritten digits.
    Terms: stated by its mirrors as CC BY-SA 3.0.

    Examples
    --------
    >>> from dynpart.datasets import load_mnist
    >>> mnist = load_mnist()  # doctest: +SKIP
    >>> mnist.train.shape, mnist.test.shape  # doctest: +SKIP
    ((60000, 784), (10000, 784))
    """
    images = [read_idx(_find_mnist(folder, file), (28, 28)) for file in _MNIST_IMAGES]
    labels = [read_idx(_find_mnist(folder, file), ()) for file in _MNIST_LABELS]
    for part, pictures, classes in zip(("train", "t10k"), images, labels, strict=True):
        if len(pictures) != len(classes):
            raise ValueError(
                f"MNIST files {part}-*: {len(pictures)} images do not match {len(classes)} labels"
            )
    return ImageDataset(
        name="MNIST",
        data=np.concatenate([as_rows(pictures, binarize) for pictures in images]),
        image_shape=(28, 28),
        n_train=len(images[0]),
        labels=np.concatenate(labels),
        label_names=_DIGIT_NAMES,
    )


def _find_mnist(folder: str | os.PathLike[str] | None, file: RemoteFile) -> Path:
    """One of the four files, under the names and in the places in which it is commonly kept."""
    zipped = file.name
    plain = zipped.removesuffix(".gz")
    names = (zipped, plain, plain.replace("-idx", ".idx"))
    places = ("", "mnist/", "MNIST/raw/")
    return find_file(
        "MNIST",
        folder,
        [place + name for place in places for name in names],
        file,
        "The four idx files belong together in one folder.",
    )
