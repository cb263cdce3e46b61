"""Two sets made from Caltech-101: gray motorcycles (the paper's) and small binary silhouettes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.datasets._dataset import ImageDataset, as_rows
from dynpart.datasets._fetch import RemoteFile, find_file, verify
from dynpart.datasets._pictures import PictureSet, read_pictures
from dynpart.formats import read_mat, read_npz

_BIKE_SHAPE = (100, 180)
_BIKE_N_TRAIN = 750
_BIKES = PictureSet(folder="Motorbikes", prefix="image_", n_digits=4, count=798)
_BIKE_ARRAYS = "caltech101_motorbikes_100x180.npz"
_BIKE_ARCHIVE = RemoteFile(
    "caltech-101.zip",
    "sha256:331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
    ("https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",),
)
_BIKE_CANDIDATES = (
    _BIKE_ARRAYS,
    "101_ObjectCategories/Motorbikes/image_0001.jpg",
    "caltech-101/101_ObjectCategories/Motorbikes/image_0001.jpg",
    "Motorbikes/image_0001.jpg",
    "image_0001.jpg",
    "101_ObjectCategories.tar.gz",
    "caltech-101.zip",
)

_SILHOUETTE_SHAPE = (28, 28)
_SILHOUETTE_ARRAYS = "caltech101_silhouettes_28_split1.npz"
_SILHOUETTE_FILE = RemoteFile(
    "caltech101_silhouettes_28_split1.mat",
    "md5:4483e9c14b188fd09937f9ea6f9ea777",
    ("https://people.cs.umass.edu/~marlin/data/caltech101_silhouettes_28_split1.mat",),
)
_SPLITS = ("train", "val", "test")


def load_caltech_motorcycles(*, folder: str | os.PathLike[str] | None = None) -> ImageDataset:
    """Load the motorcycles of Caltech-101 as gray images of 100 x 180 pixels.

    Parameters
    ----------
    folder : path-like, default=None
        Folder with the data in one of these forms: the published photographs
        ``101_ObjectCategories/Motorbikes/image_0001.jpg`` to ``image_0798.jpg`` (also directly
        in the folder), the archives ``101_ObjectCategories.tar.gz`` or ``caltech-101.zip``, or
        ``caltech101_motorbikes_100x180.npz`` with an array ``images``. Default: the folder named
        by the environment variable DYNPART_DATA, and if they are not there, a verified
        download of ``caltech-101.zip`` into a cache (137 MB, once).

    Returns
    -------
    dataset : ImageDataset
        798 gray images (float32 between 0 and 1) of 100 x 180 pixels; the first 750 are for
        training, the other 48 for testing, as in the paper.

    Raises
    ------
    FileNotFoundError
        If `folder` lacks the files, or if the download fails; the message says what to put where.
    ValueError
        If a file is damaged or is not what its name says.

    Notes
    -----
    Photographs are converted to gray (ITU-R 601-2 luma) and resized (Lanczos) without keeping
    the aspect ratio. The paper does not say how it came to 100 x 180.

    Source: F.-F. Li, M. Andreeto, M. Ranzato and P. Perona, Caltech 101, CaltechDATA 2022.
    Terms: CC BY 4.0.

    Examples
    --------
    >>> from dynpart.datasets import load_caltech_motorcycles
    >>> bikes = load_caltech_motorcycles()  # doctest: +SKIP
    >>> bikes.train.shape, bikes.test.shape  # doctest: +SKIP
    ((750, 18000), (48, 18000))
    """
    path = find_file(
        "the Caltech-101 motorcycles",
        folder,
        _BIKE_CANDIDATES,
        _BIKE_ARCHIVE,
        "The photographs are in the folder Motorbikes of Caltech-101.",
    )
    if path.name == _BIKE_ARRAYS:
        images = read_npz(path, ["images"])["images"]
        if images.shape != (_BIKES.count, *_BIKE_SHAPE) or images.dtype != np.uint8:
            raise ValueError(
                f"{path}: array 'images' must be uint8 of shape {(_BIKES.count, *_BIKE_SHAPE)}, "
                f"got {images.dtype} of shape {images.shape}"
            )
    else:
        images = read_pictures(path, _BIKES, _BIKE_SHAPE, masks=False)
    return ImageDataset(
        name="Caltech-101 motorcycles",
        data=as_rows(images, binarize=False),
        image_shape=_BIKE_SHAPE,
        n_train=_BIKE_N_TRAIN,
    )


def load_caltech_silhouettes(*, folder: str | os.PathLike[str] | None = None) -> ImageDataset:
    """Load the Caltech-101 silhouettes of 28 x 28 pixels, split 1.

    Parameters
    ----------
    folder : path-like, default=None
        Folder with the published ``caltech101_silhouettes_28_split1.mat`` or with
        ``caltech101_silhouettes_28_split1.npz``. Default: the folder named by the environment
        variable DYNPART_DATA, and if it is not there, a verified download into a cache (once).

    Returns
    -------
    dataset : ImageDataset
        8,671 binary images (uint8) of 28 x 28 pixels with their classes 0..100 and their names:
        4,100 for training, 2,264 for validation, 2,307 for testing. 1 is the object (the
        published file has it the other way round).

    Raises
    ------
    FileNotFoundError
        If `folder` lacks the file, or if the download fails; the message says what to put where.
    ValueError
        If a file is damaged or is not what its name says.

    Notes
    -----
    Source: B. M. Marlin, K. Swersky, B. Chen and N. de Freitas, Inductive principles for
    restricted Boltzmann machine learning, AISTATS 2010.
    Terms: no explicit licence is known.

    Examples
    --------
    >>> from dynpart.datasets import load_caltech_silhouettes
    >>> silhouettes = load_caltech_silhouettes()  # doctest: +SKIP
    >>> silhouettes.train.shape, silhouettes.validation.shape  # doctest: +SKIP
    ((4100, 784), (2264, 784))
    """
    path = find_file(
        "the Caltech-101 silhouettes",
        folder,
        (_SILHOUETTE_ARRAYS, _SILHOUETTE_FILE.name),
        _SILHOUETTE_FILE,
        "",
    )
    read = _silhouettes_npz if path.name == _SILHOUETTE_ARRAYS else _silhouettes_mat
    images, labels, names = read(path)
    for split, pictures, classes in zip(_SPLITS, images, labels, strict=True):
        _check_silhouettes(path, split, pictures, classes, len(names))
    return ImageDataset(
        name="Caltech-101 silhouettes",
        data=1 - np.concatenate(images).astype(np.uint8).reshape(-1, 28 * 28),
        image_shape=_SILHOUETTE_SHAPE,
        n_train=len(images[0]),
        n_validation=len(images[1]),
        labels=np.concatenate(labels).astype(np.uint8) - np.uint8(1),
        label_names=names,
    )


_Silhouettes = tuple[list[NDArray[Any]], list[NDArray[Any]], tuple[str, ...]]


def _silhouettes_npz(path: Path) -> _Silhouettes:
    """Images (n, 28, 28) and labels (n,) from 1 of the three splits, and the classes' names."""
    kinds = ("images", "labels")
    arrays = read_npz(
        path, ["classnames", *(f"{split}_{kind}" for split in _SPLITS for kind in kinds)]
    )
    images, labels = ([arrays[f"{split}_{kind}"] for split in _SPLITS] for kind in kinds)
    return images, labels, tuple(str(name) for name in arrays["classnames"].ravel())


def _silhouettes_mat(path: Path) -> _Silhouettes:
    """The same from the published file, whose rows hold the pixels column by column."""
    verify(path, _SILHOUETTE_FILE)
    shapes: dict[str, tuple[int | None, ...]] = {"classnames": (1, None)}
    for split in _SPLITS:
        shapes |= {f"{split}_data": (None, 28 * 28), f"{split}_labels": (None, 1)}
    arrays = read_mat(path, shapes)
    images = [arrays[f"{split}_data"].reshape(-1, 28, 28).transpose(0, 2, 1) for split in _SPLITS]
    labels = [arrays[f"{split}_labels"].ravel() for split in _SPLITS]
    return images, labels, tuple(str(np.squeeze(name)) for name in arrays["classnames"].ravel())


def _check_silhouettes(
    path: Path, split: str, images: NDArray[Any], labels: NDArray[Any], n_classes: int
) -> None:
    """Images have to be binary and of the right size, with one known class each."""
    if images.shape[1:] != _SILHOUETTE_SHAPE or not np.isin(images, (0, 1)).all():
        raise ValueError(f"{path}: the {split} images must be 28 x 28 with values 0 and 1")
    if labels.shape != (len(images),) or not np.isin(labels, np.arange(1, n_classes + 1)).all():
        raise ValueError(
            f"{path}: there must be one label from 1 to {n_classes} for each {split} image"
        )
