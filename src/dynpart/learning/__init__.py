"""Learning: the loop that never looks at a row, and the plans it follows."""

from dynpart.learning._learner import IterationRecord, Journal, LearnerState, Task, iterate
from dynpart.learning._plans import Annealed, Paper, Plan, Problem, Step
from dynpart.learning._race import Adaptation, Contender
from dynpart.learning._restarts import Fit, fit_experts

__all__ = [
    "Adaptation",
    "Annealed",
    "Contender",
    "Fit",
    "IterationRecord",
    "Journal",
    "LearnerState",
    "Paper",
    "Plan",
    "Problem",
    "Step",
    "Task",
    "fit_experts",
    "iterate",
]
