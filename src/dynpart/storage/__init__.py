"""Storage: models and checkpoints in files. Knows fitted attributes, no numerics.

Files are safetensors (plain arrays) with one JSON text. Reading a file runs no code, and all
metadata are checked before use. The class of the model is an argument of :func:`restore`.
"""

from dynpart.storage._checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dynpart.storage._container import MOST_BYTES, ModelFileError, plain
from dynpart.storage._journal import Journal, fingerprint, open_journal
from dynpart.storage._model import restore, save
from dynpart.storage._rows import digest_rows

__all__ = [
    "MOST_BYTES",
    "Checkpoint",
    "Journal",
    "ModelFileError",
    "digest_rows",
    "fingerprint",
    "load_checkpoint",
    "open_journal",
    "plain",
    "restore",
    "save",
    "save_checkpoint",
]
