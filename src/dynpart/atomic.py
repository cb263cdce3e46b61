"""Writing a file atomically. Does not depend on the content."""

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

    The content goes to a hidden file in the same folder, is synced to disk, and is then renamed in
    one step. A process that is killed, or a full disk, leaves the old file unchanged. The new file
    gets the permissions of the old one and, if the system allows it, its owner.

    Parameters
    ----------
    path : path-like
        The file to write. Links are followed: the target of the link is replaced.
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
        If the path exists and is not a regular file.

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
        # The file stays open, and so locked, until it is renamed.
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
    """The path to which a file of this name is written, or the error that writing would raise.

    Parameters
    ----------
    path : path-like
        Links are followed, whether their target exists or not.
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
    """A new hidden file beside `target`, open and locked, with the permissions of `target`."""
    while True:
        name = f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(8)}.tmp"
        temporary = target.with_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        replaced = target.stat() if target.exists() else None
        handle = os.open(temporary, flags, 0o666 if replaced is None else 0o600)
        # Before it is locked, another writer may remove it as a leftover file.
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
        # The new group must not get the rights of the old group: it gets those of all others.
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
        os.link(temporary, target)  # unlike a rename, fails if the file was created meanwhile
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
    """Sync the new name to disk; does nothing on systems that cannot."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(target: Path) -> None:
    """Remove hidden files that killed processes of this machine left for the same target."""
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

    Locks end with their process. Process numbers are used only on systems without locks, because
    the process may run in another container, where it is not visible.
    """
    locked = _locked(handle)
    return not _is_running(process) if locked is None else locked


def _locked(handle: int) -> bool | None:
    """Lock a file: True if locked, False if another process holds it, None without locks."""
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
        return True  # on other systems signal 0 would end the process; keep its file
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
