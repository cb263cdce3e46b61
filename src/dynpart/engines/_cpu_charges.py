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
from dynpart.engines._charges import Charges
from dynpart.engines._cpu_inner import average_rows, logarithms
from dynpart.engines._cpu_tables import padded

ALL_TYPES = np.int64(-1)
"""Stands for all types, if the type of a row is not fixed."""
FAR = 45.0
"""Nats below the most probable type at which a type is ignored, in any code with one expert less:
to this, the range of costs is added."""
FARTHEST = 600.0
"""Upper bound of these nats: double precision represents exp(-600)."""
ORDINARY = 80.0
"""Nats within which stored odds are products in single precision, whichever experts enter."""
LARGEST = 85.0
"""Largest absolute logarithm of stored odds."""
NEGLIGIBLE = 1e-19
"""Share of a type, among all types, below which it is ignored in a cost."""
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
    log_odds : ndarray of shape (n_wide,)
        Logarithms of odds whose range is too wide for products in single precision.
    start : ndarray of shape (n_experts * n_types + 1,)
        Where the neighbours of an expert in a type begin in the lists below.
    neighbour, types, place : ndarray of shape (n_neighbours,)
        Index of the neighbour, the type, and where the odds of this neighbour in this type are.
    wide : ndarray of shape (n_neighbours,)
        The place of this neighbour in `log_odds`, or -1.
    bond, joined, parted : ndarray of shape (n_neighbours,)
        Nats by which the two cost less together, exp(bond) and exp(-bond).
    far : ndarray of shape (1,)
        Nats below the most probable type at which a type is ignored until the code changes.
    alone : ndarray of shape (n_experts,)
        Minus the objective of each expert alone, without its likelihood.
    """

    cost: NDArray
    cost_by_expert: NDArray
    constant: NDArray
    reference: NDArray
    odds: NDArray
    log_odds: NDArray
    start: NDArray
    neighbour: NDArray
    types: NDArray
    place: NDArray
    wide: NDArray
    bond: NDArray
    joined: NDArray
    parted: NDArray
    far: NDArray
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
    log_odds : ndarray of shape (n_wide,)
        Logarithms of those with a wide range.
    mean : ndarray of shape (n_lanes,)
        Averages of odds over types; scratch.
    near : ndarray of shape (n_types,)
        Types close to the most probable one; the first `n_near[0]` entries are valid.
    weight, share : ndarray of shape (n_types,)
        Probabilities of these given the code, up to a factor; the same without one expert.
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
    middle = np.where(np.isfinite(reference), reference, 0.0)
    lowest, highest = (nats[:, :n_experts] - middle for nats in charges.cost_ranges())
    widest = np.where(np.isfinite(reference), np.maximum(highest, -lowest), 0.0)
    beyond = np.where(np.isfinite(cost), cost - middle, 0.0)
    is_wide = widest > ORDINARY
    wide = np.full(cost.shape, NO_PLACE)
    wide[is_wide] = np.arange(is_wide.sum())
    odds = np.zeros((n_types, padded(n_experts)), np.float32)
    odds[:, :n_experts] = np.exp(-beyond.clip(-LARGEST, LARGEST))
    far = min(FAR + 2 * widest.max(initial=0.0), FARTHEST)
    return KernelCharges(
        np.ascontiguousarray(cost, dtype=np.float64),
        np.ascontiguousarray(cost.T, dtype=np.float64),
        np.array(charges.constant, dtype=np.float64),  # writable, or kernels are compiled again
        reference,
        odds.ravel(),
        -beyond[is_wide],
        np.concatenate([[0], np.cumsum(counts)]),
        neighbour,
        types,
        types * odds.shape[1] + neighbour,
        wide[types, neighbour],
        bond,
        np.exp(bond.clip(-LARGEST, LARGEST)).astype(np.float32),
        np.exp(-bond.clip(-LARGEST, LARGEST)).astype(np.float32),
        np.array([far]),
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
        at, place = charges.wide[_u(e)], _u(charges.place[_u(e)])
        if at == NO_PLACE:
            account.odds[place] *= factor[_u(e)]
        else:
            account.log_odds[_u(at)] += sign * charges.bond[_u(e)]
            account.odds[place] = math.exp(min(max(account.log_odds[_u(at)], -LARGEST), LARGEST))


@in_place
def weigh_types(charges, account):
    """Set the weights of types to their probabilities given the code."""
    top = account.value[best_type(account.value)]
    n_near = 0
    for c in range(account.value.size):
        if account.value[c] > top - charges.far[0]:
            account.near[n_near] = c
            account.weight[n_near] = math.exp(account.value[c] - top)
            n_near += 1
    account.n_near[0] = n_near


@in_place
def share_without(j, account):
    """Set the shares of types as if expert j were inactive; returns their sum."""
    total = 0.0
    for q in range(account.n_near[0]):
        odds = np.float64(account.odds[_u(account.near[q] * account.mean.size + j)])
        account.share[q] = account.weight[q] / odds
        total += account.share[q]
    return total


@in_place
def mix_costs(j, charges, account):
    """Costs in rows of all types, given the active experts except j (-1 for no expert)."""
    share, averaged, portion = account.share, account.averaged, account.portion
    total = 0.0
    if j >= 0:
        total = share_without(j, account)
        change_odds(j, -1.0, charges.parted, charges, account)
    else:
        for q in range(account.n_near[0]):
            share[q] = account.weight[q]
            total += share[q]
    scale, n = 1.0 / total, 0
    for q in range(account.n_near[0]):
        averaged[_u(n)] = account.near[q]
        portion[_u(n)] = share[q] * scale
        n += share[q] * scale >= NEGLIGIBLE
    average_rows(account.mean, portion, averaged, n, account.odds)
    if j >= 0:
        change_odds(j, 1.0, charges.joined, charges, account)
    logarithms(account.mean)
    for k in range(account.cost.size):
        account.cost[k] = charges.reference[k] - account.mean[k]


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
    return charges.reference[j] + math.log(share_without(j, account) / total_weight(account))


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
        if value[c] > top - FAR:
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
