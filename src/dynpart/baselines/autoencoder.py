"""Autoencoders with one layer of sigmoid units, by torch (an optional extra)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline
from dynpart.baselines.boltzmann import pursue_log_odds

if TYPE_CHECKING:
    import torch

KINDS = ("plain", "denoising", "sparse")


class Autoencoder(Baseline):
    """Autoencoder with sigmoid units, by Adam on the cross-entropy (squared error if gray).

    The code is the hidden layer, real values in [0, 1]. For a limited number of active units,
    binary rows are encoded by greedy likelihood pursuit with the decoder's weights (binary
    codes); gray rows keep their largest activations.

    Parameters
    ----------
    n_components : int, default=10
        Number of hidden units.
    kind : {"plain", "denoising", "sparse"}, default="plain"
        "plain" only reconstructs its input, "denoising" also hides some of it (Vincent et al.,
        2008), "sparse" holds the mean activation near `n_active` / `n_components` (Ng, 2011).
    n_active : float, default=5
        Target mean number of active units if `kind` is "sparse".
    corruption : float, default=0.3
        Share of the input that is hidden if `kind` is "denoising".
    sparsity_weight : float, default=1.0
        Weight of the divergence from the target activation, summed over units, relative to the
        loss of a row.
    learning_rate : float, default=0.01
        Learning rate at the start; it falls to a tenth in the last third.
    n_updates : int, default=3000
        Number of updates, one per batch.
    batch_size : int, default=100
        Rows per update.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components, n_features)
        Weights of the decoder.
    bias_ : ndarray of shape (n_features,)
        Biases of the decoder.
    """

    binary_codes = False

    def __init__(
        self,
        n_components: int = 10,
        *,
        kind: str = "plain",
        n_active: float = 5,
        corruption: float = 0.3,
        sparsity_weight: float = 1.0,
        learning_rate: float = 0.01,
        n_updates: int = 3000,
        batch_size: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.kind = kind
        self.n_active = n_active
        self.corruption = corruption
        self.sparsity_weight = sparsity_weight
        self.learning_rate = learning_rate
        self.n_updates = n_updates
        self.batch_size = batch_size
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Decoder weights; for binary rows their logistic function, as of other log-odds."""
        return expit(self.weights_) if self.binary_ else self.weights_

    def _fit(self, X: NDArray) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        torch = require_torch()
        rng = check_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        rows = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32))
        scale = (6 / (X.shape[1] + self.n_components)) ** 0.5
        shape = (self.n_components, X.shape[1])

        def weight():  # type: ignore[no-untyped-def]
            return ((torch.rand(shape, generator=generator) * 2 - 1) * scale).requires_grad_()

        encoder, decoder = weight(), weight()
        hidden_bias = torch.zeros(self.n_components, requires_grad=True)
        mean = rows.mean(dim=0)
        start = torch.logit(mean.clamp(1e-3, 1 - 1e-3)) if self.binary_ else mean
        bias = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([encoder, decoder, hidden_bias, bias], lr=self.learning_rate)
        size = min(self.batch_size, len(X))
        for update in range(self.n_updates):
            if update == 2 * self.n_updates // 3:
                optimiser.param_groups[0]["lr"] = self.learning_rate / 10
            x = rows[torch.randint(len(X), (size,), generator=generator)]
            seen = x
            if self.kind == "denoising":
                seen = x * (torch.rand(x.shape, generator=generator) >= self.corruption)
            h = torch.sigmoid(seen @ encoder.T + hidden_bias)
            loss = self._loss(torch, x, h @ decoder + bias)
            if self.kind == "sparse":
                loss = loss + self.sparsity_weight * self._divergence(torch, h)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        self._encoder = encoder.detach().numpy().astype(np.float64)
        self._hidden_bias = hidden_bias.detach().numpy().astype(np.float64)
        self.weights_ = decoder.detach().numpy().astype(np.float64)
        self.bias_ = bias.detach().numpy().astype(np.float64)

    def _loss(self, torch, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
        """Loss per row."""
        functional = torch.nn.functional
        if self.binary_:
            return functional.binary_cross_entropy_with_logits(out, x, reduction="sum") / len(x)
        return functional.mse_loss(out, x, reduction="sum") / len(x)

    def _divergence(self, torch, h: torch.Tensor) -> torch.Tensor:  # type: ignore[no-untyped-def]
        """Kullback-Leibler divergence of the mean activations from the target."""
        wanted = min(0.99, self.n_active / self.n_components)
        found = h.mean(dim=0).clamp(1e-4, 1 - 1e-4)
        on = wanted * torch.log(wanted / found)
        off = (1 - wanted) * torch.log((1 - wanted) / (1 - found))
        return self.n_components * (on + off).sum() / self.n_components**0.5

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        if max_active is not None and self.binary_:
            return pursue_log_odds(X, self.weights_, self.bias_, max_active)
        codes = expit(X.astype(np.float64) @ self._encoder.T + self._hidden_bias)
        if max_active is not None and max_active < self.n_components:
            least = np.partition(codes, -max_active, axis=1)[:, -max_active, None]
            codes = np.where(codes >= least, codes, 0.0)
        return codes

    def _decode(self, H: Array) -> Array:
        out = H @ self.weights_ + self.bias_
        return expit(out) if self.binary_ else out


def require_torch(model: str = "the autoencoder"):  # type: ignore[no-untyped-def]
    """Import torch, or raise an error that names what needs it and how to install it."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"{model} needs torch, which is not installed: pip install 'dynpart[gpu]'"
        ) from None
    return torch
