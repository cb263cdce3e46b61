"""What it means for an engine to agree with the reference."""

import numpy as np

from dynpart.arrays import to_numpy
from dynpart.engines import MARGIN, row_log_base
from dynpart.engines.reference import (
    HardScore,
    ReferenceEngine,
    _SmoothedScore,
    expert_log_densities,
)

REFERENCE = ReferenceEngine()
NEAR = 1e-4  # nats: what float32 terms may confuse


def assert_follows_the_rule(rows, experts, rule, codes):
    """Every step takes an expert whose exact gain is the best up to `NEAR`, and stops rightly."""
    density = expert_log_densities(rows, experts)
    near = NEAR * max(1.0, np.abs(density).sum(axis=2).max() / 1e3)
    for i, order in enumerate(codes.members):
        kind = _SmoothedScore if rule.smoothed else HardScore
        score = kind(density[i : i + 1], experts)
        chosen = list(order[order >= 0])
        assert 1 <= len(chosen) <= rule.max_active
        assert len(set(chosen)) == len(chosen)
        for step in range(rule.max_active):
            gains = score.gains()[0] - rule.cost
            gains[chosen[:step]] = -np.inf
            if step == len(chosen):
                assert step >= rule.min_active
                assert gains.max() <= MARGIN + near
                break
            assert gains[chosen[step]] >= gains.max() - near
            assert step < rule.min_active or gains[chosen[step]] > MARGIN - near
            score.activate(np.array([0]), np.array([chosen[step]]))


def assert_likelihood_of_codes(rows, experts, codes):
    density = expert_log_densities(rows, experts)
    ranks = experts.ranks
    base = row_log_base(rows, experts.family) + np.zeros(len(rows))
    found = zip(density, base, codes.members, codes.log_likelihood, strict=True)
    for l_row, b, order, value in found:
        chosen = order[order >= 0]
        owner = chosen[ranks[chosen].argmin(axis=0)]
        expected = l_row[owner, np.arange(l_row.shape[1])].sum() + b
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-4)


def assert_same_codes(codes, exact, *, in_order=True):
    """Codes are the reference's and as likely; greedy ones have their experts in the same order.

    A refined code has no order: equally weak experts may be looked at in another one.
    """
    found, expected = codes.members, exact.members
    if not in_order:
        found, expected = np.sort(found, axis=1), np.sort(expected, axis=1)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(codes.log_likelihood, exact.log_likelihood, rtol=1e-5, atol=1e-4)


def assert_same_sums(engine, rows, experts, codes, *, rtol=1e-4, numpy_codes=None):
    """Sums are the reference's; `numpy_codes` are the same codes as the reference reads them."""
    parts = {"gradient_sums": ("first", "second"), "responsibility_sums": ("weight", "statistics")}
    for operation, names in parts.items():
        found = getattr(engine, operation)(rows, experts, codes)
        exact = getattr(REFERENCE, operation)(rows, experts, numpy_codes or codes)
        for name in names:
            expected = getattr(exact, name)
            scale = np.abs(expected).max() + np.sqrt(np.abs(getattr(exact, "second", 0.0)).max())
            np.testing.assert_allclose(
                to_numpy(getattr(found, name)), expected, rtol=rtol, atol=0.1 * rtol * scale + 1e-12
            )
