"""Limits that are checked before reading: sizes and free memory."""

from __future__ import annotations

import re
from pathlib import Path

from dynpart.tables._table import TableError

MOST_VALUES = 2**31
"""Most numbers in a table that is read whole."""

MOST_PIXELS = 2**24
"""Most pixels of one picture."""

MOST_UNPACKED = 2**33
"""Most bytes of text that are unpacked from a .gz file."""

_GROUPS = (  # limit, use and statistics of a container, by the kernel's two interfaces
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def free_memory() -> int | None:
    """Bytes that can still be had here, by the system and by a container's limit; None: unknown."""
    known = [_free_of_system(), *(_free_of_group(*files) for files in _GROUPS)]
    return min((n_bytes for n_bytes in known if n_bytes is not None), default=None)


def check_room(n_bytes: int, what: str) -> None:
    """Reject what would need more memory than there is, before room is made for it.

    Parameters
    ----------
    n_bytes : int
    what : str
        Who needs them; begins the message.

    Raises
    ------
    TableError
    """
    free = free_memory()
    if free is not None and n_bytes > free:
        raise TableError(f"{what} takes {in_words(n_bytes)} of memory, {in_words(free)} are free")


def in_words(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes:,} bytes"


def _free_of_system() -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _content("/proc/meminfo"), re.MULTILINE)
    return 1024 * int(found[1]) if found else None


def _free_of_group(limit: str, use: str, statistics: str) -> int | None:
    folder = "/sys/fs/cgroup/"
    most, used = _content(folder + limit).strip(), _content(folder + use).strip()
    if not (most.isdecimal() and used.isdecimal()):
        return None
    # Pages of files count as used but are given up when memory is requested.
    cached = re.findall(r"^(?:in)?active_file (\d+)", _content(folder + statistics), re.MULTILINE)
    return max(0, int(most) - int(used) + sum(map(int, cached)))


def _content(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
