"""Compiled pursuit and sums of experts with gains and offsets; the specification is the reference.

All in double precision. Values of codes are exact, also for experts that lose variables to a new
one: the sums over the lost variables are subtracted from their five sums.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from dynpart.compiled import compiled, part
from dynpart.engines._contract import NEARLY
from dynpart.engines._cpu_charges import (
    ALL_TYPES,
    add_up,
    best_type,
    open_account,
    second_type,
    take_type,
)

_u = np.uintp
N = 6
"""Sums per owner: of w, w f, w f f, w e and w f e, and of log-densities."""


@part(error_model="numpy")
def _evidence(s, prior):
    """Increase in log-likelihood of values with these sums if gain and offset may vary."""
    with_gain, gain_variance, offset_variance = prior
    b = s[0] + 1.0 / offset_variance
    if with_gain == 0.0:
        return 0.5 * s[3] * s[3] / b - 0.5 * np.log1p(s[0] * offset_variance)
    a = s[2] + 1.0 / gain_variance
    determinant = a * b - s[1] * s[1]
    gain = (b * s[4] - s[1] * s[3]) / determinant
    offset = (a * s[3] - s[1] * s[4]) / determinant
    volume = determinant * gain_variance * offset_variance
    return 0.5 * (s[4] * gain + s[3] * offset) - 0.5 * np.log(volume)


@part(error_model="numpy")
def _deltas(s, prior):
    """Gain minus 1, and offset."""
    with_gain, gain_variance, offset_variance = prior
    b = s[0] + 1.0 / offset_variance
    if with_gain == 0.0:
        return 0.0, s[3] / b
    a = s[2] + 1.0 / gain_variance
    determinant = a * b - s[1] * s[1]
    return (b * s[4] - s[1] * s[3]) / determinant, (a * s[3] - s[1] * s[4]) / determinant


@part(error_model="numpy")
def _own(x, code, n_active, model, rank, seat, top, terms, totals):
    """Owners of all variables: their places, ranks and terms, and the sums of every place."""
    mean, weight, measured, constant = model
    n_experts, n_features = rank.shape
    totals[:] = 0.0
    for d in range(n_features):
        best = n_experts
        at = -1
        for place in range(n_active):
            if rank[code[place], d] < best:
                best = rank[code[place], d]
                at = place
        top[d] = best
        seat[d] = at
        if at < 0 or np.isnan(x[d]):
            terms[d, :] = 0.0
            continue
        k = code[at]
        w, f, e = weight[k, d], measured[k, d], x[d] - mean[k, d]
        terms[d, 0] = w
        terms[d, 1] = w * f
        terms[d, 2] = w * f * f
        terms[d, 3] = w * e
        terms[d, 4] = w * f * e
        terms[d, 5] = constant[k, d] - 0.5 * w * e * e
        for i in range(N):
            totals[at, i] += terms[d, i]


@part(error_model="numpy")
def _gains(x, n_active, model, rank, cost, prior, seat, top, terms, totals, gains):
    """Gain of every expert minus its cost, given the owners from `_own`."""
    mean, weight, measured, constant = model
    n_experts, n_features = rank.shape
    before = np.empty(n_active)
    for place in range(n_active):
        before[place] = _evidence(totals[place], prior)
    lost = np.empty((n_active, N))
    won = np.empty(N)
    for k in range(n_experts):
        lost[:] = 0.0
        won[:] = 0.0
        for d in range(n_features):
            if rank[k, d] < top[d] and not np.isnan(x[d]):
                w, f, e = weight[k, d], measured[k, d], x[d] - mean[k, d]
                won[0] += w
                won[1] += w * f
                won[2] += w * f * f
                won[3] += w * e
                won[4] += w * f * e
                won[5] += constant[k, d] - 0.5 * w * e * e
                at = seat[d]
                if at >= 0:
                    for i in range(N):
                        lost[at, i] += terms[d, i]
        gain = _evidence(won, prior) + won[5]
        for place in range(n_active):
            if lost[place, 0] > 0.0:
                for i in range(N):
                    lost[place, i] = totals[place, i] - lost[place, i]
                gain += _evidence(lost[place], prior) - before[place]
                gain -= totals[place, 5] - lost[place, 5]
        gains[k] = gain - cost[k]


@part(error_model="numpy")
def _explained(totals, n_active, prior):
    total = 0.0
    for place in range(n_active):
        total += totals[place, 5] + _evidence(totals[place], prior)
    return total


@part(error_model="numpy")
def _best(gains, code, n_active, skip):
    """The inactive expert in place `skip`, from 0, of the order of gains, or -1."""
    taken = np.zeros(gains.size, np.bool_)
    for place in range(n_active):
        taken[code[place]] = True
    while True:
        best = -1
        for k in range(gains.size):
            if not taken[k] and (best < 0 or gains[k] > gains[best]):
                best = k
        if skip == 0 or best < 0:
            return best
        taken[best] = True
        skip -= 1


@part(error_model="numpy")
def _gains_beside(x, code, n_active, model, rank, cost, prior, work):
    """Gains of all experts, given those of a code."""
    seat, top, terms, totals, gains, _ = work
    _own(x, code, n_active, model, rank, seat, top, terms, totals)
    _gains(x, n_active, model, rank, cost, prior, seat, top, terms, totals, gains)
    return gains


@part(error_model="numpy")
def _without(code, n_active, at, guide, others):
    """The other experts of a code, and the background expert if there is one; their number."""
    n_others = 0
    for place in range(n_active):
        if place != at:
            others[n_others] = code[place]
            n_others += 1
    if guide >= 0:
        others[n_others] = guide
        n_others += 1
    return n_others


@part(error_model="numpy")
def _gains_in_seat(x, code, n_active, at, guide, kind, model, rank, prior, charges, account, work):
    """Gains of all experts, given those of a code except the one at `at`, in a type or all types.

    Returns the gains and the number of remaining experts, which are in the scratch for others.
    """
    others = work[5]
    n_beside = _without(code, n_active, at, guide, others)
    n_paying = n_beside - 1 if guide >= 0 else n_beside
    if kind >= 0:
        take_type(kind, others, n_paying, charges, account)
    else:
        open_account(others, n_paying, charges, account)
    return _gains_beside(x, others, n_beside, model, rank, account.cost, prior, work), n_beside


@part(error_model="numpy")
def _settle(
    x, code, n_active, n_looks, guide, kind, model, rank, prior, charges, account, rule, work
):  # fmt: skip
    """Exchange, drop and add experts until nothing improves; returns the number left.

    Costs are those in rows of one type, or of all types.
    """
    fewest, most, margin = rule[0], rule[1], rule[2]
    others = work[5]
    at = 0
    n_unchanged = 0
    while True:
        adds = n_unchanged >= n_active or n_looks == 0
        if not adds:
            n_looks -= 1
            at = at % n_active
        gains, n_beside = _gains_in_seat(
            x, code, n_active, -1 if adds else at, guide, kind, model, rank, prior, charges,
            account, work,
        )  # fmt: skip
        best = _best(gains, others, n_beside, 0)
        if adds:
            if n_active == most or best < 0 or gains[best] <= margin:
                return n_active
            code[n_active] = best
            n_active += 1
            n_unchanged = 0
        elif n_active > fewest and gains[best] <= margin:
            n_active -= 1
            code[at] = code[n_active]
            n_unchanged = 0
        elif gains[best] > gains[code[at]] + margin:
            code[at] = best
            n_unchanged = 1
            at += 1
        else:
            n_unchanged += 1
            at += 1


@part(error_model="numpy")
def _worth(x, code, n_active, model, rank, prior, charges, account, work):
    """Log-likelihood of a code minus its charges."""
    seat, top, terms, totals, _, _ = work
    _own(x, code, n_active, model, rank, seat, top, terms, totals)
    value = add_up(code, n_active, charges, account)
    return _explained(totals, n_active, prior) + value


@part(error_model="numpy")
def _weakest_first(
    x, code, n_active, guide, kind, model, rank, prior, charges, account, margin, work
):  # fmt: skip
    """Move the third of the experts that add least, given the background expert, to the front."""
    earned = np.empty(n_active)
    for at in range(n_active):
        gains, _ = _gains_in_seat(
            x, code, n_active, at, guide, kind, model, rank, prior, charges, account, work
        )
        earned[at] = gains[code[at]]
    old = code[:n_active].copy()
    front = 0
    for _ in range(-(-n_active // 3)):
        least = np.inf
        for at in range(n_active):
            least = min(least, earned[at])
        for at in range(n_active):
            if earned[at] <= least + margin:
                code[front] = old[at]
                front += 1
                earned[at] = np.inf
                old[at] = -1
                break
    for at in range(n_active):
        if old[at] >= 0:
            code[front] = old[at]
            front += 1


@part(error_model="numpy")
def _refine(x, code, n_active, guide, model, rank, prior, charges, account, rule, work):
    """The steps of the reference engine's `refined`; returns the number of experts."""
    margin, n_swaps = rule[2], rule[3]
    greedy = code[:n_active].copy()
    n_greedy = n_active
    before = _worth(x, code, n_active, model, rank, prior, charges, account, work)
    kind = best_type(account.value)
    _weakest_first(
        x, code, n_active, guide, kind, model, rank, prior, charges, account, margin, work
    )
    n_looks = -(-n_active // 3)
    n_active = _settle(
        x, code, n_active, n_looks, guide, kind, model, rank, prior, charges, account, rule, work
    )
    n_active = _settle(
        x, code, n_active, n_swaps * n_active, -1, ALL_TYPES, model, rank, prior, charges, account,
        rule, work,
    )  # fmt: skip
    if _worth(x, code, n_active, model, rank, prior, charges, account, work) < before - margin:
        code[:n_greedy] = greedy
        n_active = _settle(
            x, code, n_greedy, n_swaps * n_greedy, -1, ALL_TYPES, model, rank, prior, charges,
            account, rule, work,
        )  # fmt: skip
    return _try_another_type(x, code, n_active, model, rank, prior, charges, account, rule, work)


@part(error_model="numpy")
def _try_another_type(x, code, n_active, model, rank, prior, charges, account, rule, work):
    """The code, or a better one found by assuming another type of row."""
    margin, n_swaps = rule[2], rule[3]
    if account.value.size == 1:
        return n_active
    before = _worth(x, code, n_active, model, rank, prior, charges, account, work)
    second, less = second_type(account.value)
    if less > NEARLY:
        return n_active
    found = np.empty(code.size, np.int64)
    found[:n_active] = code[:n_active]
    n_found = _settle(
        x, found, n_active, n_swaps * n_active, -1, second, model, rank, prior, charges, account,
        rule, work,
    )  # fmt: skip
    if n_found == n_active and np.array_equal(found[:n_found], code[:n_active]):
        return n_active
    n_found = _settle(
        x, found, n_found, n_swaps * n_found, -1, ALL_TYPES, model, rank, prior, charges, account,
        rule, work,
    )  # fmt: skip
    if _worth(x, found, n_found, model, rank, prior, charges, account, work) <= before + margin:
        return n_active
    code[:n_found] = found[:n_found]
    return n_found


@part(error_model="numpy")
def _begin_alone(x, code, n_active, model, rank, prior, charges, account, rule, work):
    """The code, or a better one found by starting from the best single expert."""
    margin, n_swaps = rule[2], rule[3]
    before = _worth(x, code, n_active, model, rank, prior, charges, account, work)
    gains = _gains_beside(x, code, 0, model, rank, charges.alone, prior, work)
    begin = _best(gains, code, 0, 0)
    if gains[begin] <= before + margin:
        return n_active
    found = np.empty(code.size, np.int64)
    found[0] = begin
    n_found = _settle(
        x, found, 1, n_swaps, -1, ALL_TYPES, model, rank, prior, charges, account, rule, work
    )
    if _worth(x, found, n_found, model, rank, prior, charges, account, work) <= before + margin:
        return n_active
    code[:n_found] = found[:n_found]
    return n_found


@part(error_model="numpy")
def _prune(x, code, n_active, model, rank, prior, charges, account, rule, work):
    """Drop each expert that adds no more than its cost, in turn; returns the number left."""
    fewest, margin = rule[0], rule[2]
    others = work[5]
    at = 0
    while at < n_active and n_active > fewest:
        gains, n_others = _gains_in_seat(
            x, code, n_active, at, -1, ALL_TYPES, model, rank, prior, charges, account, work
        )
        if gains[code[at]] <= margin:
            for place in range(n_others):
                code[place] = others[place]
            n_active = n_others
        else:
            at += 1
    return n_active


@compiled(error_model="numpy")
def pursue_rows(
    X, lo, hi, model, rank, cost, prior, charges, account, rule, guide, order, log_likelihood
):  # fmt: skip
    """Codes of rows lo to hi.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Encoded by the family, NaN for missing values.
    model : tuple of 4 ndarray of shape (n_experts, n_features)
        Means, one over variances, opinions minus the common level, constants of log-densities.
    rank : ndarray of shape (n_experts, n_features)
    cost : ndarray of shape (n_experts,)
        Costs in a greedy search; infinite for a background expert.
    prior : tuple of 3 float
        Whether gains vary, and the variances of gains and offsets.
    charges, account : tuple
        Charges of refined codes, and scratch for the charges of a row.
    rule : tuple
        Minimum and maximum number of active experts, margin, rounds of refinement, whether to
        prune, starts, whether to try single experts.
    guide : int
        The background expert, or -1.
    order : ndarray of shape (n_rows, max_active), filled in
    log_likelihood : ndarray of shape (n_rows,), filled in
    """
    fewest, most, margin, n_swaps, prune, n_starts, tries_alone = rule
    n_experts, n_features = rank.shape
    size = min(most, n_experts) + 2
    work = (
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int64),
        np.empty((n_features, N)),
        np.empty((size, N)),
        np.empty(n_experts),
        np.empty(size, np.int64),
    )
    code = np.empty(size, np.int64)
    for row in range(lo, hi):
        x = X[row]
        best_worth = -np.inf
        n_best = 0
        for start in range(n_starts):
            n_active = 0
            while n_active < most:
                gains = _gains_beside(x, code, n_active, model, rank, cost, prior, work)
                chosen = _best(gains, code, n_active, start if n_active == 0 else 0)
                if chosen < 0 or not np.isfinite(gains[chosen]):
                    break
                if n_active >= fewest and gains[chosen] <= margin:
                    break
                code[n_active] = chosen
                n_active += 1
            if n_swaps > 0:
                n_active = _refine(
                    x, code, n_active, guide, model, rank, prior, charges, account, rule, work
                )
            found = _worth(x, code, n_active, model, rank, prior, charges, account, work)
            if start == 0 or found > best_worth + margin:
                best_worth = found
                n_best = n_active
                for place in range(n_active):
                    order[row, place] = code[place]
        for place in range(n_best):
            code[place] = order[row, place]
        if tries_alone:
            n_best = _begin_alone(x, code, n_best, model, rank, prior, charges, account, rule, work)
        if prune:
            n_best = _prune(x, code, n_best, model, rank, prior, charges, account, rule, work)
        for place in range(order.shape[1]):
            order[row, place] = code[place] if place < n_best else -1
        _own(x, code, n_best, model, rank, work[0], work[1], work[2], work[3])
        log_likelihood[row] = _explained(work[3], n_best, prior)


@compiled(error_model="numpy")
def row_amplitudes(X, lo, hi, model, rank, prior, order, gain, offset):
    """Gains minus 1 and offsets of the experts in each place of the codes, filled in."""
    n_features = rank.shape[1]
    n_places = order.shape[1]
    seat = np.empty(n_features, np.int64)
    top = np.empty(n_features, np.int64)
    terms = np.empty((n_features, N))
    totals = np.empty((n_places, N))
    code = np.empty(n_places, np.int64)
    for row in range(lo, hi):
        n_active = 0
        while n_active < n_places and order[row, n_active] >= 0:
            code[n_active] = order[row, n_active]
            n_active += 1
        _own(X[row], code, n_active, model, rank, seat, top, terms, totals)
        for place in range(n_active):
            gain[row, place], offset[row, place] = _deltas(totals[place], prior)


@compiled(error_model="numpy")
def gradients(X, weight, start, stop, order, gain, offset, level, mean, variance, shift, out):
    """Sums of g and g^2 (appendix A) over all rows, for the variables from `start` to `stop`.

    Parameters
    ----------
    gain, offset : ndarray of shape (n_rows, n_places)
    level, mean, variance : ndarray of shape (n_experts, n_features)
        Levels of expertise, and opinions.
    shift : ndarray of shape (n_features,)
    out : ndarray of shape (2, n_experts, n_features)
        Sums, added to.
    """
    for row in range(len(X)):
        counted = 1.0 if weight is None else weight[row]
        n_active = 0
        while n_active < order.shape[1] and order[row, n_active] >= 0:
            n_active += 1
        for d in range(start, stop):
            x = X[row, d]
            if np.isnan(x):
                continue
            k = order[row, 0]
            first = mean[k, d] + gain[row, 0] * (mean[k, d] + shift[d]) + offset[row, 0]
            first_q = variance[k, d] + first * first
            total = 0.0
            m = 0.0
            q = 0.0
            for place in range(n_active):
                k = order[row, place]
                said = mean[k, d] + gain[row, place] * (mean[k, d] + shift[d]) + offset[row, place]
                e = level[k, d]
                total += e
                m += e * (said - first)
                q += e * (variance[k, d] + said * said - first_q)
            m /= total
            q /= total
            composed = first + m
            v = first_q + q - composed * composed
            residual = x - composed
            by_variance = (residual * residual - v) / (2 * v * v)
            by_mean = residual / v - 2 * composed * by_variance
            for place in range(n_active):
                k = order[row, place]
                said = mean[k, d] + gain[row, place] * (mean[k, d] + shift[d]) + offset[row, place]
                g = by_mean * ((said - first) - m)
                g += by_variance * ((variance[k, d] + said * said - first_q) - q)
                g *= level[k, d] / total
                out[0, k, d] += counted * g
                out[1, k, d] += counted * g * g


@compiled(error_model="numpy")
def responsibilities(X, weight, start, stop, order, gain, offset, level, shift, out):
    """Sums of r and r T(x) of rows transformed to each expert's scale; `out` has three sums."""
    for row in range(len(X)):
        counted = 1.0 if weight is None else weight[row]
        n_active = 0
        while n_active < order.shape[1] and order[row, n_active] >= 0:
            n_active += 1
        for d in range(start, stop):
            x = X[row, d]
            if np.isnan(x):
                continue
            total = 0.0
            for place in range(n_active):
                total += level[order[row, place], d]
            for place in range(n_active):
                k = order[row, place]
                r = counted * level[k, d] / total
                a = 1.0 + gain[row, place]
                heard = x - gain[row, place] * shift[d] - offset[row, place]
                out[0, k, d] += r * a * a
                out[1, k, d] += r * a * heard
                out[2, k, d] += r * heard * heard
