"""Readers of idx, npz and mat: what was written is read, and damage is an error, not a crash."""

import gzip
import io
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from dynpart import formats
from dynpart.formats import read_idx, read_mat, read_npz

# The folder is shared by the examples of a test, each of which overwrites its file.
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

ARRAY = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_is_read_plain_and_gzipped(tmp_path, idx_bytes, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(idx_bytes(ARRAY)))
    np.testing.assert_array_equal(read_idx(path, (3, 4)), ARRAY)
    path.write_bytes(pack(idx_bytes(ARRAY[:, 0, 0])))
    np.testing.assert_array_equal(read_idx(path, ()), ARRAY[:, 0, 0])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: b"", "magic"),
        (lambda content: content[:2], "magic"),
        (lambda content: b"\0\0\x08\x01" + content[4:], "magic number: expected 00000803"),
        (lambda content: b"\0\0\x0d\x03" + content[4:], "magic"),
        (lambda content: content[:10], "header"),
        (lambda content: content[:4] + struct.pack(">III", 2, 4, 3) + content[16:], "shape"),
        (lambda content: content[:4] + struct.pack(">III", 0, 3, 4), "shape"),
        (lambda content: content[:-1], "truncated"),
        (lambda content: content + b"\0", "longer"),
        (lambda content: content[:4] + struct.pack(">III", 2**20, 3, 4) + content[16:], "trunc"),
        (lambda content: content[:4] + struct.pack(">III", 2**32 - 1, 3, 4), "declares"),
    ],
)
def test_spoilt_idx_is_refused_by_name(tmp_path, idx_bytes, pack, spoil, message):
    path = tmp_path / "spoilt-idx3-ubyte"
    path.write_bytes(pack(spoil(idx_bytes(ARRAY))))
    with pytest.raises(ValueError, match=f"spoilt-idx3-ubyte.*{message}"):
        read_idx(path, (3, 4))


@pytest.mark.parametrize("n_lost", [1, 5, 12, 20])
def test_truncated_gzip_is_refused(tmp_path, idx_bytes, n_lost):
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(idx_bytes(ARRAY))[:-n_lost])
    with pytest.raises(ValueError, match=r"short\.gz is truncated"):
        read_idx(path, (3, 4))


def test_a_small_file_cannot_ask_for_much_memory(tmp_path, monkeypatch):
    path = tmp_path / "bomb"
    path.write_bytes(b"\0\0\x08\x03" + struct.pack(">III", 10**6, 28, 28))

    def refuse(*_):
        raise AssertionError("memory was asked for")

    monkeypatch.setattr(formats.np, "frombuffer", refuse)
    with pytest.raises(ValueError, match="truncated"):
        read_idx(path, (28, 28))


def _is_packed(content, expected):
    """Whether gzip unpacks this to the very bytes expected."""
    try:
        return gzip.decompress(bytes(content)) == expected
    except (OSError, EOFError, zlib.error):
        return False


@shared_folder
@given(data=st.data())
def test_damaged_gzipped_idx_is_never_read_silently(tmp_path, idx_bytes, data):
    content = bytearray(gzip.compress(idx_bytes(ARRAY), mtime=0))
    place = data.draw(st.integers(10, len(content) - 1))  # behind gzip's own header
    content[place] ^= data.draw(st.integers(1, 255))
    # Bits that fill up the last byte before the trailer mean nothing: to change them is no damage.
    assume(place != len(content) - 9 or not _is_packed(content, idx_bytes(ARRAY)))
    path = tmp_path / "damaged.gz"
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"damaged\.gz"):
        read_idx(path, (3, 4))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_read(tmp_path, save):
    path = tmp_path / "file.npz"
    names = np.array(["horse", "bike"])
    save(path, images=ARRAY, columns=np.asfortranarray(ARRAY), names=names, n=np.int32(3))
    arrays = read_npz(path, ["images", "columns", "names", "n"])
    np.testing.assert_array_equal(arrays["images"], ARRAY)
    np.testing.assert_array_equal(arrays["columns"], ARRAY)
    np.testing.assert_array_equal(arrays["names"], names)
    assert arrays["n"] == 3
    assert arrays["images"].flags.writeable


def test_npz_without_the_array_is_refused(tmp_path):
    np.savez(tmp_path / "file.npz", other=ARRAY)
    with pytest.raises(ValueError, match=r"file\.npz: has no array 'images'"):
        read_npz(tmp_path / "file.npz", ["images"])


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "file.npz", images=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="numbers or text"):
        read_npz(tmp_path / "file.npz", ["images"])
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="damaged"):
        read_npz(tmp_path / "plain.npz", ["images"])


@pytest.mark.parametrize("shape", ["(10**9, 10**9)", "(1000000, 1000)", "(-3, 4)", "(2, 3, 5)"])
def test_npz_that_declares_more_than_it_holds_is_refused(tmp_path, shape):
    path = tmp_path / "file.npz"
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.replace("10**9", str(10**9))
    header = text.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr("images.npy", magic + header + bytes(24))
    with pytest.raises(ValueError, match="declares shape"):
        read_npz(path, ["images"])


@shared_folder
@given(data=st.data(), save=st.sampled_from([np.savez, np.savez_compressed]))
def test_damaged_npz_is_refused_or_unharmed(tmp_path, save, data):
    stream = io.BytesIO()
    save(stream, images=ARRAY)
    content = bytearray(stream.getvalue())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "damaged.npz"
    path.write_bytes(bytes(content))
    refusal = ""
    try:
        images = read_npz(path, ["images"])["images"]
    except ValueError as error:
        refusal = str(error)
    assert "damaged.npz" in refusal or np.array_equal(images, ARRAY)


@pytest.mark.parametrize("do_compression", [False, True])
def test_mat_is_read(tmp_path, do_compression):
    path = tmp_path / "file.mat"
    savemat(path, {"a": ARRAY[0], "b": np.ones((1, 5))}, do_compression=do_compression)
    arrays = read_mat(path, {"a": (None, 4)})
    assert list(arrays) == ["a"]
    np.testing.assert_array_equal(arrays["a"], ARRAY[0])


def test_mat_without_the_array_or_of_other_shape_is_refused(tmp_path):
    path = tmp_path / "file.mat"
    savemat(path, {"a": ARRAY[0]})
    with pytest.raises(ValueError, match=r"file\.mat has no array 'b'"):
        read_mat(path, {"b": (None, 4)})
    with pytest.raises(ValueError, match=r"'a' must have shape \(n, 5\), got \(3, 4\)"):
        read_mat(path, {"a": (None, 5)})
