"""The container of every file: named arrays and one JSON text, with a checksum over both.

A safetensors file holds ``dynpart`` (the JSON text) and ``sha256`` in its metadata. Sizes are
checked before reading. This module does not depend on models.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.atomic import atomic_write

MOST_BYTES = 2**32
"""Largest file that is read unless the caller allows more."""

MOST_HEADER_BYTES = 2**24
"""Maximum size of the header, which holds names of variables and the log of learning."""

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "I64": np.int64,
    "I32": np.int32,
    "U32": np.uint32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


class ModelFileError(ValueError):
    """A file is damaged, incomplete, or of a kind or version that cannot be read."""


@dataclass(frozen=True, eq=False)
class Container:
    """Content of a file.

    Attributes
    ----------
    meta : dict
        The JSON text.
    arrays : dict of ndarray
        Arrays by name.
    """

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_container(
    path: str | os.PathLike[str],
    meta: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = True,
) -> None:
    """Write arrays and JSON to a file, atomically; equal content gives equal bytes."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    wrong = [name for name, array in arrays.items() if array.dtype not in _DTYPES.values()]
    if wrong:
        raise ModelFileError(f"array {wrong[0]!r} of type {arrays[wrong[0]].dtype} cannot be saved")
    text = as_text(meta)
    # Widest types first, so that all arrays are aligned.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header = _header(text, {name: arrays[name] for name in names})
    with atomic_write(path, overwrite=overwrite) as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for name in names:
            file.write(arrays[name].reshape(-1).view(np.uint8).data)


def as_text(meta: Mapping[str, Any]) -> str:
    """The JSON text of a file, with its entries in alphabetical order."""
    try:
        return json.dumps(plain(meta), allow_nan=False, separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError) as error:  # for example an integer of thousands of digits
        raise ModelFileError(f"metadata cannot be saved: {error}") from error


def _header(text: str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The header of a safetensors file; the library's writer does not keep the order."""
    kinds = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}
    entries: dict[str, Any] = {
        "__metadata__": {"dynpart": text, "sha256": _checksum(text, arrays)},
    }
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        shape = list(array.shape)
        entries[name] = {
            "dtype": kinds[array.dtype],
            "shape": shape,
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MOST_HEADER_BYTES:
        raise ModelFileError(
            f"names and history take more than the {MOST_HEADER_BYTES} bytes a file may spend on "
            "them; shorten the names of the variables"
        )
    return header


def read_container(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> Container:
    """Read a file written by `write_container`, or raise ModelFileError."""
    from safetensors import SafetensorError, deserialize

    path = Path(path)
    content, n_header = _content(path, max_bytes)
    try:
        found = deserialize(content)
        header = json.loads(content[8 : 8 + n_header])
    except (SafetensorError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged or not a dynpart file: {error}") from error
    texts = header.get("__metadata__") or {}
    if not isinstance(texts.get("dynpart"), str):
        raise ModelFileError(f"{path} is a safetensors file, but not one of dynpart")
    meta = _parsed(path, texts["dynpart"])
    arrays = {name: _array(path, name, facts) for name, facts in found}
    if texts.get("sha256") != _checksum(texts["dynpart"], arrays):
        raise ModelFileError(f"{path} is damaged: its content does not match its checksum")
    return Container(meta, arrays)


def check_kind(
    path: str | os.PathLike[str], meta: Mapping[str, Any], kind: str, newest: int
) -> int:
    """Check the kind of a file and return its format version."""
    found, version = meta.get("kind"), meta.get("format")
    if found != kind:
        raise ModelFileError(f"{path} holds a {str(found)[:40]!r}, not a {kind!r}")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path} has no valid format version: {str(version)[:40]!r}")
    if version > newest:
        raise ModelFileError(
            f"{path} has format version {version}; this dynpart reads up to {newest}: upgrade it"
        )
    return version


def plain(value: Any) -> Any:
    """A value as JSON values; non-finite floats become words."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else json.dumps(value)
    if isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    raise ModelFileError(f"a value of type {type(value).__name__} cannot be saved: {value!r:.80}")


def number(value: Any) -> Any:
    """Inverse of `plain` for non-finite floats."""
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def _content(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """The bytes of a file and the length of its header.

    The file is opened once, so that replacing it meanwhile has no effect. Sizes are compared before
    reading.
    """
    # Opening a pipe would block until another process writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if path.exists() and not path.is_file():  # a socket, or a folder on some systems
            raise ModelFileError(f"{path} is not a regular file") from error
        raise
    try:
        size = _checked_size(path, os.fstat(handle), max_bytes)
        with os.fdopen(handle, "rb", closefd=False) as file:
            start = file.read(9)
            n_header = int.from_bytes(start[:8], "little")
            if len(start) < 9 or start[8:] != b"{":
                raise ModelFileError(f"{path} is not a dynpart file: it has the wrong first bytes")
            if n_header > MOST_HEADER_BYTES or 8 + n_header > size:
                raise ModelFileError(
                    f"{path} is truncated or not a dynpart file: it declares a header of "
                    f"{n_header} bytes"
                )
            file.seek(0)
            return file.read(size), n_header
    finally:
        os.close(handle)


def _checked_size(path: Path, status: os.stat_result, max_bytes: int) -> int:
    """Size of a regular file in bytes, or ModelFileError."""
    if stat.S_ISDIR(status.st_mode):
        raise ModelFileError(f"{path} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is not a regular file")
    if status.st_size > max_bytes:
        raise ModelFileError(
            f"{path} has {status.st_size} bytes, more than the {max_bytes} that are read; "
            "pass a larger max_bytes if you trust it"
        )
    return status.st_size


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} has unreadable metadata: {error}") from error
    if not isinstance(meta, dict):
        raise ModelFileError(f"{path} has unreadable metadata: expected an object")
    return meta


def _array(path: Path, name: str, facts: Mapping[str, Any]) -> NDArray[Any]:
    """One array, after a check of its type; safetensors has compared sizes with the file."""
    dtype = _DTYPES.get(facts["dtype"])
    if dtype is None:
        raise ModelFileError(
            f"{path}: array {name[:80]!r} has the unexpected type {facts['dtype']}"
        )
    if dtype is np.bool_ and not set(facts["data"]) <= {0, 1}:
        raise ModelFileError(f"{path}: array {name[:80]!r} holds booleans other than 0 and 1")
    try:
        return np.frombuffer(facts["data"], dtype=dtype).reshape(facts["shape"])
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: array {name[:80]!r} is invalid: {error}") from error


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the JSON text and every array with its name, type and shape."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
