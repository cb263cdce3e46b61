"""Fixed share against a literal implementation, and what order means to it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart.baselines import (
    fixed_share,
    hindsight_share,
    learn_expertise,
    make_segments,
    owner_agreement,
    sequence_losses,
)


def literal_fixed_share(losses, alpha, eta):
    """Herbster and Warmuth's figure, one weight at a time, never normalised."""
    n = len(losses[0])
    weights = [1 / n] * n
    history = []
    for round_losses in losses:
        history.append([w / sum(weights) for w in weights])
        after = [w * np.exp(-eta * loss) for w, loss in zip(weights, round_losses, strict=True)]
        weights = [
            (1 - alpha) * after[i] + alpha / (n - 1) * sum(after[j] for j in range(n) if j != i)
            for i in range(n)
        ]
    return history


@given(
    seed=st.integers(0, 2**32 - 1),
    alpha=st.floats(0, 1),
    n_experts=st.integers(2, 5),
    eta=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_weights_are_the_literal_ones(seed, alpha, n_experts, eta):
    losses = np.random.RandomState(seed).exponential(size=(12, n_experts))
    weights = fixed_share(losses, alpha, rate=eta)
    assert np.allclose(weights, literal_fixed_share(losses, alpha, eta))
    assert np.allclose(weights.sum(axis=1), 1)


def test_without_sharing_it_is_the_posterior():
    losses = np.random.RandomState(0).exponential(size=(9, 3))
    posterior = np.exp(-losses[:-1].sum(axis=0))
    assert np.allclose(fixed_share(losses, 0.0)[-1], posterior / posterior.sum())


def test_share_must_be_a_probability():
    with pytest.raises(ValueError, match="share"):
        fixed_share(np.zeros((2, 2)), 1.5)


def test_segments_have_the_owners_they_claim():
    sequence = make_segments(4000, 50, n_segments=5, confidence=0.9, random_state=0)
    assert np.count_nonzero(np.diff(sequence.owner)) == 4
    expected = sequence.opinions[sequence.owner, np.arange(50)]
    assert np.abs(sequence.X.mean(axis=0) - expected).max() < 0.03


def test_order_matters_to_fixed_share_and_not_to_expertise():
    sequence = make_segments(30, 200, random_state=0)
    shuffled = sequence.shuffled(np.random.RandomState(1))

    def scores(s):
        losses = 30 * sequence_losses(s)
        learnt = learn_expertise(s.X, s.opinions)
        return owner_agreement(s, fixed_share(losses, 0.05)), owner_agreement(s, learnt.T)

    (share, expertise), (share_shuffled, expertise_shuffled) = scores(sequence), scores(shuffled)
    assert share > share_shuffled + 0.2
    assert expertise == pytest.approx(expertise_shuffled)
    assert expertise > 0.9


def test_hindsight_knows_more():
    sequence = make_segments(5, 200, random_state=3)
    losses = 5 * sequence_losses(sequence)
    before = owner_agreement(sequence, fixed_share(losses, 0.05))
    assert owner_agreement(sequence, hindsight_share(losses, 0.05)) > before
