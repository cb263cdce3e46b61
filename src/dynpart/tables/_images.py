"""Images as rows: a folder of pictures, or an idx file such as MNIST's."""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.formats import read_idx
from dynpart.tables._table import Table, TableError, images_as_rows
from dynpart.tables.limits import MOST_PIXELS, MOST_VALUES, check_room

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".pbm", ".webp"}
FORMATS = ["PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP"]

_SIXTEEN_BITS = 2**16 - 1


def read_folder(path: Path, size: tuple[int, int] | None, binary: bool | None) -> Table:
    """Read all pictures of a folder, in the order of their names, as gray images of one size."""
    files = sorted(
        (file for file in path.iterdir() if file.suffix.lower() in ENDINGS and file.is_file()),
        key=_natural,
    )
    if not files:
        raise TableError(f"{path} holds no pictures ({', '.join(sorted(ENDINGS))})")
    first = _picture(files[0], size)
    if first.size * len(files) > MOST_VALUES:
        raise TableError(f"{path} holds too many pixels; make the pictures smaller with --size")
    # One byte per pixel, and four more as a row of gray values.
    check_room(5 * first.size * len(files), f"reading {path} with {len(files):,} pictures")
    images = np.empty((len(files), *first.shape), dtype=first.dtype)
    for place, file in enumerate(files):
        image = _picture(file, size)
        if image.shape != first.shape:
            raise TableError(
                f"{file} has {image.shape[0]} x {image.shape[1]} pixels, {files[0].name} has "
                f"{first.shape[0]} x {first.shape[1]}; choose one size with --size HEIGHTxWIDTH"
            )
        if image.dtype != images.dtype:
            images = images.astype(np.float32, copy=False)
        images[place] = image
    rows, remarks = images_as_rows(images, binary)
    labels = tuple(file.name.encode("utf-8", "replace").decode() for file in files)
    shape = (first.shape[0], first.shape[1])
    return Table(rows, labels=labels, image_shape=shape, remarks=remarks)


def _natural(file: Path) -> list[tuple[bool, int, str]]:
    """Sort key that puts picture2 before picture10."""
    parts = re.split(r"([0-9]{1,18})", file.name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _picture(file: Path, size: tuple[int, int] | None) -> NDArray[Any]:
    """One picture as gray values 0..255, with fractions if it has more than 8 bits.

    The scale depends only on the type of its pixels. Transparent pixels are black.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=FORMATS) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    raise TableError(
                        f"{file} has {opened.width} x {opened.height} pixels: too many"
                    )
                picture = _gray(file, opened)
        if size is not None and picture.size != size[::-1]:
            picture = picture.resize(size[::-1], Image.Resampling.BOX)
        return np.asarray(picture)
    except TableError:
        raise
    except Exception as error:  # decoders raise errors of many kinds
        raise TableError(f"{file} cannot be read as a picture: {error}") from error


def _gray(file: Path, picture: Any) -> Any:
    """A picture of mode L, or of mode F with values 0..255 where 8 bits are too coarse."""
    from PIL import Image

    deep = picture.mode.startswith("I") or picture.mode == "F"
    if not deep:
        return _flattened(picture).convert("L")
    values = np.asarray(picture)
    # Some versions of Pillow keep the 16 bits of these formats in 32.
    if values.dtype == np.uint16 or (picture.mode == "I" and picture.format in ("PNG", "PPM")):
        values = values / np.float32(_SIXTEEN_BITS)
    elif picture.mode == "F" and values.min() >= 0 and values.max() <= 1:
        values = np.asarray(values, dtype=np.float32)
    else:
        kind = "real numbers beyond 0..1" if picture.mode == "F" else "32-bit integers"
        raise TableError(
            f"{file} has pixels of {kind}, which have no scale of gray; save it with 8 or 16 bits, "
            "or with real numbers from 0 to 1"
        )
    return Image.fromarray(np.float32(255) * values.astype(np.float32))


def _flattened(picture: Any) -> Any:
    """Put a transparent picture on a black background."""
    from PIL import Image

    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture
    picture = picture.convert("RGBA")
    ground = Image.new("RGBA", picture.size, (0, 0, 0, 255))
    return Image.alpha_composite(ground, picture)


def read_idx_table(path: Path, binary: bool | None) -> Table:
    """Read an idx file of images, plain or gzipped."""
    try:
        shape = _declared_shape(path)
        images = read_idx(path, shape)
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(f"{path} is truncated or damaged: {error}") from error
    except TableError:
        raise
    except ValueError as error:
        raise TableError(str(error)) from error
    if images.max() <= 1:  # an array of 0 and 1 that was stored in this format
        return Table(images.reshape(len(images), -1), image_shape=shape)
    rows, remarks = images_as_rows(images, binary)
    return Table(rows, image_shape=shape, remarks=remarks)


def _declared_shape(path: Path) -> tuple[int, int]:
    """Height and width by an idx file's header."""
    with path.open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if zipped else path.open("rb") as opened:
        header = opened.read(16)
    if len(header) < 16 or header[:4] != b"\0\0\x08\x03":
        raise TableError(f"{path} is not an idx file of images (three dimensions of bytes)")
    height, width = (int.from_bytes(header[i : i + 4], "big") for i in (8, 12))
    if not 0 < height * width <= MOST_PIXELS:
        raise TableError(f"{path} declares images of {height} x {width} pixels")
    return height, width
