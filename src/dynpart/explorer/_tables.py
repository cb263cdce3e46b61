"""Packing for tables: opinions in words, the map of rows, and experts by another column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import to_numpy
from dynpart.explorer._arrays import packed_array
from dynpart.listing import rows_by_type
from dynpart.naming import digits_after_point, short_labels, value_in_words
from dynpart.opinions import array_opinions, level_chances

if TYPE_CHECKING:
    from dynpart.fitting import LearningModel
    from dynpart.opinions import Opinions
    from dynpart.summaries import Description

MOST_CLASSES = 12
"""Maximum number of classes of another column; the rarer ones are combined as *other*."""
CARD_OPINIONS = 6
MOST_PRIOR_NUMBERS = 200_000
"""A larger prior over codes, of about 1 MB, is left out of the page."""


def table_content(
    model: LearningModel, told: Description, shown_codes: NDArray[Any]
) -> dict[str, Any]:
    """Content of a page about a table, beside the numbers that every page has.

    Parameters
    ----------
    model : DynamicPartitionModel
    told : Description
        Of all rows.
    shown_codes : ndarray of shape (n_shown, n_experts)
        Codes of the rows that can be selected.
    """
    opinions = array_opinions(model)
    by_number = {one.expert: one for one in told.experts}
    cards = []
    for k in range(len(opinions.value)):
        one = by_number[k]
        cards.append(
            {
                "opinions": [
                    {"d": d, **asdict(said)}
                    for d, said in zip(
                        opinions.strongest(k, len(one.opinions)), one.opinions, strict=True
                    )
                ],
                "typical": list(one.typical),
                "typicalRows": list(one.typical_rows),
                "together": [other.expert for other in one.together],
                "apart": [other.expert for other in one.apart],
            }
        )
    labels = model.schema_.labels()
    short = short_labels(labels)
    return {
        "cards": cards,
        "shortNames": None if short == labels else short,
        "weight": packed_array(opinions.weight.astype(np.float32)),
        "decides": packed_array(opinions.decides.astype(np.float32)),
        **_distributions(model, opinions),
        "types": [
            {"share": kind.share, "experts": list(kind.experts), "active": list(kind.active)}
            for kind in told.types
        ],
        "mapOrder": rows_by_type(shown_codes, model.prior_.types(shown_codes)).tolist(),
        "prior": _prior(model),
        "bits": told.bits,
        "baselineBits": told.baseline_bits,
        "saving": told.saving,
        "odd": list(told.odd),
        "oddRows": list(told.odd_rows),
    }


def _prior(model: LearningModel) -> dict[str, Any] | None:
    """The prior over codes; None if it does not belong to the encoding parameters, or is large."""
    prior = model.prior_
    if not model._is_counted() or prior.log_table.size > MOST_PRIOR_NUMBERS:
        return None
    return {
        "logWeight": to_numpy(prior.log_weight).tolist(),
        "parent": packed_array((to_numpy(prior.parent) + 1).astype(np.uint16)),
        "table": packed_array(to_numpy(prior.log_table).astype(np.float32)),
    }


def _distributions(model: LearningModel, opinions: Opinions) -> dict[str, Any]:
    """Probabilities of levels, means and spreads: of every expert and, last, of all rows."""
    experts = model._experts().like(np.empty(0))
    family = experts.family
    eta = np.concatenate([experts.eta, model._usual_eta()], axis=1)
    counts = np.array(family.levels_of_columns(eta.shape[2]))
    dispersions = _dispersions(model)
    numbers = [d for d, n in enumerate(counts) if n == 0 and dispersions[d] is None]
    least = family.least_log_density(family.mean(model._usual_eta())[:1])[0]
    content: dict[str, Any] = {
        "kinds": list(model.schema_.kinds),
        "normal": bool(numbers) and family.of_columns(np.array(numbers)).is_normal,
        "tails": [float(nats) if np.isfinite(nats) else None for nats in least],
        "dispersions": dispersions if any(one is not None for one in dispersions) else None,
        "levelCounts": [int(count) for count in counts],
        "levelNames": [_level_names(model, d, int(n)) for d, n in enumerate(counts)],
        "digits": [digits_after_point(float(spread)) for spread in opinions.spread],
        "opinionMeans": packed_array(family.mean(eta).astype(np.float32)),
        "opinionSpreads": packed_array(np.sqrt(family.variance(eta)).astype(np.float32)),
    }
    if counts.any():
        chances = level_chances(family, eta)
        rows = [chances[: counts[d], :, d] for d in range(len(counts))]
        content["chances"] = packed_array(np.concatenate(rows).astype(np.float32))
    return content


def _dispersions(model: LearningModel) -> list[float | None]:
    """Dispersions of negative binomial columns of counts; None for other columns."""
    kinds = model.schema_.kinds
    told: list[float | None] = [None] * len(kinds)
    columns = [d for d, kind in enumerate(kinds) if kind == "count"]
    if columns:
        of_counts = model._experts().like(np.empty(0)).family.of_columns(np.array(columns))
        dispersion = getattr(of_counts, "dispersion", None)
        if dispersion is not None:
            for d, value in zip(columns, dispersion, strict=True):
                told[d] = float(value)
    return told


def _level_names(model: LearningModel, d: int, n_levels: int) -> list[str] | None:
    return [value_in_words(model.schema_, d, level) for level in range(n_levels)] or None


def by_column(codes: NDArray[Any], values: Sequence[Any], name: str) -> dict[str, Any]:
    """Distribution of each expert's rows over another column.

    Parameters
    ----------
    codes : ndarray of shape (n_rows, n_experts)
    values : sequence
        Numbers, or other values, which are classes; None or NaN is left out.
    name : str
    """
    if len(values) != len(codes):
        raise ValueError(f"by must have one value per row ({len(codes)}), got {len(values)}")
    column = np.asarray(values)
    active = codes.astype(bool)
    if column.dtype.kind in "iuf" and len(np.unique(column)) > MOST_CLASSES:
        seen = ~np.isnan(column.astype(float))
        groups = [seen, *(seen & mine for mine in active.T)]
        return {
            "name": name,
            "kind": "numbers",
            "boxes": [_box(column[group].astype(float)) for group in groups],
        }
    texts = np.array([_class_text(value) for value in values], dtype=object)
    known, counts = np.unique(texts[texts != ""], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    classes = [str(known[i]) for i in order[:MOST_CLASSES]]
    rest = set(known) - set(classes)
    if rest:
        classes.append("other")
        texts = np.array(["other" if text in rest else text for text in texts], dtype=object)
    tables = [[int((texts[group] == c).sum()) for c in classes] for group in (..., *active.T)]
    return {"name": name, "kind": "classes", "classes": classes, "counts": tables}


def _class_text(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _box(values: NDArray[np.float64]) -> list[float] | None:
    """Smallest, quartiles and largest value."""
    if not len(values):
        return None
    return [float(v) for v in np.quantile(values, [0, 0.25, 0.5, 0.75, 1])]
