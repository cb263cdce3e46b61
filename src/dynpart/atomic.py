"""Writing a file atomically. Knows nothing of what is written."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when it is complete.

    What is written goes to a hidden file in the same folder, reaches the disk, and then takes the
    name in one step. A process killed at any moment, or a full disk, leaves the old file as it was.
    A file that is replaced passes on its permissions and, where the system lets us, its owner.

    Parameters
    ----------
    path : path-like
        Where the file will be. A link is followed: what it points to is replaced.
    overwrite : bool, default=True
        Whether an existing file may be replaced. Folders, devices, pipes and sockets never are.

    Yields
    ------
    file
        Open for writing bytes.

    Raises
    ------
    FileExistsError
        If the file exists and must not be replaced.
    OSError
        If there is something else than a regular file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dynpart.atomic import atomic_write
    >>> target = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with atomic_write(target) as file:
    ...     _ = file.write(b"complete")
    >>> target.read_bytes()
    b'complete'
    """
    target = check_target(path, overwrite=overwrite)
    handle, temporary = _create(target)
    try:
        # The file stays open, and so locked, until it has its name.
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # such systems do not rename open files
            _take_name(temporary, target, overwrite=overwrite)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)
    _sweep(target)


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Where a file of this name will be written, or the error that writing it would end with.

    Parameters
    ----------
    path : path-like
        A link stands for what it points to, whether that exists or not.
    overwrite : bool, default=True
        Whether an existing file may be replaced.

    Returns
    -------
    Path
        Without links.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    name = os.fspath(path)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder, not a file", name)
    if not stat.S_ISREG(mode):
        raise OSError(
            errno.EINVAL, "is a device, a pipe or a socket, which is never replaced", name
        )
    if not overwrite:
        raise _exists(Path(name))
    return Path(os.path.realpath(path))


def _create(target: Path) -> tuple[int, Path]:
    """A new hidden file beside `target`, open, locked, and readable for whom `target` is."""
    while True:
        name = f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(8)}.tmp"
        temporary = target.with_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        replaced = target.stat() if target.exists() else None
        handle = os.open(temporary, flags, 0o666 if replaced is None else 0o600)
        # Until it is locked, another writer may take it for a leftover.
        if _locked(handle) is not False and os.fstat(handle).st_nlink:
            break
        os.close(handle)
    if replaced is not None:
        _inherit(handle, replaced)
    return handle, temporary


def _inherit(handle: int, replaced: os.stat_result) -> None:
    """Give the new file the owner, as far as possible, and the permissions of the old one."""
    if not hasattr(os, "fchown"):
        return
    for owner in ((replaced.st_uid, -1), (-1, replaced.st_gid)):
        with suppress(OSError):
            os.fchown(handle, *owner)
    mode = stat.S_IMODE(replaced.st_mode) & 0o777
    if os.fstat(handle).st_gid != replaced.st_gid:
        # What the old group might do, the new one may not: it is treated as all others are.
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with suppress(OSError):
        os.fchmod(handle, mode)


def _prefix(target: Path) -> str:
    token = hashlib.blake2b(f"{platform.node()}/{target.name}".encode("utf-8", "surrogatepass"))
    return f".dynpart-{token.hexdigest()[:16]}-"


def _take_name(temporary: Path, target: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike a rename, fails if the user made the file meanwhile
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
            with suppress(OSError):
                handle = os.open(leftover, os.O_WRONLY)
                try:
                    if process.isdigit() and _is_abandoned(handle, int(process)):
                        leftover.unlink()
                finally:
                    os.close(handle)


def _is_abandoned(handle: int, process: int) -> bool:
    """Whether no process writes this file any more.

    A lock shows it, which ends with its process. Process numbers are used only on systems without
    locks, because another container may hold the file and hide its processes.
    """
    locked = _locked(handle)
    return not _is_running(process) if locked is None else locked


def _locked(handle: int) -> bool | None:
    """Lock a file: True if that is done, False if the user else has it, None without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


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
