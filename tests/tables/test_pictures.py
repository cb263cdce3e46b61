"""The values of a picture depend only on its own pixels and their type."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from dynpart.tables import TableError, read_table


def write(folder, name, values):
    Image.fromarray(np.asarray(values)).save(folder / name)


@pytest.mark.parametrize("name", ["p.png", "p.tiff"])
def test_sixteen_bits_are_scaled_by_their_range(tmp_path, name):
    values = np.array([[0, 257, 32768], [65535, 1, 60000]], dtype=np.uint16)
    write(tmp_path, name, values)
    gray = read_table(tmp_path, binary=False)
    np.testing.assert_allclose(gray.values[0], values.ravel() / 65535, atol=1e-6)
    np.testing.assert_array_equal(read_table(tmp_path, binary=True).values[0], [0, 0, 1, 1, 0, 1])


def test_pgm_of_sixteen_bits(tmp_path):
    values = np.array([[0, 65535], [32768, 13107]], dtype=">u2")
    (tmp_path / "p.pgm").write_bytes(b"P5 2 2 65535\n" + values.tobytes())
    gray = read_table(tmp_path, binary=False).values[0]
    np.testing.assert_allclose(gray, [0, 1, 0.5, 0.2], atol=1e-4)


def test_real_numbers_are_gray_from_0_to_1(tmp_path):
    write(tmp_path, "p.tiff", np.array([[0, 0.25], [0.5, 1]], dtype=np.float32))
    np.testing.assert_allclose(read_table(tmp_path, binary=False).values[0], [0, 0.25, 0.5, 1])


@pytest.mark.parametrize(
    "values",
    [
        np.array([[0, 70000]], dtype=np.int32),
        np.array([[0, 1.5]], dtype=np.float32),
        np.array([[-0.5, 1]], dtype=np.float32),
        np.array([[np.nan, 1]], dtype=np.float32),
    ],
)
def test_pixels_without_a_scale_are_refused(tmp_path, values):
    write(tmp_path, "p.tiff", values)
    with pytest.raises(TableError, match=r"p\.tiff has pixels of .*8 or 16 bits"):
        read_table(tmp_path)


gray_images = st.one_of(
    hnp.arrays(np.uint8, (2, 3)),
    hnp.arrays(np.uint8, (2, 3), elements=st.integers(0, 1)),
    hnp.arrays(np.uint16, (2, 3)),
)


@given(images=st.lists(gray_images, min_size=1, max_size=4), binary=st.booleans())
def test_a_picture_does_not_depend_on_its_companions(tmp_path_factory, images, binary):
    together = tmp_path_factory.mktemp("together")
    alone = tmp_path_factory.mktemp("alone")
    rows = []
    for place, image in enumerate(images):
        write(together, f"p{place}.png", image)
        write(alone, "p.png", image)
        rows.append(read_table(alone, binary=binary).values[0])
    np.testing.assert_array_equal(read_table(together, binary=binary).values, rows)


def test_black_pictures_are_pointed_out(tmp_path):
    write(tmp_path, "p.png", np.eye(3, dtype=np.uint8))
    table = read_table(tmp_path)
    assert not table.values.any()
    assert "black" in table.remarks[-1]


def test_pictures_that_unpack_to_too_many_pixels_are_refused(tmp_path, recwarn):
    for side in (5000, 10_000):  # above our limit, and above Pillow's own for a warning
        Image.new("1", (side, side)).save(tmp_path / "p.png")
        with pytest.raises(TableError, match=r"p\.png"):
            read_table(tmp_path)
    assert not recwarn.list
