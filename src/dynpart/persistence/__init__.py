"""Persistence: load fitted models from files; also exports the names of :mod:`dynpart.storage`."""

from dynpart.atomic import atomic_write, check_target
from dynpart.persistence._load import load
from dynpart.storage import (
    Checkpoint,
    Journal,
    ModelFileError,
    digest_rows,
    fingerprint,
    load_checkpoint,
    open_journal,
    save,
    save_checkpoint,
)

__all__ = [
    "Checkpoint",
    "Journal",
    "ModelFileError",
    "atomic_write",
    "check_target",
    "digest_rows",
    "fingerprint",
    "load",
    "load_checkpoint",
    "open_journal",
    "save",
    "save_checkpoint",
]
