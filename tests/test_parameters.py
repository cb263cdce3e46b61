"""What parameters may be: laws of the constraints, and messages that name what was found."""

from numbers import Integral, Real

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynpart import DynamicPartitionModel
from dynpart.parameters import HasMethods, Interval, Options, StrOptions, check_parameters

BOUNDS = st.none() | st.integers(-5, 5)
CLOSED = st.sampled_from(["left", "right", "both", "neither"])


@given(left=BOUNDS, right=BOUNDS, closed=CLOSED, value=st.integers(-7, 7))
def test_an_interval_is_the_set_it_is_written_as(left, right, closed, value):
    inside = {
        "left": lambda: (left is None or left <= value) and (right is None or value < right),
        "right": lambda: (left is None or left < value) and (right is None or value <= right),
        "both": lambda: (left is None or left <= value) and (right is None or value <= right),
        "neither": lambda: (left is None or left < value) and (right is None or value < right),
    }[closed]()
    assert Interval(Integral, left, right, closed=closed).accepts(value) == inside
    assert Interval(Real, left, right, closed=closed).accepts(float(value)) == inside


@pytest.mark.parametrize("value", [True, np.True_, float("nan"), float("inf"), "1", None, [1]])
def test_no_interval_holds_what_is_not_a_finite_number(value):
    assert not Interval(Real, None, None, closed="neither").accepts(value)


def test_integers_of_numpy_are_integers_and_floats_are_not():
    counts = Interval(Integral, 1, None, closed="left")
    assert counts.accepts(np.int64(3))
    assert not counts.accepts(np.float64(3.0))


def test_options_are_of_their_kind():
    assert Options(Integral, {-1}).accepts(-1)
    assert not Options(Integral, {-1}).accepts(-1.0)
    assert not StrOptions({"prior"}).accepts(["prior"])


def test_methods_have_to_be_callable():
    class Half:
        start = None

    assert not HasMethods(["start"]).accepts(Half())
    assert HasMethods(["upper"]).accepts("text")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_experts", 0, r"an int in the range \[1, inf\).* got 0"),
        ("n_jobs", 0, r"an int in the range \[1, inf\), -1 or None, got 0"),
        ("tol", -1.0, r"a float in the range \[0, inf\), got -1.0"),
        ("criterion", "foo", "'likelihood' or 'reconstruction', got 'foo'"),
        ("learning", "foo", "'annealed' or 'paper' or an object with the methods start"),
        ("prune", 1, "True or False, got 1"),
        ("connectivity", "grid", "an array-like, a sparse matrix or None, got 'grid'"),
        ("random_state", -1, "an int from 0 to"),
        ("verbose", -1, "an int of at least 0, got -1"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_accepted(name, value, words):
    model = DynamicPartitionModel(**{name: value})
    with pytest.raises(ValueError, match=f"The '{name}' parameter of .* must be .*{words}"):
        model.fit(np.eye(4))


def test_parameters_of_a_subclass_without_constraints_are_its_own_affair():
    check_parameters("Mine", {}, {"colour": object()})
