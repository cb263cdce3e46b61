"""The paper's experiments, its figures, and numbers it never gave. Knows every other room.

``dynpart reproduce`` runs this; :func:`reproduce` is the same from Python.
"""

from dynpart.reproduce._experiments import EXPERIMENTS
from dynpart.reproduce._main import reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
