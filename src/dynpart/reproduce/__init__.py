"""The paper's experiments, its figures, and further measurements. Knows all other modules.

``dynpart reproduce`` runs this; :func:`reproduce` is the same from Python.
"""

from dynpart.reproduce._experiments import EXPERIMENTS
from dynpart.reproduce._main import reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
