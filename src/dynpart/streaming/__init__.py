r"""Streaming: the steps of learning as functions, and learning from rows that arrive once.

An iteration of learning consists of three steps::

    sums = accumulate(rows, experts, rule)  # wherever the rows are
    sums = merge([sums_here, sums_there])  # in any place, in this order
    experts = update(experts, sums, moments)  # in one place; a few kilobytes

:func:`advance` is for a stream. It hands each batch to the learner of ``fit``, whose memory are
running averages of the sums: stepwise EM. Batch t moves them by a step that decays,

.. math:: \bar s_t = (1 - \gamma_t)\,\bar s_{t-1} + \gamma_t\, s_t, \qquad
          \gamma_t = (1 + t - t_0)^{-0.7},

and expertise by the same share of the batch's update. Until :math:`t_0`, while the plan searches,
the step is one, and all candidates of the plan are tried: each learns from every batch, and the one
that best explains the next batch continues.
"""

from dynpart.deprecated import renamed_in
from dynpart.streaming._state import Averages, Candidate, Stream, Sums
from dynpart.streaming._steps import (
    accumulate,
    advance,
    begin,
    merge,
    resume,
    step_of_batch,
    update,
)

__all__ = [
    "Averages",
    "Candidate",
    "Stream",
    "Sums",
    "accumulate",
    "advance",
    "begin",
    "merge",
    "resume",
    "step_of_batch",
    "update",
]

__getattr__ = renamed_in(__name__, Runner="Candidate")
