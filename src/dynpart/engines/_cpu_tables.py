"""Tables of a model for the CPU kernels: values of all experts of a variable are contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.engines._contract import Experts
from dynpart.engines._cpu_loops import LANES
from dynpart.engines._cpu_sums import TILE
from dynpart.families import Family

FLOAT32_OCTAVES = 80
"""Spread of expertise, in powers of two within a variable, that float32 sums still represent."""


LOWEST_OCTAVE = 1000.0
"""Powers of two below the highest level to which lower levels are raised."""


@dataclass(frozen=True, eq=False)
class OrderTables:
    """Ranks of expertise, by variable for all experts and by expert for all variables.

    Attributes
    ----------
    rank : ndarray of shape (n_features, n_lanes)
        The padding has rank n_experts, the worst.
    rank_by_expert : ndarray of shape (n_experts, n_features)
    keys : ndarray of shape (n_experts, n_features)
        Rank and index of an expert in one integer, the rank in its upper half: the smallest key
        of some experts gives the owner of a variable and its rank.
    """

    rank: NDArray[np.unsignedinteger]
    rank_by_expert: NDArray[np.unsignedinteger]
    keys: NDArray[np.unsignedinteger]


@dataclass(frozen=True, eq=False)
class LevelTables:
    """Log-densities of all levels of discrete variables, and of *not observed*, if that occurs.

    Attributes
    ----------
    table : ndarray of shape (n_values * n_features * n_lanes,)
        Log P_k(x(d)), flat over x, d and k. The last value is *not observed*, if that occurs: zero.
    usual : ndarray of shape (n_features,), of the rows' type
        The level the experts together expect.
    surprise : ndarray like `table`
        Log-density of a value minus that of the usual one.
    constant : ndarray of shape (n_lanes,)
        Log-likelihood of a row in which all values are usual.
    agreed : ndarray of shape (n_values, n_features)
        Whether all experts give the value the same probability.
    largest : ndarray of shape (n_values, n_features)
        Largest log-density of the value under any expert.
    """

    table: NDArray[np.float32]
    usual: NDArray[np.unsignedinteger]
    surprise: NDArray[np.float32]
    constant: NDArray[np.float64]
    agreed: NDArray[np.bool_]
    largest: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SmoothedTables:
    """Expertise as weights of a mixture, measured from the highest of each variable.

    Attributes
    ----------
    levels, log2_levels : ndarray of shape (n_features, n_lanes)
    levels_by_expert : ndarray of shape (n_experts, n_features)
    log2_expertise : ndarray of shape (n_experts, n_features)
        The same in float64.
    """

    levels: NDArray[np.float32]
    log2_levels: NDArray[np.float32]
    levels_by_expert: NDArray[np.float32]
    log2_expertise: NDArray[np.float64]

    @classmethod
    def of(cls, experts: Experts) -> SmoothedTables:
        """Tables of these experts."""
        relative = relative_levels(experts.log2_expertise)
        return cls(
            by_variable(np.exp2(relative), 0, np.float32),
            by_variable(relative, -np.inf, np.float32),
            np.exp2(relative).astype(np.float32),
            relative,
        )

    def shares(self, model: LevelTables) -> tuple[NDArray, NDArray]:
        """e_k P_k(x(d)), flat like the table, and of shape (n_values, n_experts, n_features)."""
        p = np.exp(model.table.reshape(-1, *self.levels.shape))
        shares = p * self.levels
        n_experts = len(self.levels_by_expert)
        by_expert = np.ascontiguousarray(shares[:, :, :n_experts].transpose(0, 2, 1))
        return shares.ravel(), by_expert


def padded(n_experts: int) -> int:
    """Number of experts with the padding that fills the last vector."""
    return -(-n_experts // LANES) * LANES


def by_variable(values: NDArray, fill: float, dtype: type) -> NDArray:
    """Turn (..., n_experts, n_features) into (..., n_features, n_lanes), the padding filled."""
    *lead, n_experts, n_features = values.shape
    out = np.full((*lead, n_features, padded(n_experts)), fill, dtype=dtype)
    out[..., :n_experts] = np.swapaxes(values, -1, -2)
    return out


def order_tables(experts: Experts) -> OrderTables:
    """Ranks in the smallest type that also holds n_experts, the rank of no expert."""
    n_experts = experts.n_experts
    dtype = np.uint8 if n_experts < 256 else np.uint16 if n_experts < 65536 else np.uint32
    rank = by_variable(experts.ranks, n_experts, dtype)
    rank_by_expert: NDArray[Any] = np.ascontiguousarray(experts.ranks, dtype=dtype)
    twice = {np.uint8: np.uint16, np.uint16: np.uint32, np.uint32: np.uint64}[dtype]
    keys = rank_by_expert.astype(twice) << twice(4 * np.dtype(twice).itemsize)
    return OrderTables(rank, rank_by_expert, keys | np.arange(n_experts, dtype=twice)[:, None])


def level_tables(experts: Experts, *, complete: bool) -> LevelTables:
    """Tables of a discrete model, for rows with or without missing values."""
    n_experts, n_features = experts.log2_expertise.shape
    theta, log_partition = experts.natural
    T = level_statistics(experts.family, n_features)
    density = np.einsum("svd,skd->vkd", T, theta) - log_partition
    table = by_variable(density, 0, np.float32)
    chance = experts.family.level_probabilities(experts.eta).mean(axis=1)
    usual = chance.argmax(axis=0).astype(level_type(experts.family))
    if not complete:
        table = np.concatenate([table, np.zeros_like(table[:1])])
    at = np.arange(n_features)
    surprise = table - table[usual, at]
    constant = table[usual, at].sum(axis=0, dtype=np.float64)
    real = table[..., :n_experts]
    largest = real.max(axis=2)
    agreed = largest == real.min(axis=2)
    return LevelTables(table.ravel(), usual, surprise.ravel(), constant, agreed, largest)


def level_type(family: Family) -> type:
    """The type in which a discrete family encodes levels, and what was not observed."""
    return np.uint8 if (family.n_levels or 0) < 256 else np.uint16


def level_statistics(family: Family, n_features: int) -> NDArray[np.float64]:
    """T(x) of every level, shape (n_statistics, n_levels, n_features)."""
    levels: NDArray[Any] = np.arange(family.n_levels or 0, dtype=level_type(family))
    return family.statistics(levels[:, None].repeat(n_features, axis=1))


def relative_levels(log2_expertise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log2 expertise measured from the highest of each variable, no less than float64 holds."""
    return np.maximum(log2_expertise - log2_expertise.max(axis=0), -LOWEST_OCTAVE)


def tiles(
    arrays: list[NDArray[np.float64]], fill: list[float], dtype: type
) -> NDArray[np.floating]:
    """Cut (n_experts, n_features) arrays into tiles of variables, padded with `fill`.

    Returns
    -------
    ndarray of shape (n_tiles, n_experts * len(arrays) * TILE)
        Per tile the experts one after the other, each with its values of all arrays.
    """
    n_experts, n_features = arrays[0].shape
    n_tiles = -(-n_features // TILE)
    out = np.empty((n_tiles, n_experts, len(arrays), TILE), dtype=dtype)
    for s, values in enumerate(arrays):
        wide = np.full((n_experts, n_tiles * TILE), fill[s])
        wide[:, :n_features] = values
        out[:, :, s] = wide.reshape(n_experts, n_tiles, TILE).transpose(1, 0, 2)
    return out.reshape(n_tiles, -1)


def working_precision(log2_levels: NDArray[np.float64]) -> type:
    """float32 where it represents the spread of expertise, otherwise float64."""
    return np.float32 if log2_levels.min() >= -FLOAT32_OCTAVES else np.float64
