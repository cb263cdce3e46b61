"""Compiled charges of a row's code, updated as experts enter and leave.

Costs are those in rows of one type, or in rows of all types: then the odds of an expert are an
average over types, weighted by their probabilities given the other active experts. Without a prior
there is one type, in which no expert has a neighbour.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.compiled import in_place, inlined
from dynpart.engines._charges import ORDINARY, ROUNDING, Charges
from dynpart.engines._cpu_inner import (
    average_rows,
    logarithms,
    positions,
    relative_exponentials,
    sum_of,
)
from dynpart.engines._cpu_tables import padded

ALL_TYPES = np.int64(-1)
"""Stands for all types, if the type of a row is not fixed."""
LARGEST = 80.0
"""Largest absolute logarithm of stored odds."""
NO_PLACE = np.int64(-1)
"""Stands for no place in a list."""

_u = np.uintp  # see _cpu_pursuit


class KernelCharges(NamedTuple):
    """Charges as kernels read them.

    Attributes
    ----------
    cost : ndarray of shape (n_types, n_experts)
    cost_by_expert : ndarray of shape (n_experts, n_types)
    constant : ndarray of shape (n_types,)
    reference : ndarray of shape (n_experts,)
        The cost at which odds are one.
    odds : ndarray of shape (n_types * n_lanes,)
        exp(reference - cost), padded with zeros.
    wide : ndarray of shape (n_wide,)
        Experts whose odds have too wide a range for averages in single precision.
    place_of_wide : ndarray of shape (n_experts,)
        The place of an expert among these, or -1.
    log_odds : ndarray of shape (n_wide * n_types,)
        Logarithms of the odds of these.
    start : ndarray of shape (n_experts * n_types + 1,)
        Where the neighbours of an expert in a type begin in the lists below.
    neighbour, types, place : ndarray of shape (n_neighbours,)
        Index of the neighbour, the type, and where the odds of this neighbour in this type are.
    log_place : ndarray of shape (n_neighbours,)
        Where the odds of this neighbour in this type are in `log_odds`, or -1.
    bond, joined, parted : ndarray of shape (n_neighbours,)
        Nats by which the two cost less together, exp(bond) and exp(-bond).
    least_share : ndarray of shape (n_types * n_types,)
        Share of a type, relative to that of another one, below which no expert has odds in it that
        count beside those in the other.
    alone : ndarray of shape (n_experts,)
        Minus the objective of each expert alone, without its likelihood.
    """

    cost: NDArray
    cost_by_expert: NDArray
    constant: NDArray
    reference: NDArray
    odds: NDArray
    wide: NDArray
    place_of_wide: NDArray
    log_odds: NDArray
    start: NDArray
    neighbour: NDArray
    types: NDArray
    place: NDArray
    log_place: NDArray
    bond: NDArray
    joined: NDArray
    parted: NDArray
    least_share: NDArray
    alone: NDArray


class Account(NamedTuple):
    """Charges of the code of one row.

    Attributes
    ----------
    cost : ndarray of shape (n_experts,)
        Costs of entering or staying in the code, given its other experts.
    value : ndarray of shape (n_types,)
        The objective of the code without its likelihood, by type.
    kind : ndarray of shape (1,)
        The type to which `cost` belongs.
    active : ndarray of shape (n_experts,)
    odds : ndarray of shape (n_types * n_lanes,)
        Odds of the charges, given the active neighbours.
    log_odds : ndarray of shape (n_wide * n_types,)
        Logarithms of those with a wide range.
    mean : ndarray of shape (n_lanes,)
        Averages of odds over types; scratch.
    nats, share : ndarray of shape (n_padded_types,)
        Logarithms of the probabilities of types, up to a constant, and the probabilities relative
        to the largest; the padding has none. Scratch.
    listed : ndarray of shape (n_padded_types + 15,)
        Types that are not negligible in an average; scratch.
    flags : ndarray of shape (n_padded_types,)
        Scratch.
    """

    cost: NDArray
    value: NDArray
    kind: NDArray
    active: NDArray
    odds: NDArray
    log_odds: NDArray
    mean: NDArray
    nats: NDArray
    share: NDArray
    listed: NDArray
    flags: NDArray


def kernel_charges(charges: Charges, *, background: bool) -> KernelCharges:
    """Charges as kernels read them; a background expert has infinite cost."""
    n_types = len(charges.constant)
    types, children = np.nonzero(charges.bond)
    parents, bond = charges.parent[types, children], charges.bond[types, children]
    where = np.concatenate([children, parents]) * n_types + np.concatenate([types, types])
    order = np.argsort(where, kind="stable")
    cost = charges.cost.copy()
    cost[:, -1] = np.inf
    if not background:
        cost = cost[:, :-1]
    counts = np.bincount(where, minlength=cost.size)
    n_experts, n_costs = cost.shape[1], charges.cost.shape[1] - 1
    alone, reference = np.full((2, n_experts), np.inf)
    alone[:n_costs], reference[:n_costs] = -charges.of_experts_alone(), charges.reference_costs
    neighbour, types = np.concatenate([parents, children])[order], np.tile(types, 2)[order]
    bond = np.tile(bond, 2)[order]
    beyond = np.where(np.isfinite(cost), cost, 0.0)
    beyond[:, :n_costs] -= np.where(np.isfinite(reference[:n_costs]), reference[:n_costs], 0.0)
    half_range = np.pad(charges.half_ranges, (0, n_experts - n_costs))
    wide = np.flatnonzero(half_range > ORDINARY)
    place_of_wide = np.full(n_experts, NO_PLACE)
    place_of_wide[wide] = np.arange(len(wide))
    is_wide = place_of_wide[neighbour] >= 0
    odds = np.zeros((n_types, padded(n_experts)), np.float32)
    odds[:, :n_experts] = np.exp(-beyond.clip(-LARGEST, LARGEST))
    averaged = np.isfinite(reference[:n_costs]) & (half_range[:n_costs] <= ORDINARY)
    lowest, highest = (nats[:, :-1][:, averaged] for nats in charges.cost_ranges)
    gaps = [(top - lowest).max(axis=1, initial=0.0) for top in highest]
    return KernelCharges(
        np.ascontiguousarray(cost, dtype=np.float64),
        np.ascontiguousarray(cost.T, dtype=np.float64),
        np.array(charges.constant, dtype=np.float64),  # writable, or kernels are compiled again
        reference,
        odds.ravel(),
        wide,
        place_of_wide,
        -beyond[:, wide].T.ravel(),
        np.concatenate([[0], np.cumsum(counts)]),
        neighbour,
        types,
        types * odds.shape[1] + neighbour,
        np.where(is_wide, place_of_wide[neighbour] * n_types + types, NO_PLACE),
        bond,
        np.exp(bond.clip(-LARGEST, LARGEST)).astype(np.float32),
        np.exp(-bond.clip(-LARGEST, LARGEST)).astype(np.float32),
        np.exp(-ROUNDING - np.concatenate(gaps)).astype(np.float32),
        alone,
    )


def new_account(charges: KernelCharges) -> Account:
    """Scratch for one row."""
    n_types, n_experts = charges.cost.shape
    n_padded = padded(n_types)
    return Account(
        np.empty(n_experts),
        np.empty(n_types),
        np.zeros(1, np.int64),
        np.zeros(n_experts, np.bool_),
        np.empty(charges.odds.size, np.float32),
        np.empty(charges.log_odds.size),
        np.empty(charges.odds.size // n_types, np.float32),
        np.full(n_padded, -np.inf),
        np.ones(n_padded, np.float32),
        np.empty(n_padded + 15, np.int32),
        np.zeros(n_padded, np.uint8),
    )


# ---------------------------------------------------------------- costs in one type


@inlined
def change_costs(j, sign, charges, account):
    """Update costs as expert j enters (sign 1) or leaves (sign -1)."""
    at = _u(j * charges.constant.size + account.kind[0])
    for e in range(charges.start[at], charges.start[at + _u(1)]):
        account.cost[_u(charges.neighbour[_u(e)])] -= sign * charges.bond[_u(e)]


@in_place
def take_type(c, code, n_active, charges, account):
    """Set the costs to those in rows of type c."""
    account.kind[0] = c
    for k in range(account.cost.size):
        account.cost[k] = charges.cost[_u(c), k]
    for step in range(n_active):
        change_costs(code[step], 1.0, charges, account)


# ---------------------------------------------------------------- costs in all types


@inlined
def change_odds(j, sign, factor, charges, account):
    """Update odds as expert j enters (1, `joined`) or leaves (-1, `parted`)."""
    n_types = charges.constant.size
    for e in range(charges.start[_u(j * n_types)], charges.start[_u((j + 1) * n_types)]):
        at = charges.log_place[_u(e)]
        if at == NO_PLACE:
            account.odds[_u(charges.place[_u(e)])] *= factor[_u(e)]
        else:
            account.log_odds[_u(at)] += sign * charges.bond[_u(e)]


@in_place
def share_types(account):
    """Set the shares of types to the exponentials of `nats`, relative to the largest.

    Returns
    -------
    log_total : float
        Logarithm of the sum of the exponentials.
    """
    most = relative_exponentials(account.nats, account.share)
    return most + math.log(sum_of(account.share, account.share.size))


@in_place
def nats_of_types(account):
    """Set `nats` to the value of the code in all types."""
    for c in range(account.value.size):
        account.nats[c] = account.value[c]


@in_place
def nats_without(j, charges, account):
    """Set `nats` to the value of the code without expert j in all types."""
    n_types, n_lanes = account.value.size, account.mean.size
    place = charges.place_of_wide[_u(j)]
    if place >= 0:
        for c in range(n_types):
            account.nats[c] = account.value[c] - account.log_odds[_u(place * n_types + c)]
        return
    for c in range(n_types):
        account.share[c] = account.odds[_u(c * n_lanes + j)]
    logarithms(account.share)
    for c in range(n_types):
        account.nats[c] = account.value[c] - account.share[c]


@in_place
def list_types(charges, account):
    """List the types whose share counts in the odds of some expert; returns their number."""
    n_types, share, flags = account.value.size, account.share, account.flags
    if charges.wide.size:  # their odds may make up for any share
        for c in range(n_types):
            flags[c] = 1
        return positions(flags, n_types, account.listed)
    top = 0
    while share[_u(top)] < 1 and top < n_types - 1:
        top += 1
    beside = _u(top * n_types)
    for c in range(n_types):
        flags[c] = share[c] >= charges.least_share[beside + _u(c)]
    return positions(flags, n_types, account.listed)


@in_place
def mix_costs(j, charges, account):
    """Costs in rows of all types, given the active experts except j (-1 for no expert)."""
    if j >= 0:
        nats_without(j, charges, account)
        change_odds(j, -1.0, charges.parted, charges, account)
    else:
        nats_of_types(account)
    log_total = share_types(account)
    average_rows(
        account.mean, account.share, account.listed, list_types(charges, account), account.odds
    )
    logarithms(account.mean)
    log_sum = math.log(sum_of(account.share, account.share.size))
    for k in range(account.cost.size):
        account.cost[k] = charges.reference[k] + log_sum - account.mean[k]
    for place in range(charges.wide.size):
        mix_wide_cost(place, log_total, charges, account)
    if j >= 0:
        change_odds(j, 1.0, charges.joined, charges, account)


@in_place
def mix_wide_cost(place, log_total, charges, account):
    """Set the cost of an expert whose odds have a wide range.

    `nats` and odds are those of the other experts, and `log_total` is the logarithm of the sum of
    the exponentials of `nats`.
    """
    n_types, k = account.value.size, charges.wide[_u(place)]
    most = -np.inf
    for c in range(n_types):
        most = max(most, account.nats[c] + account.log_odds[_u(place * n_types + c)])
    total = 0.0
    for c in range(n_types):
        total += math.exp(account.nats[c] + account.log_odds[_u(place * n_types + c)] - most)
    account.cost[_u(k)] = charges.reference[_u(k)] - (most + math.log(total) - log_total)


@in_place
def take_all_types(code, n_active, charges, account):
    """Set the costs to those in rows of all types, for the code that has been valued."""
    if account.value.size == 1:
        take_type(0, code, n_active, charges, account)
        return
    account.kind[0] = ALL_TYPES
    for at in range(account.odds.size):
        account.odds[at] = charges.odds[at]
    for at in range(account.log_odds.size):
        account.log_odds[at] = charges.log_odds[at]
    for step in range(n_active):
        change_odds(code[step], 1.0, charges.joined, charges, account)


@in_place
def cost_to_stay(j, charges, account):
    """Cost of the active expert j."""
    if account.kind[0] >= 0:
        return account.cost[j]
    nats_without(j, charges, account)
    return charges.reference[j] + share_types(account) - charged(account)


# ---------------------------------------------------------------- both


@inlined
def costs_beside_all(charges, account):
    """Compute the costs given all active experts; in one type they are up to date."""
    if account.kind[0] < 0:
        mix_costs(ALL_TYPES, charges, account)


@inlined
def costs_without(j, charges, account):
    """Compute the costs as if expert j were inactive."""
    if account.kind[0] >= 0:
        change_costs(j, -1.0, charges, account)
    else:
        mix_costs(j, charges, account)


@inlined
def costs_again(j, charges, account):
    """Undo `costs_without` in one type; in all types costs are computed when needed."""
    if account.kind[0] >= 0:
        change_costs(j, 1.0, charges, account)


@inlined
def exchange(out, joins, charges, account):
    """Exchange one expert, with costs already those without it, for another; -1 is no expert."""
    if out >= 0:
        change_values(out, -1.0, charges, account)
        if account.kind[0] < 0:
            change_odds(out, -1.0, charges.parted, charges, account)
    if joins >= 0:
        change_values(joins, 1.0, charges, account)
        if account.kind[0] >= 0:
            change_costs(joins, 1.0, charges, account)
        else:
            change_odds(joins, 1.0, charges.joined, charges, account)


@inlined
def change_values(j, sign, charges, account):
    """Update the value of the code in all types as j enters (sign 1) or leaves (sign -1)."""
    value, active, n_types = account.value, account.active, account.value.size
    for c in range(n_types):
        value[c] -= sign * charges.cost_by_expert[_u(j), c]
    for e in range(charges.start[_u(j * n_types)], charges.start[_u((j + 1) * n_types)]):
        if active[_u(charges.neighbour[_u(e)])]:
            value[_u(charges.types[_u(e)])] += sign * charges.bond[_u(e)]
    active[j] = sign > 0


@inlined
def best_type(value):
    """The most probable type of a code; ties go to the first."""
    best = 0
    for c in range(1, value.size):
        if value[c] > value[best]:
            best = c
    return best


@inlined
def second_type(value):
    """The second most probable type of a code, and its distance to the best in nats."""
    first, best = best_type(value), -1
    for c in range(value.size):
        if c != first and (best < 0 or value[c] > value[best]):
            best = c
    return best, value[first] - value[best]


@in_place
def charged(account):
    """The objective of the code without its likelihood."""
    if account.value.size == 1:
        return account.value[0]
    nats_of_types(account)
    return share_types(account)


@in_place
def add_up(code, n_active, charges, account):
    """Compute the value of a code in all types; returns its objective without the likelihood."""
    account.active[:] = False
    for c in range(account.value.size):
        account.value[c] = charges.constant[c]
    for step in range(n_active):
        change_values(code[step], 1.0, charges, account)
    return charged(account)


@in_place
def open_account(code, n_active, charges, account):
    """Compute the value of a code, and costs in rows of all types; returns the value."""
    value = add_up(code, n_active, charges, account)
    take_all_types(code, n_active, charges, account)
    costs_beside_all(charges, account)
    return value


@in_place
def open_account_in_best_type(code, n_active, charges, account):
    """Compute the value of a code, and costs in rows of its most probable type."""
    value = add_up(code, n_active, charges, account)
    take_type(best_type(account.value), code, n_active, charges, account)
    return value
