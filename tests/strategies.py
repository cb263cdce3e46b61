"""Random models and rows that laws are tried on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from dynpart.engines import Experts, PursuitRule
from dynpart.families import Bernoulli, Categorical, Count, Gaussian, Mixed
from dynpart.prior import CodePrior
from dynpart.rows import Rows


def make_experts(rng, family_name="bernoulli", n_experts=5, n_features=7, *, ties=False):
    """Random experts; with `ties` most levels of expertise are equal."""
    shape = (n_experts, n_features)
    log2_expertise = rng.normal(0, 3, shape)
    if ties:
        log2_expertise = np.round(log2_expertise / 3)
    family = make_family_of(rng, family_name, n_features)
    return Experts(family, make_opinions(rng, family, shape), log2_expertise)


FAMILIES = ("bernoulli", "gaussian", "own scale", "categorical", "count", "mixed")


def make_family_of(rng, name, n_features):
    """A random family: all columns of one kind, or mixed ones."""
    if name == "bernoulli":
        return Bernoulli()
    if name == "gaussian":
        return Gaussian(centre=rng.normal(0, 5, n_features), floor=0.05)
    if name == "own scale":
        floor = 0.05 * 10.0 ** rng.integers(-6, 7, n_features)
        return Gaussian(centre=rng.normal(0, 5, n_features) * np.sqrt(floor), floor=floor)
    if name == "categorical":
        levels = rng.integers(1, 7, n_features)
        return Categorical.with_levels(levels, (levels == 2) & (rng.random(n_features) < 0.5))
    if name == "count":
        return Count(np.where(rng.random(n_features) < 0.5, 0.0, rng.uniform(0.05, 2, n_features)))
    kinds = rng.permutation(np.arange(n_features) % 3)
    names = ("categorical", "own scale", "count")
    columns = [np.flatnonzero(kinds == i) for i in range(3)]
    parts = [make_family_of(rng, n, len(own)) for n, own in zip(names, columns, strict=True)]
    some = [i for i in range(3) if len(columns[i])]
    return Mixed(tuple(parts[i] for i in some), tuple(columns[i] for i in some))


def with_tails(family):
    """The same family with heavy tails in columns of their own scale."""
    if isinstance(family, Mixed):
        return replace(family, parts=tuple(map(with_tails, family.parts)))
    if isinstance(family, Gaussian) and family.own_scale:
        return replace(family, tails=np.sqrt(family.floor / 0.05))
    return family


def make_opinions(rng, family, shape):
    """Random mean parameters."""
    if isinstance(family, Bernoulli):
        return family.constrain(rng.uniform(0, 1, (1, *shape)))
    if isinstance(family, Categorical):
        return family.constrain(rng.gamma(0.7, size=(family.n_levels, *shape)))
    if isinstance(family, Count):
        return family.constrain(rng.gamma(0.7, 4.0, (1, *shape)))
    if isinstance(family, Gaussian):
        scale = np.sqrt(family.floor / 0.05)
        mean = family.centre + rng.normal(0, 1, shape) * scale
        return family.from_moments(mean, rng.uniform(0.1, 2, shape) * scale**2)
    eta = np.zeros((family.n_statistics, *shape))
    for part, own in zip(family.parts, family.columns, strict=True):
        eta[: part.n_statistics, :, own] = make_opinions(rng, part, (shape[0], len(own)))
    return eta


def make_values(rng, family, shape):
    """Random values that the family gives a probability."""
    if isinstance(family, Bernoulli):
        return rng.integers(0, 2, shape).astype(np.uint8)
    if isinstance(family, Categorical):
        return np.floor(rng.random(shape) * family.levels)
    if isinstance(family, Count):
        return rng.poisson(rng.gamma(0.7, 4.0, shape)).astype(float)
    if isinstance(family, Gaussian):
        distance = rng.normal(0, 1.5, shape)
        if family.has_tails:  # some values are unlike what any expert says
            distance *= np.where(rng.random(shape) < 0.2, 50.0, 1.0)
        return family.centre + distance * np.sqrt(family.floor / 0.05)
    X = np.empty(shape)
    for part, own in zip(family.parts, family.columns, strict=True):
        X[:, own] = make_values(rng, part, (shape[0], len(own)))
    return X


def make_rows(rng, experts, n_rows=6, *, missing=0.0, weighted=False):
    """Random rows of the experts' family, some values of which were not observed.

    In a row of which nothing was observed, rounding decides: it has one value at least.
    """
    shape = (n_rows, experts.eta.shape[2])
    X = make_values(rng, experts.family, shape)
    if missing:
        lost = rng.random(shape) < missing
        lost[np.arange(n_rows), rng.integers(0, shape[1], n_rows)] = False
        X = np.where(lost, np.nan, X)
    weight = rng.integers(0, 5, n_rows).astype(float) if weighted else None
    return Rows.of(X, experts.family, weight)


def make_prior(rng, n_experts, n_types=3, *, strict=False):
    """A random mixture of trees, in which some experts have no parent.

    If it is strict, hardly any activation is uncertain, and many experts share a parent.
    """
    parent = np.full((n_types, n_experts), -1)
    for c in range(n_types):
        order = rng.permutation(n_experts)
        for place in range(1, n_experts):
            if rng.random() < 0.8:
                parent[c, order[place]] = order[
                    rng.integers(0, 1 + place // 4 if strict else place)
                ]
    active = rng.uniform(0.02, 0.9, (n_types, n_experts, 2))
    if strict:
        chance = np.exp(-rng.uniform(1, 14, active.shape))
        agrees = rng.random(active.shape[:2])[..., None] < 0.8
        active = np.where(agrees == np.arange(2), 1 - chance, chance)
    active[..., 1] = np.where(parent < 0, active[..., 0], active[..., 1])
    table = np.log(np.stack([1 - active, active], axis=-1))
    return CodePrior(np.log(rng.dirichlet(np.ones(n_types))), parent, table)


def make_star_prior(rng, n_experts, n_types, strength):
    """A random mixture of stars: nearly all experts depend on one, by up to `strength` nats."""
    parent = np.full((n_types, n_experts), -1)
    for c, centre in enumerate(rng.integers(0, n_experts, n_types)):
        parent[c] = np.where(rng.random(n_experts) < 0.95, centre, -1)
        parent[c, centre] = -1
    agrees = rng.random((n_types, n_experts, 1)) < 0.8
    chance = np.exp(-rng.uniform(strength / 2, strength, (n_types, n_experts, 2)))
    active = np.where(agrees == np.arange(2), 1 - chance, chance)
    alone = rng.uniform(0.05, 0.9, parent.shape)
    active = np.where(parent[..., None] < 0, alone[..., None], active)
    table = np.log(np.stack([1 - active, active], axis=-1))
    return CodePrior(np.log(rng.dirichlet(np.ones(n_types))), parent, table)


def make_rule(n_experts, **changes):
    """A rule that activates experts while they gain, up to all of them by default."""
    defaults = {"min_active": 1, "max_active": n_experts, "cost": np.zeros(n_experts)}
    return PursuitRule(**{**defaults, **changes})


@st.composite
def problems(draw, max_experts=8, max_features=12, max_rows=8):
    """Experts with rows to explain."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    experts = make_experts(
        rng,
        draw(st.sampled_from(FAMILIES)),
        draw(st.integers(1, max_experts)),
        draw(st.integers(1, max_features)),
        ties=draw(st.booleans()),
    )
    if draw(st.booleans()):
        experts = replace(experts, family=with_tails(experts.family))
    return experts, make_rows(
        rng,
        experts,
        draw(st.integers(1, max_rows)),
        missing=draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])),
        weighted=draw(st.booleans()),
    )


def composed_means(model, codes):
    """The mean of every variable under its owner, whatever table the model gives back."""
    return model.means_[np.asarray(model.partition(codes)), np.arange(model.n_features_in_)]
