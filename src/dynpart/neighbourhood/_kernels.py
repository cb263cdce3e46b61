"""Compiled: sums over codes that a few changes of a row's code lead to.

If an expert is removed, its variables go to their heirs: the active experts with the second-highest
expertise. The gain of any other expert over the reduced code differs from its gain over the full
code only on these variables. So all exchanges together take two passes over experts and variables.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, in_place, part

MOST = 700.0
"""Largest exponent of a double."""
ENOUGH = 1e-3
"""Share of the sum that the neighbours of a code must add, to go on with the next."""
UNLIKELY = 16.0
"""Nats below the best neighbour at which an expert is not tried again in later turns."""
NEGLIGIBLE = 37.0
"""Nats below the best neighbour at which a code counts for nothing (a double's precision)."""


def without_edges(prior):
    """Factor of an expert's probability if the edge to its active parent is removed.

    An array of shape (n_experts, n_types).
    """
    pair = prior.by_expert[3]
    return np.exp(np.clip(-pair, -MOST, MOST))


def example(prior):
    """The kernel with arguments of the types that it is called with, for two experts."""
    density, ranks = np.ones((1, 2, 1)), np.zeros((2, 1), np.int32)
    tables = (*prior.by_expert, without_edges(prior))
    return (
        sum_neighbours,
        density,
        ranks,
        np.ones((1, 2), np.bool_),
        tables,
        1,
        np.ones(1),
        ranks * 1.0,
    )


@compiled
def sum_neighbours(density, ranks, active, tables, most_turns, log_density, activation):
    """Sum P(x | h) P(h) over each row's code, its neighbours, and the neighbours of the best.

    Parameters
    ----------
    density : ndarray of shape (n_rows, n_experts, n_features)
        Log-densities of values under experts.
    ranks : ndarray of shape (n_experts, n_features)
    active : ndarray of shape (n_rows, n_experts), bool
    tables : tuple
        Coefficients of a prior, `CodePrior.by_expert`, and its factors `without_edges`.
    most_turns : int
        Maximum number of codes of a row whose neighbours are added up.
    log_density : ndarray of shape (n_rows,)
        Output.
    activation : ndarray of shape (n_rows, n_experts)
        Output: share of the sum in which each expert is active.
    """
    for i in range(len(active)):
        log_density[i] = sum_around(active[i], density[i], ranks, tables, most_turns, activation[i])


@compiled
def lose_experts(density, ranks, active, tables, fewest, losses):
    """Loss of each row if an expert is removed, for every expert.

    If the code has the expert, it is dropped or exchanged for another, whichever is better. A code
    of the remaining experts has the sum of its probabilities with and without it.

    Parameters
    ----------
    density, ranks, active, tables
        As in `sum_neighbours`; there are at least two experts.
    fewest : int
        Minimum number of active experts.
    losses : ndarray of shape (n_rows, n_experts)
        Output.
    """
    n_experts = len(ranks)
    is_active, seats = np.zeros(n_experts + 1, np.bool_), np.empty(n_experts, np.int64)
    every = np.ones(n_experts, np.bool_)
    for i in range(len(active)):
        code = seats[: list_code(active[i], is_active, seats)]
        values, gains, explained = neighbour_values(
            code, is_active, every, density[i], ranks, tables
        )
        value = values[0, n_experts]
        # Log P(h) of the code, and of the code with one more expert.
        chances = values[0] - explained[0]
        for k in range(n_experts):
            chances[k] -= gains[0, k]
            if not is_active[k]:
                losses[i, k] = -np.log1p(np.exp(min(chances[k] - chances[n_experts], MOST)))
        for s in range(len(code)):
            row, best = 1 + s, n_experts
            if len(code) <= fewest:
                values[row, n_experts] = -np.inf
            for k in range(n_experts):
                if values[row, k] > values[row, best]:
                    best = k
            gain = gains[row, best] if best < n_experts else 0.0
            chance = values[row, best] - explained[row] - gain
            both = np.log1p(np.exp(min(chances[best] - chance, MOST)))
            losses[i, code[s]] = value - values[row, best] - both


@part
def neighbour_values(code, is_active, likely, density, ranks, tables):
    """Log P(x | h) P(h) of the codes that differ by one change; others are added if `likely`.

    Row 0 of the results is for the code itself, row 1 + s for the code without its expert s.

    Returns
    -------
    values : ndarray of shape (n_active + 1, n_experts + 1)
        With one more expert; the last column is without one.
    gains : ndarray of shape (n_active + 1, n_experts)
        Increase of the log-likelihood by one more expert.
    explained : ndarray of shape (n_active + 1,)
        The log-likelihood without it.
    """
    n_experts, n_features = ranks.shape
    n_types = len(tables[0])
    holders = (
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int64),
    )
    opinions = np.empty(n_features), np.empty(n_features)
    joint, odds, weight = np.empty(n_types), np.empty((n_experts, n_types)), np.empty(n_types)
    find_holders(code, ranks, density, holders, opinions)
    gains = np.empty((len(code) + 1, n_experts))
    explained = np.empty(len(code) + 1)
    skipped = is_active[:n_experts] | ~likely
    add_gains(ranks, density, skipped, holders, opinions, gains, explained)
    fill_odds(code, is_active, skipped, tables, joint, odds)
    values = np.empty((len(code) + 1, n_experts + 1))
    for row in range(len(code) + 1):
        gone = code[row - 1] if row else -1
        scores = explained[row], gains[row]
        score_codes(gone, joint, odds, tables, skipped, scores, weight, values[row])
    return values, gains, explained


@in_place
def list_code(active, is_active, seats):
    """Store the active experts as flags and as a list; returns their number."""
    n_active = 0
    for k in range(len(active)):
        is_active[k] = active[k]
        if active[k]:
            seats[n_active] = k
            n_active += 1
    return n_active


@in_place
def find_holders(code, ranks, density, holders, opinions):
    """Place and rank of the owner, index and rank of the heir, and their log-densities."""
    seat, best, heir, second = holders
    own, next_own = opinions
    n_experts, n_features = ranks.shape
    for d in range(n_features):
        seat[d], best[d], heir[d], second[d] = -1, n_experts, -1, n_experts
        for s in range(len(code)):
            rank = ranks[code[s], d]
            if rank < best[d]:
                heir[d], second[d] = (code[seat[d]] if seat[d] >= 0 else -1), best[d]
                seat[d], best[d] = s, rank
            elif rank < second[d]:
                heir[d], second[d] = code[s], rank
        own[d] = density[code[seat[d]], d]
        next_own[d] = density[heir[d], d] if heir[d] >= 0 else 0.0


@in_place
def add_gains(ranks, density, skipped, holders, opinions, gains, explained):
    """Gains of inactive experts over a code, and over the code without each of its experts.

    Both `gains` and `explained`, the log-likelihoods of these codes, begin with the whole code.
    """
    seat, best, _, second = holders
    own, next_own = opinions
    n_experts, n_features = ranks.shape
    total = 0.0
    for d in range(n_features):
        total += own[d]
    explained[:] = total
    gains[:] = 0.0
    for d in range(n_features):
        explained[1 + seat[d]] -= own[d] - next_own[d]
    for k in range(n_experts):
        if skipped[k]:
            continue
        over_all = 0.0
        for d in range(n_features):
            rank = ranks[k, d]
            if rank < second[d]:
                now = density[k, d] - own[d] if rank < best[d] else 0.0
                over_all += now
                gains[1 + seat[d], k] += density[k, d] - next_own[d] - now
        gains[0, k] = over_all
        for row in range(1, len(gains)):
            gains[row, k] += over_all


@in_place
def fill_odds(code, is_active, skipped, tables, joint, odds):
    """Log w_c + log P_c(h) of a code, and the factor by which each added expert changes it."""
    constant, single, parent, pair, _ = tables
    n_experts, n_types = single.shape
    for k in range(n_experts):
        for c in range(n_types):
            odds[k, c] = single[k, c] + (pair[k, c] if is_active[parent[k, c]] else 0.0)
    for c in range(n_types):
        joint[c] = constant[c]
    # Each expert of the code is counted once, with its parent; children are added to parents.
    for k in code:
        for c in range(n_types):
            joint[c] += odds[k, c]
    for k in code:
        for c in range(n_types):
            if parent[k, c] < n_experts:
                odds[parent[k, c], c] += pair[k, c]
    for k in range(n_experts):
        if skipped[k] and not is_active[k]:
            continue
        for c in range(n_types):
            odds[k, c] = np.exp(min(max(odds[k, c], -MOST), MOST))


@in_place
def score_codes(gone, joint, odds, tables, skipped, scores, weight, values):
    """Log P(x | h) P(h) of a code without expert `gone`, and of this code plus one expert.

    If `gone` is -1, it is the whole code. `scores` are its log-likelihood and the gains of others.
    """
    explained, gains = scores
    _, _, parent, _, apart = tables
    n_experts, n_types = odds.shape
    most = -np.inf
    values[:] = -np.inf
    for c in range(n_types):
        weight[c] = joint[c] - (np.log(odds[gone, c]) if gone >= 0 else 0.0)
        most = max(most, weight[c])
    total = 0.0
    for c in range(n_types):
        weight[c] = np.exp(weight[c] - most)
        total += weight[c]
    values[n_experts] = explained + most + np.log(total)
    for k in range(n_experts):
        if skipped[k]:
            continue
        chance = 0.0
        if gone < 0:
            for c in range(n_types):
                chance += weight[c] * odds[k, c]
        else:
            for c in range(n_types):
                factor = odds[k, c]
                if parent[k, c] == gone:
                    factor *= apart[k, c]
                if parent[gone, c] == k:
                    factor *= apart[gone, c]
                chance += weight[c] * factor
        values[k] = explained + gains[k] + most + (np.log(chance) if chance > 0 else -np.inf)


@part
def sum_around(active, density, ranks, tables, most_turns, activation):
    """Sum P(x | h) P(h) over a code, its neighbours, and the neighbours of the best of these.

    Neighbours of one code at a time are added, always of the best that had no turn yet, until
    `most_turns` codes had theirs or a turn adds hardly anything. Returns the log of the sum.
    """
    n_experts = len(ranks)
    seats, had_turn = np.empty(n_experts, np.int64), np.zeros((most_turns, n_experts + 1), np.bool_)
    waiting = np.empty(most_turns), np.empty((most_turns, n_experts), np.bool_)
    waiting[0][:] = -np.inf
    likely = np.ones(n_experts, np.bool_)
    had_turn[0, :n_experts] = active
    activation[:] = 0.0
    top, total, added = -np.inf, 0.0, np.inf
    for turn in range(most_turns):
        if added < ENOUGH * total or (turn > 0 and not take_best(waiting, had_turn[turn])):
            break
        code = seats[: list_code(had_turn[turn, :n_experts], had_turn[turn], seats)]
        values, _, _ = neighbour_values(code, had_turn[turn], likely, density, ranks, tables)
        if len(code) == 1:
            values[1, n_experts] = -np.inf  # the empty code is excluded
        if turn == 0:
            for k in range(n_experts):
                likely[k] = active[k] or highest(values[:, k : k + 1]) > highest(values) - UNLIKELY
        higher = max(top, highest(values))
        shrunk, top = np.exp(top - higher), higher
        total *= shrunk
        for k in range(n_experts):
            activation[k] *= shrunk
        leave_new(code, values, top, had_turn, turn)
        wait(code, values, had_turn[turn], waiting)
        added = share_out(code, values, top, activation)
        total += added
    for k in range(n_experts):
        activation[k] = min(max(activation[k] / total, 0.0), 1.0)
    return top + np.log(total)


@part
def leave_new(code, values, top, had_turn, turn):
    """Set the values of negligible codes, and of neighbours of earlier codes, to -inf."""
    n_experts = had_turn.shape[1] - 1
    for row in range(len(values)):
        for k in range(n_experts + 1):
            if values[row, k] < top - NEGLIGIBLE:
                values[row, k] = -np.inf
    differs = np.zeros(n_experts + 1, np.int64)
    for before in range(turn):
        apart, n_before = 0, 0
        for k in range(n_experts):
            n_before += had_turn[before, k]
            different = had_turn[before, k] != had_turn[turn, k]
            apart += different
            # By how much the number of differences changes if this expert is turned.
            differs[k] = -1 if different else 1
        if apart > 4:
            continue
        for row in range(len(values)):
            gone = code[row - 1] if row else n_experts
            for k in range(n_experts + 1):
                if values[row, k] > -np.inf:
                    left = apart + differs[gone] + differs[k]
                    n_active = len(code) - (row > 0) + (k < n_experts)
                    if left < 2 or (left == 2 and n_active == n_before):
                        values[row, k] = -np.inf


@in_place
def highest(values):
    """The highest of these values, in two dimensions."""
    most = -np.inf
    for row in range(values.shape[0]):
        for k in range(values.shape[1]):
            most = max(most, values[row, k])
    return most


@in_place
def lowest_place(values):
    """Where the lowest of these values is."""
    lowest = 0
    for place in range(len(values)):
        if values[place] < values[lowest]:
            lowest = place
    return lowest


@in_place
def wait(code, values, is_active, waiting):
    """Put the best codes among those that wait for their turn, in the places of worse ones."""
    waiting_values, waiting_codes = waiting
    n_experts = waiting_codes.shape[1]
    worst = lowest_place(waiting_values)
    for row in range(len(values)):
        for k in range(n_experts + 1):
            if values[row, k] > waiting_values[worst] and (row > 0 or k < n_experts):
                waiting_values[worst] = values[row, k]
                for other in range(n_experts):
                    gone = row > 0 and other == code[row - 1]
                    waiting_codes[worst, other] = other == k or (is_active[other] and not gone)
                worst = lowest_place(waiting_values)


@in_place
def take_best(waiting, is_active):
    """Move the best of the waiting codes to `is_active`; returns whether there was one."""
    waiting_values, waiting_codes = waiting
    best = 0
    for place in range(len(waiting_values)):
        if waiting_values[place] > waiting_values[best]:
            best = place
    found = waiting_values[best] > -np.inf
    waiting_values[best] = -np.inf
    for k in range(waiting_codes.shape[1]):
        is_active[k] = waiting_codes[best, k]
    return found


@in_place
def share_out(code, values, top, activation):
    """Add up exponentials of the values, relative to `top`, and for each expert those with it."""
    n_experts = len(activation)
    total = 0.0
    for row in range(len(values)):
        here = 0.0
        for k in range(n_experts + 1):
            if values[row, k] > -np.inf:
                value = np.exp(values[row, k] - top)
                here += value
                if k < n_experts:
                    activation[k] += value
        total += here
        if row > 0:
            activation[code[row - 1]] -= here
    for k in code:
        activation[k] += total
    return total
