"""Deprecated names still work for one version, and the warning names the replacement."""

from dataclasses import replace

import numpy as np
import pytest

import dynpart.baselines
import dynpart.learning
import dynpart.streaming
from dynpart import DynamicPartitionModel
from dynpart.datasets import make_pairs
from dynpart.engines import Codes
from dynpart.learning import Adaptation, Annealed, IterationRecord, Paper, Step, Trial

X = np.tile(make_pairs(2), (5, 1))
SIZES = {"n_experts": 4, "max_iter": 3, "random_state": 0}
RECORD = {
    "iteration": 0, "n_rows": 1, "joint": -1.0, "penalised": -1.0, "mean_active": 1.0,
    "opinion_change": 0.0, "expertise_change": 0.0, "step": Step(),
}  # fmt: skip
CODES = {"log_likelihood": np.zeros(1)}


@pytest.mark.parametrize(
    ("kind", "others", "earlier", "name", "value"),
    [
        (Annealed, {}, "floor", "min_active", 2),
        (Step, {}, "doubt", "shrink", True),
        (IterationRecord, RECORD, "doubt", "shrinkage", 0.5),
        (Trial, {"score": 0.0, "mean_active": 1.0}, "floor", "min_active", 3),
        (Adaptation, {}, "floor", "min_active", 3),
        (Adaptation, {"min_active": 1}, "contenders", "trials", (Trial(1, 0.0, 1.0),)),
        (Codes, CODES, "order", "members", np.array([[1, -1]])),
        (
            dynpart.streaming.Candidate,
            {"experts": None, "averages": None},
            "floor",
            "min_active",
            2,
        ),
        (dynpart.streaming.Stream, {}, "runners", "candidates", ()),
    ],
)
def test_earlier_arguments_and_attributes_work_and_warn(kind, others, earlier, name, value):
    told = rf"{earlier} of {kind.__name__} is called {name} now"
    with pytest.warns(FutureWarning, match=told) as warned:
        made = kind(**others, **{earlier: value})
    assert warned[0].filename == __file__
    assert getattr(made, name) is value
    with pytest.warns(
        FutureWarning, match=rf"{kind.__name__}\.{earlier} is called {name}"
    ) as warned:
        assert getattr(made, earlier) is value
    assert warned[0].filename == __file__


def test_a_replaced_field_may_have_its_earlier_name():
    with pytest.warns(FutureWarning, match="shrink"):
        assert replace(Step(shrink=True, size=0.5), doubt=False) == Step(size=0.5)


@pytest.mark.parametrize(
    ("module", "earlier", "name"),
    [
        (dynpart.learning, "Contender", "Trial"),
        (dynpart.learning, "Journal", "RunLog"),
        (dynpart.streaming, "Runner", "Candidate"),
        (dynpart.baselines, "believed_right", "owner_agreement"),
    ],
)
def test_earlier_names_of_members_work_and_warn(module, earlier, name):
    with pytest.warns(FutureWarning, match=f"{earlier} is called {name} now"):
        assert getattr(module, earlier) is getattr(module, name)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        module.Nobody  # noqa: B018


class LargestMinimum(Annealed):
    """A user's plan, written for version 0.1."""

    def contenders(self, task):
        return super().contenders(task)[-1:]


class Foreign:
    """The same without a class of ours above it."""

    epsilon = 1.0

    def __init__(self):
        self.start, self.expertise_change = Paper().start, Paper().expertise_change
        self.steps = Paper().steps

    def contenders(self, task):
        return [2]


@pytest.mark.parametrize(("plan", "least"), [(LargestMinimum(), 2), (Foreign(), 2)])
def test_plans_with_the_earlier_method_are_followed(plan, least):
    with pytest.warns(FutureWarning, match="contenders is called candidates now"):
        model = DynamicPartitionModel(**SIZES, learning=plan).fit(X)
    assert model.adaptation_ == Adaptation(least)
    with pytest.warns(FutureWarning, match="contenders is called candidates now"):
        DynamicPartitionModel(**SIZES, learning=plan).partial_fit(X)


def test_the_earlier_method_can_be_called():
    class Sizes:
        n_rows, n_features, n_experts, n_iter, min_active, max_active = 4, 4, 4, 3, 1, 4

    for plan in (Annealed(min_active=2), Paper()):
        with pytest.warns(FutureWarning, match="contenders"):
            assert plan.contenders(Sizes()) == plan.candidates(Sizes())
