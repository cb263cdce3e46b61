"""The shape Boltzmann machine (Eslami et al., 2014): two hidden layers over shared patches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from dynpart.baselines._base import Array, Baseline
from dynpart.baselines.autoencoder import require_torch

N_PATCHES = 4


class ShapeBoltzmannMachine(Baseline):
    """Shape Boltzmann machine: a deep Boltzmann machine with four overlapping patches.

    The image is cut into 2 x 2 patches that overlap by a few pixels. Units of the first hidden
    layer see one patch; the four patches share their weights and hidden biases, but not the biases
    of the pixels. The second layer sees all units of the first. Each layer is first learnt as a
    restricted Boltzmann machine, then both together: means of the hidden units by mean-field
    updates, the model's side by persistent chains (stochastic approximation).

    The paper has 2,000 units (500 a patch) and 100 for horses of 32 x 32 pixels, and an overlap of
    4. It does not state the other settings. Here there are as many chains as rows in a batch, one
    step of Gibbs sampling per update, and ten mean-field updates. The learning rate falls linearly
    to 0 in each of the three phases, the momentum is 0.5, and weights start as normal noise with
    standard deviation 0.01. Inputs of the first layer are not doubled while it is learnt alone.

    Parameters
    ----------
    image_shape : tuple of int
        (height, width), both even.
    n_components : int, default=2000
        Units of the first layer, a multiple of four.
    n_top : int, default=100
        Units of the second layer.
    overlap : int, default=4
        Pixels by which neighbouring patches overlap, even.
    n_updates : tuple of int, default=(3000, 1000, 1500)
        Updates of the first layer, of the second, and of both.
    learning_rate : float, default=0.05
        Learning rate at the start of each phase.
    batch_size : int, default=100
        Rows per update.
    decay : float, default=2e-4
        Weight decay.
    device : str, default=None
        Device of torch; None takes the GPU where there is one.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components // 4, patch_height * patch_width)
        Weights of the first layer, shared by the four patches.
    bias_ : ndarray of shape (n_features,)
        Biases of the pixels.

    Examples
    --------
    >>> from dynpart.baselines import ShapeBoltzmannMachine
    >>> from dynpart.datasets import make_bars
    >>> X = make_bars(4, 20, random_state=0)
    >>> model = ShapeBoltzmannMachine((4, 4), 8, n_top=2, overlap=2, n_updates=(5, 5, 5))
    >>> model.fit(X).encode(X).shape
    (20, 8)
    """

    binary_codes = False

    def __init__(
        self,
        image_shape: tuple[int, int],
        n_components: int = 2000,
        *,
        n_top: int = 100,
        overlap: int = 4,
        n_updates: tuple[int, int, int] = (3000, 1000, 1500),
        learning_rate: float = 0.05,
        batch_size: int = 100,
        decay: float = 2e-4,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.image_shape = image_shape
        self.n_components = n_components
        self.n_top = n_top
        self.overlap = overlap
        self.n_updates = n_updates
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.decay = decay
        self.device = device
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """Probabilities of the first layer's units for the pixels of their patch, else 1/2."""
        full = np.zeros((self.n_components, math.prod(self.image_shape)))
        n_each = self.n_components // N_PATCHES
        for place, pixels in enumerate(patches(self.image_shape, self.overlap)):
            full[place * n_each : (place + 1) * n_each, pixels] = self.weights_
        return expit(full)

    def _fit(self, X: NDArray) -> None:
        self._require_binary()
        self._check(X.shape[1])
        torch = require_torch("the shape Boltzmann machine")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        machine = _Machine(torch, self, X, seed)
        first, second, both = self.n_updates
        machine.learn_first(first)
        machine.learn_second(second)
        machine.learn_both(both)
        self._machine = machine
        self.weights_ = machine.first.cpu().numpy().astype(np.float64)
        self.bias_ = machine.bias.cpu().numpy().astype(np.float64)

    def _check(self, n_features: int) -> None:
        height, width = self.image_shape
        if height * width != n_features or height % 2 or width % 2:
            raise ValueError(
                f"image_shape must be even and hold the {n_features} features of X, got "
                f"{self.image_shape!r}"
            )
        if self.overlap % 2 or not 0 <= self.overlap <= min(height, width):
            raise ValueError(
                f"overlap must be even and fit into image_shape={self.image_shape!r}, got "
                f"{self.overlap!r}"
            )
        if self.n_components % N_PATCHES:
            raise ValueError(
                f"n_components must be a multiple of {N_PATCHES}, got {self.n_components!r}"
            )

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        """Means of all units of the first layer; the limit is ignored."""
        means, _ = self._machine.mean_field(self._machine.tensor(X))
        return means.cpu().numpy().astype(np.float64)

    def _decode(self, H: Array) -> Array:
        machine = self._machine
        return machine.pixels(machine.tensor(H)).cpu().numpy().astype(np.float64)

    def sample(self, n_samples: int = 1, *, n_steps: int = 500) -> Array:
        """Probabilities of the pixels at the end of chains that begin at the pixels' averages.

        Parameters
        ----------
        n_samples : int, default=1
            Number of chains, and so of rows that are returned.
        n_steps : int, default=500
            Steps of Gibbs sampling.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Probabilities between 0 and 1.
        """
        machine = self._machine
        start = machine.torch.sigmoid(machine.bias).expand(n_samples, -1)
        return machine.chain(machine.drawn(start), n_steps, keep=1).cpu().numpy()

    def fill(self, X: Array, *, n_steps: int = 400, keep: int = 200) -> Array:
        """Probabilities of all pixels where NaN stands for what was not observed.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Rows with the columns of the training data.
        n_steps : int, default=400
            Steps of Gibbs sampling with the observed pixels held.
        keep : int, default=200
            Last steps that are averaged.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Observed pixels as they are, probabilities of 1 for the others.
        """
        machine, torch = self._machine, self._machine.torch
        observed = ~np.isnan(X)
        given, held = machine.tensor(np.where(observed, X, 0)), torch.as_tensor(observed)
        held = held.to(given.device)
        start = torch.where(
            held, given, machine.drawn(torch.sigmoid(machine.bias).expand_as(given))
        )
        found = machine.chain(start, n_steps, keep=keep, held=held, given=given)
        return np.where(observed, X, found.cpu().numpy())


def patches(image_shape: tuple[int, int], overlap: int) -> NDArray[np.intp]:
    """Pixels of the four patches, shape (4, patch_height * patch_width).

    Examples
    --------
    >>> patches((4, 4), 2).shape
    (4, 9)
    """
    height, width = image_shape
    tall, wide = (height + overlap) // 2, (width + overlap) // 2
    pixels = np.arange(height * width).reshape(height, width)
    corners = [(top, left) for top in (0, height - tall) for left in (0, width - wide)]
    return np.stack([pixels[top : top + tall, left : left + wide].ravel() for top, left in corners])


class _Machine:
    """Parameters and chains on a device."""

    def __init__(self, torch: Any, model: ShapeBoltzmannMachine, X: NDArray, seed: int) -> None:
        self.torch = torch
        device = model.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.generator = torch.Generator(device).manual_seed(seed)
        self.device = device
        self.rate, self.decay = model.learning_rate, model.decay
        self.rows = self.tensor(X)
        self.size = min(model.batch_size, len(X))
        self.pixels_of = torch.as_tensor(patches(model.image_shape, model.overlap), device=device)
        n_each = model.n_components // N_PATCHES
        self.n_each = n_each
        mean = self.rows.mean(dim=0).clamp(1e-2, 1 - 1e-2)
        self.bias = torch.logit(mean)
        self.first = 0.01 * self._noise(n_each, self.pixels_of.shape[1])
        self.first_bias = torch.zeros(n_each, device=device)
        self.second = 0.01 * self._noise(model.n_components, model.n_top)
        self.second_bias = torch.zeros(model.n_top, device=device)
        self.moved = [torch.zeros_like(each) for each in self._parameters()]

    def _parameters(self) -> list[Any]:
        return [self.bias, self.first, self.first_bias, self.second, self.second_bias]

    def tensor(self, X: NDArray) -> Any:
        return self.torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=self.device)

    def _noise(self, *shape: int) -> Any:
        return self.torch.randn(shape, generator=self.generator, device=self.device)

    def drawn(self, p: Any) -> Any:
        """Zeros and ones with these probabilities."""
        drawn = self.torch.rand(p.shape, generator=self.generator, device=self.device)
        return (drawn < p).float()

    # ------------------------------------------------------------ messages between layers

    def up(self, v: Any) -> Any:
        """Input of the first layer from pixels, shape (n_rows, 4 n_each)."""
        return (v[:, self.pixels_of] @ self.first.T + self.first_bias).flatten(1)

    def pixels(self, h: Any) -> Any:
        """Probabilities of the pixels given the first layer."""
        by_patch = h.reshape(len(h), N_PATCHES, self.n_each) @ self.first
        total = self.bias.expand(len(h), -1).clone()
        for place, pixels in enumerate(self.pixels_of):
            total[:, pixels] += by_patch[:, place]
        return self.torch.sigmoid(total)

    def top(self, h: Any) -> Any:
        """Probabilities of the second layer given the first."""
        return self.torch.sigmoid(h @ self.second + self.second_bias)

    def middle(self, v: Any, g: Any) -> Any:
        """Probabilities of the first layer given pixels and the second layer."""
        return self.torch.sigmoid(self.up(v) + g @ self.second.T)

    def mean_field(self, v: Any, n_updates: int = 10) -> tuple[Any, Any]:
        """Means of both hidden layers given pixels."""
        from_pixels = self.up(v)
        g = self.top(self.torch.sigmoid(from_pixels))
        h = self.torch.sigmoid(from_pixels + g @ self.second.T)
        for _ in range(n_updates - 1):
            g = self.top(h)
            h = self.torch.sigmoid(from_pixels + g @ self.second.T)
        return h, self.top(h)

    def chain(self, v: Any, n_steps: int, *, keep: int, held: Any = None, given: Any = None) -> Any:
        """Average of the pixels' probabilities over the last steps of Gibbs sampling."""
        g = self.drawn(self.top(self.drawn(self.torch.sigmoid(self.up(v)))))
        total = self.torch.zeros_like(v)
        for step in range(n_steps):
            h = self.drawn(self.middle(v, g))
            p, g = self.pixels(h), self.drawn(self.top(h))
            v = self.drawn(p)
            if held is not None:
                v = self.torch.where(held, given, v)
            if step >= n_steps - keep:
                total += p
        return total / keep

    # ------------------------------------------------------------ learning

    def _batch(self, rows: Any) -> Any:
        index = self.torch.randint(
            len(rows), (self.size,), generator=self.generator, device=self.device
        )
        return rows[index]

    def _patch_product(self, v: Any, h: Any) -> Any:
        """Mean over rows, and sum over patches, of hidden units times pixels."""
        seen = v[:, self.pixels_of]
        h = h.reshape(len(h), N_PATCHES, self.n_each)
        return self.torch.einsum("npk,npd->kd", h, seen) / len(v)

    def _first_statistics(self, v: Any, h: Any) -> list[Any]:
        per_unit = h.reshape(len(h), N_PATCHES, self.n_each).sum(dim=1).mean(dim=0)
        return [v.mean(dim=0), self._patch_product(v, h), per_unit]

    def _second_statistics(self, h: Any, g: Any) -> list[Any]:
        return [h.T @ g / len(h), g.mean(dim=0)]

    def _move(self, which: slice, data: list[Any], model: list[Any], rate: float) -> None:
        """Gradient step: statistics of the data minus those of the chains."""
        parameters, moved = self._parameters()[which], self.moved[which]
        for parameter, last, seen, dreamt in zip(parameters, moved, data, model, strict=True):
            gradient = seen - dreamt
            if parameter.ndim == 2:
                gradient = gradient - self.decay * parameter
            last.mul_(0.5).add_(gradient, alpha=rate)
            parameter.add_(last)

    def _rates(self, n_updates: int) -> list[float]:
        return [self.rate * (1 - update / n_updates) for update in range(n_updates)]

    def learn_first(self, n_updates: int) -> None:
        """The first layer alone, over persistent chains of pixels."""
        chain = self._batch(self.rows)
        for rate in self._rates(n_updates):
            v = self._batch(self.rows)
            seen = self._first_statistics(v, self.torch.sigmoid(self.up(v)))
            chain = self.drawn(self.pixels(self.drawn(self.torch.sigmoid(self.up(chain)))))
            dreamt = self._first_statistics(chain, self.torch.sigmoid(self.up(chain)))
            self._move(slice(0, 3), seen, dreamt, rate)

    def learn_second(self, n_updates: int) -> None:
        """The second layer alone, with the first layer's means for rows."""
        rows = self.torch.sigmoid(self.up(self.rows))
        chain = self.drawn(self._batch(rows))
        bias = self.torch.logit(rows.mean(dim=0).clamp(1e-3, 1 - 1e-3))
        for rate in self._rates(n_updates):
            h = self._batch(rows)
            seen = self._second_statistics(h, self.top(h))
            g = self.drawn(self.top(chain))
            chain = self.drawn(self.torch.sigmoid(g @ self.second.T + bias))
            dreamt = self._second_statistics(chain, self.top(chain))
            self._move(slice(3, 5), seen, dreamt, rate)

    def learn_both(self, n_updates: int) -> None:
        """Both layers: mean-field for the data, persistent chains for the model."""
        v = self._batch(self.rows)
        h = self.drawn(self.torch.sigmoid(self.up(v)))
        g = self.drawn(self.top(h))
        for rate in self._rates(n_updates):
            x = self._batch(self.rows)
            means, top = self.mean_field(x)
            seen = [*self._first_statistics(x, means), *self._second_statistics(means, top)]
            h = self.drawn(self.middle(v, g))
            v, g = self.drawn(self.pixels(h)), self.drawn(self.top(h))
            p = self.middle(v, g)
            dreamt = [*self._first_statistics(v, p), *self._second_statistics(p, self.top(p))]
            # A learning rate five times smaller: both layers now change together.
            self._move(slice(0, 5), seen, dreamt, 0.2 * rate)
