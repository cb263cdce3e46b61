"""The model without scikit-learn, which takes longer to import than to encode a small table."""

from __future__ import annotations

import os
from typing import Any, Self

from numpy.typing import NDArray

from dynpart.fitting import LearningModel
from dynpart.learning import Remedies
from dynpart.storage import restore
from dynpart.validation import check_width, checked_array


class BareModel(LearningModel):
    """The methods of :class:`dynpart.DynamicPartitionModel`, for arrays and tables of commands.

    Parameters and results are the same. Data frames need the estimator. Warnings of a fit advise
    options of `dynpart fit`.
    """

    _remedies = Remedies(
        fewer_experts="a smaller -k",
        several_fits="--n-init 5",
        more_iterations="more --iterations",
        parts_in_a_row="--active",
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, in the order of the estimator."""
        return {name: getattr(self, name) for name in sorted(self._parameter_constraints)}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; they are checked when they are used."""
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def _validated(self, X: Any, *, reset: bool, **checks: Any) -> NDArray[Any]:
        if hasattr(X, "columns"):
            raise TypeError(
                f"X must be an array, found a {type(X).__name__}: data frames are for "
                "DynamicPartitionModel"
            )
        table = checked_array(X, **checks)
        if reset:
            self.n_features_in_ = table.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            check_width(table, self.n_features_in_)
        return table


def load_bare(path: str | os.PathLike[str]) -> BareModel:
    """Read a fitted model; errors are those of :func:`dynpart.load`."""
    return restore(path, BareModel)
