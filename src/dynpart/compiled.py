"""Compiled functions: one decorator for all of them, with an optional cache on disk."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba._dynfunc import make_function
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    NullCache,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.typed_passes import NativeLowering
from numba.core.types import unliteral

from dynpart.ahead import Kernel, compiled_elsewhere
from dynpart.notices import print_once

COMPILING = "compiling kernels for this machine: once after an installation, 10 to 20 s"
COSTS = (
    "kernels are compiled anew in every process, which takes up to 20 s; set NUMBA_CACHE_DIR to a "
    "folder that can be written to"
)

IMPORTED = re.compile(r"^(?:from|import) dynpart[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
"""Imports from the package in a module: names of modules and of their contents."""


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function when it is first called, and store the code for the next process.

    If no cache can be read or written, functions are compiled without one, with one warning about
    the cost. Importing a module never fails because of the cache.

    Parameters
    ----------
    function : callable
    **options
        Of :func:`numba.njit`. All functions release the GIL.

    Returns
    -------
    callable
    """
    if function is None:
        return partial(compiled, **options)
    dispatcher = numba.njit(nogil=True, pipeline_class=KernelCompiler, **options)(function)
    if can_compile():
        dispatcher._cache = _cache(function)
    return dispatcher


def part(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function only as a part of the compiled functions that call it.

    Code is optimised and generated once, with the outermost function. By default, Numba does this
    for every function in the chain of calls, with all that it calls.

    Parameters
    ----------
    function : callable
    **options
        Of :func:`numba.njit`.

    Returns
    -------
    callable
        Called from Python, it runs uncompiled.
    """
    if function is None:
        return partial(part, **options)
    return _part(function, PartCompiler, **options)


def in_place(function: Callable[..., Any]) -> Any:
    """A part that allocates no array: it only uses its arguments.

    It needs no reference counts of arrays, which take longer than a short loop. All callers share
    one copy in the machine code.
    """
    return _part(function, SeparateCompiler, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """The same for short functions; every caller has a copy."""
    return _part(function, InlinedCompiler, _nrt=False)


def _part(function: Callable[..., Any], compiler: type, **options: Any) -> Any:
    if not can_compile():
        return function
    return PartDispatcher(function, {}, {"nopython": True, "nogil": True, **options}, compiler)


def kernel_for(kernel: Any, *arguments: Any) -> Kernel:
    """A kernel with the types of these arguments, for :func:`dynpart.ahead.expecting`."""
    types = tuple(kernel.typeof_pyval(argument) for argument in arguments)
    return kernel.py_func.__module__, kernel.py_func.__name__, types


def explicit_vectors() -> bool:
    """Whether inner loops are explicit vectors: on x86-64, unless DYNPART_VECTORS=0.

    They are wide and were tested only there; plain loops run anywhere.
    """
    on_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return on_x86 and os.environ.get("DYNPART_VECTORS") != "0"


def can_compile() -> bool:
    """Whether functions are compiled; NUMBA_DISABLE_JIT turns it off."""
    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


class PartDispatcher(CPUDispatcher):
    """Numba's dispatcher of a part: one compiled form for each set of argument types."""

    def __call__(self, *args: Any) -> Any:
        """Run the function uncompiled."""
        return self.py_func(*args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Treat constants as numbers; otherwise the part would be compiled for each of them."""
        return super().get_call_template([unliteral(kind) for kind in args], kws)


class PartLibrary(JITCodeLibrary):
    """Code of a part: linked into that of its callers, neither optimised nor made executable."""

    inlining: str | None = None

    def finalize(self) -> None:
        """Gather the code of the functions it calls."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalized = True


class PartLower(Lower):
    """Generates code with an attribute that says whether callers get a copy of it."""

    def lower_normal_function(self, fndesc: Any) -> None:
        """Generate the code."""
        super().lower_normal_function(fndesc)
        if self.library.inlining:
            self.function.attributes.add(self.library.inlining)


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """Generates code that other compiled functions can call, but not Python."""

    _name = "part_lowering"
    lowering_class = PartLower

    def run_pass(self, state: Any) -> bool:
        """Generate the code and register it."""
        super().run_pass(state)
        lowered = state["cr"]
        described, library = lowered.fndesc, state.library
        # Numba finds the part by this name; address zero is never called.
        entry = make_function(
            described.lookup_module(), described.qualname, "a part", 0, lowered.env, (library,)
        )
        state.targetctx.insert_user_function(entry, described, [library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class PartCompiler(CompilerBase):
    """Numba's compiler, up to the code that is passed to LLVM."""

    inlining: str | None = None

    def define_pipelines(self) -> list[Any]:
        """The usual passes, without those that generate machine code."""
        state = self.state
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.inlining = self.inlining
        state.library.enable_object_caching()
        passes = DefaultPassBuilder.define_nopython_pipeline(state)
        passes.passes = [
            (PartLowering if kind is NativeLowering else kind, name) for kind, name in passes.passes
        ]
        passes.finalize()
        return [passes]


class SeparateCompiler(PartCompiler):
    """The same for parts with one copy."""

    inlining = "noinline"


class InlinedCompiler(PartCompiler):
    """The same for parts that are copied into every caller."""

    inlining = "alwaysinline"


class KernelLibrary(JITCodeLibrary):
    """Code of a function with all its parts, which are private to it."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            # Allows LLVM to remove arguments that a part does not use.
            shared = not function.is_declaration and function.linkage == Linkage.linkonce_odr
            if shared and function.name.startswith("_ZN"):
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class KernelCompiler(CompilerBase):
    """Numba's compiler for functions that only Python calls."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes, for a library of parts."""
        state = self.state
        state.flags.no_cfunc_wrapper = True
        state.library = KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(state)]

    def compile_extra(self, func: Any) -> Any:
        """Compile the function with the garbage collector turned off.

        The compiler creates millions of small objects and keeps most of them to the end: collecting
        them repeatedly takes a tenth of its time.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


class Places(CompileResultCacheImpl):
    """Where Numba looks for a cache, without the home folder if the user has none.

    Numba would create a folder called "~" in the working directory.
    """

    @property
    def _locator_classes(self) -> list[Any]:  # type: ignore[override]
        known = CompileResultCacheImpl._locator_classes
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~")
        if os.path.isabs(home):
            return known
        return [locator for locator in known if "UserWide" not in locator.__name__]


class LenientCache(FunctionCache):
    """A cache of Numba that is skipped if its files are damaged or cannot be written."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._function = function
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=source_stamp(Path(function.__code__.co_filename)),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of an earlier process, or None.

        By default, Numba first imports everything it can compile, including SciPy's linear algebra.
        Compiled code needs only the functions that count references to arrays.
        """
        found = self._found(sig, target_context)
        if found is None:
            print_once(COMPILING)
            if compiled_elsewhere(self._function.__module__, self._function.__name__, sig):
                found = self._found(sig, target_context)
        return found

    def _found(self, sig: Any, target_context: Any) -> Any:
        try:
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file may raise anything
            with suppress(Exception):
                self.flush()  # the index is reset, and the code is compiled again
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store code for later processes, if possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            say_once(f"Numba cannot write its cache in {self.cache_path} ({error}): {COSTS}")


@lru_cache
def source_stamp(path: Path) -> str:
    """A hash of the source of a module, of this one, and of those beside it that they import.

    Compiled code contains the functions it calls and constants of these modules. It also depends
    on the kind of inner loops.
    """
    found, waiting = {}, [path, Path(__file__)]
    while waiting:
        module = waiting.pop()
        if module not in found and module.is_file():
            found[module] = module.read_bytes()
            beside = IMPORTED.findall(found[module].decode())
            words = {word for line in beside for word in re.findall(r"\w+", line)}
            waiting += [module.parent / f"{word}.py" for word in words]
    digest = hashlib.blake2b(b"vectors" if explicit_vectors() else b"loops", digest_size=16)
    for module in sorted(found):
        digest.update(module.name.encode() + found[module])
    return digest.hexdigest()


class NoCache(NullCache):
    """No cache: the warning is given when a function is compiled, not when it is imported."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Return no code."""
        say_once(f"Numba has no folder to which it can write a cache: {COSTS}")


def _cache(function: Callable[..., Any]) -> Any:
    try:
        return LenientCache(function)
    except (RuntimeError, OSError):  # Numba found no folder
        return NoCache()


_said: set[str] = set()


def say_once(text: str) -> None:
    """Give a one-line warning on behalf of the package, unless there was one before."""
    if not _said:
        _said.add(text)
        warnings.warn_explicit(text, RuntimeWarning, "dynpart", 0)
