"""The page: one HTML file from the assets and the packed numbers, with every value escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dynpart.atomic import atomic_write
from dynpart.explorer._pack import pack
from dynpart.validation import check_fitted

if TYPE_CHECKING:
    from dynpart.fitting import LearningModel

SCRIPTS = (
    "model.js",
    "draw.js",
    "dom.js",
    "stage.js",
    "sliders.js",
    "table.js",
    "gallery.js",
    "overview.js",
    "map.js",
    "detail.js",
    "charts.js",
    "app.js",
)


def report_html(
    model: LearningModel,
    X: Any,
    *,
    names: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    title: str = "Dynamic partition model",
    n_samples: int = 500,
    by: Sequence[Any] | None = None,
    by_name: str = "another column",
) -> str:
    """The explorer of a model as the text of one HTML file.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to explore, with the columns of the training data.
    names : sequence of str, default=None
        Names of the variables; the model's own by default.
    labels : sequence of str, default=None
        Names of the rows; by default their numbers.
    image_shape : tuple of int, default=None
        (height, width) if rows are images; the model's own by default. If neither is given, the
        page shows variables.
    title : str, default="Dynamic partition model"
        Heading and title of the page.
    n_samples : int, default=500
        Maximum number of rows that can be selected on the page; counts are of all rows.
    by : sequence of length n_rows, default=None
        Another column, which is not a variable: the page shows experts against it, as bars for
        classes and as box plots for numbers.
    by_name : str, default="another column"
        Name of that column.

    Returns
    -------
    str
        Text of the page, to be written as UTF-8; it needs no other file and no server.

    Raises
    ------
    ValueError
        If names, labels or the shape do not fit the data.

    Examples
    --------
    >>> from dynpart import DynamicPartitionModel
    >>> from dynpart.datasets import make_pairs
    >>> from dynpart.explorer import report_html
    >>> X = make_pairs(5)
    >>> model = DynamicPartitionModel(10, random_state=0).fit(X)
    >>> report_html(model, X, title="Pairs").startswith("<!doctype html>")
    True
    """
    check_fitted(model)
    schema = model.schema_
    names = schema.names if names is None else names
    image_shape = schema.image_shape if image_shape is None else image_shape
    n_features = len(schema)
    if names is not None and len(names) != n_features:
        raise ValueError(f"names must have one entry per variable ({n_features}), got {len(names)}")
    if labels is not None and len(labels) != len(X):
        raise ValueError(f"labels must have one entry per row ({len(X)}), got {len(labels)}")
    if image_shape is not None and image_shape[0] * image_shape[1] != n_features:
        raise ValueError(
            f"image_shape {tuple(image_shape)} does not hold the {n_features} variables"
        )
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}")
    content = pack(
        model,
        X,
        names=names,
        labels=labels,
        image_shape=image_shape,
        title=title,
        n_samples=n_samples,
        by=by,
        by_name=by_name,
    )
    return _filled(content, title)


def write_report(
    model: LearningModel,
    X: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    **options: Any,
) -> int:
    """Write the explorer of a model to an HTML file.

    Parameters
    ----------
    model : DynamicPartitionModel
        A fitted model.
    X : array-like of shape (n_rows, n_features)
        Rows to explore, with the columns of the training data.
    path : path-like
        File to write, usually with the suffix .html.
    overwrite : bool, default=False
        Whether an existing file may be replaced.
    **options
        As for :func:`report_html`.

    Returns
    -------
    int
        Size of the file in bytes.
    """
    content = report_html(model, X, **options).encode()
    with atomic_write(path, overwrite=overwrite) as file:
        file.write(content)
    return len(content)


def _filled(content: dict[str, Any], title: str) -> str:
    style = _asset("style.css")
    body = "\n".join(_asset(name) for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{body}\n}})();\n'
    # Only this script and this style may run, and nothing may be fetched. So a value that is not
    # properly quoted would still do nothing.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": embedded(content),
        "SCRIPT": script,
    }
    page = _asset("page.html")
    head, *rest = page.split("{{")
    pieces = [head]
    for chunk in rest:
        name, text = chunk.split("}}", 1)
        pieces += [parts[name], text]
    return "".join(pieces)


def embedded(content: Any) -> str:
    """JSON for a script element, escaped so that nothing in it can end the element."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("dynpart.explorer") / "assets" / name).read_text(encoding="utf-8")
