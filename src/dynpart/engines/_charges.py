"""Charges of a code: activation costs and, under a prior, log P(h).

Within a type of row log P(h) is a polynomial in the bits: the cost of an expert depends on its
active neighbours in the tree. P(h) is the sum over types. The cost of an expert is then an average
over types, weighted by their probabilities given the other active experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import like, namespace, to_numpy
from dynpart.prior import CodePrior, log_sum_exp

Array = NDArray[np.float64]

ORDINARY = 30.0
"""Nats by which all costs of an expert may differ from the middle one, so that averages of its
odds over types are accurate in single precision."""
ROUNDING = 20.0
"""Nats below which a term of a sum is no more than a rounding error of single precision."""


@dataclass(frozen=True, eq=False)
class Charges:
    """The part of a pursuit's objective that does not depend on the row's values.

    The last column of the arrays stands for no expert and costs nothing. Index -1, which pads
    codes, refers to it, and so does n_experts, the index of a background expert.

    Attributes
    ----------
    constant : ndarray of shape (n_types,)
        Value of the objective for the empty code.
    cost : ndarray of shape (n_types, n_experts + 1)
        Cost in nats of an expert that is active alone.
    parent : ndarray of shape (n_types, n_experts + 1), integers
        Neighbour in the type's tree, n_experts for an expert without.
    bond : ndarray of shape (n_types, n_experts + 1)
        Nats by which an expert and its parent cost less together; 0 for an expert without.
    """

    constant: Array
    cost: Array
    parent: NDArray[np.int64]
    bond: Array

    @classmethod
    def of(cls, cost: Array, prior: CodePrior | None) -> Charges:
        """Costs of being active, and those that a prior adds; one type if there is no prior."""
        n_experts = len(cost)
        if prior is None:
            nobody = np.full((1, n_experts + 1), n_experts, dtype=np.int64)
            return cls(np.zeros(1), np.append(cost, 0.0)[None], nobody, np.zeros(nobody.shape))
        _ = prior.generations  # raises unless parents are experts and form trees
        constant, single, pair = (to_numpy(part) for part in prior.coefficients)
        parent = to_numpy(prior.parent).astype(np.int64)

        def with_nobody(values: NDArray, fill: Any) -> NDArray:
            return np.pad(values, ((0, 0), (0, 1)), constant_values=fill)

        return cls(
            constant,
            with_nobody(cost - single, 0.0),
            with_nobody(np.where(parent < 0, n_experts, parent), n_experts),
            with_nobody(pair, 0.0),
        )

    @property
    def n_types(self) -> int:
        return len(self.constant)

    def of_experts_alone(self) -> Array:
        """The objective of every expert alone without log P(x | h), shape (n_experts,)."""
        return to_numpy(log_sum_exp((self.constant[:, None] - self.cost[:, :-1]).T))

    @cached_property
    def reference_costs(self) -> Array:
        """Costs at which stored odds are one, shape (n_experts,): the middle of all possible costs.

        Infinite for an expert that can never enter.
        """
        lowest, highest = self.cost_ranges
        return ((lowest.min(axis=0) + highest.max(axis=0)) / 2)[:-1]

    @cached_property
    def cost_ranges(self) -> tuple[Array, Array]:
        """The lowest and highest costs of an expert beside any others, like `cost`."""
        lowest, highest = self.cost.copy(), self.cost.copy()
        for change, bond in ((lowest, self.bond.clip(min=0)), (highest, self.bond.clip(max=0))):
            change -= bond
            np.subtract.at(change, (np.arange(self.n_types)[:, None], self.parent), bond)
        return lowest, highest

    @cached_property
    def half_ranges(self) -> Array:
        """Largest absolute logarithms of odds, and of their changes, shape (n_experts,).

        Zero for an expert that can never enter.
        """
        reference, bond = self.reference_costs, np.abs(self.bond)
        finite = np.isfinite(reference)
        lowest = self.cost_ranges[0].min(axis=0)[:-1]
        widest = bond.max(axis=0)
        np.maximum.at(widest, self.parent, bond)
        return np.where(finite, np.maximum(np.where(finite, reference, 0) - lowest, widest[:-1]), 0)

    @property
    def are_ordinary(self) -> bool:
        """Whether single precision is enough for the odds of all experts."""
        return self.n_types == 1 or float(self.half_ranges.max(initial=0.0)) <= ORDINARY

    def like(self, reference: Any) -> Charges:
        """The same charges as arrays of the type and device of `reference`."""
        parts = (self.constant, self.cost, self.parent, self.bond)
        return Charges(*(like(part, reference) for part in parts))

    def costs(self, order: Any) -> Any:
        """Nats each expert must gain to enter a code, or to stay in it.

        Parameters
        ----------
        order : array of shape (n_rows, n_slots), integers
            Active experts, padded with -1.

        Returns
        -------
        array of shape (n_rows, n_experts)
        """
        within, active = self._costs_within_types(order)
        if self.n_types == 1:
            return within[:, 0, :-1]
        value = self.of_types(order)[:, :, None]
        # For an active expert the change is a removal: costs are those of adding it again.
        sign = namespace(order).where(active[:, None], 1.0, -1.0)
        total, changed = (log_sum_exp(part) for part in (value, value + sign * within))
        return (sign[:, 0] * (changed - total))[:, :-1]

    def costs_in(self, order: Any, types: Any) -> Any:
        """The same for rows of known types, shape (n_rows,)."""
        rows = self._active(order)[0][:, 0]
        return self._costs_within_types(order)[0][rows, types, :-1]

    def _costs_within_types(self, order: Any) -> tuple[Any, Any]:
        """Costs, shape (n_rows, n_types, n_experts + 1), and flags of active experts."""
        rows, active = self._active(order)
        cost = self.cost - self.bond * active[:, self.parent]
        # Bonds of active children are added to their parents, one slot after the other.
        kinds = self._places(self.n_types, order)
        for slot in range(order.shape[1]):
            child = order[:, slot]
            parent, bond = self.parent.T[child], self.bond.T[child]
            cost[rows, kinds, parent] -= bond
        return cost, active

    def of_codes(self, order: Any) -> Any:
        """The objective of codes without log P(x | h), shape (n_rows,)."""
        return log_sum_exp(self.of_types(order))

    def of_types(self, order: Any) -> Any:
        """The objective of codes without log P(x | h), by type, shape (n_rows, n_types)."""
        rows, active = self._active(order)
        saved = self.bond.T[order] * active[rows[:, :, None], self.parent.T[order]]
        return self.constant + (saved - self.cost.T[order]).sum(axis=1)

    def _active(self, order: Any) -> tuple[Any, Any]:
        """Indices of rows, as a column, and flags of active experts; padding is never active."""
        xp = namespace(order)
        where = {} if xp is np else {"device": order.device}
        rows = self._places(len(order), order)[:, None]
        active = xp.zeros((len(order), self.cost.shape[1]), dtype=bool, **where)
        active[rows, order] = True
        active[:, -1] = False
        return rows, active

    @staticmethod
    def _places(n: int, order: Any) -> Any:
        """0 to n - 1, on the device of the codes."""
        xp = namespace(order)
        return xp.arange(n, **({} if xp is np else {"device": order.device}))
