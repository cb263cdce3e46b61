"""Numbered JPEG files, in a folder or an archive, as arrays of one size. Knows no data set."""

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from dynpart.datasets._dataset import GRAY_THRESHOLD

_MOST_FILE_BYTES = 2**24
_MOST_PIXELS = 2**24


@dataclass(frozen=True)
class PictureSet:
    """A published set of JPEG files ``folder/prefix0001.jpg``, numbered from 1 without a gap."""

    folder: str
    prefix: str
    n_digits: int
    count: int

    def file_name(self, number: int) -> str:
        """Name of the file with this number."""
        return f"{self.prefix}{number:0{self.n_digits}d}.jpg"

    def number(self, file_name: str) -> int | None:
        """Number of the file with this name, or None if it is not of the set."""
        match = re.fullmatch(rf"{self.prefix}(\d{{{self.n_digits}}})\.jpg", file_name, re.ASCII)
        number = int(match.group(1)) if match else 0
        return number if 1 <= number <= self.count else None


def read_pictures(
    path: Path, pictures: PictureSet, image_shape: tuple[int, int], *, masks: bool
) -> NDArray[np.uint8]:
    """Read a whole set from its folder (given by one of its files) or from its archive.

    Returns gray images (count, height, width) with values 0..255; masks are made binary before
    they are resized, and hold only 0 and 255.
    """
    images = np.empty((pictures.count, *image_shape), dtype=np.uint8)
    missing = set(range(1, pictures.count + 1))
    for number, content in _contents(path, pictures):
        name = pictures.file_name(number)
        images[number - 1] = _decode(name, content, image_shape, masks=masks)
        missing.discard(number)
    if missing:
        where = path.parent if path.suffix == ".jpg" else path
        raise FileNotFoundError(
            f"{where} is incomplete: {len(missing)} of {pictures.count} pictures are missing, "
            f"the first is {pictures.file_name(min(missing))}"
        )
    return images


def _contents(path: Path, pictures: PictureSet) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every picture of the set."""
    if path.suffix == ".jpg":
        for file in path.parent.iterdir():
            number = pictures.number(file.name)
            if number is not None:
                _check_size(file.name, file.stat().st_size)
                yield number, file.read_bytes()
        return
    try:
        with _open_tar(path) as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                number = pictures.number(parts[-1]) if parts[-2:-1] == (pictures.folder,) else None
                stream = archive.extractfile(member) if number and member.isfile() else None
                if number and stream is not None:
                    _check_size(member.name, member.size)
                    yield number, stream.read()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive makes tarfile raise errors of many kinds
        raise ValueError(f"{path} cannot be read (truncated or damaged?): {error}") from error


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar archive, or the one inside a zip archive, as a stream; nothing goes to disk."""
    if path.suffix != ".zip":
        with tarfile.open(path, mode="r|*") as archive:
            yield archive
        return
    with zipfile.ZipFile(path) as wrapper:
        inner = [name for name in wrapper.namelist() if name.endswith("ObjectCategories.tar.gz")]
        if not inner:
            raise ValueError("holds no 101_ObjectCategories.tar.gz")
        with (
            wrapper.open(inner[0]) as stream,
            tarfile.open(fileobj=stream, mode="r|*") as archive,
        ):
            yield archive


def _check_size(name: str, n_bytes: int) -> None:
    if n_bytes > _MOST_FILE_BYTES:
        raise ValueError(f"{name} has {n_bytes} bytes, more than the {_MOST_FILE_BYTES} expected")


def _decode(
    name: str, content: bytes, image_shape: tuple[int, int], *, masks: bool
) -> NDArray[np.uint8]:
    """One JPEG file as a gray image of the wanted size."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as opened:
            if opened.width * opened.height > _MOST_PIXELS:
                raise ValueError(f"it has {opened.width} x {opened.height} pixels")
            if masks and opened.mode != "L":
                raise ValueError(f"expected a gray mask, got {opened.mode} (the photographs?)")
            picture = opened.convert("L")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from error
    return resize(np.asarray(picture), image_shape, mask=masks)


def resize(
    image: NDArray[np.uint8], image_shape: tuple[int, int], *, mask: bool
) -> NDArray[np.uint8]:
    """Resize a gray image 0..255 (Lanczos); a mask is made 0 or 255 before and after."""
    from PIL import Image

    if mask:
        image = _black_and_white(image)
    height, width = image_shape
    scaled = Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS)
    return _black_and_white(np.asarray(scaled)) if mask else np.asarray(scaled)


def _black_and_white(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.where(image > GRAY_THRESHOLD, np.uint8(255), np.uint8(0))
