"""Compiled: what a row's code is charged for, kept up to date as experts come and go.

Costs are those in rows of one type, or in rows of all types: then the odds of an expert are an
average over types, each as probable as the other active experts say. Without a prior there is one
type, in which nobody has a neighbour.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynpart.compiled import in_place, inlined
from dynpart.engines._charges import Charges
from dynpart.engines._cpu_inner import log_of

ALL_TYPES = np.int64(-1)
"""Stands for the type of a row that may be of any."""
FAR = 45.0
"""Nats below the likeliest type at which a type is left out until the code changes."""
NEGLIGIBLE = 1e-19
"""Share of the other types at which a type has no say in a cost."""
SMALLEST_ODDS = 1e-18
"""So small that no prior comes near it, and single precision holds its products with bonds."""

_u = np.uintp  # see _cpu_pursuit


class KernelCharges(NamedTuple):
    """Charges as kernels read them.

    Attributes
    ----------
    cost : ndarray of shape (n_types, n_experts)
    cost_by_expert : ndarray of shape (n_experts, n_types)
    constant : ndarray of shape (n_types,)
    least : ndarray of shape (n_experts,)
        The lowest cost in any type.
    odds : ndarray of shape (n_types, n_experts)
        exp(least - cost).
    start : ndarray of shape (n_experts * n_types + 1,)
        Where in the lists below those begin that are neighbours of an expert in a type.
    neighbour, types : ndarray of shape (n_neighbours,)
        Who is a neighbour, and in which type.
    bond, joined, parted : ndarray of shape (n_neighbours,)
        By how much the two cost less together, exp(bond) and exp(-bond).
    alone : ndarray of shape (n_experts,)
        Minus what each expert is worth alone beside its likelihood.
    """

    cost: NDArray
    cost_by_expert: NDArray
    constant: NDArray
    least: NDArray
    odds: NDArray
    start: NDArray
    neighbour: NDArray
    types: NDArray
    bond: NDArray
    joined: NDArray
    parted: NDArray
    alone: NDArray


class Account(NamedTuple):
    """What the code of one row is charged for.

    Attributes
    ----------
    cost : ndarray of shape (n_experts,)
        Costs of entering or staying in the code, given its other experts.
    value : ndarray of shape (n_types,)
        What the objective has of the code beside its likelihood, in each type.
    kind : ndarray of shape (1,)
        The type that costs are those of.
    active : ndarray of shape (n_experts,)
    odds : ndarray of shape (n_types, n_experts)
        Those of the charges, beside the neighbours that are active.
    mean : ndarray of shape (n_experts,)
        Averages of odds over types; scratch.
    near : ndarray of shape (n_types,)
        The types that are not far from the likeliest; the first `n_near[0]` count.
    weight, share : ndarray of shape (n_types,)
        How probable the code makes each of these, up to a factor; the same without an expert.
    n_near : ndarray of shape (1,)
    """

    cost: NDArray
    value: NDArray
    kind: NDArray
    active: NDArray
    odds: NDArray
    mean: NDArray
    near: NDArray
    weight: NDArray
    share: NDArray
    n_near: NDArray


def kernel_charges(charges: Charges, *, background: bool) -> KernelCharges:
    """Charges as kernels read them, those of a background expert, whom nobody can pay, too."""
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
    alone = np.full(cost.shape[1], np.inf)
    alone[: charges.cost.shape[1] - 1] = -charges.of_experts_alone()
    least = cost.min(axis=0)
    beyond = np.where(np.isfinite(cost), cost - np.where(np.isfinite(least), least, 0.0), 0.0)
    neighbour, types = np.concatenate([parents, children])[order], np.tile(types, 2)[order]
    bond = np.tile(bond, 2)[order]
    return KernelCharges(
        np.ascontiguousarray(cost, dtype=np.float64),
        np.ascontiguousarray(cost.T, dtype=np.float64),
        np.ascontiguousarray(charges.constant, dtype=np.float64),
        least,
        np.exp(-beyond).clip(SMALLEST_ODDS).astype(np.float32),
        np.concatenate([[0], np.cumsum(counts)]),
        neighbour,
        types,
        bond,
        np.exp(bond).astype(np.float32),
        np.exp(-bond).astype(np.float32),
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
        np.empty((n_types, n_experts), np.float32),
        np.empty(n_experts, np.float32),
        np.empty(n_types, np.int64),
        np.empty(n_types),
        np.empty(n_types),
        np.zeros(1, np.int64),
    )


# ---------------------------------------------------------------- costs in one type


@inlined
def change_costs(j, sign, charges, account):
    """Bring costs up to date as expert j enters (sign 1) or leaves (sign -1)."""
    at = _u(j * charges.constant.size + account.kind[0])
    for e in range(charges.start[at], charges.start[at + _u(1)]):
        account.cost[_u(charges.neighbour[_u(e)])] -= sign * charges.bond[_u(e)]


@in_place
def take_type(c, code, n_active, charges, account):
    """Charge the experts as in a row of type c."""
    account.kind[0] = c
    for k in range(account.cost.size):
        account.cost[k] = charges.cost[_u(c), k]
    for step in range(n_active):
        change_costs(code[step], 1.0, charges, account)


# ---------------------------------------------------------------- costs in all types


@inlined
def change_odds(j, factor, charges, account):
    """Bring odds up to date as expert j enters (`joined`) or leaves (`parted`)."""
    n_types = charges.constant.size
    for e in range(charges.start[_u(j * n_types)], charges.start[_u((j + 1) * n_types)]):
        account.odds[_u(charges.types[_u(e)]), _u(charges.neighbour[_u(e)])] *= factor[_u(e)]


@in_place
def weigh_types(account):
    """Make types as probable as the code says."""
    top = account.value[best_type(account.value)]
    n_near = 0
    for c in range(account.value.size):
        if account.value[c] > top - FAR:
            account.near[n_near] = c
            account.weight[n_near] = math.exp(account.value[c] - top)
            n_near += 1
    account.n_near[0] = n_near


@in_place
def share_without(j, account):
    """Make types as probable as without expert j; returns the sum of the shares."""
    total = 0.0
    for q in range(account.n_near[0]):
        odds = np.float64(account.odds[_u(account.near[q]), _u(j)])
        account.share[q] = account.weight[q] / odds
        total += account.share[q]
    return total


@in_place
def mix_costs(j, charges, account):
    """Costs in rows of all types beside the active experts but j, who may be nobody (-1)."""
    mean, odds, share = account.mean, account.odds, account.share
    start, n_types = charges.start, account.value.size
    total = 0.0
    if j >= 0:
        total = share_without(j, account)
    else:
        for q in range(account.n_near[0]):
            share[q] = account.weight[q]
            total += share[q]
    for k in range(mean.size):
        mean[k] = np.float32(0)
    for q in range(account.n_near[0]):
        its = np.float32(share[q] / total)
        if its < NEGLIGIBLE:
            continue
        c = account.near[q]
        first = last = 0
        if j >= 0:
            at = _u(j * n_types + c)
            first, last = start[at], start[at + _u(1)]
        for e in range(first, last):
            odds[_u(c), _u(charges.neighbour[_u(e)])] *= charges.parted[_u(e)]
        for k in range(mean.size):
            mean[k] += its * odds[_u(c), k]
        for e in range(first, last):
            odds[_u(c), _u(charges.neighbour[_u(e)])] *= charges.joined[_u(e)]
    for k in range(mean.size):
        account.cost[k] = charges.least[k] - log_of(np.float64(mean[k]))


@in_place
def take_all_types(code, n_active, charges, account):
    """Charge the experts as in a row of any type; the code is the one that was added up."""
    if account.value.size == 1:
        take_type(0, code, n_active, charges, account)
        return
    account.kind[0] = ALL_TYPES
    for c in range(account.value.size):
        for k in range(account.cost.size):
            account.odds[_u(c), k] = charges.odds[_u(c), k]
    for step in range(n_active):
        change_odds(code[step], charges.joined, charges, account)
    weigh_types(account)


@in_place
def cost_to_stay(j, charges, account):
    """What expert j, which is active, must earn."""
    if account.kind[0] >= 0:
        return account.cost[j]
    rest, total = share_without(j, account), 0.0
    for q in range(account.n_near[0]):
        total += account.weight[q]
    return charges.least[j] + math.log(rest / total)


# ---------------------------------------------------------------- both


@inlined
def costs_beside_all(charges, account):
    """Make the costs beside all active experts; in one type they are at hand."""
    if account.kind[0] < 0:
        mix_costs(ALL_TYPES, charges, account)


@inlined
def costs_without(j, charges, account):
    """Make the costs as if expert j left."""
    if account.kind[0] >= 0:
        change_costs(j, -1.0, charges, account)
    else:
        mix_costs(j, charges, account)


@inlined
def costs_again(j, charges, account):
    """Undo `costs_without` in one type; in all types costs are made when they are needed."""
    if account.kind[0] >= 0:
        change_costs(j, 1.0, charges, account)


@inlined
def exchange(out, joins, charges, account):
    """Let one expert leave, the costs being those without it, and another enter; -1 is nobody."""
    if out >= 0:
        change_values(out, -1.0, charges, account)
        if account.kind[0] < 0:
            change_odds(out, charges.parted, charges, account)
    if joins >= 0:
        change_values(joins, 1.0, charges, account)
        if account.kind[0] >= 0:
            change_costs(joins, 1.0, charges, account)
        else:
            change_odds(joins, charges.joined, charges, account)
    if account.kind[0] < 0:
        weigh_types(account)


@inlined
def change_values(j, sign, charges, account):
    """Let expert j be active (sign 1) or not (sign -1), in the value of the code in all types."""
    value, active, n_types = account.value, account.active, account.value.size
    for c in range(n_types):
        value[c] -= sign * charges.cost_by_expert[_u(j), c]
    for e in range(charges.start[_u(j * n_types)], charges.start[_u((j + 1) * n_types)]):
        if active[_u(charges.neighbour[_u(e)])]:
            value[_u(charges.types[_u(e)])] += sign * charges.bond[_u(e)]
    active[j] = sign > 0


@inlined
def best_type(value):
    """The type that suits a code best, the first of several."""
    best = 0
    for c in range(1, value.size):
        if value[c] > value[best]:
            best = c
    return best


@inlined
def second_type(value):
    """The type that suits a code second best, and by how much less than the best."""
    first, best = best_type(value), -1
    for c in range(value.size):
        if c != first and (best < 0 or value[c] > value[best]):
            best = c
    return best, value[first] - value[best]


@in_place
def charged(account):
    """What the objective has of the code beside its likelihood."""
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
    """Value a code in all types; returns what the objective has of it beside its likelihood."""
    account.active[:] = False
    for c in range(account.value.size):
        account.value[c] = charges.constant[c]
    for step in range(n_active):
        change_values(code[step], 1.0, charges, account)
    return charged(account)


@in_place
def open_account(code, n_active, charges, account):
    """Value a code, and charge for it as in a row of any type; returns the value."""
    value = add_up(code, n_active, charges, account)
    take_all_types(code, n_active, charges, account)
    costs_beside_all(charges, account)
    return value


@in_place
def open_account_in_best_type(code, n_active, charges, account):
    """Value a code, and charge for it as in a row of the type that suits it best."""
    value = add_up(code, n_active, charges, account)
    take_type(best_type(account.value), code, n_active, charges, account)
    return value
