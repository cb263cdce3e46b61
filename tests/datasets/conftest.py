"""Small files in the published formats, written by the tests themselves."""

import gzip
import io
import struct

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def no_data_of_the_user(monkeypatch, request, tmp_path_factory):
    """Ignore the user's data folder and cache, except for the tests of real data."""
    if "real_data" not in request.fixturenames:
        monkeypatch.delenv("DYNPART_DATA", raising=False)
        monkeypatch.setenv("DYNPART_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def idx_bytes():
    """Make the content of an idx file."""

    def encode(array):
        array = np.asarray(array, dtype=np.uint8)
        header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        return header + array.tobytes()

    return encode


@pytest.fixture
def tiny_mnist(idx_bytes):
    """Arrays by file name, and a function that writes them as gzipped or plain idx files."""
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(0, 256, (7, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": np.arange(7, dtype=np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (3, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": np.array([9, 0, 4], dtype=np.uint8),
    }

    def write(folder, zipped=True, rename=lambda name: name):
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            content = idx_bytes(array)
            if zipped:
                (folder / f"{rename(name)}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / rename(name)).write_bytes(content)

    return arrays, write


@pytest.fixture
def jpeg_bytes():
    """Make the content of a JPEG file of high quality from a gray or colour array."""

    def encode(array):
        stream = io.BytesIO()
        Image.fromarray(np.asarray(array, dtype=np.uint8)).save(stream, "JPEG", quality=95)
        return stream.getvalue()

    return encode
