"""The experts of a fitted model, shown in read-only arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynpart.arrays import is_tensor, namespace, to_numpy
from dynpart.engines import Experts
from dynpart.families import Family
from dynpart.schema import Schema, as_shape


class KeepsExperts:
    """Read-only attributes computed from the learnt experts."""

    family_: Family
    n_features_in_: int
    _learnt: Experts
    _shown: dict[str, NDArray[np.float64]]
    _known_names: NDArray | None = None
    _found_schema: Schema | None = None

    @property
    def n_experts_(self) -> int:
        """Number of learnt experts."""
        if not hasattr(self, "_learnt"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        return self._learnt.n_experts

    @property
    def schema_(self) -> Schema:
        """Kinds, names and levels of the variables, and the image shape.

        Computed on access, so that it cannot become inconsistent, from ``family_``,
        ``n_features_in_``, ``feature_names_in_`` and ``image_shape_``, if the model has them, and
        from the schema of the training table.
        """
        names, shape, judged = (
            self._names(),
            getattr(self, "image_shape_", None),
            self._found_schema,
        )
        return Schema(
            self.family_.kinds_of_columns(self.n_features_in_),
            None if names is None else tuple(names),
            as_shape(shape),
            None if judged is None else judged.levels,
            None if judged is None else judged.dtypes,
            None if judged is None else judged.container,
            None if judged is None else judged.ranges,
            None if judged is None else judged.special,
        )

    def _names(self) -> NDArray | None:
        """Names of the variables, if they have names."""
        return getattr(self, "feature_names_in_", self._known_names)

    def _keep_experts(self, experts: Experts) -> None:
        """Store these experts, and show their opinions in read-only arrays.

        Expertise from a file is only known to be finite, so no bound on it is stored.
        """
        family, eta = experts.family, experts.eta
        shown = {
            "means_": family.mean(eta),
            "expertise_": namespace(eta).exp2(experts.log2_expertise),
        }
        if family.n_levels is None:
            shown["variances_"] = family.variance(eta)
        self.__dict__.pop("variances_", None)
        self.__dict__.update(shown, family_=family, _learnt=replace(experts, log2_bound=math.inf))
        self._shown = shown
        self._protect()

    def _protect(self) -> None:
        """Make the attributes read-only, because writing to them would not change the experts."""
        for array in self._shown.values():
            if not is_tensor(array):
                array.flags.writeable = False

    def _experts(self) -> Experts:
        """The learnt or loaded experts; ValueError if an attribute was replaced."""
        for name in self._shown:
            if not self._is_shown(name):
                raise ValueError(
                    f"{name} was replaced, but rows are encoded with the experts that were learnt: "
                    "attributes of a fitted model are read-only, change a copy of them"
                )
        return self._learnt

    def _is_shown(self, name: str) -> bool:
        """Whether this attribute equals the experts' opinions."""
        found, shown = getattr(self, name, None), self._shown[name]
        return found is shown or np.array_equal(to_numpy(found), to_numpy(shown))

    def __setstate__(self, state: dict[str, Any]) -> None:
        inherited = getattr(super(), "__setstate__", None)  # of BaseEstimator
        if inherited is None:
            self.__dict__.update(state)
        else:
            inherited(state)
        if hasattr(self, "_shown"):
            # Unpickled arrays are writable, and some pickles hold them twice.
            same = {name: array for name, array in self._shown.items() if self._is_shown(name)}
            self.__dict__.update(same)
            self._protect()
