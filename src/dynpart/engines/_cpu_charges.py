"""Compiled: what a row's code is charged for, kept up to date as experts come and go.

Without a prior there is one type, in which nobody has a neighbour.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynpart.compiled import in_place, inlined
from dynpart.engines._charges import Charges

_u = np.uintp  # see _cpu_pursuit

KernelCharges = tuple[NDArray, NDArray, NDArray, NDArray, tuple[NDArray, NDArray, NDArray], NDArray]


def kernel_charges(charges: Charges, *, background: bool) -> KernelCharges:
    """Charges as kernels read them, those of a background expert, whom nobody can pay, too.

    Returns
    -------
    cost : ndarray of shape (n_types, n_experts)
    cost_by_expert : ndarray of shape (n_experts, n_types)
    constant : ndarray of shape (n_types,)
    start : ndarray of shape (n_experts * n_types + 1,)
        Where in the lists below those begin that are neighbours of an expert in a type.
    neighbours : tuple of three ndarray of shape (n_neighbours,)
        Who is a neighbour, in which type, and by how much the two cost less together.
    alone : ndarray of shape (n_experts,)
        Minus what each expert is worth alone beside its likelihood.
    """
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
    return (
        np.ascontiguousarray(cost, dtype=np.float64),
        np.ascontiguousarray(cost.T, dtype=np.float64),
        np.ascontiguousarray(charges.constant, dtype=np.float64),
        np.concatenate([[0], np.cumsum(counts)]),
        (
            np.concatenate([parents, children])[order],
            np.concatenate([types, types])[order],
            np.concatenate([bond, bond])[order],
        ),
        alone,
    )


def new_account(charges):
    """Scratch for one row: current costs, value of the code in all types, the type, who is active.

    The costs are those of entering or staying in the code, given its other experts and its type.
    """
    n_types, n_experts = charges[0].shape
    return (
        np.empty(n_experts),
        np.empty(n_types),
        np.zeros(1, np.int64),
        np.zeros(n_experts, np.bool_),
    )


@inlined
def change_costs(j, sign, charges, account):
    """Bring costs up to date as expert j enters (sign 1) or leaves (sign -1)."""
    _, _, constant, start, (neighbour, _, bond), _ = charges
    cost, _, kind, _ = account
    at = _u(j * constant.size + kind[0])
    for e in range(start[at], start[at + _u(1)]):
        cost[_u(neighbour[_u(e)])] -= sign * bond[_u(e)]


@inlined
def change_values(j, sign, charges, account):
    """Let expert j be active (sign 1) or not (sign -1), in the value of the code in all types."""
    _, cost_by_expert, constant, start, (neighbour, types, bond), _ = charges
    _, value, _, active = account
    n_types = constant.size
    for c in range(n_types):
        value[c] -= sign * cost_by_expert[_u(j), c]
    for e in range(start[_u(j * n_types)], start[_u((j + 1) * n_types)]):
        if active[_u(neighbour[_u(e)])]:
            value[_u(types[_u(e)])] += sign * bond[_u(e)]
    active[j] = sign > 0


@inlined
def best_type(value):
    """The type that suits a code best, the first of several."""
    best = 0
    for c in range(1, value.size):
        if value[c] > value[best]:
            best = c
    return best


@in_place
def add_up(code, n_active, charges, account):
    """Value of a code in the type that suits it best: what the objective has beside likelihood."""
    constant = charges[2]
    _, value, _, active = account
    active[:] = False
    for c in range(constant.size):
        value[c] = constant[c]
    for step in range(n_active):
        change_values(code[step], 1.0, charges, account)
    return value[best_type(value)]


@in_place
def take_type(c, code, n_active, charges, account):
    """Charge the experts as in a row of type c."""
    cost, _, kind, _ = account
    kind[0] = c
    for k in range(cost.size):
        cost[k] = charges[0][_u(c), k]
    for step in range(n_active):
        change_costs(code[step], 1.0, charges, account)


@in_place
def open_account(code, n_active, charges, account):
    """Value a code, and charge for it by the type that suits it best; returns the value."""
    value = add_up(code, n_active, charges, account)
    take_type(best_type(account[1]), code, n_active, charges, account)
    return value


@in_place
def reconsider_type(code, n_active, margin, charges, account):
    """Change to a type that suits the code better, if there is one; returns whether there is."""
    _, value, kind, _ = account
    best = best_type(value)
    if value[best] <= value[kind[0]] + margin:
        return False
    take_type(best, code, n_active, charges, account)
    return True


@inlined
def second_type(value, kind):
    """The type that suits a code best beside the current one, and by how much less."""
    best = -1
    for c in range(value.size):
        if c != kind and (best < 0 or value[c] > value[best]):
            best = c
    return best, value[kind] - value[best]
