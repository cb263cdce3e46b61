"""A stream in a model file: candidates, running averages and moments, to continue bitwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import as_float64, to_numpy
from dynpart.storage._container import ModelFileError, number, plain
from dynpart.storage._numbers import (
    LARGEST,
    LARGEST_SQUARE,
    MOST_ROWS,
    check_array,
    is_count,
    is_real,
)
from dynpart.storage._sanity import check_experts

if TYPE_CHECKING:
    from dynpart.families import ColumnMoments, Family
    from dynpart.learning import IterationRecord
    from dynpart.streaming import Candidate, Stream

Arrays = dict[str, NDArray[Any]]

MOMENTS = ("mean", "variance", "observed")
LEVELS = "levels"
EXPERTS = ("eta", "log2_expertise")
AVERAGES = ("usage", "weight", "statistics")
MOST_CANDIDATES = 100
"""Maximum number of candidates in a file; plans of the package have at most four."""
ROUNDING = 1e-3
"""Tolerance for averages of shares above one, from sums in single precision."""


def pack_moments(name: str, moments: ColumnMoments) -> tuple[dict[str, Any], Arrays]:
    """Moments of some rows as a JSON entry and arrays with the prefix `name`."""
    arrays = {f"{name}.{part}": _as_stored(getattr(moments, part)) for part in MOMENTS}
    if moments.levels is not None:
        arrays[f"{name}.{LEVELS}"] = _as_stored(moments.levels)
    facts = {name: plain(getattr(moments, name)) for name in ("n_rows", "is_binary", "weight")}
    return facts, arrays


def unpack_moments(
    path: Any,
    name: str,
    facts: Any,
    arrays: Mapping[str, NDArray[Any]],
    family: Family,
    n_features: int,
) -> ColumnMoments:
    """Moments of some rows of a family, or ModelFileError."""
    from dynpart.families import ColumnMoments

    if not (
        isinstance(facts, dict)
        and is_count(facts.get("n_rows"), 1, MOST_ROWS)
        and isinstance(facts.get("is_binary"), bool)
        and is_real(facts.get("weight", 1.0), 0, MOST_ROWS)
    ):
        raise ModelFileError(f"{path} holds invalid moments of the data")
    least, most = (-ROUNDING, 1 + ROUNDING) if facts["is_binary"] else (-LARGEST, LARGEST)

    def column(part: str, least: float, most: float) -> NDArray[np.float64]:
        array = arrays.get(f"{name}.{part}")
        return check_array(path, f"{name}.{part}", array, (n_features,), least=least, most=most)

    mean, variance = column("mean", least, most), column("variance", 0.0, LARGEST_SQUARE)
    weight = float(facts["weight"] if "weight" in facts else facts["n_rows"])
    observed = np.full(n_features, weight)
    if f"{name}.observed" in arrays:  # files of format 1 have complete rows without weights only
        observed = column("observed", 0.0, MOST_ROWS)
    moments = ColumnMoments(facts["n_rows"], mean, variance, facts["is_binary"], weight, observed)
    if not family.counts_levels:
        return moments
    shape = (family.n_statistics, n_features)
    levels = arrays.get(f"{name}.{LEVELS}")
    counts = check_array(path, f"{name}.{LEVELS}", levels, shape, least=0.0, most=MOST_ROWS)
    return replace(moments, levels=counts)


def pack_stream(stream: Stream) -> tuple[dict[str, Any], Arrays]:
    """A stream without its history, as a JSON entry and arrays."""
    if stream.moments is None:
        raise ModelFileError("a stream that has seen no batch cannot be saved")
    moments, arrays = pack_moments("stream.moments", stream.moments)
    tried = []
    for place, candidate in enumerate(stream.candidates):
        facts, more = _pack_candidate(place, candidate)
        tried.append(facts)
        arrays |= more
    return {"n_batches": stream.n_batches, "moments": moments, "candidates": tried}, arrays


def _pack_candidate(place: int, candidate: Candidate) -> tuple[dict[str, Any], Arrays]:
    experts, averages = candidate.experts, candidate.averages
    facts = {
        "min_active": plain(candidate.min_active),
        "log2_bound": plain(experts.log2_bound),
        "n_rows": plain(averages.n_rows),
    }
    arrays = {f"stream.{place}.{part}": _as_stored(getattr(experts, part)) for part in EXPERTS}
    means = (averages.usage, averages.sums.weight, averages.sums.statistics)
    for part, array in zip(AVERAGES, means, strict=True):
        arrays[f"stream.{place}.{part}"] = _as_stored(array)
    return facts, arrays


def stream_arrays(path: Any, facts: Any) -> set[str]:
    """Names of the arrays that belong to a stream with this JSON entry."""
    if facts is None:
        return set()
    if not (
        isinstance(facts, dict)
        and isinstance(_candidates(facts), list)
        and 1 <= len(_candidates(facts)) <= MOST_CANDIDATES
    ):
        raise ModelFileError(f"{path} holds an invalid stream")
    names = {f"stream.moments.{part}" for part in (*MOMENTS, LEVELS)}
    for place in range(len(_candidates(facts))):
        names |= {f"stream.{place}.{part}" for part in (*EXPERTS, *AVERAGES)}
    return names


def _candidates(facts: Mapping[str, Any]) -> Any:
    """Entries of the candidates, which version 0.1 calls `runners`."""
    return facts.get("candidates", facts.get("runners"))


def unpack_stream(
    path: Any,
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    family: Family,
    history: tuple[IterationRecord, ...],
    shape: tuple[int, int],
) -> Stream:
    """The stream of a file, or ModelFileError.

    Parameters
    ----------
    path : path-like
    facts : dict
        The JSON entry, checked by :func:`stream_arrays`.
    arrays : dict of ndarray
        Of the file.
    family : Family
    history : tuple of IterationRecord
    shape : tuple of int
        Number of experts and of variables.

    Returns
    -------
    Stream
    """
    from dynpart.streaming import Stream

    if not is_count(facts.get("n_batches"), max(1, len(history))):
        raise ModelFileError(f"{path} holds an invalid stream")
    stored = facts.get("moments")
    moments = unpack_moments(path, "stream.moments", stored, arrays, family, shape[1])
    tried = tuple(
        _unpack_candidate(path, place, candidate, arrays, family, shape)
        for place, candidate in enumerate(_candidates(facts))
    )
    return Stream(tried, moments, history, facts["n_batches"])


def _unpack_candidate(
    path: Any,
    place: int,
    facts: Any,
    arrays: Mapping[str, NDArray[Any]],
    family: Family,
    shape: tuple[int, int],
) -> Candidate:
    from dynpart.engines import Experts, ResponsibilitySums
    from dynpart.streaming import Averages, Candidate

    if not isinstance(facts, dict):
        raise ModelFileError(f"{path} holds an invalid stream")
    bound: Any = number(facts.get("log2_bound"))
    least: Any = facts.get("min_active", facts.get("floor"))  # the name in version 0.1
    if not (
        is_count(least, 1, shape[0] + 1)
        and (bound == float("inf") or is_real(bound, 0))
        and is_real(facts.get("n_rows"), 0, MOST_ROWS)
    ):
        raise ModelFileError(f"{path} holds an invalid stream")

    def part(name: str, shape: tuple[int, ...], least: float, most: float) -> NDArray[np.float64]:
        name = f"stream.{place}.{name}"
        return check_array(path, name, arrays.get(name), shape, least=least, most=most)

    all_statistics = (family.n_statistics, *shape)
    eta = part("eta", all_statistics, -LARGEST_SQUARE, LARGEST_SQUARE)
    experts = Experts(family, eta, part("log2_expertise", shape, -LARGEST, LARGEST), bound)
    check_experts(path, experts)
    usage = part("usage", shape[:1], 0.0, 1 + ROUNDING)
    weight = part("weight", shape, 0.0, 1 + ROUNDING)
    statistics = part("statistics", all_statistics, -LARGEST_SQUARE, LARGEST_SQUARE)
    sums = ResponsibilitySums(np.concatenate([weight[None], statistics]))
    averages = Averages(facts["n_rows"], usage, sums)
    return Candidate(experts, least, averages)


def _as_stored(array: Any) -> NDArray[np.float64]:
    stored: NDArray[np.float64] = as_float64(to_numpy(array))
    return stored
