"""Learning: the loop that never looks at a row, and the plans it follows."""

from dynpart.learning._learner import Fit, IterationRecord, learn
from dynpart.learning._plans import Annealed, Paper, Plan, Step

__all__ = ["Annealed", "Fit", "IterationRecord", "Paper", "Plan", "Step", "learn"]
