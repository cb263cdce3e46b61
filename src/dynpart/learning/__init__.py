"""Learning: the loop that never looks at a row, and the plans it follows."""

from dynpart.learning._learner import IterationRecord, LearnerState, Task, iterate
from dynpart.learning._plans import Annealed, Paper, Plan, Step
from dynpart.learning._restarts import Fit, fit_experts

__all__ = [
    "Annealed",
    "Fit",
    "IterationRecord",
    "LearnerState",
    "Paper",
    "Plan",
    "Step",
    "Task",
    "fit_experts",
    "iterate",
]
