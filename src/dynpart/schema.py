"""Schema: names, kinds and levels of the variables and, for images, the shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

KINDS = ("binary", "categorical", "count", "real")
"""Kinds of variables."""
Levels = tuple[tuple[str, ...] | None, ...]
"""Names of the levels per variable; None for numbers."""


class Range(NamedTuple):
    """The range of the observed values of a numeric variable.

    Attributes
    ----------
    low, high : float
        The smallest and the largest.
    whole : bool
        Whether all were whole numbers.
    """

    low: float
    high: float
    whole: bool


Ranges = tuple[Range | None, ...]
"""Range per variable; None for variables with levels, and if the range is unknown."""

MOST_LEVELS = 1000
"""Maximum number of levels of a categorical variable."""
CONTAINERS = ("pandas", "polars", "structured", "objects")
"""Types of tables whose columns have their own types."""
PLAIN = ("bool", "int", "float", "text")
DTYPES = (*PLAIN, *(f"{kind}:{each}" for kind in ("category", "ordered") for each in PLAIN))
"""Stored types of the values of a variable: plain, or categories of such values."""
NARROW = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", "float16", "float32")
NULLABLE = (
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
    *("Float32", "Float64", "boolean", "string"),
)
SPECIAL = ("", *NARROW, *NULLABLE)
"""Types of columns of pandas that differ from those that NumPy gives to such values; or none."""


@dataclass(frozen=True)
class Schema:
    """Description of the variables of a model.

    Attributes
    ----------
    kinds : tuple of str
        Kind of each variable: "binary", "categorical", "count" or "real".
    names : tuple of str or None
        A name per variable.
    image_shape : tuple of int or None
        (height, width) if rows are images, row of pixels by row of pixels.
    levels : tuple or None
        Names of the levels of each variable, as a tuple of str: level i of a categorical variable
        is the number i in a table of numbers. Two names, of 0 and of 1, for a binary variable given
        as words; None for numbers.
    dtypes : tuple of str or None
        Stored type of each variable, such as "int" or "category:text", to return values of the same
        type.
    container : str or None
        Type of the training table, "pandas", "polars", "structured" or "objects"; None for an
        array.
    ranges : tuple or None
        Range of each real variable, to keep drawn values within it: the smallest value, the
        largest, and whether all are whole numbers. None for all others.
    special : tuple of str or None
        Type of each column of pandas, such as ``int8`` or ``Int64``, if `dtypes` does not determine
        it; "" if it does. None if there is no such column.

    Examples
    --------
    >>> from dynpart.schema import Schema
    >>> Schema.of("binary", 6, image_shape=(2, 3)).label(4)
    'pixel (1, 1)'
    >>> schema = Schema(("categorical", "real"), levels=(("cat", "dog"), None))
    >>> schema.value_text(0, 1), schema.value_text(1, 2.5)
    ('dog', '2.5')
    """

    kinds: tuple[str, ...]
    names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    levels: Levels | None = None
    dtypes: tuple[str, ...] | None = None
    container: str | None = None
    ranges: Ranges | None = None
    special: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n_features = len(self.kinds)
        if n_features == 0 or not all(isinstance(kind, str) for kind in self.kinds):
            raise ValueError("kinds must hold a word for each variable, and at least one")
        if self.names is not None:
            _check_names(self.names, n_features)
        if self.image_shape is not None:
            _check_shape(self.image_shape, n_features)
        if self.levels is not None:
            _check_levels(self.levels, self.kinds)
        if self.dtypes is not None:
            known = all(dtype in DTYPES for dtype in self.dtypes)
            if not known or len(self.dtypes) != n_features:
                raise ValueError("dtypes must hold a known word for each variable")
        if self.special is not None:
            known = all(each in SPECIAL for each in self.special)
            if not known or len(self.special) != n_features:
                raise ValueError("special must hold a known type for each variable")
        if self.container is not None and self.container not in CONTAINERS:
            raise ValueError(f"container must be one of {', '.join(CONTAINERS)}")
        if self.ranges is not None:
            _check_ranges(self.ranges, self.kinds)

    @classmethod
    def of(
        cls,
        kind: str,
        n_features: int,
        *,
        names: Iterable[Any] | None = None,
        image_shape: Iterable[int] | None = None,
    ) -> Self:
        """The schema of `n_features` variables of one `kind`, with `names` if they have any."""
        return cls(
            (kind,) * n_features,
            None if names is None else tuple(names),
            as_shape(image_shape),
        )

    def __len__(self) -> int:
        return len(self.kinds)

    def label(self, d: int) -> str:
        """The label of a variable: its name, or one made from its index.

        Parameters
        ----------
        d : int
            Index of the variable.
        """
        if self.names is not None:
            return self.names[d]
        if self.image_shape is not None:
            return f"pixel ({d // self.image_shape[1]}, {d % self.image_shape[1]})"
        return f"x{d}"

    def labels(self) -> list[str]:
        """The labels of all variables."""
        return [self.label(d) for d in range(len(self))]

    def levels_of(self, d: int) -> tuple[str, ...] | None:
        """Names of the levels of a variable; None if its values are numbers.

        Parameters
        ----------
        d : int
            Index of the variable.
        """
        return None if self.levels is None else self.levels[d]

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels per variable; 0 for numbers."""
        levels = self.levels or (None,) * len(self)
        return tuple(
            2 if kind == "binary" else len(names or ())
            for kind, names in zip(self.kinds, levels, strict=True)
        )

    def value_text(self, d: int, value: float) -> str:
        """A value of variable d as text: the name of its level, or a short number.

        Parameters
        ----------
        d : int
            Index of the variable.
        value : float
            A number, or the index of a level of a categorical variable; NaN for missing values.
        """
        number = float(value)
        if math.isnan(number):
            return "not observed"
        levels = self.levels_of(d)
        whole = number.is_integer()
        if levels is not None and whole and 0 <= number < len(levels):
            return levels[int(number)]
        return f"{int(number)}" if whole and abs(number) < 1e15 else f"{number:.6g}"

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON values; one word if all variables have the same kind."""
        levels = self.levels
        return {
            "kinds": _one_or_all(self.kinds),
            "names": None if self.names is None else list(self.names),
            "image_shape": None if self.image_shape is None else list(self.image_shape),
            "levels": None if levels is None else [each and list(each) for each in levels],
            "dtypes": None if self.dtypes is None else _one_or_all(self.dtypes),
            "container": self.container,
            "ranges": None
            if self.ranges is None
            else [each and list(each) for each in self.ranges],
            "special": None if self.special is None else _one_or_all(self.special),
        }

    @classmethod
    def from_json(cls, value: Any, n_features: int) -> Self:
        """The schema of `n_features` variables from the output of :meth:`to_json`.

        Parameters
        ----------
        value : object
            JSON value, which may come from an untrusted file.
        n_features : int
            Number of variables. Verify it first, because memory is allocated for as many.

        Returns
        -------
        Schema
            The schema, checked.

        Raises
        ------
        ValueError
            If the value is not a schema of `n_features` variables.
        """
        entries = {"kinds", "names", "image_shape"}
        more = {"levels", "dtypes", "container", "ranges", "special"}
        if not isinstance(value, Mapping) or not entries <= set(value) <= entries | more:
            raise ValueError(f"a schema must have the entries {', '.join(sorted(entries))}")
        names, shape = value["names"], value["image_shape"]
        kinds = _all("kinds", value["kinds"], n_features)
        if not (names is None or isinstance(names, list)):
            raise ValueError("names must be a list or null")
        texts = [name for name in names or () if isinstance(name, str)]
        if len(set(texts)) != len(texts):
            raise ValueError("names must differ from each other")
        if not (shape is None or isinstance(shape, list)):
            raise ValueError("image_shape must be a list or null")
        dtypes, special = value.get("dtypes"), value.get("special")
        return cls(
            kinds,
            None if names is None else tuple(names),
            as_shape(shape),
            _levels_from_json(value.get("levels"), n_features),
            None if dtypes is None else _all("dtypes", dtypes, n_features),
            value.get("container"),
            _ranges_from_json(value.get("ranges"), n_features),
            None if special is None else _all("special", special, n_features),
        )


def _one_or_all(words: Sequence[str]) -> str | list[str]:
    """One word if it is the same for all variables."""
    return words[0] if len(set(words)) == 1 else list(words)


def _all(name: str, value: Any, n_features: int) -> tuple[Any, ...]:
    """A word for each variable, from one for all of them or from a list."""
    if isinstance(value, str):
        return (value,) * n_features
    if not isinstance(value, list) or len(value) != n_features:
        raise ValueError(f"{name} must be one word, or a list of {n_features}")
    return tuple(value)


def _levels_from_json(value: Any, n_features: int) -> Levels | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n_features:
        raise ValueError(f"levels must be null, or a list of {n_features}")
    if not all(each is None or isinstance(each, list) for each in value):
        raise ValueError("levels of a variable must be a list or null")
    return tuple(None if each is None else tuple(each) for each in value)


def _ranges_from_json(value: Any, n_features: int) -> Ranges | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n_features:
        raise ValueError(f"ranges must be null, or a list of {n_features}")
    if not all(each is None or (isinstance(each, list) and len(each) == 3) for each in value):
        raise ValueError("the range of a variable must be a list of three or null")
    return tuple(None if each is None else Range(*each) for each in value)


def as_shape(value: Any) -> Any:
    """A shape as a tuple of Python integers; other values are returned unchanged."""
    if not isinstance(value, Iterable):
        return value
    return tuple(int(length) if isinstance(length, np.integer) else length for length in value)


def _check_names(names: tuple[Any, ...], n_features: int) -> None:
    if len(names) != n_features:
        raise ValueError(f"names must have one entry per variable ({n_features}), got {len(names)}")
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names must all be text")


def _check_shape(shape: Any, n_features: int) -> None:
    if not (
        isinstance(shape, tuple)
        and len(shape) == 2
        and all(type(length) is int and length >= 1 for length in shape)
        and shape[0] * shape[1] == n_features
    ):
        raise ValueError(
            f"image_shape must be (height, width) with height * width == {n_features}, "
            f"got {shape!r:.80}"
        )


def _check_levels(levels: Any, kinds: tuple[str, ...]) -> None:
    if len(levels) != len(kinds):
        raise ValueError(f"levels must have an entry per variable ({len(kinds)})")
    for d, (names, kind) in enumerate(zip(levels, kinds, strict=True)):
        if names is None:
            continue
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ValueError(f"levels of variable {d} must be texts that differ from each other")
        most = {"categorical": MOST_LEVELS, "binary": 2}.get(kind, 0)
        least = 2 if kind == "binary" else 1
        if not least <= len(names) <= most:
            raise ValueError(
                f"variable {d} is {kind} and may have {least} to {most} levels, got {len(names)}"
                if most
                else f"variable {d} is {kind} and has no levels, got {len(names)}"
            )


def _check_ranges(ranges: Any, kinds: tuple[str, ...]) -> None:
    if len(ranges) != len(kinds):
        raise ValueError(f"ranges must have an entry per variable ({len(kinds)})")
    for d, (given, kind) in enumerate(zip(ranges, kinds, strict=True)):
        if given is None:
            continue
        low, high, whole = given
        numbers = all(type(end) in (int, float) and math.isfinite(end) for end in (low, high))
        if kind != "real" or not numbers or low > high or type(whole) is not bool:
            raise ValueError(
                f"the range of variable {d} must be two finite numbers in order and a boolean, for "
                f"a real variable, got {tuple(given)!r:.80}"
            )
