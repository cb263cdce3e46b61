"""Learning: the loop, which works on sums instead of rows, and the plans that it follows."""

from dynpart.deprecated import renamed_in
from dynpart.learning._batch import (
    Memory,
    break_ties,
    sharpened,
    update_expertise,
    update_opinions,
)
from dynpart.learning._connectivity import neighbourly
from dynpart.learning._densities import log_densities
from dynpart.learning._diagnosis import Remedies, complaints
from dynpart.learning._drawn import are_drawable, fitted_to_draws
from dynpart.learning._learner import RunLog, iterate, learn_once, relearn
from dynpart.learning._left_out import LeftOut, leave_out
from dynpart.learning._mixture import Mixture, allows_mixture, fit_mixture
from dynpart.learning._objective import activation_probabilities, penalised_objective
from dynpart.learning._plans import Annealed, Paper, Plan, Sizes, Step, candidates
from dynpart.learning._records import IterationRecord, LearnerState
from dynpart.learning._restarts import COUNTED_ROWS, Fit, fit_experts
from dynpart.learning._splits import Split, held_back_parts, splits_of
from dynpart.learning._task import Task, expected_kernels, with_levels
from dynpart.learning._trials import Adaptation, Trial
from dynpart.learning._unseen import WORTH_IT

__all__ = [
    "COUNTED_ROWS",
    "WORTH_IT",
    "Adaptation",
    "Annealed",
    "Fit",
    "IterationRecord",
    "LearnerState",
    "LeftOut",
    "Memory",
    "Mixture",
    "Paper",
    "Plan",
    "Remedies",
    "RunLog",
    "Sizes",
    "Split",
    "Step",
    "Task",
    "Trial",
    "activation_probabilities",
    "allows_mixture",
    "are_drawable",
    "break_ties",
    "candidates",
    "complaints",
    "expected_kernels",
    "fit_experts",
    "fit_mixture",
    "fitted_to_draws",
    "held_back_parts",
    "iterate",
    "learn_once",
    "leave_out",
    "log_densities",
    "neighbourly",
    "penalised_objective",
    "relearn",
    "sharpened",
    "splits_of",
    "update_expertise",
    "update_opinions",
    "with_levels",
]

__getattr__ = renamed_in(__name__, Contender="Trial", Journal="RunLog")
