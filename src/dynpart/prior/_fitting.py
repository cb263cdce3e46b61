"""Fitting: a prior over codes, fitted to codes by EM with sums that are additive over rows.

The sums of a type are its number of rows and, for every two experts, the number of its rows in
which both are active. They determine the probabilities, shrunk towards the overall frequencies, and
the tree of the strongest dependences (Chow & Liu 1968; mixtures: Meila & Jordan 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from dynpart.arrays import is_remote, like, to_numpy
from dynpart.prior._code_prior import CodePrior
from dynpart.prior._counted import NEGLIGIBLE, Counted
from dynpart.prior._dense import DenseCodes
from dynpart.prior._lists import ListedCodes

MOST_TYPES = 128
"""Maximum number of types."""
ROUGHLY = 32
"""The same for a prior that is soon replaced, or that only compares experts."""
FEWEST_HELD_BACK = 20
"""Minimum number of held-back rows to choose a prior by."""
PLAIN_ITERATIONS = 12
"""EM iterations of a mixture without edges, after each doubling of the number of types."""
TREE_ITERATIONS = 2
"""EM iterations with edges."""
LAST_ITERATIONS = 5
"""EM iterations of the chosen prior on all codes."""
MOST_DENSE = 512
"""Most experts for which matrix products on a GPU are faster than lists on the host."""


def fit_prior(codes: Any, weight: Any = None, most_types: int = MOST_TYPES) -> CodePrior:
    """Choose the best kind of prior for codes on held-back codes, and fit it.

    Candidates are independent bits, a tree, and mixtures of 2, 4, 8, ... types without and with
    edges. A fifth of the codes is held back. The candidate under which these are most likely is
    fitted again to all codes; if there are many codes, a subset is used for the choice. If fewer
    than 20 rows would be held back, the prior is a single tree. Its edges must gain more than
    chance would among so few rows; without any it is independent bits.

    Equal codes are counted first, so a row of weight w is the same as w equal rows.

    Parameters
    ----------
    codes : array of shape (n_rows, n_experts)
        Binary codes. If they are on a GPU, the prior is computed there.
    weight : array of shape (n_rows,), default=None
        Weights of the rows; 3 is equivalent to three equal rows.
    most_types : int, default=128
        Maximum number of types.

    Returns
    -------
    CodePrior
        In NumPy arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.prior import fit_prior
    >>> coin = np.arange(200) % 2
    >>> prior = fit_prior(np.c_[coin, 1 - coin])  # either the one expert or the other
    >>> np.exp(prior.log_prob(np.array([[1, 0], [0, 1], [1, 1]]))).round(2)
    array([0.5, 0.5, 0. ])
    """
    counted = count(codes, weight)
    train, test = counted.tried.held_back()
    if test.n_rows < FEWEST_HELD_BACK:
        found = _careful_forest(counted)
    else:
        found = _refitted(_best_candidate(train, test, most_types)[0], counted)
    return found.prior.like(np.empty(0))


def mean_log_prior(codes: Any, weight: Any = None) -> float:
    """Mean log P(h) of held-back codes under the prior fitted to the others.

    If too few rows would be held back, it is that of the rows the prior was fitted to.
    """
    counted = count(codes, weight)
    if not counted.n_rows:
        return 0.0
    train, test = counted.tried.held_back()
    if test.n_rows < FEWEST_HELD_BACK:
        return _careful_forest(counted).score(counted) / counted.n_rows
    return _best_candidate(train, test, ROUGHLY)[1] / test.n_rows


def independent_prior(codes: Any, weight: Any = None) -> CodePrior:
    """Independent bits with the frequencies of these codes."""
    return count(codes, weight).independent().like(np.empty(0))


def count(codes: Any, weight: Any = None) -> Counted:
    """Distinct codes and their counts, on the device of the codes."""
    if is_remote(codes) and codes.shape[1] <= MOST_DENSE:
        return _by_matrices(codes).of(codes, weight)
    return ListedCodes.of(to_numpy(codes), weight)


def _by_matrices(codes: Any) -> type[DenseCodes]:
    """Class for codes on a GPU: with kernels, if they can be compiled."""
    if codes.device.type != "cuda" or find_spec("triton") is None:
        return DenseCodes
    from dynpart.prior._triton_em import KernelCodes

    return KernelCodes


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A prior in the same kind of array as the codes, and whether it has edges."""

    prior: CodePrior
    edges: bool

    def score(self, counted: Counted) -> float:
        """Sum of log P(h) over rows."""
        return float(counted.log_prob(self.prior, linked=self.edges))


def _careful_forest(counted: Counted) -> _Candidate:
    """A single type, with edges that are unlikely to be chance among so few rows."""
    n_experts, alone = counted.codes.shape[1], _Candidate(counted.independent(), False)
    if n_experts == 1 or not counted.n_rows:
        return alone
    # An edge adds a parameter, and the best of many pairs has a high gain by chance.
    price = np.log(n_experts * (n_experts - 1) / 2) + 0.5 * np.log(1 + counted.n_rows)
    return _Candidate(counted.em(alone.prior, 1, linked=False, edges=True, price=price), True)


def _best_candidate(train: Counted, test: Counted, most_types: int) -> tuple[_Candidate, float]:
    """The candidate, fitted to `train`, with the highest likelihood of `test`, and its score."""
    rng = np.random.default_rng(0)
    plain = best = _Candidate(train.independent(), False)
    best_score, worse = -np.inf, 0
    while worse < 2:
        n_types = plain.prior.n_types
        tree = _em(plain, train, TREE_ITERATIONS if n_types > 1 else 1, edges=True)
        worse += 1
        for candidate in (plain, tree):
            score = candidate.score(test)
            if score > best_score:
                best, best_score, worse = candidate, score, 0
        n_more = min(n_types, most_types - n_types, len(train.counts) - n_types)
        if n_more <= 0:
            break
        more = _with_more_types(plain.prior, train, n_more, rng)
        plain = _em(more, train, PLAIN_ITERATIONS, edges=False)
    return best, best_score


def _refitted(found: _Candidate, counted: Counted) -> _Candidate:
    """The same kind of prior, fitted to all codes."""
    n_iter = LAST_ITERATIONS if found.prior.n_types > 1 else 1
    return _em(found, counted, n_iter, edges=found.edges)


def _em(begun: _Candidate, counted: Counted, n_iter: int, *, edges: bool) -> _Candidate:
    """Run `n_iter` iterations of EM from a candidate."""
    prior = counted.em(begun.prior, n_iter, linked=begun.edges, edges=edges)
    return _Candidate(prior, edges)


def _with_more_types(
    prior: CodePrior, counted: Counted, n_more: int, rng: np.random.Generator
) -> _Candidate:
    """Add types, each initialised at a code that is rare within its most probable type."""
    own, most = counted.likeliest(prior)
    rarity = to_numpy(counted.counts * (prior.log_weight[own] - most + NEGLIGIBLE))
    drawn = rng.choice(len(rarity), n_more, replace=False, p=rarity / rarity.sum())
    return _Candidate(counted.begun(prior, own, like(drawn, counted.codes)), False)
