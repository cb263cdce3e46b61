"""Kernels compiled by a second process while the first is busy with others.

A fit says which kernels it will call (`expecting`). When the first of them is not in the cache, a
second process starts to compile the list from its front, one kernel at a time, and leaves them in
the cache. A fit that needs the kernel at work there compiles others from the end of the list until
it is done. Where no process can be started, or where it fails, everything is compiled here.
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
"""Seconds after which a kernel is compiled here although the process is at work on it."""


class Companion:
    """A second process, and the kernels that wait for one of the two.

    Parameters
    ----------
    kernels : sequence of Kernel
        The longest to compile first.
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        import subprocess  # which reading a model does without

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
        """Hand one kernel after the other to the process, until there are none or it ends."""
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
            pass  # the process has ended, or could not be told what to do
        with self._changed:
            self._at_work = None
            self._waiting.clear()
            self._changed.notify_all()

    def take(self, kernel: Kernel) -> bool:
        """Whether the process has compiled this kernel meanwhile; if not, it is the caller's."""
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
        """End the process; files it is writing are either whole or not there."""
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
    """Say which kernels will be called meanwhile; asked for only if one has to be compiled.

    One fit at a time has a companion; others compile for themselves.
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
    """Whether a kernel that was not in the cache may be there now."""
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
    """Whether there is a second processor, and a Python that a process could be started with.

    Where Python is part of another program, that may be what `sys.executable` names.
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
    """Compile what is asked for on stdin, and answer each with a line, until there is no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with suppress(EOFError):
        while True:
            compile_kernel(pickle.load(sys.stdin.buffer))
            print(file=answers, flush=True)
