"""The comparison: the same problems, splits and scores for our model and every baseline.

`problems` are the data, `contestants` the models, `scores` the measures; `runner` brings them
together and keeps the results, `report` and `document` write them down, `figures` draw them.
For cells that are hidden and filled in, `gaps` are the data, `imputers` the methods and
`imputation` is the runner. For unseen rows of tables, `densities` are data and methods, `unseen` is
the runner and `unseen_report` writes them down. For densities of binary sets, `density_sets` are
the data, `density_models` the models, `density_runs` is the runner and `density_report` writes them
into a document of their own.
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
