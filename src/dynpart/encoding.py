"""Encoding: from parameters to a rule for pursuits; counts and scores of the codes.

This module knows engines and experts, no estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.amplitudes import row_amplitudes
from dynpart.arrays import block_values, is_observed, namespace, row_blocks, to_numpy
from dynpart.codebook import ENOUGH_CODES, MOST_CODES, CodeBook, completed
from dynpart.composition import owners
from dynpart.engines import (
    Codes,
    Engine,
    Experts,
    PursuitRule,
    row_log_base,
)
from dynpart.engines.reference import HardScore, expert_log_densities
from dynpart.engines.reference_amplitudes import row_scores
from dynpart.enumeration import are_few
from dynpart.prior import MOST_TYPES, ROUGHLY, CodePrior, fit_prior, independent_prior
from dynpart.pursuits import UNTIL_SETTLED, affordable_starts, pursue
from dynpart.rows import Rows

Array = NDArray[np.float64]

MANY_ROWS = 10_000
"""Number of rows from which on codes are chosen only once under their prior."""
ROUNDS = 2
"""How often codes are chosen under the prior of the codes before."""


@dataclass(frozen=True, eq=False)
class Pursuit:
    """The likelihood matching pursuit of some rows, step by step.

    Attributes
    ----------
    order : ndarray of shape (n_rows, n_steps)
        Experts, padded with -1, in the order of their activation; those of a refined code in the
        order in which a greedy search among them would find them.
    log_likelihood : ndarray of shape (n_rows, n_steps)
        Log P(x | h) after each step, padded with NaN.
    """

    order: NDArray[np.int32]
    log_likelihood: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[Pursuit]) -> Pursuit:
        """The pursuits of several `parts` of the rows, concatenated."""
        n_steps = max(part.order.shape[1] for part in parts)

        def wide(array: NDArray, fill: float) -> NDArray:
            padding = ((0, 0), (0, n_steps - array.shape[1]))
            return np.pad(array, padding, constant_values=fill)

        order = np.concatenate([wide(part.order, -1) for part in parts])
        return cls(order, np.concatenate([wide(part.log_likelihood, np.nan) for part in parts]))


@dataclass(frozen=True)
class Encoding:
    """The parameters of a model that decide which code a row gets.

    Attributes
    ----------
    max_active, n_active : int or None
    prior : {"auto", "independent"} or None
    activation_cost : float
    criterion : {"likelihood", "reconstruction"}
    n_starts, n_swaps : int or None
    prune : bool
    amplitude : {"offset", "gain"} or None
    """

    max_active: int | None
    n_active: int | None
    prior: str | None
    activation_cost: float
    criterion: str
    n_starts: int | None
    n_swaps: int | None
    prune: bool
    amplitude: str | None = None

    @classmethod
    def of(cls, model: Any) -> Encoding:
        """The encoding parameters of a model, as they are now."""
        return cls(*(getattr(model, field.name) for field in fields(cls)))

    def check_counted_with(self, counted: Encoding) -> None:
        """Raise ValueError if activations were counted in codes found with other parameters."""
        for field in fields(self):
            now, then = getattr(self, field.name), getattr(counted, field.name)
            if now != then:
                raise ValueError(
                    f"{field.name}={now!r} was set after activations had been counted with "
                    f"{field.name}={then!r}, so activation_probabilities_ belong to other codes: "
                    f"call recount(X) with rows to count in, or set {field.name}={then!r} again"
                )

    def check_prior(self, counted: Encoding) -> None:
        """Raise ValueError if the prior is of another kind than the one requested now."""
        if self.prior != counted.prior:
            raise ValueError(
                f"prior={self.prior!r} was set after the prior had been learnt with "
                f"prior={counted.prior!r}: call recount(X) with rows to learn it from, set "
                f"prior={counted.prior!r} again, or None to encode without one"
            )

    def limits(self, n_experts: int) -> tuple[int, int]:
        """Fewest and most active experts per row."""
        if self.n_active is not None:
            return self.n_active, self.n_active
        return 1, n_experts if self.max_active is None else self.max_active

    def rule(self, shape: tuple[int, int], prior: CodePrior | None = None) -> PursuitRule:
        """How rows are encoded: under this prior, or by their likelihood alone.

        Codes that are chosen for reconstruction have no activation costs.

        Parameters
        ----------
        shape : tuple of int
            Numbers of experts and of variables.
        prior : CodePrior, default=None
        """
        n_experts, n_features = shape
        n_swaps = UNTIL_SETTLED if self.n_swaps is None else self.n_swaps
        n_starts = self.n_starts
        if n_starts is None:
            n_starts = affordable_starts(n_experts, n_features) if n_swaps else 1
        return PursuitRule(
            *self.limits(n_experts),
            np.full(n_experts, float(self.activation_cost)),
            n_starts=n_starts,
            n_swaps=n_swaps,
            prune=self.prune,
            prior=prior if self.is_joint else None,
        )

    def are_few(self, shape: tuple[int, int]) -> bool:
        """Whether all codes of these numbers of experts and variables can be enumerated."""
        return are_few(shape, *self.limits(shape[0]))

    @property
    def is_joint(self) -> bool:
        """Whether codes are chosen by log P(x | h) + log P(h), not by the first term alone."""
        return self.prior is not None and self.criterion == "likelihood"

    def encoders(self, experts: Experts) -> Experts:
        """The experts with the opinions that are used for choosing codes."""
        return experts.judged() if self.criterion == "likelihood" else experts.equally_sure()

    def counted(
        self,
        engine: Engine,
        rows: Any,
        experts: Experts,
        codes: Codes | None = None,
        prior: CodePrior | None = None,
        *,
        rounds: int = ROUNDS,
    ) -> tuple[Any, CodePrior]:
        """Codes of rows and the prior over codes, estimated in turn.

        Without an initial prior, the first one is fitted to codes found by likelihood alone. Then
        codes are chosen under the prior, and the prior is fitted to the codes.

        Parameters
        ----------
        engine : Engine
        rows : object
            Rows held by the engine.
        experts : Experts
        codes : Codes, default=None
            Of the rows, found by their likelihood alone, where known.
        prior : CodePrior, default=None
            To begin with.
        rounds : int, default=2
            How often codes are chosen under the previous prior; at most once for many rows.

        Returns
        -------
        codes : Codes
        prior : CodePrior
        """
        shape, encoders = experts.log2_expertise.shape, self.encoders(experts)
        if codes is None or encoders is not experts or prior is not None:
            codes = pursue(engine, rows, encoders, self.rule(shape, prior))
        if not self.is_joint:
            rounds = 0
        elif codes.summary(experts.n_experts).n_rows >= MANY_ROWS:
            rounds = min(rounds, 1)
        prior = self.fitted_prior(codes, experts.n_experts, ROUGHLY if rounds else MOST_TYPES)
        for left in reversed(range(rounds)):
            codes = pursue(engine, rows, encoders, self.rule(shape, prior))
            prior = self.fitted_prior(codes, experts.n_experts, ROUGHLY if left else MOST_TYPES)
        return codes, prior

    def fitted_prior(self, codes: Any, n_experts: int, most_types: int = MOST_TYPES) -> CodePrior:
        """The prior of these codes."""
        return self.prior_of(codes.active(n_experts), codes.weight, most_types)

    def prior_of(self, active: Any, weight: Any, most_types: int = MOST_TYPES) -> CodePrior:
        """The prior of codes of shape (n_rows, n_experts) with these weights."""
        if self.prior == "auto":
            return fit_prior(active, weight, most_types)
        return independent_prior(active, weight)

    def likeliest_code(self, prior: CodePrior) -> NDArray[np.int64]:
        """The experts of the likeliest code within the limits, among the candidates tried."""
        fewest, most = self.limits(prior.n_experts)
        wanted = prior.activation_probabilities
        n_active = (wanted > 0.5).sum(axis=1).clip(fewest, most)
        place = np.argsort(np.argsort(-wanted, axis=1, kind="stable"), axis=1)
        codes = np.concatenate([place < n_active[:, None], prior.likeliest_codes])
        size = codes.sum(axis=1)
        allowed = codes[(size >= fewest) & (size <= most)]
        return np.flatnonzero(allowed[prior.log_prob(allowed).argmax()])


def book_of(codes: Any, n_experts: int) -> CodeBook:
    """The code book of rows encoded by any engine."""
    return CodeBook.of(codes.active(n_experts), codes.weight)


def book_of_rows(
    engine: Engine,
    rows: Any,
    n_rows: int,
    codes: Any,
    experts: Experts,
    encoding: Encoding,
    prior: CodePrior,
) -> CodeBook:
    """The code book of training rows, which is used to fill gaps if there are many experts.

    Rows with gaps, or some of them, are encoded again with their gaps filled.

    Parameters
    ----------
    engine : Engine
    rows : object
        `n_rows` rows held by the engine.
    n_rows : int
    codes : Codes
        Of these rows.
    experts : Experts
    encoding : Encoding
        How rows are encoded.
    prior : CodePrior
    """
    taken = engine.take(rows, np.arange(min(n_rows, MOST_CODES)))
    if taken.complete or encoding.are_few(experts.log2_expertise.shape):
        return book_of(codes, experts.n_experts)
    taken = taken.to_numpy()
    own = to_numpy(codes.active(experts.n_experts)[: len(taken)])
    here = experts.like(taken.values)
    filled = completed(taken, own, here, CodeBook.of(own, taken.weight, ENOUGH_CODES))
    rule = encoding.rule(experts.log2_expertise.shape, prior)
    again = pursue(engine, engine.hold(filled), encoding.encoders(experts), rule)
    return book_of(again, experts.n_experts)


def log_likelihood(rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Array:
    """Log P(x | h) under the hard rule, shape (n_rows,), in double precision.

    Parameters
    ----------
    rows : Rows or SparseRows
    active : array of shape (n_rows, n_experts)
    experts : Experts
        All three have arrays of the same type.
    """

    def of_block(block: slice) -> Array:
        part, owner = rows[block], owners(experts.ranks, active[block])
        plain = experts.owned_log_density(part.values, owner).sum(axis=1)
        if experts.amplitude is None:
            return plain
        return plain + _amplitudes(part, active[block], owner, experts)[2]

    n_features = experts.log2_expertise.shape[1]
    values = block_values(experts.eta)
    blocks = [of_block(block) for block in row_blocks(len(rows), n_features, values=values)]
    return namespace(blocks[0]).concatenate(blocks)


def amplitudes(rows: Rows, active: NDArray[np.bool_], experts: Experts) -> Array:
    """Gain and offset of every active expert, shape (n_rows, n_experts, 2); else 1 and 0.

    Parameters
    ----------
    rows : Rows
    active : array of shape (n_rows, n_experts)
    experts : Experts
        With an amplitude; all three have arrays of the same type.
    """
    assert experts.amplitude is not None
    unit = experts.family.unit

    def of_block(block: slice) -> Array:
        owner = owners(experts.ranks, active[block])
        gain, offset, _ = _amplitudes(rows[block], active[block], owner, experts)
        return experts.amplitude.in_data_units(gain, offset, unit)  # type: ignore[union-attr]

    blocks = [of_block(block) for block in row_blocks(*rows.shape)]
    return namespace(blocks[0]).concatenate(blocks)


def _amplitudes(
    rows: Rows, active: NDArray[np.bool_], owner: NDArray[np.int32], experts: Experts
) -> tuple[Array, Array, Array]:
    assert experts.amplitude is not None
    T = experts.family.statistics(rows.values)
    observed = is_observed(T[0])
    T = namespace(T).where(observed, T, 0.0)
    family, eta = experts.family, experts.eta
    return row_amplitudes(T, observed, owner, active, family, eta, experts.amplitude)


def in_activation_order(rows: Rows, codes: Codes, experts: Experts, cost: Array) -> Pursuit:
    """The codes of these rows in the order of activation, with the log-likelihood after each step.

    For a greedy code this is the order in which experts were activated. A refined code has no such
    order: its experts are sorted as a greedy search among them would activate them.

    Parameters
    ----------
    rows : Rows
    codes : Codes
    experts : Experts
    cost : ndarray of shape (n_experts,)
        Activation costs.
    """
    active = to_numpy(codes.active(experts.n_experts))
    n_steps = int(active.sum(axis=1).max())
    order = np.full((len(rows), n_steps), -1, dtype=np.int32)
    path = np.full(order.shape, np.nan)
    for block in row_blocks(len(rows), experts.log2_expertise.size):
        if experts.amplitude is not None:
            _order_amplitudes(rows[block], active[block], experts, cost, order[block], path[block])
            continue
        density = expert_log_densities(rows[block], experts)
        base = row_log_base(rows[block], experts.family)
        score, left = HardScore(density, experts), active[block].copy()
        for step in range(n_steps):
            running = np.flatnonzero(left.any(axis=1))
            chosen = np.where(left, score.gains() - cost, -np.inf)[running].argmax(axis=1)
            score.activate(running, chosen)
            left[running, chosen] = False
            order[block][running, step] = chosen
            path[block][running, step] = (score.owner_density.sum(axis=1) + base)[running]
    return Pursuit(order, path)


def _order_amplitudes(
    rows: Rows, active: NDArray, experts: Experts, cost: Array, order: NDArray, path: NDArray
) -> None:
    """The same for experts with gains and offsets, into `order` and `path`."""
    base = row_log_base(rows, experts.family) + np.zeros(len(rows))
    for row, score in enumerate(row_scores(rows, experts, PursuitRule(1, 1, cost).charges)):
        code: list[int] = []
        left = list(np.flatnonzero(active[row]))
        while left:
            gains = score.gains(code, 0)
            chosen = max(left, key=lambda k: gains[k])
            left.remove(chosen)
            code.append(int(chosen))
            order[row, len(code) - 1] = chosen
            path[row, len(code) - 1] = score.explained(code) + base[row]
