"""Kernels compiled in advance by a second process.

A fit declares which kernels it will call (`expecting`). When one is first missing in the cache, a
second process compiles the list from its front, one kernel at a time, and stores them in the cache.
If the fit needs the kernel that is being compiled there, it compiles others from the end of the
list until that one is done. If no process can be started, or if it fails, all are compiled here.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Condition, Lock, Thread
from typing import Any

Kernel = tuple[str, str, tuple[Any, ...]]
"""A module, the name of a kernel in it, and the types of its arguments."""

COMPANION = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from dynpart.ahead import serve; serve()"
)

PATIENCE = 300.0
"""Seconds after which a kernel is compiled here although the second process is compiling it."""


class Companion:
    """A second process, and the kernels that are not compiled yet.

    Parameters
    ----------
    kernels : sequence of Kernel
        The slowest to compile first.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        import subprocess  # not needed for reading a model

        self._waiting = list(kernels)
        self._at_work: Kernel | None = None
        self._changed = Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMPANION],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._feeder = Thread(target=self._feed, name="dynpart-ahead", daemon=True)
        self._feeder.start()

    def _feed(self) -> None:
        """Pass kernels to the process one by one, until there are none left or it ends."""
        requests: Any = self._process.stdin
        answers: Any = self._process.stdout
        try:
            requests.write(pickle.dumps(sys.path))
            while True:
                with self._changed:
                    self._at_work = self._waiting.pop(0) if self._waiting else None
                    self._changed.notify_all()
                    if self._at_work is None:
                        break
                    request = pickle.dumps(self._at_work)
                requests.write(request)
                requests.flush()
                if not answers.readline():
                    break
        except Exception:
            pass  # the process has ended, or the request failed
        with self._changed:
            self._at_work = None
            self._waiting.clear()
            self._changed.notify_all()

    def take(self, kernel: Kernel) -> bool:
        """Whether the process has compiled this kernel; if not, the caller must compile it."""
        with self._changed:
            if kernel in self._waiting:
                self._waiting.remove(kernel)
            if kernel != self._at_work:
                return False
        while True:
            with self._changed:
                if kernel != self._at_work:
                    return True
                if not self._waiting:
                    if not self._changed.wait(PATIENCE):
                        return False
                    continue
                other = self._waiting.pop()
            compile_kernel(other)

    def close(self) -> None:
        """End the process; files that it is writing are either complete or absent."""
        self._process.kill()
        self._feeder.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait()


_lock = Lock()
_expected: Callable[[], Sequence[Kernel]] | None = None
_companion: Companion | None = None


@contextmanager
def expecting(kernels: Callable[[], Sequence[Kernel]]) -> Iterator[None]:
    """Declare which kernels will be called; `kernels` is called only if one must be compiled.

    Only one fit at a time has a companion; others compile without one.
    """
    global _expected, _companion
    with _lock:
        ours = _expected is None and _companion is None
        if ours:
            _expected = kernels
    try:
        yield
    finally:
        if ours:
            with _lock:
                _expected, ended, _companion = None, _companion, None
            if ended is not None:
                ended.close()


def compiled_elsewhere(module: str, name: str, types: tuple[Any, ...]) -> bool:
    """Whether a kernel that was not in the cache may be in it now."""
    global _expected, _companion
    with _lock:
        make, _expected = _expected, None
        if make is not None and can_start():
            kernels = [kernel for kernel in make() if kernel != (module, name, types)]
            with suppress(OSError):
                _companion = Companion(kernels) if kernels else None
        companion = _companion
    return companion is not None and companion.take((module, name, types))


def can_start() -> bool:
    """Whether there is a second processor, and a Python executable to start a process with.

    If Python is embedded in another program, `sys.executable` may be that program.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    n_processors = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    is_python = "py" in os.path.basename(sys.executable or "").lower()
    return n_processors > 1 and is_python and not hasattr(sys, "frozen")


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel for these types, or load it."""
    module, name, types = kernel
    getattr(import_module(module), name).compile(types)


def serve() -> None:
    """Compile the kernels requested on stdin, each answered by a line, until stdin ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with suppress(EOFError):
        while True:
            compile_kernel(pickle.load(sys.stdin.buffer))
            print(file=answers, flush=True)
