"""Learning: the loop that never looks at a row, and the plans it follows."""

from dynpart.learning._batch import Memory, break_ties, update_expertise, update_opinions
from dynpart.learning._connectivity import neighbourly
from dynpart.learning._diagnosis import complaints
from dynpart.learning._learner import Journal, iterate, learn_once
from dynpart.learning._objective import activation_probabilities, penalised_objective
from dynpart.learning._plans import Annealed, Paper, Plan, Sizes, Step
from dynpart.learning._race import Adaptation, Contender
from dynpart.learning._records import IterationRecord, LearnerState
from dynpart.learning._restarts import COUNTED_ROWS, Fit, fit_experts
from dynpart.learning._task import Task, with_levels

__all__ = [
    "COUNTED_ROWS",
    "Adaptation",
    "Annealed",
    "Contender",
    "Fit",
    "IterationRecord",
    "Journal",
    "LearnerState",
    "Memory",
    "Paper",
    "Plan",
    "Sizes",
    "Step",
    "Task",
    "activation_probabilities",
    "break_ties",
    "complaints",
    "fit_experts",
    "iterate",
    "learn_once",
    "neighbourly",
    "penalised_objective",
    "update_expertise",
    "update_opinions",
    "with_levels",
]
