"""Horses and motorcycles from published JPEG files, in a folder or an archive, and from npz."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynpart.datasets import _pictures, load_caltech_motorcycles, load_weizmann_horses
from dynpart.datasets._pictures import resize
from tests.effort import examples


@pytest.fixture(scope="session")
def horse_masks():
    """328 different masks of different sizes: a box on black."""
    masks = []
    for number in range(328):
        mask = np.zeros((20 + number % 7, 24 + number % 5), dtype=np.uint8)
        mask[number % 8 : number % 8 + 9, number % 10 : number % 10 + 12] = 255
        masks.append(mask)
    return masks


@pytest.fixture
def horse_files(horse_masks, jpeg_bytes):
    return {f"horse{n:03d}.jpg": jpeg_bytes(mask) for n, mask in enumerate(horse_masks, start=1)}


@pytest.fixture
def bike_files(jpeg_bytes):
    """798 flat pictures, gray or in colour, whose shade is their number modulo 200."""
    files = {}
    for number in range(1, 799):
        shape = (6, 10) if number % 100 == 0 else (6, 10, 3)
        files[f"image_{number:04d}.jpg"] = jpeg_bytes(np.full(shape, number % 200))
    return files


def write_files(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def tar_gz(files, folder):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("place", ["", "figure_ground", "weizmann_horse_db/figure_ground"])
def test_horses_are_read_from_their_masks(tmp_path, horse_files, horse_masks, place):
    write_files(tmp_path / place, horse_files)
    (tmp_path / place / "Thumbs.db").write_bytes(b"not a picture")
    horses = load_weizmann_horses(folder=tmp_path)
    assert horses.data.dtype == np.uint8
    assert set(np.unique(horses.data)) == {0, 1}
    assert horses.image_shape == (200, 240)
    assert (horses.train.shape, horses.test.shape) == ((300, 48000), (28, 48000))
    for image, mask in zip(horses.images, horse_masks, strict=True):
        np.testing.assert_array_equal(image, resize(mask, (200, 240), mask=True) // 255)


def test_horses_are_read_from_their_archive(tmp_path, horse_files, jpeg_bytes):
    decoys = {name: jpeg_bytes(np.zeros((5, 5, 3))) for name in list(horse_files)[:3]}
    files = {f"rgb/{name}": content for name, content in decoys.items()}
    files |= {f"figure_ground/{name}": content for name, content in horse_files.items()}
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive/weizmann_horse_db.tar.gz").write_bytes(tar_gz(files, "weizmann_horse_db"))
    write_files(tmp_path / "plain", horse_files)
    from_archive = load_weizmann_horses(folder=tmp_path / "archive")
    from_folder = load_weizmann_horses(folder=tmp_path / "plain")
    np.testing.assert_array_equal(from_archive.data, from_folder.data)


def test_an_incomplete_set_is_refused_with_the_first_missing_name(tmp_path, horse_files):
    del horse_files["horse013.jpg"], horse_files["horse100.jpg"]
    write_files(tmp_path, horse_files)
    with pytest.raises(FileNotFoundError, match=r"2 of 328 .* first is horse013\.jpg"):
        load_weizmann_horses(folder=tmp_path)


def test_photographs_in_place_of_masks_are_refused(tmp_path, horse_files, jpeg_bytes):
    horse_files["horse002.jpg"] = jpeg_bytes(np.zeros((20, 24, 3)))
    write_files(tmp_path, horse_files)
    with pytest.raises(ValueError, match=r"horse002\.jpg .*gray mask"):
        load_weizmann_horses(folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\xff\xd8\xff\xe0 nothing"])
def test_a_damaged_picture_is_refused_by_name(tmp_path, horse_files, content):
    horse_files["horse005.jpg"] = content
    write_files(tmp_path, horse_files)
    with pytest.raises(ValueError, match=r"horse005\.jpg"):
        load_weizmann_horses(folder=tmp_path)


def test_horses_without_a_folder_say_what_to_put_where():
    with pytest.raises(FileNotFoundError) as caught:
        load_weizmann_horses()
    for word in ("figure_ground/horse001.jpg", "weizmann_horses_200x240.npz", "DYNPART_DATA"):
        assert word in str(caught.value)


def test_horses_are_read_from_npz(tmp_path):
    images = np.random.default_rng(0).integers(0, 2, (328, 200, 240), dtype=np.uint8)
    np.savez(tmp_path / "weizmann_horses_200x240.npz", images=images)
    horses = load_weizmann_horses(folder=tmp_path)
    np.testing.assert_array_equal(horses.images, images)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((327, 200, 240), np.uint8),
        np.zeros((328, 240, 200), np.uint8),
        np.zeros((328, 200, 240), bool),
        np.full((328, 200, 240), 255, np.uint8),
    ],
)
def test_other_arrays_are_no_horses(tmp_path, images):
    np.savez_compressed(tmp_path / "weizmann_horses_200x240.npz", images=images)
    with pytest.raises(ValueError, match="'images' must be uint8 of shape"):
        load_weizmann_horses(folder=tmp_path)


def write_bikes_as_folder(root, files):
    write_files(root / "101_ObjectCategories/Motorbikes", files)


def write_bikes_as_tar(root, files):
    content = tar_gz(files, "101_ObjectCategories/Motorbikes")
    (root / "101_ObjectCategories.tar.gz").write_bytes(content)


def write_bikes_as_zip(root, files):
    content = tar_gz(files, "101_ObjectCategories/Motorbikes")
    with zipfile.ZipFile(root / "caltech-101.zip", "w") as archive:
        archive.writestr("caltech-101/101_ObjectCategories.tar.gz", content)
        archive.writestr("__MACOSX/caltech-101/._101_ObjectCategories.tar.gz", b"rubbish")


@pytest.mark.parametrize("write", [write_bikes_as_folder, write_bikes_as_tar, write_bikes_as_zip])
def test_motorcycles_are_read_as_published(tmp_path, bike_files, write):
    write(tmp_path, bike_files)
    bikes = load_caltech_motorcycles(folder=tmp_path)
    assert bikes.data.dtype == np.float32
    assert bikes.image_shape == (100, 180)
    assert (bikes.train.shape, bikes.test.shape) == ((750, 18000), (48, 18000))
    shades = np.arange(1, 799) % 200 / 255
    np.testing.assert_allclose(
        bikes.data, np.broadcast_to(shades[:, None], bikes.data.shape), atol=0.01
    )


def test_motorcycles_are_read_from_npz(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (798, 100, 180), dtype=np.uint8)
    np.savez(tmp_path / "caltech101_motorbikes_100x180.npz", images=images)
    bikes = load_caltech_motorcycles(folder=tmp_path)
    np.testing.assert_array_equal(np.round(bikes.images * 255), images)
    np.savez(tmp_path / "caltech101_motorbikes_100x180.npz", images=images[1:])
    with pytest.raises(ValueError, match="'images' must be uint8 of shape"):
        load_caltech_motorcycles(folder=tmp_path)


@pytest.mark.parametrize("name", ["101_ObjectCategories.tar.gz", "caltech-101.zip"])
@pytest.mark.parametrize("part", ["nothing", "half", "rubbish"])
def test_a_damaged_archive_is_refused_by_name(tmp_path, bike_files, name, part):
    write = write_bikes_as_zip if name.endswith("zip") else write_bikes_as_tar
    few = dict(list(bike_files.items())[:50])
    write(tmp_path, few)
    path = tmp_path / name
    content = path.read_bytes()
    spoilt = {"nothing": b"", "half": content[: len(content) // 2], "rubbish": b"rubbish" * 100}
    path.write_bytes(spoilt[part])
    with pytest.raises((ValueError, FileNotFoundError), match=name):
        load_caltech_motorcycles(folder=tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), write=st.sampled_from([write_bikes_as_tar, write_bikes_as_zip]))
def test_an_archive_with_a_wrong_byte_is_refused_by_name(tmp_path, jpeg_bytes, write, data):
    # 2 of 798 pictures: it is refused in any case, but never by an error of another kind.
    write(tmp_path, dict.fromkeys(["image_0001.jpg", "image_0002.jpg"], jpeg_bytes(np.eye(8))))
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    with pytest.raises((ValueError, FileNotFoundError), match=r"caltech-101|101_Object|image_"):
        load_caltech_motorcycles(folder=tmp_path)
    path.unlink()


def test_a_zip_archive_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "caltech-101.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match=r"caltech-101\.zip: holds no 101_ObjectCategories"):
        load_caltech_motorcycles(folder=tmp_path)


def test_pictures_of_absurd_size_are_refused_before_they_are_decoded(
    tmp_path, bike_files, jpeg_bytes, monkeypatch
):
    monkeypatch.setattr(_pictures, "_MOST_PIXELS", 1000)
    bike_files["image_0001.jpg"] = jpeg_bytes(np.zeros((40, 40)))
    write_bikes_as_folder(tmp_path, bike_files)
    with pytest.raises(ValueError, match=r"image_0001\.jpg .* 40 x 40 pixels"):
        load_caltech_motorcycles(folder=tmp_path)
    monkeypatch.setattr(_pictures, "_MOST_FILE_BYTES", 10)
    with pytest.raises(ValueError, match=r"more than the 10 expected"):
        load_caltech_motorcycles(folder=tmp_path)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_jpeg_is_decoded_or_refused_but_never_crashes(jpeg_bytes, data):
    content = bytearray(jpeg_bytes(np.arange(64).reshape(8, 8) * 4))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    refusal = ""
    try:
        image = _pictures._decode("picture", bytes(content), (4, 5), masks=False)
    except ValueError as error:
        refusal = str(error)
    assert "picture" in refusal or image.shape == (4, 5)


@given(
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    seed=st.integers(0, 100),
    mask=st.booleans(),
)
def test_resizing_to_the_same_size_changes_only_the_gray_of_masks(height, width, seed, mask):
    image = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    same = resize(image, (height, width), mask=mask)
    np.testing.assert_array_equal(same, np.where(image > 127, 255, 0) if mask else image)
