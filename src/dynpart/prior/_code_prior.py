"""The prior over codes: a mixture of trees, with simpler priors as its special cases.

A component is a *type of row*. Within a type the activations of experts form a tree: each depends
on at most one other. A single type without edges is independent bits, several are a mixture, a
single type with edges is a Chow-Liu tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynpart.arrays import (
    as_float64,
    is_remote,
    is_tensor,
    like,
    namespace,
    row_blocks,
    sums_by_place,
    to_numpy,
)

Array = NDArray[np.float64]

TERMS_OF_SCORE = 8
"""Time of a score per active expert and type, in terms of a pursuit."""
ROOT = -1
"""Parent of an expert that depends on no other expert."""


@dataclass(frozen=True, eq=False)
class RowType:
    """A type of row: a component of the prior over codes, in readable form.

    Attributes
    ----------
    weight : float
        Share of the rows that are of this type.
    activation_probabilities : ndarray of shape (n_experts,)
        Probability that each expert is active in such rows.
    code : ndarray of shape (n_experts,), bool
        The most probable code of such a row.
    """

    weight: float
    activation_probabilities: Array
    code: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CodePrior:
    """P(h): a mixture of types, each a tree over experts.

    Attributes
    ----------
    log_weight : ndarray of shape (n_types,)
        Log probabilities of the types.
    parent : ndarray of shape (n_types, n_experts), integers
        Parent of each expert, on which its activation depends; -1 for roots.
    log_table : ndarray of shape (n_types, n_experts, 2, 2)
        ``[c, k, a, b]`` is log P(h_k = b | h_parent = a) in type c; for roots, the same for both a.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.prior import CodePrior
    >>> prior = CodePrior.independent([0.5, 0.25])
    >>> np.exp(prior.log_prob(np.array([[1, 0], [1, 1]]))).round(3)
    array([0.375, 0.125])
    """

    log_weight: Array
    parent: NDArray[np.integer]
    log_table: Array

    def __post_init__(self) -> None:
        n_types, n_experts = self.parent.shape
        shapes = (tuple(self.log_weight.shape), tuple(self.log_table.shape))
        if shapes != ((n_types,), (n_types, n_experts, 2, 2)) or not n_types or not n_experts:
            raise ValueError(
                f"types, parents and tables disagree: log_weight has shape {shapes[0]}, parent "
                f"{tuple(self.parent.shape)}, log_table {shapes[1]}"
            )

    @classmethod
    def independent(cls, probabilities: ArrayLike) -> Self:
        """Independent bits with these activation `probabilities`, strictly between 0 and 1."""
        p = np.asarray(probabilities, dtype=np.float64)
        if p.ndim != 1 or not ((p > 0) & (p < 1)).all():
            raise ValueError(
                "probabilities must be one-dimensional and strictly between 0 and 1, got shape "
                f"{p.shape} with values from {p.min(initial=1)} to {p.max(initial=0)}"
            )
        row = np.stack([np.log1p(-p), np.log(p)], axis=1)
        table = np.broadcast_to(row[:, None], (len(p), 2, 2)).copy()
        return cls(np.zeros(1), np.full((1, len(p)), ROOT), table[None])

    @classmethod
    def mixture(cls, log_weight: Any, probabilities: Any) -> Self:
        """Types in each of which experts are active independently of each other.

        Parameters
        ----------
        log_weight : array of shape (n_types,)
            Logarithms of the probabilities of the types.
        probabilities : array of shape (n_types, n_experts)
            Activation probabilities, strictly between 0 and 1; the same kind of array.
        """
        xp = namespace(probabilities)
        row = xp.log(xp.stack([1 - probabilities, probabilities], axis=-1))
        nobody = xp.full_like(probabilities, ROOT, dtype=xp.int64)
        return cls(log_weight, nobody, xp.stack([row, row], axis=2))

    @property
    def n_types(self) -> int:
        """Number of types."""
        return self.parent.shape[0]

    @property
    def n_experts(self) -> int:
        """Number of experts."""
        return self.parent.shape[1]

    def like(self, reference: Any) -> CodePrior:
        """The prior in the same kind of array as `reference`."""
        parts = (self.log_weight, self.parent, self.log_table)
        return CodePrior(*(like(part, reference) for part in parts))

    # ---------------------------------------------------------------- scores

    def knowing(self, constant: Any, single: Any, pair: Any) -> CodePrior:
        """The same prior with known `coefficients`: `constant`, `single` and `pair`."""
        found = CodePrior(self.log_weight, self.parent, self.log_table)
        vars(found)["coefficients"] = constant, single, pair
        return found

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """Log w_c + log P_c(h) as a polynomial in the bits.

        Returns
        -------
        constant : ndarray of shape (n_types,)
            Value for the empty code.
        single : ndarray of shape (n_types, n_experts)
            Change if only this expert is activated.
        pair : ndarray of shape (n_types, n_experts)
            Further change if an expert and its parent are both active; 0 for roots.
        """
        table, xp = self.log_table, namespace(self.log_table)
        is_child = self.parent != ROOT
        constant = self.log_weight + table[:, :, 0, 0].sum(axis=1)
        single = table[:, :, 0, 1] - table[:, :, 0, 0]
        if xp is np and not is_child.any():  # for tensors this check would take longer
            return constant, single, np.zeros_like(single)
        pair = xp.where(is_child, table[:, :, 1, 1] - table[:, :, 1, 0] - single, 0.0)
        to_parent = xp.where(is_child, table[:, :, 1, 0] - table[:, :, 0, 0], 0.0)
        single = single + sums_by_place(to_parent, xp.where(is_child, self.parent, 0))
        return constant, single, pair

    @cached_property
    def by_expert(self) -> tuple[Array, Array, NDArray[np.uint32], Array]:
        """Coefficients in NumPy arrays, by expert and type, for compiled functions.

        Returns
        -------
        constant : ndarray of shape (n_types,)
            As in `coefficients`.
        single : ndarray of shape (n_experts, n_types)
            As in `coefficients`, transposed.
        parent : ndarray of shape (n_experts, n_types)
            Parent of each expert; `n_experts`, an index that no code contains, for a root.
        pair : ndarray of shape (n_experts, n_types)
            As in `coefficients`, transposed.
        """
        constant, single, pair = (to_numpy(part) for part in self.coefficients)
        parent = to_numpy(self.parent)
        parent = np.where(parent == ROOT, self.n_experts, parent).astype(np.uint32)
        single, parent, pair = (np.ascontiguousarray(part.T) for part in (single, parent, pair))
        return constant, single, parent, pair

    @cached_property
    def edges(self) -> tuple[Any, Any, Array]:
        """Children and parents of all edges, shape (n_edges,), and the terms of edges by type.

        The terms have shape (n_edges, n_types). They apply if both ends of the edge are active.
        """
        _, _, pair = self.coefficients
        linked = to_numpy(pair) != 0
        types, child = np.nonzero(linked)
        parent = to_numpy(self.parent)[types, child]
        ends = np.minimum(child, parent) * self.n_experts + np.maximum(child, parent)
        distinct, place = np.unique(ends, return_inverse=True)
        added = np.zeros((len(distinct), self.n_types))
        np.add.at(added, (place, types), to_numpy(pair)[linked])
        parts = (*np.divmod(distinct, self.n_experts), added)
        return tuple(like(array, self.log_table) for array in parts)

    def log_joint(self, H: Any) -> Array:
        """Log w_c + log P_c(h) of every code and type.

        Parameters
        ----------
        H : array of shape (n_rows, n_experts)
            Binary codes, of the same kind of array as the prior.

        Returns
        -------
        ndarray of shape (n_rows, n_types)
            In nats.
        """
        constant, single, _ = self.coefficients
        child, parent, added = self.edges
        active = as_float64(H)
        scores = active @ single.T + constant
        for block in row_blocks(len(active), len(child)) if len(child) else ():
            scores[block] += (active[block][:, child] * active[block][:, parent]) @ added
        return scores

    def log_prob(self, H: Any) -> Any:
        """Log P(h) of codes, summed over types.

        Parameters
        ----------
        H : array of shape (n_rows, n_experts)
            Binary codes.

        Returns
        -------
        array of shape (n_rows,)
            Same kind of array as the codes; computed on the GPU if the codes are there.
        """
        if not is_remote(H):
            return like(self._log_prob_here(to_numpy(H)), H)
        there = self if is_remote(self.log_table) else self.like(H)
        return there._log_sums(H)

    def _log_prob_here(self, H: NDArray) -> Array:
        """The same in NumPy arrays, by compiled code in several threads.

        Each code is summed separately: matrix products would round a code differently in another
        batch.
        """
        from dynpart.prior import _kernels  # imports Numba, which reading a prior does not need
        from dynpart.threads import Threads

        if not len(H):
            return np.empty(0)
        here = self.like(H) if is_tensor(self.log_table) else self
        found, tables = np.empty(len(H)), here.by_expert
        start, experts = _kernels.code_lists(H)

        def of_rows(lo: int, hi: int) -> None:
            _kernels.log_probabilities(start[lo : hi + 1], experts, tables, found[lo:hi])

        size = -(-len(experts) // len(H))
        Threads().map_rows(of_rows, len(H), TERMS_OF_SCORE * size * self.n_types)
        return found

    def _log_sums(self, H: Any) -> Any:
        """The same by array formulas, for arrays of the prior's kind."""
        blocks = [
            log_sum_exp(self.log_joint(H[block]))
            for block in row_blocks(len(H), self.n_types + self.n_experts)
        ]
        return namespace(H).concatenate(blocks) if blocks else self.log_weight[:0]

    def type_probabilities(self, H: Any) -> Array:
        """P(c | h): probability of each type given the codes `H`; shape (n_rows, n_types)."""
        xp, joint = namespace(self.log_table), self.log_joint(H)
        return xp.exp(joint - log_sum_exp(joint)[:, None])

    def types(self, H: Any) -> NDArray[np.intp]:
        """The most probable type of each code in `H`, the lower index in a tie; (n_rows,)."""
        return self.log_joint(H).argmax(axis=1)

    # ---------------------------------------------------------------- along the trees

    @cached_property
    def generations(self) -> NDArray[np.int64]:
        """Number of edges between each expert and the root of its tree, (n_types, n_experts).

        Raises ValueError if a parent is not an expert, or if edges form a cycle.
        """
        parent = np.asarray(self.parent)
        if parent.min() < ROOT or parent.max() >= self.n_experts:
            raise ValueError(f"parents must be from -1 to {self.n_experts - 1}")
        depth = np.zeros(parent.shape, dtype=np.int64)
        ancestor = parent.copy()
        for _ in range(self.n_experts):
            going = ancestor != ROOT
            if not going.any():
                return depth
            depth += going
            above = np.take_along_axis(parent, np.where(going, ancestor, 0), axis=1)
            ancestor = np.where(going, above, ROOT)
        raise ValueError("experts depend on each other in a circle: parents must form trees")

    @cached_property
    def activation_probabilities(self) -> Array:
        """P(h_k = 1 | type), shape (n_types, n_experts)."""
        table = np.exp(self.log_table[..., 1])
        p = np.zeros(self.parent.shape)
        for depth in range(self.generations.max() + 1):
            c, k = np.nonzero(self.generations == depth)
            above = p[c, self.parent[c, k]]
            p[c, k] = (1 - above) * table[c, k, 0] + above * table[c, k, 1]
        return p

    @property
    def mean_activation(self) -> Array:
        """P(h_k = 1), shape (n_experts,)."""
        return np.exp(self.log_weight) @ self.activation_probabilities

    @cached_property
    def likeliest_codes(self) -> NDArray[np.bool_]:
        """The most probable code of each type, empty or not, shape (n_types, n_experts)."""
        n_types, n_experts = self.parent.shape
        best = np.array(self.log_table)  # [c, k, a, b]: with the maximum over the subtree below k
        for depth in range(self.generations.max(), 0, -1):
            for c, k in zip(*np.nonzero(self.generations == depth), strict=True):
                best[c, self.parent[c, k]] += best[c, k].max(axis=1)
        codes = np.zeros((n_types, n_experts), dtype=bool)
        for depth in range(self.generations.max() + 1):
            c, k = np.nonzero(self.generations == depth)
            above = codes[c, self.parent[c, k]].astype(np.intp)
            codes[c, k] = best[c, k, above].argmax(axis=1)
        return codes

    def row_types(self) -> tuple[RowType, ...]:
        """The types, the most frequent first."""
        order = np.argsort(-self.log_weight, kind="stable")
        weight, p = np.exp(self.log_weight), self.activation_probabilities
        return tuple(RowType(float(weight[c]), p[c], self.likeliest_codes[c]) for c in order)

    def sample(
        self, n_samples: int, rng: np.random.RandomState | np.random.Generator
    ) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Draw a type, then a code along its tree.

        Parameters
        ----------
        n_samples : int
            Number of codes.
        rng : RandomState or Generator
            Generator of the random numbers.

        Returns
        -------
        H : ndarray of shape (n_samples, n_experts), bool
            The codes.
        types : ndarray of shape (n_samples,)
            Index of the type of each code.
        """
        ends = np.cumsum(np.exp(self.log_weight))
        types = np.searchsorted(ends, ends[-1] * rng.uniform(size=n_samples), side="right")
        types = types.clip(max=self.n_types - 1)
        table, draws = np.exp(self.log_table[..., 1]), rng.uniform(size=(n_samples, self.n_experts))
        H = np.zeros((n_samples, self.n_experts), dtype=bool)
        for depth in range(self.generations.max() + 1):
            row, k = np.nonzero(self.generations[types] == depth)
            c = types[row]
            above = H[row, self.parent[c, k]].astype(np.intp)
            H[row, k] = draws[row, k] < table[c, k, above]
        return H, types


def log_sum_exp(scores: Array) -> Array:
    """Log of the sum of exponentials, row by row."""
    xp = namespace(scores)
    top = xp.amax(scores, axis=1)
    return top + xp.log(xp.exp(scores - top[:, None]).sum(axis=1))
