"""The Weizmann horses: large binary silhouettes, the paper's high-dimensional experiment."""

import os

import numpy as np

from dynpart.datasets._dataset import ImageDataset
from dynpart.datasets._fetch import find_file
from dynpart.datasets._pictures import PictureSet, read_pictures, resize
from dynpart.formats import read_npz

_SHAPE = (200, 240)
_N_TRAIN = 300
_MASKS = PictureSet(folder="figure_ground", prefix="horse", n_digits=3, count=328)
_ARRAYS = "weizmann_horses_200x240.npz"
_CANDIDATES = (
    _ARRAYS,
    "weizmann_horse_db/figure_ground/horse001.jpg",
    "figure_ground/horse001.jpg",
    "horse001.jpg",
    "weizmann_horse_db.tar.gz",
)
_ADVICE = (
    "No address with a known checksum exists: get the Weizmann horse data base "
    "(weizmann_horse_db.tar.gz, Borenstein and Ullman) and keep its folder figure_ground "
    "with the masks horse001.jpg to horse328.jpg."
)


def load_weizmann_horses(
    *, image_shape: tuple[int, int] = _SHAPE, folder: str | os.PathLike[str] | None = None
) -> ImageDataset:
    """Load the Weizmann horse silhouettes, by default at 200 x 240 pixels.

    Parameters
    ----------
    image_shape : tuple of int, default=(200, 240)
        (height, width). Pictures of another size are made from those of 200 x 240.
    folder : path-like, default=None
        Folder with the data in one of these forms: the published masks
        ``figure_ground/horse001.jpg`` to ``horse328.jpg`` (also inside ``weizmann_horse_db``, or
        directly in the folder), the archive ``weizmann_horse_db.tar.gz``, or
        ``weizmann_horses_200x240.npz`` with an array ``images``. Default: the folder named by
        the environment variable DYNPART_DATA. There is no automatic download.

    Returns
    -------
    dataset : ImageDataset
        328 binary images (uint8), 1 is horse; the first 300 are for training, the other 28 for
        testing, as in the paper.

    Raises
    ------
    FileNotFoundError
        If the files are not there; the message says what to put where.
    ValueError
        If a file is damaged or is not what its name says.

    Notes
    -----
    The masks are made binary (above 127 of 255), resized (Lanczos) without keeping the aspect
    ratio, and made binary again. The paper does not say how it came to 200 x 240.

    Source: E. Borenstein and S. Ullman, Weizmann horse data base.
    Terms: published for research; no explicit licence is known.

    Examples
    --------
    >>> from dynpart.datasets import load_weizmann_horses
    >>> horses = load_weizmann_horses()  # doctest: +SKIP
    >>> horses.train.shape, horses.test.shape  # doctest: +SKIP
    ((300, 48000), (28, 48000))
    """
    path = find_file("the Weizmann horses", folder, _CANDIDATES, None, _ADVICE)
    if path.name == _ARRAYS:
        images = read_npz(path, ["images"])["images"]
        if images.shape != (_MASKS.count, *_SHAPE) or images.dtype != np.uint8 or images.max() > 1:
            raise ValueError(
                f"{path}: array 'images' must be uint8 of shape {(_MASKS.count, *_SHAPE)} with "
                f"values 0 and 1, got {images.dtype} of shape {images.shape}"
            )
    else:
        images = read_pictures(path, _MASKS, _SHAPE, masks=True) // 255
    if tuple(image_shape) != _SHAPE:
        images = np.stack([resize(255 * image, image_shape, mask=True) // 255 for image in images])
    return ImageDataset(
        name="Weizmann horses",
        data=images.reshape(_MASKS.count, -1),
        image_shape=(int(image_shape[0]), int(image_shape[1])),
        n_train=_N_TRAIN,
    )
