"""The one small interface of all baselines. Knows scikit-learn, no particular model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

Array = NDArray[np.float64]
DTYPES = [np.float64, np.float32, np.uint8, np.bool_]


class Baseline(TransformerMixin, BaseEstimator, ABC):
    """A model that turns rows into codes and codes back into rows.

    Subclasses write `_fit`, `_encode`, `_decode` and the property `templates`; input is checked
    here. Data whose values are all 0 or 1 count as binary (`binary_`), anything else as gray.

    Attributes
    ----------
    binary_codes : bool
        Whether codes hold only 0 and 1; real-valued codes carry more information per unit.
    refit_for_rate : bool
        Whether a different number of active units needs a new fit.
    groups_ : ndarray of shape (n_components,) or None
        The group of every unit, if exactly one unit of each group is active; otherwise None.
    """

    binary_codes: ClassVar[bool] = True
    refit_for_rate: ClassVar[bool] = False

    binary_: bool
    groups_: NDArray[np.intp] | None
    n_features_in_: int

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn from rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Training rows.
        y : Ignored
            Not used; for scikit-learn's interface.

        Returns
        -------
        self
            The fitted model.
        """
        rows = np.asarray(validate_data(self, X, dtype=DTYPES))
        self.binary_ = bool(((rows == 0) | (rows == 1)).all())
        self.groups_ = None
        self._fit(rows)
        return self

    def encode(self, X: ArrayLike, max_active: int | None = None) -> NDArray:
        """Codes of rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with the columns of the training data.
        max_active : int, default=None
            Maximum number of active units per row; by default that of the model.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Codes: 0 and 1 if `binary_codes`, otherwise real numbers.
        """
        check_is_fitted(self, "binary_")
        rows = np.asarray(validate_data(self, X, dtype=DTYPES, reset=False))
        return self._encode(rows, max_active)

    def decode(self, H: ArrayLike) -> Array:
        """Expected rows given codes.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_components)
            Codes, as `encode` returns them.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Predictions of the rows, in their units.
        """
        check_is_fitted(self, "binary_")
        codes = np.asarray(check_array(H, dtype=np.float64, input_name="H"))
        n_units = len(self.templates)
        if codes.shape[1] != n_units:
            raise ValueError(f"H must have one column per unit ({n_units}), found {codes.shape[1]}")
        return self._decode(codes)

    def transform(self, X: ArrayLike) -> NDArray:
        """The same as `encode`, under scikit-learn's name.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows with the columns of the training data.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Codes: 0 and 1 if `binary_codes`, otherwise real numbers.
        """
        return self.encode(X)

    def inverse_transform(self, H: ArrayLike) -> Array:
        """The same as `decode`, under scikit-learn's name.

        Parameters
        ----------
        H : array-like of shape (n_rows, n_components)
            Codes, as `encode` returns them.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Predictions of the rows, in their units.
        """
        return self.decode(H)

    @property
    @abstractmethod
    def templates(self) -> Array:
        """The template of each unit in the data's space, (n_components, n_features)."""

    @abstractmethod
    def _fit(self, X: NDArray) -> None: ...

    @abstractmethod
    def _encode(self, X: NDArray, max_active: int | None) -> NDArray: ...

    @abstractmethod
    def _decode(self, H: Array) -> Array: ...

    def _require_binary(self) -> None:
        if not self.binary_:
            raise ValueError(
                f"X must be binary (0 or 1) for {type(self).__name__}, found other values"
            )


def one_hot(labels: NDArray[np.intp], n_components: int) -> NDArray[np.uint8]:
    """Codes with one active unit per row, shape (n_rows, n_components)."""
    codes = np.zeros((len(labels), n_components), dtype=np.uint8)
    codes[np.arange(len(labels)), labels] = 1
    return codes
