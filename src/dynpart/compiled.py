"""Compiled functions: one decorator for all of them, with a cache on disk that may fail."""

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
from dynpart.notices import tell

COMPILING = "compiling kernels for this machine: once after an installation, 10 to 20 s"
COSTS = (
    "kernels are compiled anew in every process, which takes up to 20 s; set NUMBA_CACHE_DIR to a "
    "folder that can be written to"
)

IMPORTED = re.compile(r"^(?:from|import) dynpart[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
"""What a module imports of the package: names of modules, and of what they hold."""


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
    dispatcher = numba.njit(nogil=True, pipeline_class=KernelCompiler, **options)(function)
    if can_compile():
        dispatcher._cache = _cache(function)
    return dispatcher


def part(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function as a part of compiled functions that call it, and never by itself.

    Code is optimised and made once, with the outermost function. Numba alone would do so for every
    function on the way there, with all that it calls.

    Parameters
    ----------
    function : callable
    **options
        Of :func:`numba.njit`.

    Returns
    -------
    callable
        Called from Python it runs as it stands.
    """
    if function is None:
        return partial(part, **options)
    return _part(function, PartCompiler, **options)


def in_place(function: Callable[..., Any]) -> Any:
    """A part that allocates no array: it only uses its arguments.

    It needs no reference counts of arrays, which take longer than a short loop. It has one copy in
    the machine code for all its callers.
    """
    return _part(function, SeparateCompiler, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """The same for short functions, of which every caller has a copy."""
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

    They are wide, and were only ever tried there; plain loops run anywhere.
    """
    on_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return on_x86 and os.environ.get("DYNPART_VECTORS") != "0"


def can_compile() -> bool:
    """Whether functions are compiled at all: NUMBA_DISABLE_JIT turns it off."""
    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


class PartDispatcher(CPUDispatcher):
    """What Numba keeps of a part: one compiled form for each set of argument types."""

    def __call__(self, *args: Any) -> Any:
        """Run the function as it stands."""
        return self.py_func(*args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Take constants as numbers: otherwise each would be compiled for once more."""
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
    """Makes code that says whether its callers get a copy of it."""

    def lower_normal_function(self, fndesc: Any) -> None:
        """Make the code."""
        super().lower_normal_function(fndesc)
        if self.library.inlining:
            self.function.attributes.add(self.library.inlining)


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """Makes code that other functions can call, at no address that Python could call."""

    _name = "part_lowering"
    lowering_class = PartLower

    def run_pass(self, state: Any) -> bool:
        """Make the code and register it."""
        super().run_pass(state)
        lowered = state["cr"]
        described, library = lowered.fndesc, state.library
        # A name for Numba to find the part by: address zero is never called.
        entry = make_function(
            described.lookup_module(), described.qualname, "a part", 0, lowered.env, (library,)
        )
        state.targetctx.insert_user_function(entry, described, [library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class PartCompiler(CompilerBase):
    """Numba's compiler, up to the code that it hands to LLVM."""

    inlining: str | None = None

    def define_pipelines(self) -> list[Any]:
        """The usual passes, less those that make machine code."""
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
    """The same for parts of which there is one copy."""

    inlining = "noinline"


class InlinedCompiler(PartCompiler):
    """The same for parts of which every caller has a copy."""

    inlining = "alwaysinline"


class KernelLibrary(JITCodeLibrary):
    """Code of a function with all its parts, which are private to it."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            # So arguments that a part does not need are not handed to it.
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
        """Compile the function, while garbage is left where it is.

        A compiler makes millions of small objects and keeps most of them to the end: looking
        through them again and again takes a tenth of its time.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


class Places(CompileResultCacheImpl):
    """Where Numba looks for a cache; not in the home of the user who has none.

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
        self._function = function
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=source_stamp(Path(function.__code__.co_filename)),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of an earlier process, or None.

        Numba alone would first import all that it can compile, SciPy's linear algebra among it;
        code that is made needs nothing but the functions that count references to arrays.
        """
        found = self._found(sig, target_context)
        if found is None:
            tell(COMPILING)
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
                self.flush()  # the index is begun again, and the code compiled again
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code for later processes, if it can be."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            say_once(f"Numba cannot write its cache in {self.cache_path} ({error}): {COSTS}")


@lru_cache
def source_stamp(path: Path) -> str:
    """What changes when a module does, or one beside it that it imports, or this one.

    Compiled code holds that of the functions it calls, and constants, which live there; and its
    inner loops are of one kind or the other.
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
