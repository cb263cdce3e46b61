"""Messages on stderr about rare long steps, such as compilation, if enabled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_told: set[str] = set()
_listening = False


def listen(wanted: bool = True) -> None:
    """Turn messages about long steps on or off."""
    global _listening
    _listening = wanted


@contextmanager
def heard(wanted: bool = True) -> Iterator[None]:
    """Turn messages about long steps on within the context, if `wanted` or already on."""
    before = _listening
    listen(wanted or before)
    try:
        yield
    finally:
        listen(before)


def tell(text: str) -> None:
    """Print a message once per process, if messages are on."""
    if _listening and text not in _told:
        _told.add(text)
        print(text, file=sys.stderr, flush=True)
