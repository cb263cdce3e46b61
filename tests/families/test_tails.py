"""Heavy tails of real columns with their own scale: no value is impossible, none is free."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dynpart import DynamicPartitionModel
from dynpart.encoding import Encoding
from dynpart.families import Categorical, Gaussian, Mixed, column_moments
from dynpart.families._gaussian import TAIL
from dynpart.persistence import load
from tests.effort import examples

log_widths = st.floats(-3.0, 1.0)
ENGINES = ("reference", "cpu")


def opinion(mean, deviation, scale, centre=3.0):
    """A family of one column with tails of this scale, and an opinion about it in its units."""
    family = Gaussian(np.array([centre]), np.array([1e-6 * scale**2]), tails=np.array([scale]))
    eta = family.from_moments(np.array([[mean]]), np.array([[deviation**2]]))
    return family, eta


@given(st.floats(-30, 30), log_widths, st.floats(-5, 5))
def test_densities_integrate_to_at_most_one(mean, log_width, log_scale):
    scale = 10.0**log_scale
    width = scale * 10.0**log_width
    family, eta = opinion(3.0 + mean * scale, width, scale)

    def density(angle):  # of the angle whose tangent is the distance, which is uniform in the tails
        x = np.array([[3.0 + scale * np.tan(angle)]])
        return float(np.exp(family.log_density(x, eta)[0, 0])) * scale / np.cos(angle) ** 2

    near = mean + np.linspace(-9, 9, 37) * width / scale
    places = [-np.pi / 2, *np.arctan(near), np.pi / 2]
    total = sum(
        integrate.quad(density, low, high, epsabs=1e-11, limit=200)[0]
        for low, high in pairwise(places)
    )
    assert 1 - TAIL - 1e-9 <= total <= 1 + 1e-9


@given(st.floats(-1e6, 1e6), st.floats(-30, 30), log_widths)
def test_values_are_as_likely_as_before_or_as_the_tails_say(x, mean, log_width):
    family, eta = opinion(mean, 10.0**log_width, 1.0)
    found = family.log_density(np.array([[x]]), eta)[0, 0]
    normal = stats.norm.logpdf(x, mean, 10.0**log_width) + np.log1p(-TAIL)
    broad = stats.cauchy.logpdf(x, 3.0) + np.log(TAIL)
    assert found == pytest.approx(max(normal, broad), rel=1e-6, abs=1e-6)
    assert family.log_density(np.array([[np.nan]]), eta)[0, 0] == 0


@pytest.fixture(scope="module")
def rooms():
    """Whole numbers that follow a size, beside measurements and a binary column."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=200)
    beds = np.clip(np.round(3 + 0.8 * size), 1, 5)
    baths = 1.0 + (size > 0.6) + (size > 1.8)
    price = 100 + 30 * size + rng.normal(0, 8, 200)
    return np.column_stack([price, beds, baths, size > rng.normal(size=200)])


@pytest.fixture(scope="module")
def model(rooms):
    return DynamicPartitionModel(4, max_iter=10, random_state=0).fit(rooms)


def test_columns_with_their_own_scale_have_tails_of_their_spread(rooms, model):
    real = next(part for part in model.family_.parts if isinstance(part, Gaussian))
    np.testing.assert_allclose(real.tails, rooms[:, :3].std(axis=0))
    assert model.family_.has_tails
    assert not model.family_.heavy_tailed(None).has_tails
    weighted = DynamicPartitionModel(4, max_iter=2, random_state=0)
    weight = np.arange(len(rooms)) % 3.0
    weighted.fit(rooms[:, :3], sample_weight=weight)
    spread = np.sqrt(column_moments(rooms[:, :3], weight).variance)
    np.testing.assert_allclose(weighted.family_.tails, spread)


@pytest.mark.parametrize("engine", ENGINES)
@examples(30)
@given(data=st.data())
def test_a_row_loses_no_more_than_the_tails_of_what_changed(rooms, model, engine, data):
    """However far a value moves: less than its largest density, and what the tails say."""
    model = model.on_numbers().set_params(engine=engine)
    row = rooms[data.draw(st.integers(0, len(rooms) - 1))]
    d = data.draw(st.integers(0, 2))
    moved = row.copy()
    moved[d] = model.means_[:, d].mean() + data.draw(st.floats(-1e4, 1e4)) * rooms[:, d].std()
    both = np.stack([row, moved])
    family, eta = model.family_, model._experts().eta
    most = family.log_density(row[None], eta)[:, d].max()
    least = family.least_log_density(moved[None])[0, d]
    before, after = model.log_density(both)
    assert after >= before - most + least - 1e-6
    # The bound in words: nine nats, the tail, and the column's unit.
    z = (moved[d] - rooms[:, d].mean()) / rooms[:, d].std()
    expected = np.log(TAIL / np.pi) - np.log(rooms[:, d].std()) - np.log1p(z**2)
    assert least == pytest.approx(expected)
    surprise = model.surprise(both)[1]
    assert surprise[d] <= -least + 1e-6
    scores = model.score_samples(both)
    assert (scores <= model.log_density(both) + 1e-6).all()
    codes = model.transform(both)
    told = model.log_likelihood(both, codes) + model.log_prior(codes)
    np.testing.assert_allclose(scores, told, rtol=1e-5, atol=1e-4)


def test_one_expert_is_independent_columns_far_away_too(rooms):
    model = DynamicPartitionModel(1, max_iter=2, random_state=0).fit(rooms)
    far = rooms[:20] * [1.0, 1.0, 100.0, 1.0]
    np.testing.assert_allclose(model.score_samples(far), model.independent_scores(far), rtol=0.01)
    assert (model.score_samples(far) > -60).all()


def test_files_keep_scores_to_the_last_bit(rooms, model, tmp_path):
    path = tmp_path / "rooms.dynpart"
    model.save(path)
    far = np.concatenate([rooms, rooms * [1.0, 7.5, 1.0, 1.0]])
    found = load(path)
    np.testing.assert_array_equal(found.score_samples(far), model.score_samples(far))
    np.testing.assert_array_equal(found.log_density(far), model.log_density(far))


def test_files_without_tails_are_read_and_absurd_tails_are_not():
    family, _ = opinion(0.0, 1.0, 2.0)
    numbers, arrays = family.stored()
    assert Gaussian.restored(numbers, arrays, 1).tails == [2.0]
    earlier = {name: array for name, array in arrays.items() if name != "tails"}
    assert Gaussian.restored(numbers, earlier, 1).tails is None
    for absurd in ([np.nan], [0.0], [-1.0], [np.inf], [1.0, 1.0]):
        with pytest.raises(ValueError, match="tails must hold"):
            Gaussian.restored(numbers, {**arrays, "tails": np.array(absurd)}, 1)
    with pytest.raises(ValueError, match="is not known here"):
        Gaussian.restored({"floor": 1.0}, {"centre": np.zeros(1), "tails": np.ones(1)}, 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_that_share_a_scale_have_no_tails():
    X = np.random.default_rng(0).normal(size=(60, 4))
    pictures = DynamicPartitionModel(2, family="gaussian", max_iter=2, random_state=0).fit(X)
    assert pictures.family_.tails is None
    family = Gaussian(np.zeros(4), 0.1)
    assert family.heavy_tailed(column_moments(X)) is family
    assert not family.has_tails
    levels = Mixed((Categorical.with_levels([3]), family), (np.array([4]), np.arange(4)))
    assert levels.heavy_tailed(column_moments(np.ones((2, 5)))) is levels


def test_models_that_learn_further_have_no_tails(rooms, model):
    found = DynamicPartitionModel(4, max_iter=10, random_state=0).fit(rooms)
    found.partial_fit(rooms)
    assert model.family_.has_tails
    assert not found.family_.has_tails


def test_squared_errors_are_not_bounded_by_tails(rooms, model):
    encoding = Encoding.of(DynamicPartitionModel(4, criterion="reconstruction"))
    assert not encoding.encoders(model._experts()).family.has_tails
    assert Encoding.of(model).encoders(model._experts()).family.has_tails


@pytest.mark.parametrize("options", [{"prior": None}, {"criterion": "reconstruction"}])
def test_scores_of_the_fit_are_those_of_its_rows(rooms, options):
    """However codes are chosen, the baseline knows the tails."""
    strange = np.concatenate([rooms, rooms[:1] * [1.0, 1.0, 40.0, 1.0]])
    model = DynamicPartitionModel(4, max_iter=5, random_state=0, **options).fit(strange)
    assert model.baseline_.nats == pytest.approx(model.score(strange), rel=1e-4)


def test_a_value_that_no_expert_explains_is_told(rooms, model):
    row = rooms[:1].copy()
    row[0, 2] = 9.0
    told = model.explain(row)
    [cell] = [cell for cell in told.unexplained if cell.variable == "x2"]
    assert not cell.known
    assert cell.value == "9"
    assert any("is 9, which no expert explains; expected" in line for line in told.lines())
    assert "which no expert explains" not in str(model.explain(rooms))


def test_imputed_values_follow_the_other_values_of_a_strange_row(rooms, model):
    """One value that nobody explains does not outweigh all others."""
    row = rooms[:1].copy()
    row[0, 0] = np.nan
    usual = model.conditional_means(row)[0, 0]
    row[0, 2] = 50.0
    assert model.impute(row)[0, 2] == 50.0
    hidden = row.copy()
    hidden[0, 2] = np.nan
    found, without = model.conditional_means(row), model.conditional_means(hidden)
    assert found[0, 0] == pytest.approx(without[0, 0], rel=1e-6)
    assert abs(found[0, 0] - usual) < 2 * rooms[:, 0].std()
