"""Random tables of texts, numbers, flags, dates, gaps and unusual cells."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel, load

ODD = ["", "NA", "n/a", "?", "-", "yes", "No", "TRUE", "0", "1", "01", "3,5", "45%", "2020-01-01",
       "#DIV/0!", "=1+1", "nan", "Ünïcode", "a,b", 'quo"te', "line\nbreak", "\x1b[2J", "x" * 300,
       "1e400", "1_0", "٣", " padded ", "None"]  # fmt: skip
N_ROWS = st.integers(1, 24)
KINDS = ["binary", "categorical", "count", "real", "nominal", ["a", "b"], None]


def _cells(n: int) -> st.SearchStrategy[list[Any]]:
    """A column of a kind, or of everything at once."""

    def listed(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(one, min_size=n, max_size=n)

    def gappy(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return listed(st.one_of(st.none(), one, one, one))

    numbers = st.floats(-1e6, 1e6, allow_nan=False)
    return st.one_of(
        gappy(st.sampled_from(["red", "green", "blue"])),
        gappy(st.sampled_from(["yes", "no", "Yes"])),
        gappy(st.booleans()),
        gappy(st.integers(0, 6)),
        gappy(st.integers(-5, 10**6)),
        gappy(numbers),
        listed(st.sampled_from(ODD)),
        listed(st.text(max_size=4)),
        listed(st.one_of(st.none(), st.sampled_from(ODD), numbers, st.booleans())),
        st.just([None] * n),
        st.just(["same"] * n),
        st.just([7] * n),
        st.just([f"id {i}" for i in range(n)]),
        st.just(list(range(n))),
    )


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Columns with names."""
    n = draw(N_ROWS)
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True))
    return {name: draw(_cells(n)) for name in names}


def _pandas(data: dict[str, list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in data.items()})


CONTAINERS = {
    "pandas": _pandas,
    "inferred": lambda data: _pandas(data).infer_objects(),
    "nullable": lambda data: _pandas(data).convert_dtypes(),
    "category": lambda data: _pandas(data).astype("category"),
    "polars": lambda data: pl.DataFrame(data, strict=False),
    "objects": lambda data: _pandas(data).to_numpy(dtype=object),
    "rows": lambda data: [list(row) for row in zip(*data.values(), strict=True)],
    "texts": lambda data: np.array(
        [[str(v) for v in row] for row in zip(*data.values(), strict=True)]
    ),
    "sparse": lambda data: sp.csr_array(
        _pandas(data).apply(pd.to_numeric, errors="coerce").fillna(0).to_numpy(dtype=float)
    ),
}


@st.composite
def fits(draw: st.DrawFn) -> tuple[dict[str, list[Any]], str, dict[str, Any], bool]:
    """Columns, a container, parameters, and whether rows have weights."""
    data = draw(columns())
    said = draw(
        st.one_of(
            st.none(),
            st.dictionaries(
                st.one_of(st.sampled_from(sorted(data)), st.integers(-2, 6)),
                st.sampled_from(KINDS[:-1]),
                max_size=3,
            ),
            st.sampled_from(KINDS[:4]),
        )
    )
    options = {"columns": said, "unknown": draw(st.sampled_from(["error", "missing"]))}
    return data, draw(st.sampled_from(sorted(CONTAINERS))), options, draw(st.booleans())


def check_fit(case: tuple[dict[str, list[Any]], str, dict[str, Any], bool]) -> str:
    """A table is rejected with one line, or every method of its model works."""
    data, container, options, weighted = case
    try:
        X = CONTAINERS[container](data)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return "no such table"
    n_rows = len(next(iter(data.values())))
    weight = np.arange(1.0, n_rows + 1) if weighted else None
    model = DynamicPartitionModel(2, max_iter=2, random_state=0, **options)
    try:
        model.fit(X, sample_weight=weight)
    except (ValueError, TypeError) as error:
        return _told(str(error))
    H = model.transform(X)
    assert H.shape == (n_rows, 2)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.surprise(X)).all()
    assert len(model.inverse_transform(H)) == n_rows
    whole = model.impute(X)
    assert (np.asarray(model.transform(whole)).sum(axis=1) > 0).all()
    drawn = model.sample(3, random_state=0)
    assert model.transform(drawn).shape == (3, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.dynpart"
        model.save(path)
        again = load(path)
    assert again.schema_ == model.schema_
    np.testing.assert_array_equal(again.transform(X), H)
    return f"fitted {container}"


def _told(message: str) -> str:
    """Messages are not empty and have no internals."""
    assert message
    assert "np." not in message
    return "refused"


def files() -> st.SearchStrategy[tuple[str, list[str]]]:
    """Tables of text, and options of ``dynpart fit``."""
    said = st.lists(
        st.sampled_from(["--categorical", "--count", "--real", "--binary", "--drop", "--weight"]),
        max_size=2,
        unique=True,
    )
    options = said.flatmap(
        lambda words: st.tuples(
            *(st.sampled_from("abcd").map(f"{word}={{}}".format) for word in words)
        )
    )
    return st.tuples(columns().map(_csv), options.map(list))


def _csv(data: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    _pandas(data).to_csv(text, index=False)
    return text.getvalue()
