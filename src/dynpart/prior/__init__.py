"""The prior over codes: how probable each code is before a row is seen."""

from dynpart.prior._code_prior import CodePrior, RowType, log_sum_exp
from dynpart.prior._counted import ALWAYS
from dynpart.prior._distinct import distinct_codes
from dynpart.prior._fitting import (
    MOST_TYPES,
    ROUGHLY,
    fit_prior,
    independent_prior,
    mean_log_prior,
)
from dynpart.prior._lists import prior_kernels

__all__ = [
    "ALWAYS",
    "MOST_TYPES",
    "ROUGHLY",
    "CodePrior",
    "RowType",
    "distinct_codes",
    "fit_prior",
    "independent_prior",
    "log_sum_exp",
    "mean_log_prior",
    "prior_kernels",
]
