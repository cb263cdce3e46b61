"""Random models and rows that laws are tried on."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dynpart.engines import Experts, PursuitRule
from dynpart.families import Bernoulli, Gaussian


def make_experts(rng, family_name="bernoulli", n_experts=5, n_features=7, *, ties=False):
    """Random experts; with `ties` most levels of expertise are equal."""
    shape = (n_experts, n_features)
    log2_expertise = rng.normal(0, 3, shape)
    if ties:
        log2_expertise = np.round(log2_expertise / 3)
    if family_name == "bernoulli":
        family = Bernoulli()
        eta = family.constrain(rng.uniform(0, 1, (1, *shape)))
    else:
        family = Gaussian(centre=rng.normal(0, 5, n_features), floor=0.05)
        mean = family.centre + rng.normal(0, 1, shape)
        eta = family.from_moments(mean, rng.uniform(0.1, 2, shape))
    return Experts(family, eta, log2_expertise)


def make_rows(rng, experts, n_rows=6):
    """Random rows of the experts' family."""
    n_features = experts.eta.shape[2]
    if isinstance(experts.family, Bernoulli):
        return rng.integers(0, 2, (n_rows, n_features)).astype(np.uint8)
    return experts.family.centre + rng.normal(0, 1.5, (n_rows, n_features))


def make_rule(n_experts, **changes):
    """Activate what pays, up to all experts, unless told otherwise."""
    defaults = {"min_active": 1, "max_active": n_experts, "cost": np.zeros(n_experts)}
    return PursuitRule(**{**defaults, **changes})


@st.composite
def problems(draw, max_experts=8, max_features=12, max_rows=8):
    """Experts with rows to explain."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    experts = make_experts(
        rng,
        draw(st.sampled_from(["bernoulli", "gaussian"])),
        draw(st.integers(1, max_experts)),
        draw(st.integers(1, max_features)),
        ties=draw(st.booleans()),
    )
    return experts, make_rows(rng, experts, draw(st.integers(1, max_rows)))
