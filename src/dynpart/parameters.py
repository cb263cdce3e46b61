"""Parameters of an estimator: constraints and their errors. Changes no value.

The messages are those of scikit-learn, whose validation is a private module. A parameter has a list
of constraints and must satisfy one of them: a type, None, an object of this module, or one of the
texts in `NAMED`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from dynpart.arrays import is_sparse


@dataclass(frozen=True)
class Interval:
    """Numbers of a type between two bounds; None is no bound. Booleans are not numbers.

    Examples
    --------
    >>> from numbers import Integral
    >>> from dynpart.parameters import Interval
    >>> at_least_one = Interval(Integral, 1, None, closed="left")
    >>> at_least_one.accepts(1), at_least_one.accepts(0), at_least_one.accepts(1.0)
    (True, False, False)
    """

    kind: type
    left: float | None
    right: float | None
    closed: str = field(kw_only=True)
    """Which bounds belong to the interval: "left", "right", "both" or "neither"."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is one of these numbers; NaN and infinity never are."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, self.kind):
            return False
        number: Any = value
        if not isinstance(number, Integral) and not np.isfinite(number):
            return False
        above = self.left is None or number > self.left
        below = self.right is None or number < self.right
        above = above or (self._has("left") and number == self.left)
        below = below or (self._has("right") and number == self.right)
        return bool(above and below)

    def _has(self, side: str) -> bool:
        return self.closed in (side, "both")

    def __str__(self) -> str:
        noun = "an int" if self.kind is Integral else "a float"
        if self.left is None and self.right is None:
            return f"{noun} that is finite"
        left = "(-inf" if self.left is None else f"{'[' if self._has('left') else '('}{self.left}"
        right = (
            "inf)" if self.right is None else f"{self.right}{']' if self._has('right') else ')'}"
        )
        return f"{noun} in the range {left}, {right}"


@dataclass(frozen=True)
class Options:
    """A fixed set of values of a type."""

    kind: type
    options: Collection[Any]

    def accepts(self, value: Any) -> bool:
        """Whether a value is one of the options, and of the type."""
        return isinstance(value, self.kind) and value in self.options

    def __str__(self) -> str:
        return " or ".join(sorted(map(repr, self.options)))


def StrOptions(options: Collection[str]) -> Options:
    """A fixed set of texts."""
    return Options(str, options)


@dataclass(frozen=True)
class HasMethods:
    """Objects with these methods, or their deprecated names."""

    methods: Sequence[str]
    earlier: Mapping[str, str] = field(default_factory=dict)

    def accepts(self, value: Any) -> bool:
        """Whether an object has all of the methods."""

        def has(name: str | None) -> bool:
            return name is not None and callable(getattr(value, name, None))

        return all(has(name) or has(self.earlier.get(name)) for name in self.methods)

    def __str__(self) -> str:
        return f"an object with the methods {', '.join(self.methods)}"


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_array_like(value: Any) -> bool:
    return not isinstance(value, str | bytes) and (
        hasattr(value, "__len__") or hasattr(value, "__array__") or hasattr(value, "shape")
    )


def _is_random_state(value: Any) -> bool:
    seed = Interval(Integral, 0, 2**32, closed="left").accepts(value)
    return seed or value is None or isinstance(value, np.random.RandomState)


def _is_verbose(value: Any) -> bool:
    return _is_boolean(value) or Interval(Integral, 0, None, closed="left").accepts(value)


NAMED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "boolean": (_is_boolean, "True or False"),
    "array-like": (_is_array_like, "an array-like"),
    "sparse matrix": (is_sparse, "a sparse matrix"),
    "random_state": (_is_random_state, "an int from 0 to 2**32 - 1, a RandomState or None"),
    "verbose": (_is_verbose, "True, False or an int of at least 0"),
}
"""Named constraints: a check, and its description for messages."""


def check_parameters(
    owner: str, constraints: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    """Raise ValueError for the first parameter that satisfies none of its constraints.

    Parameters
    ----------
    owner : str
        Name of the estimator, for the message.
    constraints : mapping of str to list, or "no_validation"
        Constraints of each parameter.
    parameters : mapping of str to object

    Examples
    --------
    >>> from numbers import Integral
    >>> from dynpart.parameters import Interval, check_parameters
    >>> constraints = {"n_experts": [Interval(Integral, 1, None, closed="left")]}
    >>> check_parameters("Model", constraints, {"n_experts": 0})
    Traceback (most recent call last):
    ...
    ValueError: The 'n_experts' parameter of Model must be an int in the range [1, inf), got 0
    """
    for name, value in parameters.items():
        allowed = constraints.get(name, "no_validation")
        if allowed == "no_validation" or any(_accepts(one, value) for one in allowed):
            continue
        raise ValueError(
            f"The {name!r} parameter of {owner} must be {_listed(allowed)}, got {value!r}"
        )


def _accepts(constraint: Any, value: Any) -> bool:
    if constraint is None:
        return value is None
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    if isinstance(constraint, str):
        return NAMED[constraint][0](value)
    return constraint.accepts(value)


def _words(constraint: Any) -> str:
    if constraint is None:
        return "None"
    if isinstance(constraint, type):
        return f"a {constraint.__name__}"
    return NAMED[constraint][1] if isinstance(constraint, str) else str(constraint)


def _listed(allowed: Sequence[Any]) -> str:
    words = list(map(_words, allowed))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
