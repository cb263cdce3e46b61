"""What the fuzzer throws: strategies for damaged files, odd tables, wild parameters."""

from __future__ import annotations

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from safetensors.numpy import save as save_tensors
from scipy.io import savemat
from sklearn.exceptions import NotFittedError

from dynpart import DynamicPartitionModel
from dynpart.persistence import _container
from dynpart.tables import write_table

WORDS = st.sampled_from(
    [
        "<script>",
        "</script>",
        "{{DATA}}",
        "\u2028",
        '"',
        "'",
        "\\",
        "\0",
        "-->",
        "&lt;",
        "é",
        "\ud7ff",
    ]
)


@st.composite
def damaged(draw: st.DrawFn, contents: list[bytes]) -> tuple[int, bytes]:
    """One of the files, after one to four injuries."""
    which = draw(st.integers(0, len(contents) - 1))
    content = bytearray(contents[which])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        injury = draw(
            st.sampled_from(["flip", "byte", "cut", "insert", "remove", "length", "copy"])
        )
        if injury == "flip" and content:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif injury == "byte" and content:
            content[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x22, 0x7B]))
        elif injury == "cut":
            del content[at:]
        elif injury == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=20))
        elif injury == "remove":
            del content[at : at + draw(st.integers(1, 50))]
        elif injury == "length":
            size = draw(st.sampled_from([0, 1, 2**16, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
            at = draw(st.sampled_from([0, at]))
            content[at : at + 8] = size.to_bytes(8, "little")
        elif injury == "copy":
            content += content[at : at + 100]
    return which, bytes(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def forged(draw: st.DrawFn, golden: Path) -> bytes:
    """A model file with changed entries or arrays, and the checksum to match."""
    original = _container.read_container(golden)
    meta, arrays = dict(original.meta), dict(original.arrays)
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            name = draw(st.sampled_from([*sorted(meta), "surprise"]))
            if draw(st.booleans()) and isinstance(meta.get(name), dict) and meta[name]:
                inner = draw(st.sampled_from(sorted(meta[name])))
                meta[name] = {**meta[name], inner: draw(JSON)}
            elif draw(st.booleans()):
                meta[name] = draw(JSON)
            else:
                meta.pop(name, None)
        else:
            name = draw(st.sampled_from([*sorted(arrays), "surprise"]))
            if draw(st.integers(0, 2)) and name in arrays:
                odd = st.floats() if draw(st.booleans()) else st.floats(0.01, 0.99)
                arrays[name] = draw(hnp.arrays(np.float64, arrays[name].shape, elements=odd))
            else:
                shapes = [(6, 6), (6,), (8,), (0, 6), (1, 1, 1), (), (7, 6)]
                dtypes = [np.float64, np.float32, np.int64, np.uint8]
                shape, dtype = draw(st.sampled_from(shapes)), draw(st.sampled_from(dtypes))
                arrays[name] = draw(hnp.arrays(dtype, shape))
    text = json.dumps(meta)
    return save_tensors(arrays, {"dynpart": text, "sha256": _container._checksum(text, arrays)})


def text_tables() -> st.SearchStrategy[bytes]:
    """Lines of fields, most of them numbers, some not."""
    number = st.integers(0, 1).map(str) | st.floats(-1e6, 1e6).map(str) | st.integers().map(str)
    odd = st.text(max_size=6) | st.sampled_from(
        ["", "NA", '"', '"a,b"', "1_0", "1e999", "true", "٣"]
    )
    field = st.one_of(number, number, number, odd)
    delimiter = st.sampled_from([",", ";", "\t", " "])

    def rows(width: int) -> st.SearchStrategy[list[list[str]]]:
        sound = st.lists(number, min_size=width, max_size=width)
        unsound = st.lists(field, min_size=width, max_size=width) | st.lists(field, max_size=4)
        head = st.lists(st.text(min_size=1, max_size=5), min_size=width, max_size=width)
        few = st.lists(unsound, max_size=1)
        parts = st.tuples(st.lists(head, max_size=1), st.lists(sound, max_size=4), few)
        return parts.map(lambda p: p[0] + p[1] + p[2])

    lines = st.integers(1, 4).flatmap(rows)
    table = st.tuples(delimiter, lines, st.sampled_from(["\n", "\r\n", "\r"])).map(
        lambda t: t[2].join(t[0].join(line) for line in t[1]).encode("utf-8", "surrogatepass")
    )
    return table | st.binary(max_size=60)


def array_files(folder: Path) -> list[tuple[str, bytes]]:
    """Sound files of all kinds, by name."""
    values = np.arange(12.0).reshape(3, 4)
    np.save(folder / "x.npy", values)
    np.savez(folder / "x.npz", values=values, names=np.array(list("abcd")))
    np.savez_compressed(folder / "y.npz", images=values.astype(np.uint8).reshape(3, 2, 2))
    savemat(folder / "x.mat", {"x": values})
    savemat(folder / "y.mat", {"x": values.astype(np.uint8)}, do_compression=True)
    write_table(folder / "x.parquet", values, list("abcd"), labels=list("xyz"))
    idx = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(range(8))
    (folder / "x.gz").write_bytes(gzip.compress(idx))
    (folder / "x.idx").write_bytes(idx)
    found = [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
    for kind in ("png", "jpeg", "bmp", "gif", "tiff", "webp", "ppm"):
        stream = io.BytesIO()
        Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).save(stream, kind)
        ending = {"jpeg": "jpg", "ppm": "pgm"}.get(kind, kind)
        found.append((f"{kind}/p.{ending}", stream.getvalue()))
    return found


def odd_arrays() -> st.SearchStrategy[Any]:
    """Arrays of any shape and type, most of them small tables."""
    binary = hnp.arrays(
        np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 1)
    )
    floats = hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(-1e3, 1e3) | st.integers(-2, 2).map(float),
    )
    wild = hnp.arrays(
        hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    )
    other = (
        st.none() | st.text(max_size=3) | st.lists(st.lists(st.floats(), max_size=3), max_size=3)
    )
    return st.one_of(binary, floats, binary, floats, wild, other)


PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "n_experts": st.integers(-1, 6),
    "family": st.sampled_from(["auto", "bernoulli", "gaussian", "poisson", None]),
    "max_iter": st.integers(0, 3),
    "n_init": st.integers(0, 2),
    "max_active": st.none() | st.integers(-1, 7),
    "n_active": st.none() | st.integers(-1, 7),
    "activation_cost": st.sampled_from([0.0, 1.5, -2.0, "prior", float("nan"), float("inf"), "x"]),
    "criterion": st.sampled_from(["likelihood", "reconstruction", "taste"]),
    "n_starts": st.integers(0, 3),
    "n_swaps": st.integers(-1, 2),
    "prune": st.booleans() | st.just("yes"),
    "variance_floor": st.sampled_from([1.0, 0.02, 1e-9, 0.0, -1.0, float("inf")]),
    "random_state": st.integers(0, 5) | st.none(),
}


def fits() -> st.SearchStrategy[Any]:
    """Data and some parameters, a few of them wrong."""
    fitting = st.fixed_dictionaries({"n_experts": st.integers(1, 5), "max_iter": st.just(2)})
    chosen = st.sets(st.sampled_from(sorted(PARAMETERS)), max_size=2).flatmap(
        lambda names: st.fixed_dictionaries({name: PARAMETERS[name] for name in names})
    )
    return st.tuples(odd_arrays(), fitting, chosen)


def check_fit(case: tuple[Any, dict[str, Any], dict[str, Any]]) -> str:
    """Fit, encode, decode: documented errors, or numbers that hold together."""
    X, base, chosen = case
    try:
        model = DynamicPartitionModel(**{**base, **chosen}).fit(X)
    except (ValueError, TypeError) as error:
        return _refused(error)
    codes = model.transform(X)
    assert codes.shape == (len(X), model.n_experts)
    assert codes.any(axis=1).all()
    fewest, most = model._limits()
    assert ((codes.sum(axis=1) >= fewest) & (codes.sum(axis=1) <= most)).all()
    assert np.isfinite(model.means_).all()
    assert (model.expertise_ > 0).all()
    assert np.isfinite(model.inverse_transform(codes)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.sample(2, random_state=0)).all()
    return "fitted"


def _refused(error: Exception) -> str:
    """A documented error must say something."""
    if not str(error):
        raise AssertionError("an error without a message") from error
    return "refused"


def odd_codes(n_experts: int) -> st.SearchStrategy[Any]:
    """Codes for so many experts, some of them empty, and things that are no codes."""
    shape = st.tuples(st.integers(1, 5), st.just(n_experts))
    kinds = st.sampled_from([np.uint8, np.int64, np.float64, np.bool_])
    sound = st.tuples(kinds, shape).flatmap(
        lambda t: hnp.arrays(t[0], t[1], elements=st.integers(0, 1).map(t[0]))
    )
    return sound | sound | odd_arrays()


def check_codes(model: DynamicPartitionModel, H: Any) -> str:
    """Decoding takes codes and refuses everything else."""
    try:
        owner = model.partition(H)
        values = model.inverse_transform(H)
    except (ValueError, TypeError, NotFittedError) as error:
        return _refused(error)
    assert np.isfinite(values).all()
    assert (np.take_along_axis(np.asarray(H), owner, axis=1) == 1).all()
    return "decoded"


def hostile_words() -> st.SearchStrategy[list[str]]:
    """Four names out of dangerous pieces."""
    word = st.lists(WORDS | st.text(max_size=4), max_size=4).map("".join)
    return st.lists(word, min_size=1, max_size=4)
