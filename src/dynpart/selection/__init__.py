"""Selection: the number of experts by the description length of held-back rows.

This package calls the learner and counts codes; it does not use the estimator.
"""

from dynpart.selection._choice import Selection, TriedSize
from dynpart.selection._search import select_size

__all__ = ["Selection", "TriedSize", "select_size"]
