"""Selection: how many experts there should be, decided by how shortly held-back rows are told.

This room calls the learner and counts codes; it knows no estimator.
"""

from dynpart.selection._choice import Selection, TriedSize
from dynpart.selection._search import select_size

__all__ = ["Selection", "TriedSize", "select_size"]
