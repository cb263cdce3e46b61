"""Persistence: models and checkpoints as files that last. Knows fitted attributes, no numerics.

Files are safetensors (plain arrays) with one JSON text beside them. Nothing on the way in can run
code, and everything a file says about itself is checked before it is believed.
"""

from dynpart.persistence._atomic import atomic_write
from dynpart.persistence._checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dynpart.persistence._container import ModelFileError
from dynpart.persistence._journal import Journal, fingerprint, open_journal
from dynpart.persistence._model import load, save

__all__ = [
    "Checkpoint",
    "Journal",
    "ModelFileError",
    "atomic_write",
    "fingerprint",
    "load",
    "load_checkpoint",
    "open_journal",
    "save",
    "save_checkpoint",
]
