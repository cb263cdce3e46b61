"""Messages on stderr about rare long steps, such as compilation, if enabled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_told: set[str] = set()
_listening = False


def listen(wanted: bool = True) -> None:
    """Say what takes long from now on, or keep quiet."""
    global _listening
    _listening = wanted


@contextmanager
def heard(wanted: bool = True) -> Iterator[None]:
    """Say what takes long meanwhile, if that is wanted or was before."""
    before = _listening
    listen(wanted or before)
    try:
        yield
    finally:
        listen(before)


def tell(text: str) -> None:
    """Say this in a line, once in a process."""
    if _listening and text not in _told:
        _told.add(text)
        print(text, file=sys.stderr, flush=True)
