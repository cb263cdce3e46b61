"""Explanations in words: turns one row's pursuit into sentences. Knows a fitted model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dynpart.estimator import DynamicPartitionModel
    from dynpart.tables import Table


def explanation(
    model: DynamicPartitionModel,
    table: Table,
    row: int,
    label: str,
    names: Sequence[str],
    top: int,
) -> Iterator[str]:
    """Lines that say which experts explain a row, and how.

    Parameters
    ----------
    model : DynamicPartitionModel
        Without names of variables.
    table : Table
    row : int
    label : str
        The row's name, or nothing.
    names : sequence of str
        Names of the variables.
    top : int
        Variables to name per expert.
    """
    x = np.asarray(table.values[row : row + 1])
    story = model.pursue(x)
    order = [int(k) for k in story.order[0] if k >= 0]
    H = np.zeros((1, model.n_experts), dtype=np.uint8)
    H[0, order] = 1
    owner = model.partition(H)[0]
    called = f"Row {row}" + (f" ({label})" if label else "")
    n_active = f"{len(order)} of {model.n_experts} experts" if len(order) > 1 else "one expert"
    verb = "explain" if len(order) > 1 else "explains"
    yield f"{called}: {n_active} {verb} its {len(owner)} variables."
    before = None
    for step, (k, likelihood) in enumerate(zip(order, story.log_likelihood[0], strict=False)):
        share = float(model.activation_probabilities_[k])
        gain = (
            f"starts at {likelihood:.1f} nats"
            if before is None
            else f"gains {likelihood - before:.1f} nats"
        )
        before = likelihood
        owned = np.flatnonzero(owner == k)
        yield ""
        yield f"{step + 1}. Expert {k} {gain}; it is active in {share:.0%} of all rows."
        yield f"   {_ownership(owned, table.image_shape, len(owner))}"
        if len(owned) and (table.names is not None or table.image_shape is None):
            yield from _opinions(model, x[0], owned, k, names, top)
    yield ""
    yield _fit_of(model, x, H, names)


def _ownership(owned: NDArray[np.intp], shape: tuple[int, int] | None, n_features: int) -> str:
    if not len(owned):
        return "In the end others know better everywhere: it explains nothing."
    unit = "pixels" if shape else "variables"
    text = f"It explains {len(owned)} of {n_features} {unit}"
    if shape is None or len(owned) > 0.6 * n_features:
        return text + "."
    rows, columns = np.divmod(owned, shape[1])
    height = ("upper", "middle", "lower")[min(2, int(3 * rows.mean() / shape[0]))]
    width = ("left", "centre", "right")[min(2, int(3 * columns.mean() / shape[1]))]
    return f"{text}, around the {height} {width}."


def _opinions(
    model: DynamicPartitionModel,
    x: NDArray[Any],
    owned: NDArray[np.intp],
    k: int,
    names: Sequence[str],
    top: int,
) -> Iterator[str]:
    """The owned variables on which this expert differs most from what experts say on average."""
    weight = model.activation_probabilities_
    usual = weight @ model.means_ / weight.sum()
    difference = (model.means_[k] - usual)[owned]
    if hasattr(model, "variances_"):
        difference = difference / np.sqrt(model.variances_[k, owned])
    strongest = owned[np.argsort(-np.abs(difference), kind="stable")[:top]]
    width = max(len(names[d]) for d in strongest)
    binary = model.family_.name == "bernoulli"
    for d in strongest:
        opinion, value = float(model.means_[k, d]), float(x[d])
        if binary:
            word = "yes" if opinion > 0.5 else "no"
            text = f"says {word:<3} ({max(opinion, 1 - opinion):.0%} sure)"
            seen = "" if (value > 0.5) == (opinion > 0.5) else "  but it is not so"
        else:
            text, seen = f"expects {opinion:.4g}", f"  (is {value:.4g})"
        yield f"   - {names[d]:<{width}}  {text}{seen}"
    if len(owned) > top:
        yield f"   ... and {len(owned) - top} more"


def _fit_of(
    model: DynamicPartitionModel, x: NDArray[Any], H: NDArray[np.uint8], names: Sequence[str]
) -> str:
    """How well the row is explained, and what stays a surprise."""
    composed = model.inverse_transform(H)[0]
    total = float(model.log_likelihood(x, H)[0])
    if model.family_.name == "bernoulli":
        wrong = np.flatnonzero((composed > 0.5) != (x[0] > 0.5))
        text = f"Together they give the row {total:.1f} nats"
        if not len(wrong):
            return f"{text} and get every variable right."
        worst = wrong[np.argsort(-np.abs(composed - x[0])[wrong], kind="stable")[:3]]
        named = ", ".join(names[d] for d in worst)
        return f"{text} and get {len(wrong)} of {len(composed)} variables wrong (first {named})."
    miss = np.abs(composed - x[0])
    d = int(miss.argmax())
    return (
        f"Together they give the row {total:.1f} nats; the largest miss is {names[d]}: "
        f"expected {composed[d]:.4g}, is {float(x[0, d]):.4g}."
    )
