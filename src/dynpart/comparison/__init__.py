"""The comparison: the same problems, splits and scores for our model and every baseline.

| topic | data | models | runner | report |
|---|---|---|---|---|
| codes | `problems` | `contestants` | `runner` | `report`, `document`, `figures` |
| hidden cells | `gaps` | `imputers` | `imputation` | `report` |
| unseen rows | `densities` | `densities` | `unseen` | `unseen_report` |
| binary sets | `density_sets` | `density_models` | `density_runs` | `density_report` |
"""

from dynpart.comparison.contestants import CONTESTANTS, Contestant, ours
from dynpart.comparison.problems import PROBLEMS, Problem, load_problem
from dynpart.comparison.runner import Result, load_results, run, run_one

__all__ = [
    "CONTESTANTS",
    "PROBLEMS",
    "Contestant",
    "Problem",
    "Result",
    "load_problem",
    "load_results",
    "ours",
    "run",
    "run_one",
]
