"""Strategies of the fuzzer: damaged files, unusual tables, random parameters."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from safetensors.numpy import save as save_tensors
from scipy.io import savemat
from sklearn.exceptions import NotFittedError

from dynpart import DynamicPartitionModel
from dynpart.encoding import Encoding
from dynpart.sources import is_source
from dynpart.storage import _container
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
    """One of the files with one to four changes."""
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


ODD_FIELDS = [
    *(
        "",
        "NA",
        "nan",
        "NULL",
        "?",
        '"',
        '"a,b"',
        "1_0",
        "1e999",
        "true",
        "no",
        "٣",
        "$5",
        "50%",
        "1 000",
        "(3 €)",
    ),
    *(
        "2021-03-04",
        "4.3.21 10:30",
        "=1+2",
        "'=x",
        "@a",
        "\x1b[31m",
        "9007199254740993",
        "owl",
        "-",
    ),
]
"""Fields that are nearly numbers, dates, formulas, control characters."""


def text_tables() -> st.SearchStrategy[bytes]:
    """Lines of fields, most of them numbers, some not."""
    number = st.integers(0, 1).map(str) | st.floats(-1e6, 1e6).map(str) | st.integers().map(str)
    odd = st.text(max_size=6) | st.sampled_from(ODD_FIELDS)
    field = st.one_of(number, number, number, odd)
    delimiter = st.sampled_from([",", ";", "\t", " "])

    def rows(width: int) -> st.SearchStrategy[list[list[str]]]:
        sound = st.lists(number, min_size=width, max_size=width)
        unsound = st.lists(field, min_size=width, max_size=width) | st.lists(field, max_size=4)
        name = st.text(min_size=1, max_size=5) | st.sampled_from(ODD_FIELDS)
        head = st.lists(name, min_size=max(1, width - 1), max_size=width)
        few = st.lists(unsound, max_size=1)
        blank = st.lists(st.just([]), max_size=1)
        parts = st.tuples(
            blank, st.lists(head, max_size=1), st.lists(sound, max_size=4), blank, few
        )
        return parts.map(lambda p: list(chain(*p)))

    lines = st.integers(1, 4).flatmap(rows)
    table = st.tuples(delimiter, lines, st.sampled_from(["\n", "\r\n", "\r"])).map(
        lambda t: t[2].join(t[0].join(line) for line in t[1]).encode("utf-8", "surrogatepass")
    )
    return table | st.binary(max_size=60)


def table_options() -> st.SearchStrategy[dict[str, Any]]:
    """Options of a table of text."""
    name = st.sampled_from([*ODD_FIELDS, "a", "b"]) | st.text(max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "header": st.none() | st.booleans(),
            "label_column": st.none() | st.just(False) | name,
            "drop": st.lists(name, max_size=2),
        },
    )


def arguments() -> st.SearchStrategy[list[str]]:
    """Options of the command line, most of them odd."""
    whole = st.integers(-3, 12).map(str) | st.sampled_from(
        ["1_0", "٣", "1.0", "", " 1", "9" * 30, "0x1", "nan"]
    )
    word = st.sampled_from([*ODD_FIELDS, "x", "row", "expert0"]) | st.text(max_size=4)
    size = st.sampled_from(["2x2", "2x3", "99999x99999", "0x1", "1_0x2", "x", "-1x-1", "٣x3"])
    values = {
        "--row": whole,
        "--label": word,
        "--label-column": word,
        "--drop": word,
        "--top": whole,
        "--n-starts": whole,
        "--n-swaps": whole,
        "--array": word,
    }
    valued = st.sampled_from(sorted(values)).flatmap(
        lambda name: values[name].map(lambda value: [f"{name}={value}"])
    )
    flag = st.sampled_from([["--header"], ["--no-header"], ["--no-labels"]])
    begin = st.sampled_from([["explain"], ["explain", "--row=1"], ["explain", "--label=wood"]])
    explain = st.tuples(begin, st.lists(valued | flag, max_size=3)).map(
        lambda parts: [*parts[0], *chain(*parts[1])]
    )
    report = size.map(lambda text: ["report", f"--image={text}"])
    return explain | explain | report


def gappy_tables() -> st.SearchStrategy[tuple[str, list[str]]]:
    """Tables of text with gaps and a column of weights, and options to fit them with."""
    number = st.sampled_from(["0", "1", "0", "1", "2.5"])
    gap = st.sampled_from(["", "NA", "nan", "?", " "])
    field = st.one_of(number, number, number, gap)
    weight = st.one_of(number, number, number, st.sampled_from(["-1", "", "nan", "inf", "owl"]))
    row = st.tuples(field, field, field, weight).map(",".join)
    rows = st.lists(row | st.just(",,,1"), min_size=1, max_size=8)
    table = rows.map(lambda lines: "\n".join(["a,b,c,w", *lines, ""]))
    options = st.lists(
        st.sampled_from(["--weight=w", "--weight=x", "--drop=w", "--drop=a", "--header"]),
        max_size=2,
        unique=True,
    )
    return st.tuples(table, options)


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
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"site,a,b\n" + b"wood,1,2.5\nmoor,0,1\n" * 9))
    found = [(path.name, path.read_bytes()) for path in sorted(folder.iterdir())]
    for kind in ("png", "jpeg", "bmp", "gif", "tiff", "webp", "ppm"):
        stream = io.BytesIO()
        Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8)).save(stream, kind)
        ending = {"jpeg": "jpg", "ppm": "pgm"}.get(kind, kind)
        found.append((f"{kind}/p.{ending}", stream.getvalue()))
    for kind, dtype in (("png", np.uint16), ("tiff", np.uint16), ("tiff", np.float32)):
        stream = io.BytesIO()
        Image.fromarray((np.arange(48) / 48).reshape(6, 8).astype(dtype)).save(stream, kind)
        found.append((f"{kind}-{np.dtype(dtype).name}/p.{kind}", stream.getvalue()))
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
    return st.one_of(binary, floats, tables_with_gaps(), tables_with_gaps(), wild, other)


def _masked(X: Any) -> Any:
    """A masked array with invalid values under the mask."""
    return np.ma.array(np.where(np.isnan(X), np.inf, X), mask=np.isnan(X))


def _cells(X: Any, null: Any) -> list[list[Any]]:
    return [[null if np.isnan(value) else value for value in row] for row in X.tolist()]


def _nullable(dtype: str) -> Callable[[Any], Any]:
    def convert(X: Any) -> Any:
        whole = np.round(X) if dtype == "Int64" else X
        return pandas.DataFrame(whole).astype("Float64").astype(dtype)

    return convert


def _polars(X: Any) -> Any:
    columns = [str(i) for i in range(X.shape[1])]
    return polars.DataFrame(_cells(X, None), schema=dict.fromkeys(columns, float), orient="row")


CONTAINERS: list[Callable[[Any], Any]] = [
    lambda X: X,
    lambda X: X.astype(np.float32),
    lambda X: _cells(X, None),
    lambda X: _cells(X, pandas.NA),
    lambda X: np.array(_cells(X, pandas.NA), dtype=object).reshape(X.shape),
    lambda X: [X[: len(X) // 2], X[len(X) // 2 :]],
    lambda X: [_masked(X)],
    _masked,
    _polars,
    pandas.DataFrame,
    _nullable("Int64"),
    _nullable("Float64"),
]
"""Ways to hand in a table with gaps."""


@st.composite
def tables_with_gaps(draw: st.DrawFn) -> Any:
    """Small tables, some rows and columns of which may be missing as a whole."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6))
    levels = [0.0, 1.0] if draw(st.booleans()) else [0.0, 1.0, 2.0, -3.5, 7.0]
    numbers = st.sampled_from([*levels, *levels, np.nan])
    X = draw(hnp.arrays(np.float64, shape, elements=numbers, fill=st.nothing()))
    if draw(st.integers(0, 3)) == 0:
        X[draw(st.integers(0, shape[0] - 1))] = np.nan
    if draw(st.integers(0, 7)) == 0:
        X[:, draw(st.integers(0, shape[1] - 1))] = np.nan
    return draw(st.sampled_from(CONTAINERS))(X)


def weights() -> st.SearchStrategy[Any]:
    """Weights of six rows at most, cut to the table; some are no weights at all."""
    sound = st.integers(0, 3).map(float) | st.floats(0, 1e3)
    few = st.lists(sound, min_size=6, max_size=6)
    odd = st.lists(st.floats(), min_size=1, max_size=6) | st.sampled_from(["paired", 2.0, [], [[]]])
    return st.one_of(st.none(), st.none(), few, few, few, odd)


def weights_for(X: Any, given: Any) -> Any:
    """These weights, as many as the table has rows, or those of each block."""
    if not isinstance(given, list) or len(given) != 6:
        return given
    if isinstance(X, list) and X and hasattr(X[0], "shape"):
        ends = np.cumsum([0, *map(len, X)])
        return [given[a:b] for a, b in pairwise(ends)]
    try:
        return given[: len(X)]
    except TypeError:  # no table
        return given


PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "n_experts": st.integers(-1, 6),
    "family": st.sampled_from(["auto", "bernoulli", "gaussian", "poisson", None]),
    "max_iter": st.integers(0, 3),
    "n_init": st.integers(0, 2),
    "max_active": st.none() | st.integers(-1, 7),
    "n_active": st.none() | st.integers(-1, 7),
    "prior": st.sampled_from(["auto", "independent", None, "gut feeling"]),
    "activation_cost": st.sampled_from([0.0, 1.5, -2.0, float("nan"), float("inf"), "x"]),
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
    return st.tuples(odd_arrays(), fitting, chosen, weights(), st.booleans())


def check_fit(case: tuple[Any, dict[str, Any], dict[str, Any], Any, bool]) -> str:
    """Fit, encode, decode: documented errors, or numbers that hold together."""
    X, base, chosen, weight, stream = case
    weight = weights_for(X, weight)
    model = DynamicPartitionModel(**{**base, **chosen})
    try:
        (model.partial_fit if stream else model.fit)(X, sample_weight=weight)
        if stream:
            model.partial_fit(X)
    except (ValueError, TypeError) as error:
        return _refused(error)
    if weight is not None and not stream:
        X = _heard(X, weight)
    if is_source(X):  # rows are encoded one table at a time
        X = next(block for block in X if len(block))
    codes = model.transform(X)
    assert codes.shape == (len(X), model.n_experts)
    assert codes.any(axis=1).all()
    fewest, most = Encoding.of(model).limits(len(model.means_))
    assert ((codes.sum(axis=1) >= fewest) & (codes.sum(axis=1) <= most)).all()
    assert np.isfinite(model.means_).all()
    assert (model.expertise_ > 0).all()
    assert np.isfinite(model.inverse_transform(codes)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.sample(2, random_state=0)).all()
    return "fitted"


def _heard(X: Any, weight: Any) -> Any:
    """The rows with positive weights: the others may hold values that a model refuses."""
    if is_source(X):
        return [_heard(block, own) for block, own in zip(X, weight, strict=True)]
    kept = np.flatnonzero(np.asarray(weight) > 0)
    if isinstance(X, list):
        return [X[row] for row in kept]
    return X.iloc[kept] if isinstance(X, pandas.DataFrame) else X[kept]


def _refused(error: Exception) -> str:
    """A documented error must have a message."""
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
