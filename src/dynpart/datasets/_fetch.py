"""Find a published file: in the user's folder, or by a verified download. Reads no file."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "DYNPART_DATA"
CACHE_VARIABLE = "DYNPART_CACHE"

_RETRIES = 2
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its name, its checksum ("sha256:..." or "md5:...") and its addresses."""

    name: str
    checksum: str
    addresses: tuple[str, ...]


def find_file(
    title: str,
    folder: str | os.PathLike[str] | None,
    candidates: Sequence[str],
    remote: RemoteFile | None,
    advice: str,
) -> Path:
    """Return the first candidate in the user's folder, or download the remote file.

    A folder given as an argument must hold the data. The folder of the environment variable may
    lack some data sets; these are downloaded.
    """
    root = _user_folder(folder)
    wanted = "\n  ".join(candidates)
    if root is not None:
        for candidate in candidates:
            if (root / candidate).is_file():
                return root / candidate
        if folder is not None:
            raise FileNotFoundError(
                f"folder={str(root)!r} does not hold {title}. {advice}\n"
                f"Looked there for\n  {wanted}"
            )
    if remote is None:
        raise FileNotFoundError(
            f"{title} cannot be downloaded automatically. {advice}\n"
            f"Put one of these into a folder and name it by folder=... or {FOLDER_VARIABLE}:\n"
            f"  {wanted}"
        )
    return download(title, remote)


def download(title: str, remote: RemoteFile) -> Path:
    """Fetch a file into the cache with retries, try the next address on failure, verify it.

    A file that is in the cache and has the right checksum is returned without any connection.
    """
    # pooch imports requests, which is slow and not needed if the files are present.
    import pooch
    from requests.exceptions import RequestException

    cache = os.environ.get(CACHE_VARIABLE) or str(pooch.os_cache("dynpart"))
    failures = []
    for address in remote.addresses:
        store = pooch.create(
            path=cache,
            base_url="",
            registry={remote.name: remote.checksum},
            urls={remote.name: address},
            retry_if_failed=_RETRIES,
        )
        try:
            fetcher = pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS)
            return Path(store.fetch(remote.name, downloader=fetcher))
        except (RequestException, OSError, ValueError) as error:
            # pooch raises ValueError for a wrong checksum and removes the file.
            failures.append(f"{address}: {error}")
    reasons = "\n  ".join(failures)
    raise FileNotFoundError(
        f"{title}: could not download {remote.name}.\n  {reasons}\n"
        f"Without a connection, put {remote.name} ({remote.checksum}) into {cache!r}, or into any "
        f"folder named by folder=... or the environment variable {FOLDER_VARIABLE}."
    )


def verify(path: Path, remote: RemoteFile) -> None:
    """Raise an error if a local file differs from the published one."""
    algorithm, expected = remote.checksum.split(":")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, algorithm).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the published {remote.name} (damaged?): "
            f"its {algorithm} is {found}, not {expected}"
        )


def _user_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the argument, or else of the environment variable; it must exist."""
    named = os.environ.get(FOLDER_VARIABLE) if folder is None else folder
    if not named:
        if folder is not None:
            raise ValueError("folder must not be empty")
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        source = FOLDER_VARIABLE if folder is None else "folder"
        raise NotADirectoryError(f"{source}={str(root)!r} is not a folder")
    return root
