"""Autoregressive networks of binary rows: logistic regressions, and MADE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array
from dynpart.baselines.autoencoder import require_torch


class MaskedNetwork:
    """P(x) as a product of P(x_d | x_<d), each the output of one masked network.

    Without hidden units every variable is a logistic regression on those before it: a fully visible
    sigmoid network (Frey, 1998). With hidden units it is MADE (Germain et al., 2015) with one
    hidden layer, one order and direct connections, so that it contains the former.

    Learnt by Adam on batches; a tenth of the rows is held back, and the state with the best
    likelihood of these rows is kept.

    Parameters
    ----------
    n_hidden : int, default=0
        Number of hidden units; 0 gives the visible network.
    max_epochs : int, default=500
        Passes over the rows, at most.
    patience : int, default=5
        Passes without progress on the rows held back, after which learning stops.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    batch_size : int, default=100
        Rows per update.
    decay : float, default=0.0
        Weight decay.
    device : str, default=None
        Where torch learns; None takes the GPU where there is one, else the CPU.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Examples
    --------
    >>> import numpy as np
    >>> from dynpart.baselines import MaskedNetwork
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 2, axis=1)
    >>> model = MaskedNetwork(learning_rate=0.05, random_state=0).fit(X)
    >>> bool(model.log_density(X).mean() > -0.8)  # one of two values is free: log 2
    True
    """

    def __init__(
        self,
        n_hidden: int = 0,
        *,
        max_epochs: int = 500,
        patience: int = 5,
        learning_rate: float = 1e-3,
        batch_size: int = 100,
        decay: float = 0.0,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.max_epochs = max_epochs
        self.patience = patience
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.decay = decay
        self.device = device
        self.random_state = random_state

    def fit(self, X: NDArray) -> MaskedNetwork:
        """Learn from binary rows.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Zeros and ones.

        Returns
        -------
        self
            The fitted network.
        """
        torch = require_torch("the masked network")
        rng = check_random_state(self.random_state)
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")

        def there(numbers: Array) -> Any:
            return torch.as_tensor(numbers, dtype=torch.float32, device=device)

        shuffled = np.ascontiguousarray(X, dtype=np.float32)[rng.permutation(len(X))]
        rows = there(shuffled)
        n_valid = max(1, len(rows) // 10)
        valid, rows = rows[:n_valid], rows[n_valid:]
        n_features = X.shape[1]
        into, out, direct = _masks(n_features, self.n_hidden)
        mean = rows.mean(dim=0).clamp(1e-3, 1 - 1e-3)
        start = rng.normal(0, 1 / np.sqrt(n_features), into.shape)
        parts = [start, np.zeros(self.n_hidden), np.zeros(out.shape), np.zeros(direct.shape)]
        state = [there(part) for part in parts]
        state = [part.requires_grad_() for part in [*state, torch.log(mean / (1 - mean))]]
        masks = [there(mask) for mask in (into, out, direct)]

        def loss(x: Any) -> Any:
            log_odds = _log_odds(torch, x, state, masks)
            return torch.nn.functional.binary_cross_entropy_with_logits(
                log_odds, x, reduction="sum"
            ) / len(x)

        optimiser = torch.optim.AdamW(state, lr=self.learning_rate, weight_decay=self.decay)
        best, kept, waited = np.inf, state, 0
        for _ in range(self.max_epochs):
            order = torch.as_tensor(rng.permutation(len(rows)), device=device)
            for batch in order.split(self.batch_size):
                optimiser.zero_grad()
                loss(rows[batch]).backward()
                optimiser.step()
            with torch.no_grad():
                found = float(loss(valid))
            waited += 1
            if found < best:
                best, waited = found, 0
                kept = [part.detach().clone() for part in state]
            if waited > self.patience:
                break
        with torch.no_grad():
            numbers = [part.double().cpu().numpy() for part in kept]
        self.into_, self.hidden_, self.out_, self.direct_, self.bias_ = numbers
        self.into_, self.out_, self.direct_ = (
            part * mask for part, mask in zip((self.into_, self.out_, self.direct_),
                                              (into, out, direct), strict=True)
        )  # fmt: skip
        return self

    def log_odds(self, X: NDArray) -> Array:
        """Log-odds of a one in each variable, given the values before it.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Zeros and ones.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Log P(x_d = 1 | x_<d) - log P(x_d = 0 | x_<d).
        """
        x = np.asarray(X, dtype=np.float64)
        hidden = np.maximum(x @ self.into_.T + self.hidden_, 0.0)
        return x @ self.direct_.T + hidden @ self.out_.T + self.bias_

    def log_density(self, X: NDArray) -> Array:
        """Log P(x) of every row, in nats.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Zeros and ones.

        Returns
        -------
        ndarray of shape (n_rows,)
            Exact values, no bounds.
        """
        log_odds = self.log_odds(X)
        return (X * log_odds - np.logaddexp(0, log_odds)).sum(axis=1)

    def sample(self, n_samples: int, seed: int = 0) -> NDArray[np.uint8]:
        """Rows drawn variable by variable.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        seed : int, default=0
            Seed of the random numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Zeros and ones.
        """
        rng = np.random.default_rng(seed)
        n_features = len(self.bias_)
        x = np.zeros((n_samples, n_features))
        inside = np.repeat(self.hidden_[None], n_samples, axis=0)
        for d in range(n_features):
            log_odds = x[:, :d] @ self.direct_[d, :d] + self.bias_[d]
            log_odds += np.maximum(inside, 0.0) @ self.out_[d]
            x[:, d] = rng.random(n_samples) < expit(log_odds)
            inside += x[:, d, None] * self.into_[:, d]
        return x.astype(np.uint8)


def _masks(n_features: int, n_hidden: int) -> tuple[Array, Array, Array]:
    """Masks of the connections: into hidden units, out of them, and past them."""
    variable = np.arange(n_features)
    last = np.arange(n_hidden) % max(1, n_features - 1)  # the last variable that a unit sees
    into = (variable <= last[:, None]).astype(float)
    out = (last < variable[:, None]).astype(float)
    return into, out, np.tri(n_features, k=-1)


def _log_odds(torch: Any, x: Any, state: list[Any], masks: list[Any]) -> Any:
    into, hidden, out, direct, bias = state
    inside = torch.relu(x @ (into * masks[0]).T + hidden)
    return x @ (direct * masks[2]).T + inside @ (out * masks[1]).T + bias
