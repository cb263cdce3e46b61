"""Compiled refinement of hard codes: experts are exchanged, dropped and added while this improves.

Removing an expert changes only the variables it owns: they pass to their heirs, the second best of
the active experts. A round over all experts thus costs about as much as one expert that takes over
every variable.
"""

# mypy: allow-untyped-defs, disable-error-code="unreachable,assignment"
from __future__ import annotations

import numpy as np

from dynpart.compiled import in_place, inlined
from dynpart.engines._contract import NEARLY
from dynpart.engines._contract import n_weakest as plain_n_weakest
from dynpart.engines._cpu_charges import (
    add_up,
    charged,
    cost_to_stay,
    costs_again,
    costs_beside_all,
    costs_without,
    exchange,
    new_account,
    open_account,
    open_account_in_best_type,
    second_type,
    take_all_types,
    take_type,
)
from dynpart.engines._cpu_inner import best_expert, owned_by, positions, sum_of, two_best
from dynpart.engines._cpu_pursuit import (
    FIRST,
    add_all,
    add_changes,
    begin_with,
    copy_row,
    count_active,
    first_expert,
    new_work,
    pursue_row,
    take_over,
)

n_weakest = inlined(plain_n_weakest)

NOBODY = np.int64(-1)
"""Stands for the background expert where there is none."""

MOST_SETTLED = 16
"""Codes of a row that are remembered as settled."""

ROUNDED = 0.1
"""Upper bound of the difference between sums of the same terms in float32 in another order."""

_u = np.uintp  # see _cpu_pursuit


def new_refinement(rank, keys, rule):
    """Scratch of `finish_row`.

    Scratch of a pursuit; owners and heirs; gains without an expert, of experts alone, and over the
    greedy code; two codes; flags for variables on which all experts agree (these have no owner);
    the largest log-density of each variable under any expert, filled in by callers if codes are
    refined, a list of variables, the contribution of each expert, and the best possible ranks; keys
    of all experts, of owners and of heirs; charges of the code; the contribution of an expert by
    variable, an upper bound of that of others, and a list of indices into these; codes of the row
    that have settled, their numbers of experts and types, and the number of these codes.
    """
    n_features, n_lanes = rank.shape
    max_active = rule[1]
    n_experts = len(keys)
    return (
        new_work(n_experts, n_features, rank),
        (np.empty(n_features, rank.dtype), np.empty(n_features, rank.dtype)),
        (np.empty((1, n_lanes)), np.empty((1, n_lanes)), np.empty((1, n_lanes))),
        (np.empty(max_active, np.int64), np.empty(max_active, np.int64)),
        np.zeros(n_features, np.bool_),
        (
            np.empty(n_features, np.float32),
            np.empty(n_features, np.int32),
            np.empty((2, n_experts)),
            np.zeros(n_features, rank.dtype),
        ),
        (keys, np.empty(n_features, keys.dtype), np.empty(n_features, keys.dtype)),
        new_account(rule[7]),
        (
            np.empty(n_features, np.float32),
            np.empty(n_features, np.float32),
            np.empty(n_features + 15, np.int32),
        ),
        (
            np.empty((MOST_SETTLED, max_active), np.int64),
            np.empty((2, MOST_SETTLED), np.int64),
            np.zeros(1, np.int64),
        ),
    )


@inlined
def opinion(k, nobody, offset, table):
    """Log-density of a variable under expert k, zero if k is no expert."""
    return table[_u(offset) + _u(k)] if k < nobody else np.float32(0)


@in_place
def find_owners(code, n_active, background, scratch):
    """Find the best (owner) and second best (heir) of the active experts for every variable.

    Where there is none, and where all experts agree, it is an index beyond the experts.
    """
    (_, _, _, (owner_rank, _), (heir_rank, _)), (owner, heir) = scratch[0], scratch[1]
    agreed = scratch[4]
    keys, owner_key, heir_key = scratch[6]
    half = 4 * keys.itemsize
    nobody = keys.dtype.type((1 << half) - 1)
    two_best(code, n_active, background, keys, 0, owner_key, heir_key)
    # One array per loop, so that the compiler vectorises.
    for d in range(owner.size):
        owner_key[d] = nobody if agreed[d] else owner_key[d]
    for d in range(owner.size):
        owner[d] = owner_key[d] & nobody
    for d in range(owner.size):
        owner_rank[d] = owner_key[d] >> half
    for d in range(owner.size):
        heir[d] = heir_key[d] & nobody
    for d in range(owner.size):
        heir_rank[d] = heir_key[d] >> half


@in_place
def read_opinions(offsets, table, scratch):
    """Read log-densities under the owners; where all experts agree, under any expert."""
    (_, _, _, (_, owner_log), _), (owner, _), agreed = scratch[0], scratch[1], scratch[4]
    for d in range(owner.size):
        k = 0 if agreed[d] else owner[d]
        owner_log[d] = table[_u(offsets[d]) + _u(k)]


@inlined
def find_heirs(j, nobody, offsets, table, scratch):
    """List the variables of expert j and their log-densities under the heirs.

    Returns
    -------
    m : int
        Number of variables.
    earned : float
        Their log-likelihood under j minus that under the heirs.
    """
    (flags, owned, _, (_, owner_log), (_, heir_log)), (owner, heir) = scratch[0], scratch[1]
    top, (its_own, of_others, _) = scratch[5][0], scratch[8]
    m = owned_by(owner.dtype.type(j), owner, flags, owned)
    read_heirs(m, owned, heir, nobody, offsets, table, owner_log, top, heir_log, its_own, of_others)
    return m, sum_of(its_own, m)


@in_place
def read_heirs(
    m, owned, heir, nobody, offsets, table, owner_log, top, heir_log, its_own, of_others
):  # fmt: skip
    """Log-densities of the m variables of an expert under the heirs, and what others gain.

    It is a function of its own, because in its caller the arrays would not fit into registers.
    """
    for q in range(m):
        at = _u(owned[q])
        its = opinion(heir[at], nobody, offsets[at], table)
        heir_log[at] = its
        its_own[q] = owner_log[at] - its
        of_others[q] = top[at] - its


@inlined
def bequeath(m, work):
    """Assign the m variables listed by `find_heirs` to their heirs."""
    _, owned, _, (owner_rank, owner_log), (heir_rank, heir_log) = work
    for q in range(m):
        d = _u(owned[q])
        owner_rank[d] = heir_rank[d]
        owner_log[d] = heir_log[d]


@in_place
def gains_over_code(code, n_active, gains, i, offsets, table, rank, rank_by_expert, scratch):
    """Set gains[i] to the gains of all experts over those of a code, and find its owners."""
    (_, listed, _, owners, _), unbeaten = scratch[0], scratch[5][3]
    find_owners(code, n_active, NOBODY, scratch)
    read_opinions(offsets, table, scratch)
    # As if each variable passed to an expert of best rank with the owner's opinion.
    n_features = offsets.size
    for d in range(n_features):
        listed[d] = d
    gains[i] = 0.0
    new = unbeaten, owners[1]
    add_changes(gains, i, n_features, -1.0, listed, offsets, owners, new, FIRST, table, rank)


@in_place
def leave(j, gains, i, offsets, table, rank, rank_by_expert, scratch):
    """Remove expert j and update all gains."""
    work = scratch[0]
    _, owned, _, owners, heirs = work
    m, _ = find_heirs(j, rank_by_expert.shape[0], offsets, table, scratch)
    add_changes(gains, i, m, -1.0, owned, offsets, heirs, owners, FIRST, table, rank)
    bequeath(m, work)


@inlined
def may_stay(j, m, most, earned, gains, i, offsets, table, rank, rule, scratch):
    """Whether no expert can replace expert j, decided from few of the m variables it owns.

    Without j, a variable adds to any gain at most the largest log-density minus the heir's.
    Variables for which this bound is small are not evaluated but counted with the bound.

    Parameters
    ----------
    most : float
        Approximately the largest gain minus cost of an inactive expert over the whole code.
    earned : float
        Contribution of j to the log-likelihood minus its cost.
    """
    margin, account, listed = rule[2], scratch[7], scratch[5][1]
    (flags, owned, _, owners, heirs), (without, _, _) = scratch[0], scratch[2]
    small, of_others, places = scratch[8]
    little = np.float32((earned - most) / m)
    for q in range(m):
        small[q] = of_others[q] if 0 < of_others[q] <= little else np.float32(0)
    for q in range(m):
        flags[q] = of_others[q] > little
    n_large = positions(flags, m, places)
    for q in range(n_large):
        listed[q] = owned[_u(places[q])]
    copy_row(without, FIRST, gains, i)
    add_changes(without, FIRST, n_large, -1.0, listed, offsets, heirs, owners, FIRST, table, rank)
    enough = earned + margin - sum_of(small, m)
    if best_expert(without, FIRST, account.cost, account.active)[1] <= enough:
        return True
    for q in range(m):
        flags[q] = of_others[q] <= little
    n_rare = positions(flags, m, places)
    for q in range(n_rare):
        listed[q] = owned[_u(places[q])]
    add_changes(without, FIRST, n_rare, -1.0, listed, offsets, heirs, owners, FIRST, table, rank)
    return False


@in_place
def has_settled(n_active, scratch):
    """Whether the row's code is known to have settled, for costs of the present type or types.

    Most searches for a row's code end in the same few codes.
    """
    account, (codes, (sizes, kinds), count) = scratch[7], scratch[9]
    for place in range(min(count[0], MOST_SETTLED)):
        place = _u(place)
        if sizes[place] == n_active and kinds[place] == account.kind[0]:
            same = True
            for step in range(n_active):
                same &= account.active[_u(codes[place, _u(step)])]
            if same:
                return True
    return False


@inlined
def remember_settled(code, n_active, scratch):
    """Remember that a code has settled, in place of the oldest one if there are many."""
    account, (codes, (sizes, kinds), count) = scratch[7], scratch[9]
    place = _u(count[0] % MOST_SETTLED)
    for step in range(n_active):
        codes[place, _u(step)] = code[step]
    sizes[place], kinds[place] = n_active, account.kind[0]
    count[0] += 1


@in_place
def settle(
    code, n_active, n_looks, background, gains, i, offsets, table, rank, rank_by_expert, rule,
    scratch,
):  # fmt: skip
    """Exchange, drop and add experts until nothing improves or no look is left.

    Owners, heirs and gains[i] must be those of the code and of the background expert, if there is
    one, and charges those of the code; all are kept up to date.

    Returns
    -------
    n_active : int
        The experts of the code come first in it.
    """
    min_active, max_active, margin, _, _, _, _, charges = rule
    work, (without, _, _), account = scratch[0], scratch[2], scratch[7]
    _, owned, _, owners, heirs = work
    cost, active = account.cost, account.active
    if background < 0 and has_settled(n_active, scratch):
        return n_active
    costs_beside_all(charges, account)
    _, most = best_expert(gains, i, cost, active)
    seat = 0
    n_unchanged = 0
    while True:
        if n_unchanged >= n_active or n_looks == 0:
            if n_active < max_active:
                costs_beside_all(charges, account)
                best, most = best_expert(gains, i, cost, active)
            if n_active == max_active or most <= margin:
                if background < 0 and n_unchanged >= n_active:
                    remember_settled(code, n_active, scratch)
                return n_active
            take_over(best, gains, i, offsets, table, rank, rank_by_expert, work)
            exchange(NOBODY, best, charges, account)
            code[n_active] = best
            n_active += 1
            n_unchanged = 0
        else:
            n_looks -= 1
            if seat >= n_active:
                seat = 0
            j = code[seat]
            m, earned = find_heirs(j, cost.size, offsets, table, scratch)
            costs_without(j, charges, account)
            earned -= cost[j]
            has_heirs = n_active > 1 or background >= 0
            if has_heirs and m > 0 and earned > most and earned > margin:
                if may_stay(j, m, most, earned, gains, i, offsets, table, rank, rule, scratch):
                    costs_again(j, charges, account)
                    n_unchanged += 1
                    seat += 1
                    continue
            else:
                copy_row(without, FIRST, gains, i)
                add_changes(
                    without, FIRST, m, -1.0, owned, offsets, heirs, owners, FIRST, table, rank
                )
            active[j] = False
            own = without[0, j] - cost[j]
            best, found = best_expert(without, FIRST, cost, active)
            drop = n_active > min_active and found <= margin
            if not drop and found <= own + margin:
                active[j] = True
                costs_again(j, charges, account)
                n_unchanged += 1
                seat += 1
                continue
            copy_row(gains, i, without, FIRST)
            bequeath(m, work)
            if drop:
                # The last expert moves to the free seat, and is examined next.
                exchange(j, NOBODY, charges, account)
                n_active -= 1
                code[seat] = code[n_active]
                n_unchanged = 0
            else:
                take_over(best, gains, i, offsets, table, rank, rank_by_expert, work)
                exchange(j, best, charges, account)
                code[seat] = best
                n_unchanged = 1  # no expert is better in this seat
                seat += 1
        find_owners(code, n_active, background, scratch)
        if background < 0 and has_settled(n_active, scratch):
            return n_active
        # In all types costs are those without an expert: accurate enough for the use of `most`.
        _, most = best_expert(gains, i, cost, active)


@in_place
def put_weakest_first(code, n_active, n_wanted, offsets, table, rule, scratch):
    """Move the experts that add least to the front, in order; owners, heirs, costs are known."""
    margin, cost = rule[2], scratch[7].cost
    (_, _, _, (_, owner_log), _), (owner, heir), earned = scratch[0], scratch[1], scratch[5][2]
    earned[:] = 0.0
    for d in range(owner.size):
        if owner[d] < cost.size:
            its = opinion(heir[d], cost.size, offsets[d], table)
            # Two sums: neighbours often have the same owner, and additions to one sum are serial.
            earned[_u(d & 1), _u(owner[d])] += owner_log[d] - its
    for step in range(n_active):
        earned[0, code[step]] += earned[1, code[step]] - cost[code[step]]
    for front in range(n_wanted):
        least = np.inf
        for seat in range(front, n_active):
            its = earned[0, code[seat]]
            least = its if its < least else least
        seat = front
        while earned[0, code[seat]] > least + margin:
            seat += 1
        weakest = code[seat]
        for later in range(seat, front, -1):
            code[later] = code[later - 1]
        code[front] = weakest


@in_place
def improve(code, n_active, total, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Find a code that no single change improves, with the background expert or without.

    Returns
    -------
    n_active : int
    total : float
        Log-likelihood of the code.
    worth : float
        The same minus the charges of the code.
    """
    _, _, margin, cost, n_swaps, _, _, charges = rule
    work, (_, _, over_greedy), (_, greedy) = scratch[0], scratch[2], scratch[3]
    account = scratch[7]
    owner_log = work[3][1]
    n_greedy = n_active
    copy_code(greedy, code, n_greedy)
    copy_row(over_greedy, FIRST, gains, i)
    background = cost.size - 1
    take_over(background, gains, i, offsets, table, rank, rank_by_expert, work)
    find_owners(code, n_active, background, scratch)
    n_looks = n_weakest(n_active)
    worth = total + open_account_in_best_type(code, n_active, charges, account)
    put_weakest_first(code, n_active, n_looks, offsets, table, rule, scratch)
    n_active = settle(
        code, n_active, n_looks, background, gains, i, offsets, table, rank, rank_by_expert,
        rule, scratch,
    )  # fmt: skip
    leave(background, gains, i, offsets, table, rank, rank_by_expert, scratch)
    find_owners(code, n_active, NOBODY, scratch)
    take_all_types(code, n_active, charges, account)
    n_active = settle(
        code, n_active, n_swaps * n_active, NOBODY, gains, i, offsets, table, rank,
        rank_by_expert, rule, scratch,
    )  # fmt: skip
    if sum_of(owner_log, owner_log.size) + charged(account) < worth - margin:
        copy_code(code, greedy, n_greedy)
        copy_row(gains, i, over_greedy, FIRST)
        find_owners(code, n_greedy, NOBODY, scratch)
        read_opinions(offsets, table, scratch)
        open_account(code, n_greedy, charges, account)
        n_active = settle(
            code, n_greedy, n_swaps * n_greedy, NOBODY, gains, i, offsets, table, rank,
            rank_by_expert, rule, scratch,
        )  # fmt: skip
    if account.value.size == 1:
        total = sum_of(owner_log, owner_log.size)
        return n_active, total, total + charged(account)
    return try_another_type(
        code, n_active, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
    )


@inlined
def copy_code(target, source, n_active):
    """target[:n_active] = source[:n_active]."""
    for step in range(n_active):
        target[step] = source[step]


@inlined
def n_different(code, other, n_active):
    """Number of seats in which two codes of the same length differ."""
    count = 0
    for step in range(n_active):
        count += code[step] != other[step]
    return count


@in_place
def try_another_type(code, n_active, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Settle again under another type of row, then under all types; keep the better code.

    Parameters and results are those of `improve`; the code has settled. Gains and owners are
    not restored if it is kept.
    """
    _, _, margin, _, n_swaps, _, _, charges = rule
    owner_log, account, settled = scratch[0][3][1], scratch[7], scratch[3][1]
    total = sum_of(owner_log, owner_log.size)
    other, less = second_type(account.value)
    worth, n_settled = total + charged(account), n_active
    if less > NEARLY:
        return n_active, total, worth
    copy_code(settled, code, n_active)
    take_type(other, code, n_active, charges, account)
    n_active = settle(
        code, n_active, n_swaps * n_active, NOBODY, gains, i, offsets, table, rank,
        rank_by_expert, rule, scratch,
    )  # fmt: skip
    if n_active == n_settled and n_different(code, settled, n_active) == 0:
        return n_active, total, worth
    take_all_types(code, n_active, charges, account)
    n_active = settle(
        code, n_active, n_swaps * n_active, NOBODY, gains, i, offsets, table, rank,
        rank_by_expert, rule, scratch,
    )  # fmt: skip
    found = sum_of(owner_log, owner_log.size)
    if found + charged(account) > worth + margin:
        return n_active, found, found + charged(account)
    copy_code(code, settled, n_settled)
    return n_settled, total, worth


@in_place
def prune_experts(code, n_active, offsets, table, rank_by_expert, rule, scratch):
    """Drop experts that add no more than their cost, in turn; returns the number left."""
    min_active, _, margin, _, _, _, _, charges = rule
    work, account = scratch[0], scratch[7]
    open_account(code, n_active, charges, account)
    step = 0
    while step < n_active and n_active > min_active:
        j = code[step]
        m, earned = find_heirs(j, account.cost.size, offsets, table, scratch)
        if earned - cost_to_stay(j, charges, account) <= margin:
            n_active -= 1
            for later in range(step, n_active):
                code[later] = code[later + 1]
            bequeath(m, work)
            costs_without(j, charges, account)
            exchange(j, NOBODY, charges, account)
            find_owners(code, n_active, NOBODY, scratch)
        else:
            step += 1
    return n_active


@in_place
def refine_code(code, total, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Refine a greedy code if the rule requires it.

    Returns
    -------
    total : float
        Log-likelihood of the final code.
    worth : float
        The same minus the charges of the code.
    """
    n_swaps, charges, account = rule[4], rule[7], scratch[7]
    n_active = count_active(code)
    if not n_swaps:
        return total, total + add_up(code, n_active, charges, account)
    n_active, total, worth = improve(
        code, n_active, total, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
    )
    for step in range(n_active, code.size):
        code[step] = -1
    return total, worth


@in_place
def begin_alone(
    code, total, most, first, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
):
    """Search again from the best single expert, if its value exceeds that of the code.

    Parameters and results are those of `finish_row`; the value of the code is `most`.
    """
    _, _, margin, cost, n_swaps, _, _, charges = rule
    work, (_, alone, _), (other, _), account = scratch[0], scratch[2], scratch[3], scratch[7]
    bound = -np.inf
    for k in range(charges.alone.size):
        if cost[k] - charges.alone[k] > bound:
            bound = cost[k] - charges.alone[k]
    if first + bound + ROUNDED <= most:
        return total
    alone[:] = 0.0
    add_all(alone, FIRST, offsets, table)
    value = -np.inf
    for k in range(charges.alone.size):
        if alone[FIRST, k] - charges.alone[k] > value:
            value = alone[FIRST, k] - charges.alone[k]
            other[0] = k
    if value <= most + margin:
        return total
    gains_over_code(other, 1, gains, i, offsets, table, rank, rank_by_expert, scratch)
    open_account(other, 1, charges, account)
    n_active = settle(
        other, 1, n_swaps, NOBODY, gains, i, offsets, table, rank, rank_by_expert, rule,
        scratch,
    )  # fmt: skip
    found = sum_of(work[3][1], offsets.size)
    if found + charged(account) <= most + margin:
        return total
    for step in range(code.size):
        code[step] = other[step] if step < n_active else -1
    return found


@in_place
def finish_row(code, total, first, gains, i, offsets, table, rank, rank_by_expert, rule, scratch):
    """Complete the greedy code of one row by the rule: refine, try other starts, prune.

    Parameters
    ----------
    code : ndarray of shape (max_active,)
        Active experts, padded with -1; overwritten.
    total : float
        Log-likelihood of the code under the hard composition.
    first : float
        Log-likelihood of the first expert alone minus its cost.
    gains : ndarray of shape (n, n_lanes)
        If the code is refined, gains[i] holds the gains of all experts over it; overwritten.
    scratch : tuple
        If the code is refined, it holds ranks and opinions of the code's owners.

    Returns
    -------
    total : float
        Log-likelihood of the final code.
    """
    min_active, _, margin, cost, n_swaps, prune, n_starts, charges = rule
    work, (_, alone, _), (other, _) = scratch[0], scratch[2], scratch[3]
    if not n_swaps and n_starts == 1 and not prune:
        return total
    scratch[9][2][0] = 0
    total, most = refine_code(
        code, total, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
    )
    if n_starts > 1:
        alone[:] = 0.0
        add_all(alone, FIRST, offsets, table)
        for place in range(1, n_starts):
            j = first_expert(alone, FIRST, cost, place, work[2])
            other[0] = j
            begin_with(j, gains, i, alone, offsets, table, rank, rank_by_expert, work)
            found = pursue_row(
                gains, i, alone[FIRST, j], offsets, table, rank, rank_by_expert, rule, other, work
            )
            found, value = refine_code(
                other, found, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
            )
            if value > most + margin:
                for step in range(code.size):
                    code[step] = other[step]
                total, most = found, value
    if n_swaps and min_active == 1 and charges.constant.size > 1:
        total = begin_alone(
            code, total, most, first, gains, i, offsets, table, rank, rank_by_expert, rule, scratch
        )
    if not prune:
        return total
    n_active = count_active(code)
    find_owners(code, n_active, NOBODY, scratch)
    read_opinions(offsets, table, scratch)
    n_active = prune_experts(code, n_active, offsets, table, rank_by_expert, rule, scratch)
    for step in range(n_active, code.size):
        code[step] = -1
    return sum_of(work[3][1], offsets.size)
