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
from dynpart.engines._cpu_inner import average_rows, logarithms
from dynpart.engines._cpu_tables import padded

ALL_TYPES = np.int64(-1)
"""Stands for all types, if the type of a row is not fixed."""
LARGEST = 80.0
"""Largest absolute logarithm of stored odds."""
NEGLIGIBLE = 40.0
"""Nats below the largest term at which a term of a sum in double precision is ignored."""
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
    far : ndarray of shape (1,)
        Nats below the most probable type at which a type is ignored until the code changes.
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
    far: NDArray
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
    near : ndarray of shape (n_types,)
        Types close to the most probable one; the first `n_near[0]` entries are valid.
    weight, share : ndarray of shape (n_types,)
        Probabilities of these given the code, up to a factor; the same without one expert.
    shift : ndarray of shape (1,)
        Logarithm of a further factor of `share`.
    averaged, portion : ndarray of shape (n_types,)
        Types that are not negligible in an average, and their shares; scratch.
    n_near : ndarray of shape (1,)
    """

    cost: NDArray
    value: NDArray
    kind: NDArray
    active: NDArray
    odds: NDArray
    log_odds: NDArray
    mean: NDArray
    near: NDArray
    weight: NDArray
    share: NDArray
    shift: NDArray
    averaged: NDArray
    portion: NDArray
    n_near: NDArray


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
    alone[:n_costs], reference[:n_costs] = -charges.of_experts_alone(), charges.reference_costs()
    neighbour, types = np.concatenate([parents, children])[order], np.tile(types, 2)[order]
    bond = np.tile(bond, 2)[order]
    beyond = np.where(np.isfinite(cost), cost, 0.0)
    beyond[:, :n_costs] -= np.where(np.isfinite(reference[:n_costs]), reference[:n_costs], 0.0)
    half_range = np.pad(charges.half_ranges(), (0, n_experts - n_costs))
    wide = np.flatnonzero(half_range > ORDINARY)
    place_of_wide = np.full(n_experts, NO_PLACE)
    place_of_wide[wide] = np.arange(len(wide))
    is_wide = place_of_wide[neighbour] >= 0
    odds = np.zeros((n_types, padded(n_experts)), np.float32)
    odds[:, :n_experts] = np.exp(-beyond.clip(-LARGEST, LARGEST))
    # An expert that leaves and those that are averaged may both shift the weights of types.
    most = float(half_range[half_range <= ORDINARY].max(initial=0.0))
    far = math.inf if len(wide) else ROUNDING + 4 * most
    averaged = np.isfinite(reference[:n_costs]) & (half_range[:n_costs] <= ORDINARY)
    lowest, highest = (nats[:, :-1][:, averaged] for nats in charges.cost_ranges())
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
        np.array([far]),
        np.exp(-ROUNDING - np.concatenate(gaps)),
        alone,
    )


def new_account(charges: KernelCharges) -> Account:
    """Scratch for one row."""
    n_types, n_experts = charges.cost.shape
    return Account(
        np.empty(n_experts),
        np.empty(n_types),
        np.zeros(1, np.int64),
        np.zeros(n_experts, np.bool_),
        np.empty(charges.odds.size, np.float32),
        np.empty(charges.log_odds.size),
        np.empty(charges.odds.size // n_types, np.float32),
        np.empty(n_types, np.int64),
        np.empty(n_types),
        np.empty(n_types),
        np.zeros(1),
        np.empty(n_types, np.int64),
        np.empty(n_types, np.float32),
        np.zeros(1, np.int64),
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
def weigh_types(charges, account):
    """Set the weights of types to their probabilities given the code."""
    top = account.value[best_type(account.value)]
    n_near = 0
    for c in range(account.value.size):
        if account.value[c] >= top - charges.far[0]:
            account.near[n_near] = c
            account.weight[n_near] = math.exp(account.value[c] - top)
            n_near += 1
    account.n_near[0] = n_near


@in_place
def share_without(j, charges, account):
    """Set the shares of types as if expert j were inactive; returns their sum."""
    if charges.place_of_wide[_u(j)] >= 0:
        return share_without_wide(charges.place_of_wide[_u(j)], account)
    total = 0.0
    for q in range(account.n_near[0]):
        odds = np.float64(account.odds[_u(account.near[q] * account.mean.size + j)])
        account.share[q] = account.weight[q] / odds
        total += account.share[q]
    account.shift[0] = 0.0
    return total


@inlined
def share_without_wide(place, account):
    """The same for an expert whose odds have a wide range; then all types are near."""
    n_types = account.value.size
    most = -np.inf
    for c in range(n_types):
        account.share[c] = account.value[c] - account.log_odds[_u(place * n_types + c)]
        most = max(most, account.share[c])
    total = 0.0
    for c in range(n_types):
        account.share[c] = math.exp(account.share[c] - most)
        total += account.share[c]
    account.shift[0] = most - account.value[best_type(account.value)]
    return total


@in_place
def mix_costs(j, charges, account):
    """Costs in rows of all types, given the active experts except j (-1 for no expert)."""
    near, share, averaged, portion = account.near, account.share, account.averaged, account.portion
    total = 0.0
    if j >= 0:
        total = share_without(j, charges, account)
        change_odds(j, -1.0, charges.parted, charges, account)
    else:
        account.shift[0] = 0.0
        for q in range(account.n_near[0]):
            share[q] = account.weight[q]
            total += share[q]
    top = 0
    for q in range(account.n_near[0]):
        if share[_u(q)] > share[_u(top)]:
            top = q
    scale, most, n = 1.0 / total, share[_u(top)], 0
    beside = near[_u(top)] * account.value.size
    for q in range(account.n_near[0]):
        averaged[_u(n)] = near[q]
        portion[_u(n)] = share[q] * scale
        n += share[q] >= most * charges.least_share[_u(beside + near[q])]
    average_rows(account.mean, portion, averaged, n, account.odds)
    logarithms(account.mean)
    for k in range(account.cost.size):
        account.cost[k] = charges.reference[k] - account.mean[k]
    for place in range(charges.wide.size):
        mix_wide_cost(place, j, math.log(total) + account.shift[0], charges, account)
    if j >= 0:
        change_odds(j, 1.0, charges.joined, charges, account)


@in_place
def mix_wide_cost(place, j, log_total, charges, account):
    """Set the cost of an expert whose odds have a wide range, given the active experts except j.

    Odds are those without j; `log_total` is the logarithm of the sum of the shares of types.
    """
    n_types, k = account.value.size, charges.wide[_u(place)]
    top = account.value[best_type(account.value)]
    most = -np.inf
    for c in range(n_types):
        log_share = account.value[c] - top
        if j >= 0 and charges.place_of_wide[_u(j)] >= 0:
            log_share -= account.log_odds[_u(charges.place_of_wide[_u(j)] * n_types + c)]
        elif j >= 0:
            log_share -= math.log(account.odds[_u(c * account.mean.size + j)])
        account.share[c] = log_share + account.log_odds[_u(place * n_types + c)]
        most = max(most, account.share[c])
    total = 0.0
    for c in range(n_types):
        total += math.exp(account.share[c] - most)
    account.cost[_u(k)] = charges.reference[_u(k)] - (most + math.log(total) - log_total)


@inlined
def total_weight(account):
    """Sum of the weights of types."""
    total = 0.0
    for q in range(account.n_near[0]):
        total += account.weight[q]
    return total


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
    weigh_types(charges, account)


@in_place
def cost_to_stay(j, charges, account):
    """Cost of the active expert j."""
    if account.kind[0] >= 0:
        return account.cost[j]
    total = share_without(j, charges, account)
    return charges.reference[j] + account.shift[0] + math.log(total / total_weight(account))


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
    if account.kind[0] < 0:
        weigh_types(charges, account)


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
    value = account.value
    top = value[best_type(value)]
    if value.size == 1:
        return top
    total = 0.0
    for c in range(value.size):
        if value[c] > top - NEGLIGIBLE:
            total += math.exp(value[c] - top)
    return top + math.log(total)


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
