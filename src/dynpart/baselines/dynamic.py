"""Our own model behind the same interface as the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.baselines._base import Array, Baseline
from dynpart.estimator import DynamicPartitionModel


class DynamicPartition(Baseline):
    """`DynamicPartitionModel` with the interface of the baselines.

    Parameters
    ----------
    n_components : int, default=10
        Number of experts.
    settings : mapping, default=None
        Further arguments of the model.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the random numbers; None draws a different seed in every call.

    Attributes
    ----------
    model_ : DynamicPartitionModel
        The fitted model.
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.settings = settings
        self.random_state = random_state

    @property
    def templates(self) -> Array:
        """The experts' means, (n_components, n_features)."""
        return self.model_.means_

    def owners(self, H: NDArray) -> NDArray[np.int32]:
        """Responsible expert of every variable.

        Parameters
        ----------
        H : ndarray of shape (n_rows, n_components)
            Codes, as `encode` returns them.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Index of the active expert with the highest expertise.
        """
        return self.model_.partition(H)

    def _fit(self, X: NDArray) -> None:
        self.model_ = DynamicPartitionModel(
            self.n_components, random_state=self.random_state, **(self.settings or {})
        ).fit(X)

    def _encode(self, X: NDArray, max_active: int | None) -> NDArray:
        model = self.model_
        if max_active is not None and max_active != model.n_active:
            limit = min(max_active, self.n_components)
            model = copy(model).set_params(max_active=limit, n_active=None)
        return model.transform(X)

    def _decode(self, H: Array) -> Array:
        return self.model_.inverse_transform(H)
