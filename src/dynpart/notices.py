"""Messages on stderr about rare long steps, such as compilation, if enabled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_printed: set[str] = set()
_enabled = False


def enable_messages(wanted: bool = True) -> None:
    """Turn messages about long steps on or off."""
    global _enabled
    _enabled = wanted


@contextmanager
def messages_enabled(wanted: bool = True) -> Iterator[None]:
    """Turn messages about long steps on within the context, if `wanted` or already on."""
    before = _enabled
    enable_messages(wanted or before)
    try:
        yield
    finally:
        enable_messages(before)


def print_once(text: str) -> None:
    """Print a message once per process, if messages are on."""
    if _enabled and text not in _printed:
        _printed.add(text)
        print(text, file=sys.stderr, flush=True)
