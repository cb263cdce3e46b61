"""Writing a file whole or not at all. Knows nothing of what is written."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    What is written goes to a hidden file in the same folder, reaches the disk, and then takes the
    name in one step. A process killed at any moment, or a full disk, leaves the old file as it was.

    Parameters
    ----------
    path : path-like
        Where the file will be. A link is followed.
    overwrite : bool, default=True
        Whether an existing file may be replaced.

    Yields
    ------
    file
        Open for writing bytes.

    Raises
    ------
    FileExistsError
        If the file exists and must not be replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dynpart.persistence import atomic_write
    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"complete")
    >>> target.read_bytes()
    b'complete'
    """
    target = Path(os.path.realpath(path))
    if not overwrite and target.exists():
        raise _exists(target)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", str(target))
    temporary = _temporary(target)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _take_name(temporary, target, overwrite=overwrite)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)
    _sweep(target)


def _temporary(target: Path) -> Path:
    """A hidden name beside `target` that no other thread or process on any machine uses."""
    return target.with_name(f"{_prefix(target)}{os.getpid()}-{threading.get_ident()}.tmp")


def _prefix(target: Path) -> str:
    token = hashlib.blake2b(f"{platform.node()}/{target.name}".encode("utf-8", "surrogatepass"))
    return f".dynpart-{token.hexdigest()[:16]}-"


def _take_name(temporary: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a rename, fails if somebody made the file meanwhile
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # a file system without links
        if target.exists():
            raise _exists(target) from None
        os.replace(temporary, target)
        return
    temporary.unlink()


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "exists already", str(target))


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable; some systems cannot, and then there is nothing to do."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(target: Path) -> None:
    """Remove what killed processes of this machine left behind while writing the same file."""
    prefix = _prefix(target)
    with suppress(OSError):
        for leftover in target.parent.glob(f"{prefix}*.tmp"):
            process = leftover.name.removeprefix(prefix).split("-")[0]
            if process.isdigit() and not _is_running(int(process)):
                with suppress(OSError):
                    leftover.unlink()


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # signal 0 would end a process elsewhere; leave its file alone
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
