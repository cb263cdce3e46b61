"""Deprecated public names, which still work for one version and warn."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


class Renamed(property):
    """An attribute under its earlier name."""


def warn_renamed(earlier: str, name: str, *, stacklevel: int = 3) -> None:
    """Warn that `earlier` is called `name` now, at the caller's caller."""
    warnings.warn(
        f"{earlier} is called {name} now; the earlier name will be removed in version 0.3",
        FutureWarning,
        stacklevel=stacklevel,
    )


def renamed(**names: str) -> Callable[[Class], Class]:
    """Let a class accept deprecated names of arguments and attributes.

    Parameters
    ----------
    **names : str
        The name of today by the earlier one.

    Returns
    -------
    callable
        Decorator of a class.

    Examples
    --------
    >>> import warnings
    >>> from dataclasses import dataclass
    >>> from dynpart.deprecated import renamed
    >>> @renamed(floor="min_active")
    ... @dataclass
    ... class Plan:
    ...     min_active: int = 1
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     plan = Plan(floor=3)
    >>> plan, len(caught)
    (Plan(min_active=3), 1)
    """

    def attribute(kind: type, earlier: str, name: str) -> Renamed:
        def read(self: Any) -> Any:
            warn_renamed(f"{kind.__name__}.{earlier}", name)
            return getattr(self, name)

        return Renamed(read, doc=f"Earlier name of `{name}`.")

    def decorate(kind: Class) -> Class:
        init = kind.__init__  # type: ignore[misc]

        @functools.wraps(init)
        def accept(self: Any, *args: Any, **kwargs: Any) -> None:
            for earlier in names.keys() & kwargs.keys():
                warn_renamed(f"{earlier} of {kind.__name__}", names[earlier])
                kwargs[names[earlier]] = kwargs.pop(earlier)
            init(self, *args, **kwargs)

        kind.__init__ = accept  # type: ignore[misc]
        for earlier, name in names.items():
            setattr(kind, earlier, attribute(kind, earlier, name))
        return kind

    return decorate


def renamed_in(module: str, **names: str) -> Callable[[str], Any]:
    """A `__getattr__` of a module for deprecated names of its members.

    Parameters
    ----------
    module : str
        Its `__name__`.
    **names : str
        The name of today by the earlier one.

    Returns
    -------
    callable
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", names[name])
        return getattr(sys.modules[module], names[name])

    return find
