"""The comparison: the same problems, splits and scores for our model and every baseline.

`problems` are the data, `contestants` the models, `scores` the measures; `runner` brings them
together and keeps the results, `report` and `document` write them down, `figures` draw them.
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
