"""Imputation: predictions averaged over codes, weighted by the likelihood of the observed values.

With few experts these are all codes, weighted by the prior. Otherwise they are the codes of
training rows: the code book.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import copied, is_observed, row_blocks, stable_order, to_numpy
from dynpart.composition import compose_hard, owners
from dynpart.engines import Experts
from dynpart.engines.reference import expert_log_densities
from dynpart.enumeration import all_codes
from dynpart.prior import CodePrior, distinct_codes
from dynpart.rows import Rows

Array = NDArray[np.float64]

MOST_CODES = 4000
"""Maximum number of codes in the book, which limits the size of model files."""
ENOUGH_CODES = 1000
"""Number of codes used to fill gaps of training rows before these rows are encoded again."""
MOST_VALUES = 1 << 24
"""Maximum number of values (codes x variables) of the opinions under all codes."""
EVIDENCE = 0.35
"""Power of a row's likelihood in the weight of a code of the book.

Variables that one expert explains are not independent evidence; with the full likelihood a few
codes would have almost all of the weight.
"""
EVIDENCE_OF_ALL = 0.5
"""The same for all codes, whose prior was fitted together with the opinions.

Chosen among 0.35 to 1 on hidden cells of four tables; docs/comparison.md names them.
"""
OWN = 1e-6
"""Weight of a row's own code, relative to the codes of other rows."""


@dataclass(frozen=True, eq=False)
class CodeBook:
    """Distinct codes of training rows.

    Attributes
    ----------
    codes : ndarray of shape (n_codes, n_experts), bool
        The most frequent first.
    counts : ndarray of shape (n_codes,)
        Total weight of the rows with each code.
    """

    codes: NDArray[np.bool_]
    counts: Array

    evidence: ClassVar[float] = EVIDENCE

    @classmethod
    def of(cls, active: Any, weight: Any = None, most: int = MOST_CODES) -> CodeBook:
        """The book of some rows' codes: at most `most` distinct codes, the most frequent ones."""
        rows, counts = distinct_codes(active, weight)
        kept = stable_order(-counts)[:most]
        return cls(to_numpy(active[rows[kept]]).astype(bool), to_numpy(counts[kept]))

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        packed = np.packbits(self.codes, axis=1)
        return {code.tobytes(): place for place, code in enumerate(packed)}

    def log_weight(self, own: NDArray[np.bool_], n_codes: int) -> Array:
        """Log counts of the first codes, for each row without its own code."""
        packed = np.packbits(own, axis=1)
        places = np.array([self._places.get(code.tobytes(), n_codes) for code in packed])
        (rows,) = np.nonzero(places < n_codes)
        log_counts = np.tile(np.log(np.maximum(self.counts[:n_codes], OWN)), (len(own), 1))
        log_counts[rows, places[rows]] = np.log(np.maximum(self.counts[places[rows]] - 1, OWN))
        return log_counts


@dataclass(frozen=True, eq=False)
class AllCodes:
    """All codes of few experts, and their prior probabilities.

    Attributes
    ----------
    codes : ndarray of shape (n_codes, n_experts), bool
    log_prior : ndarray of shape (n_codes,)
    """

    codes: NDArray[np.bool_]
    log_prior: Array

    evidence: ClassVar[float] = EVIDENCE_OF_ALL

    @classmethod
    def of(cls, prior: CodePrior, fewest: int, most: int) -> AllCodes:
        """The codes within limits on active experts."""
        codes = all_codes(prior.n_experts, fewest, most)
        return cls(codes, to_numpy(prior.log_prob(codes)))

    def __len__(self) -> int:
        return len(self.codes)

    def log_weight(self, own: NDArray[np.bool_], n_codes: int) -> Array:
        """Log prior of the first codes, the same for all rows."""
        return np.broadcast_to(self.log_prior[:n_codes], (len(own), n_codes))


@dataclass(frozen=True, eq=False)
class Guess:
    """Predictive distribution of some rows: a mixture of the opinions under codes.

    Attributes
    ----------
    block : slice
        The rows.
    weight : ndarray of shape (n_rows, n_codes + 1)
        Weights of the codes, the row's own code last; each row sums to one.
    eta : ndarray of shape (n_statistics, n_codes, n_features)
        Opinions under the codes of the book.
    own : ndarray of shape (n_statistics, n_rows, n_features)
        Opinions under the rows' own codes.
    """

    block: slice
    weight: Array
    eta: Array
    own: Array

    def mixed(self) -> Array:
        """Mean parameters of the mixture, shape (n_statistics, n_rows, n_features)."""
        return self.weight[:, :-1] @ self.eta + self.weight[:, -1:] * self.own

    def drawn(self, rng: np.random.RandomState) -> Array:
        """Mean parameters under a code drawn for each row."""
        ends = np.cumsum(self.weight, axis=1)
        place = (rng.uniform(size=(len(ends), 1)) * ends[:, -1:] > ends).sum(axis=1)
        from_book = place < self.eta.shape[1]
        chosen = self.eta[:, np.where(from_book, place, 0)]
        return np.where(from_book[:, None], chosen, self.own)


def guesses(
    rows: Rows, own: NDArray[np.bool_], experts: Experts, book: CodeBook | AllCodes
) -> Iterator[Guess]:
    """Predictive distributions of rows with missing values, block by block.

    Parameters
    ----------
    rows : Rows
    own : ndarray of shape (n_rows, n_experts)
        The rows' own codes.
    experts : Experts
        NumPy arrays, as those of the rows.
    book : CodeBook or AllCodes
    """
    family, n_features = experts.family, rows.shape[1]
    n_codes = max(1, min(len(book), MOST_VALUES // n_features))
    owner = owners(experts.ranks, book.codes[:n_codes])
    eta = compose_hard(experts.eta, owner)
    natural = family.natural(eta)
    for block in row_blocks(len(rows), n_features + n_codes):
        its = compose_hard(experts.eta, owners(experts.ranks, own[block]))
        explained = np.empty((len(own[block]), n_codes + 1))
        explained[:, :-1] = _explained(rows[block], experts, owner, natural)
        base: Any = family.log_base(rows.values[block])
        explained[:, -1] = (family.log_density(rows.values[block], its) - base).sum(axis=1)
        weight = explained
        weight *= book.evidence
        weight[:, :-1] += book.log_weight(own[block], n_codes)
        weight[:, -1] += np.log(OWN)
        weight -= weight.max(axis=1, keepdims=True)
        np.exp(weight, out=weight)
        weight /= weight.sum(axis=1, keepdims=True)
        yield Guess(block, weight, eta, its)


def _explained(
    rows: Rows, experts: Experts, owner: NDArray[np.int32], natural: tuple[Array, Array]
) -> Array:
    """Log P(x | h) of rows under codes, without b(x), shape (n_rows, n_codes).

    Parameters
    ----------
    rows : Rows
    experts : Experts
    owner : ndarray of shape (n_codes, n_features)
        Owners of the variables under each code.
    natural : tuple of ndarray
        Natural parameters of their opinions, shape (n_statistics, n_codes, n_features), and the
        log-partition.
    """
    if experts.family.has_tails:
        density, every = expert_log_densities(rows, experts), np.arange(owner.shape[1])
        return np.stack([density[:, its, every].sum(axis=1) for its in owner], axis=1)
    T, (theta, log_partition) = experts.family.statistics(rows.values), natural
    observed = is_observed(T[0])
    T = np.where(observed, T, 0.0)
    return np.einsum("snd,smd->nm", T, theta, optimize=True) - observed @ log_partition.T


def completed(rows: Rows, own: NDArray[np.bool_], experts: Experts, book: CodeBook) -> Rows:
    """The rows with their gaps filled, to find the codes that complete rows would have."""
    family = experts.family
    numbers = copied(family.decode(rows.values))
    for guess in guesses(rows, own, experts, book):
        part = numbers[guess.block]
        numbers[guess.block] = np.where(is_observed(part), part, family.likeliest(guess.mixed()))
    return Rows.of(numbers, family, rows.weight)
