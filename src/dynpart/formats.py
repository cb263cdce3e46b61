"""Readers of idx, npz and mat files.

The readers of idx and npz files check declared sizes before they allocate memory, and never
unpickle. The reader of mat files is for files with a verified checksum.
"""

import gzip
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 2**30  # maximum size of an array of a data set

_GZIP_MAGIC = b"\x1f\x8b"
_DEFLATE_LIMIT = 1032  # deflate cannot shrink by more than this factor
_IDX_UBYTE = 0x08


def read_idx(path: Path, row_shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzipped: (n_rows, *row_shape)."""
    with path.open("rb") as stream:
        zipped = stream.read(2) == _GZIP_MAGIC
    stored = path.stat().st_size
    try:
        with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
            return _read_idx_stream(stream, row_shape, stored * (_DEFLATE_LIMIT if zipped else 1))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is truncated or damaged: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error


def _read_idx_stream(
    stream: gzip.GzipFile | io.BufferedReader, row_shape: tuple[int, ...], most_bytes: int
) -> NDArray[np.uint8]:
    """Read header and body; messages of errors continue the file's name."""
    magic = bytes([0, 0, _IDX_UBYTE, 1 + len(row_shape)])
    found = stream.read(4)
    if found != magic:
        raise ValueError(f"has the wrong magic number: expected {magic.hex()}, got {found.hex()}")
    n_header = 4 * (1 + len(row_shape))
    header = stream.read(n_header)
    if len(header) < n_header:
        raise ValueError("is truncated: it ends in its header")
    shape = struct.unpack(f">{1 + len(row_shape)}I", header)
    if shape[0] == 0 or shape[1:] != row_shape:
        expected = ", ".join(["n", *map(str, row_shape)])
        raise ValueError(f"has the wrong shape: expected ({expected}) with n > 0, got {shape}")
    n_bytes = math.prod(shape)
    if n_bytes > MOST_BYTES:
        raise ValueError(f"declares {n_bytes} bytes, more than the {MOST_BYTES} that are read")
    body = stream.read(n_bytes) if n_bytes <= most_bytes else b""
    if len(body) < n_bytes:
        raise ValueError(f"is truncated: its header declares {n_bytes} bytes, it holds fewer")
    if stream.read(1):
        raise ValueError(f"is longer than the {n_bytes} bytes its header declares")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def read_npz(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of an npz file; none may hold Python objects."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: _read_npz_member(archive, name) for name in names}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a damaged archive makes zipfile raise errors of many kinds
        raise ValueError(f"{path} cannot be read (truncated or damaged?): {error}") from error


def _read_npz_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array, after comparing its header with its size in the archive."""
    member = f"{name}.npy"
    if member not in archive.namelist():
        raise ValueError(f"has no array {name!r}")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, by_columns, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"array {name!r} has the unknown format version {version}")
        if dtype.hasobject or dtype.kind not in "biufU":
            raise ValueError(f"array {name!r} must hold numbers or text, got {dtype}")
        n_bytes = math.prod(shape) * dtype.itemsize
        room = archive.getinfo(member).file_size - stream.tell()
        if min(shape, default=0) < 0 or n_bytes > room:
            raise ValueError(f"array {name!r} declares shape {shape}, its file holds less")
        if n_bytes > MOST_BYTES:
            raise ValueError(f"array {name!r} has {n_bytes} bytes, more than the {MOST_BYTES} read")
        values = np.frombuffer(stream.read(n_bytes), dtype=dtype)
    return values.reshape(shape, order="F" if by_columns else "C").copy()


def read_mat(path: Path, shapes: Mapping[str, tuple[int | None, ...]]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a MATLAB file (version 5), which must have these shapes.

    None means any length. Only for files with a verified checksum: a damaged file can crash the
    process in SciPy's reader.
    """
    from scipy.io import loadmat

    arrays = loadmat(str(path), variable_names=list(shapes), appendmat=False)
    for name, expected in shapes.items():
        if name not in arrays:
            raise ValueError(f"{path} has no array {name!r}")
        shape = arrays[name].shape
        if len(shape) != len(expected) or any(
            wanted not in (None, length) for length, wanted in zip(shape, expected, strict=True)
        ):
            text = ", ".join("n" if length is None else str(length) for length in expected)
            raise ValueError(f"{path}: array {name!r} must have shape ({text}), got {shape}")
    return {name: arrays[name] for name in shapes}
