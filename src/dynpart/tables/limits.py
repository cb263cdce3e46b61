"""Limits that are checked before reading: sizes and free memory."""

from __future__ import annotations

import re
from pathlib import Path

from dynpart.tables._table import TableError

MOST_VALUES = 2**31
"""Maximum number of values of a table."""

MOST_PIXELS = 2**24
"""Maximum number of pixels of one picture."""

MOST_UNPACKED = 2**33
"""Maximum number of bytes of text unpacked from a .gz file."""

_GROUPS = (  # limit, use and statistics of a container, by the kernel's two interfaces
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def free_memory() -> int | None:
    """Free memory in bytes, by the system and by a container's limit; None if unknown."""
    known = [_free_of_system(), *(_free_of_group(*files) for files in _GROUPS)]
    return min((n_bytes for n_bytes in known if n_bytes is not None), default=None)


def check_room(n_bytes: int, what: str) -> None:
    """Raise TableError if more memory is needed than is free.

    Parameters
    ----------
    n_bytes : int
    what : str
        The operation that needs them; begins the message.

    Raises
    ------
    TableError
    """
    free = free_memory()
    if free is not None and n_bytes > free:
        raise TableError(f"{what} takes {in_words(n_bytes)} of memory, {in_words(free)} are free")


def in_words(n_bytes: int) -> str:
    """A number of bytes with a unit."""
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
    # Cached file pages count as used but are released when memory is requested.
    cached = re.findall(r"^(?:in)?active_file (\d+)", _content(folder + statistics), re.MULTILINE)
    return max(0, int(most) - int(used) + sum(map(int, cached)))


def _content(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
