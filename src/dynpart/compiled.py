"""Compiled functions: one decorator for all of them, with a cache on disk that may fail."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
)

COSTS = (
    "kernels are compiled anew in every process, which takes about half a minute; set "
    "NUMBA_CACHE_DIR to a folder that can be written to"
)


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function when it is first called, and keep the code for the next process.

    Where no cache can be read or written, functions are compiled without, and a warning says once
    what that costs. Importing a module never fails for want of a cache.

    Parameters
    ----------
    function : callable
    **options
        Of :func:`numba.njit`. All functions release the interpreter's lock.

    Returns
    -------
    callable
    """
    if function is None:
        return partial(compiled, **options)
    dispatcher = numba.njit(nogil=True, **options)(function)
    if can_compile():
        dispatcher._cache = _cache(function)
    return dispatcher


def in_place(function: Callable[..., Any]) -> Any:
    """Compile a function that makes no array: it only works on those it gets.

    Then nobody has to count references to arrays, which takes longer than a short loop.
    """
    return compiled(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """The same for short functions, which become a part of their callers."""
    return compiled(function, _nrt=False, forceinline=True)


def can_compile() -> bool:
    """Whether functions are compiled at all: NUMBA_DISABLE_JIT turns it off."""
    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


class Places(CompileResultCacheImpl):
    """Where Numba looks for a cache; not in the home of somebody who has none.

    It would make a folder called "~" wherever the process is.
    """

    @property
    def _locator_classes(self) -> list[Any]:  # type: ignore[override]
        known = CompileResultCacheImpl._locator_classes
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
        if os.path.isabs(home):
            return known
        return [locator for locator in known if "UserWide" not in locator.__name__]


class LenientCache(FunctionCache):
    """A cache of Numba that is done without where its files are damaged or cannot be written."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # Code holds that of the functions it calls, which live in the modules beside its own.
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=folder_stamp(Path(function.__code__.co_filename).parent),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of an earlier process, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file may raise anything
            with suppress(Exception):
                self.flush()  # the index is begun anew, and the code compiled again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code for later processes, if it can be."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            say_once(f"Numba cannot write its cache in {self.cache_path} ({error}): {COSTS}")


@lru_cache
def folder_stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What changes when any module of a folder does."""
    found = [(path.name, path.stat()) for path in sorted(folder.glob("*.py"))]
    return tuple((name, status.st_mtime_ns, status.st_size) for name, status in found)


class NoCache(NullCache):
    """Nowhere to keep code: said when something is compiled, not when it is imported."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Find nothing."""
        say_once(f"Numba has no folder to which it can write a cache: {COSTS}")


def _cache(function: Callable[..., Any]) -> Any:
    try:
        return LenientCache(function)
    except (RuntimeError, OSError):  # Numba found no folder
        return NoCache()


_said: set[str] = set()


def say_once(text: str) -> None:
    """Warn in one line, about the package as a whole, if nothing was said about it before."""
    if not _said:
        _said.add(text)
        warnings.warn_explicit(text, RuntimeWarning, "dynpart", 0)
