"""The container of every file: named arrays and one JSON text, with a checksum over both.

A safetensors file holds ``dynpart`` (the JSON text) and ``sha256`` in its metadata. This module
checks sizes before it reads, and knows nothing of models.
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

from dynpart.persistence._atomic import atomic_write

MOST_BYTES = 2**32
"""Largest file that is read unless the caller allows more."""

MOST_HEADER_BYTES = 2**24
"""Largest header: names of variables and the log of learning fit many times over."""

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
    """A file is not a complete, untouched file of a kind and version that can be read here."""


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
    """Write arrays and JSON to a file, whole or not at all."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    wrong = [name for name, array in arrays.items() if array.dtype not in _DTYPES.values()]
    if wrong:
        raise ModelFileError(f"array {wrong[0]!r} of type {arrays[wrong[0]].dtype} cannot be saved")
    text = json.dumps(plain(meta), allow_nan=False, separators=(",", ":"))
    content = save(arrays, {"dynpart": text, "sha256": _checksum(text, arrays)})
    if int.from_bytes(content[:8], "little") > MOST_HEADER_BYTES:
        raise ModelFileError(
            f"names and history take more than the {MOST_HEADER_BYTES} bytes a file may spend on "
            "them; shorten the names of the variables"
        )
    with atomic_write(path, overwrite=overwrite) as file:
        file.write(content)


def read_container(path: str | os.PathLike[str], *, max_bytes: int = MOST_BYTES) -> Container:
    """Read a file that `write_container` wrote, or say what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    _check_sizes(path, max_bytes)
    try:
        with safe_open(path, framework="numpy") as file:
            texts = file.metadata() or {}
            if "dynpart" not in texts:
                raise ModelFileError(f"{path} is a safetensors file, but not one of dynpart")
            meta = _parsed(path, texts["dynpart"])
            arrays = {name: _array(path, file, name) for name in sorted(file.keys())}
    except (SafetensorError, UnicodeError, OverflowError, MemoryError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged or not a dynpart file: {error}") from error
    if texts.get("sha256") != _checksum(texts["dynpart"], arrays):
        raise ModelFileError(f"{path} is damaged: its content does not match its checksum")
    return Container(meta, arrays)


def check_kind(
    path: str | os.PathLike[str], meta: Mapping[str, Any], kind: str, newest: int
) -> int:
    """Check what sort of file this is; returns its format version."""
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
    """Turn a value into what JSON can say; non-finite floats become words."""
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
    """Undo what `plain` does to non-finite floats."""
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def _check_sizes(path: Path, max_bytes: int) -> None:
    """Compare the sizes a file declares with the one it has, before anything is read."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise ModelFileError(f"{path} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(f"{path} is not a regular file")
    if status.st_size > max_bytes:
        raise ModelFileError(
            f"{path} has {status.st_size} bytes, more than the {max_bytes} that are read; "
            "pass a larger max_bytes if you trust it"
        )
    with path.open("rb") as file:
        start = file.read(9)
    n_header = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{":
        raise ModelFileError(f"{path} is not a dynpart file: it does not begin as one")
    if n_header > MOST_HEADER_BYTES or 8 + n_header > status.st_size:
        raise ModelFileError(
            f"{path} is truncated or not a dynpart file: it declares a header of {n_header} bytes"
        )


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} has unreadable metadata: {error}") from error
    if not isinstance(meta, dict):
        raise ModelFileError(f"{path} has unreadable metadata: expected an object")
    return meta


def _array(path: Path, file: Any, name: str) -> NDArray[Any]:
    """One array, after a look at its type; safetensors has checked sizes against the file."""
    dtype = file.get_slice(name).get_dtype()
    if dtype not in _DTYPES:
        raise ModelFileError(f"{path}: array {name[:80]!r} has the unexpected type {dtype}")
    return np.asarray(file.get_tensor(name))


def _checksum(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the JSON text and every array with its name, type and shape."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
