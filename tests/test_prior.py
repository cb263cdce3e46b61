"""The prior over codes: a distribution, whichever mixture of trees it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from dynpart.prior import CodePrior
from tests.effort import examples


def random_prior(seed, n_types, n_experts):
    """A mixture of random forests with random tables."""
    rng = np.random.default_rng(seed)
    parent = np.full((n_types, n_experts), -1)
    for c in range(n_types):
        order = rng.permutation(n_experts)
        for place, k in enumerate(order):
            if place and rng.random() < 0.8:
                parent[c, k] = order[rng.integers(place)]
    p = rng.uniform(0.02, 0.98, size=(n_types, n_experts, 2))
    p[..., 1] = np.where(parent == -1, p[..., 0], p[..., 1])
    log_weight = np.log(rng.dirichlet(np.ones(n_types)))
    return CodePrior(log_weight, parent, np.log(np.stack([1 - p, p], axis=-1)))


def all_codes(n_experts):
    return np.array([[code >> k & 1 for k in range(n_experts)] for code in range(2**n_experts)])


priors = st.builds(random_prior, st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 7))


@examples(50)
@given(priors)
def test_probabilities_of_all_codes_sum_to_one(prior):
    assert logsumexp(prior.log_prob(all_codes(prior.n_experts))) == pytest.approx(0, abs=1e-10)


@examples(50)
@given(priors)
def test_log_joint_is_what_the_tables_say(prior):
    codes = all_codes(prior.n_experts)
    wanted = np.zeros((len(codes), prior.n_types))
    for c in range(prior.n_types):
        wanted[:, c] = prior.log_weight[c]
        for k, parent in enumerate(prior.parent[c]):
            above = codes[:, parent] if parent >= 0 else 0
            wanted[:, c] += prior.log_table[c, k, above, codes[:, k]]
    np.testing.assert_allclose(prior.log_joint(codes), wanted, atol=1e-10)
    np.testing.assert_allclose(prior.log_prob(codes), logsumexp(wanted, axis=1), atol=1e-10)
    np.testing.assert_allclose(prior.type_probabilities(codes).sum(axis=1), 1)


@examples(50)
@given(priors)
def test_activation_probabilities_are_those_of_all_codes(prior):
    codes = all_codes(prior.n_experts)
    p = np.exp(prior.log_prob(codes))
    np.testing.assert_allclose(prior.mean_activation, p @ codes, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_samples_have_the_probabilities_of_the_prior(seed):
    prior, n_samples = random_prior(seed, 3, 4), 40_000
    codes, types = prior.sample(n_samples, np.random.default_rng(seed))
    share = np.bincount(codes @ (1 << np.arange(4)), minlength=16) / n_samples
    np.testing.assert_allclose(share, np.exp(prior.log_prob(all_codes(4))), atol=0.015)
    often = np.bincount(types, minlength=3) / n_samples
    np.testing.assert_allclose(often, np.exp(prior.log_weight), atol=0.015)


def test_independent_bits_are_a_case():
    p = np.array([0.2, 0.5, 0.9])
    codes = all_codes(3)
    wanted = np.log(np.where(codes == 1, p, 1 - p)).sum(axis=1)
    np.testing.assert_allclose(CodePrior.independent(p).log_prob(codes), wanted)
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        CodePrior.independent([0.5, 1.0])


def test_a_prior_that_is_none_is_refused():
    with pytest.raises(ValueError, match="disagree"):
        CodePrior(np.zeros(2), np.full((1, 3), -1), np.zeros((1, 3, 2, 2)))
    circle = CodePrior(np.zeros(1), np.array([[1, 0]]), np.full((1, 2, 2, 2), np.log(0.5)))
    with pytest.raises(ValueError, match="circle"):
        _ = circle.generations
    nobody = CodePrior(np.zeros(1), np.array([[5, -1]]), np.full((1, 2, 2, 2), np.log(0.5)))
    with pytest.raises(ValueError, match="from -1 to 1"):
        _ = nobody.generations


@examples(50)
@given(priors)
def test_types_have_their_most_probable_codes(prior):
    codes = all_codes(prior.n_experts)
    joint = prior.log_joint(codes)
    own = prior.log_joint(prior.likeliest_codes)
    np.testing.assert_allclose(np.diag(own), joint.max(axis=0), atol=1e-10)
    types = prior.row_types()
    assert sum(kind.weight for kind in types) == pytest.approx(1)
    assert [kind.weight for kind in types] == sorted(np.exp(prior.log_weight), reverse=True)
