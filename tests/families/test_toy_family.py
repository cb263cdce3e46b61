"""A new family is one class: the one of docs/extending.md works with all parts of the package."""

import copy
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from dynpart import DynamicPartitionModel, families
from dynpart.arrays import to_numpy
from dynpart.cli import app
from dynpart.composition import owners
from dynpart.engines import Codes, PursuitRule, make_engine
from dynpart.explorer import report_html
from dynpart.explorer._pack import pack
from dynpart.families import column_moments
from dynpart.learning import Annealed
from dynpart.opening import open_data
from dynpart.persistence import ModelFileError, load
from dynpart.plotting import plot_experts, plot_partition, plot_reconstructions
from dynpart.pursuits import background_expert, pursue
from dynpart.rows import Rows
from tests.engines.parity import assert_same_codes, assert_same_sums

DOCUMENT = Path(__file__).parents[2] / "docs" / "extending.md"
N_EXPERTS = 4


@pytest.fixture(scope="module")
def document():
    """What the code of the document defines; its family is forgotten afterwards."""
    text = DOCUMENT.read_text(encoding="utf-8")
    # Not a module that can be imported: clusters get the class itself.
    names = {"__name__": "extending"}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    yield names
    del families._FAMILIES["rayleigh"]


@pytest.fixture(scope="module")
def X(document):
    return document["X"]


@pytest.fixture(scope="module")
def model(document):
    return document["model"]


@pytest.fixture(scope="module")
def weight(X):
    return np.random.default_rng(1).integers(0, 4, len(X)).astype(float)


@pytest.fixture(scope="module")
def experts(X):
    moments = column_moments(X)
    family = families.make_family("rayleigh", moments)
    return Annealed().start(family, moments, N_EXPERTS, np.random.default_rng(0))


def log_density(x, eta):
    """Sums over variables, by another library; what was not observed says nothing."""
    return np.nansum(stats.rayleigh.logpdf(x, scale=np.sqrt(eta / 2)), axis=1)


# ------------------------------------------------------------------ the distribution


@given(st.floats(0.01, 50.0), st.floats(0.05, 400.0), st.floats(0.05, 400.0))
def test_density_and_derivatives(document, x, eta, other):
    family = document["Rayleigh"](1e-6)
    values, parameters = np.array([[x, np.nan]]), np.full((1, 1, 2), eta)
    found = family.log_density(values, parameters)
    assert found[0, 0] == pytest.approx(stats.rayleigh.logpdf(x, scale=np.sqrt(eta / 2)))
    assert found[0, 1] == 0
    step = 1e-6 * eta
    moved = [family.log_density(values, parameters + sign * step)[0, 0] for sign in (1, -1)]
    pull = family.pull(family.statistics(values), parameters)[0, 0, 0]
    assert pull == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-4, abs=1e-5)
    assert family.mean(parameters)[0, 0] == pytest.approx(
        stats.rayleigh.mean(scale=(eta / 2) ** 0.5)
    )
    assert family.variance(parameters)[0, 0] == pytest.approx(
        stats.rayleigh.var(scale=(eta / 2) ** 0.5)
    )
    back = family.from_moments(family.mean(parameters), family.variance(parameters))
    np.testing.assert_allclose(back, parameters)
    # The gradient of the mixture with respect to expertise, by the general formula.
    eta_k, r = np.array([[[other], [eta]]]), np.array([[[0.3], [0.7]]])
    mixed = (r * eta_k).sum(axis=1, keepdims=True)
    T = family.statistics(values[:, :1])[:, :, None]
    g = family.expertise_gradient(T, mixed, eta_k, r)
    slope = family.pull(T, mixed)[0] * (eta_k[0] - mixed[0])
    np.testing.assert_allclose(g, r * slope)


# ------------------------------------------------------------------ engines


def as_numpy(codes, rule):
    """Codes of the torch engine as the reference has them, with all slots."""
    order = np.full((len(codes.members), rule.max_active), -1, dtype=np.int32)
    found = to_numpy(codes.members)
    order[:, : found.shape[1]] = found
    return Codes(order, to_numpy(codes.log_likelihood))


ENGINES = [
    "reference",
    "cpu",
    pytest.param(
        "torch",
        marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    ),
]
RULES = [
    PursuitRule(1, 3, np.zeros(N_EXPERTS)),
    PursuitRule(1, N_EXPERTS, np.full(N_EXPERTS, 0.3), n_starts=3, n_swaps=50),
    PursuitRule(2, 3, np.zeros(N_EXPERTS), smoothed=True),
]


@pytest.mark.parametrize("rule", RULES, ids=["greedy", "refined", "smoothed"])
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("weighted", [False, True])
def test_engines_agree_with_the_reference_and_with_another_library(
    name, rule, weighted, X, weight, experts
):
    rows = Rows.of(X, experts.family, weight if weighted else None)
    engine = make_engine(name, device="cpu" if name == "torch" else None)
    found = pursue(engine, rows, experts, rule)
    exact = pursue(make_engine("reference"), rows, experts, rule)
    codes = as_numpy(found, rule) if name == "torch" else found
    assert_same_codes(codes, exact, in_order=not rule.n_swaps)
    assert_same_sums(engine, rows, experts, found, numpy_codes=exact)
    owner = owners(experts.ranks, exact.active(N_EXPERTS))
    eta = experts.eta[0][owner, np.arange(X.shape[1])]
    np.testing.assert_allclose(codes.log_likelihood, log_density(X, eta), rtol=1e-5, atol=1e-4)
    base = np.nansum(np.log(X), axis=1)
    counted = weight if weighted else np.ones(len(X))
    summary = found.summary(N_EXPERTS).to_numpy()
    assert summary.log_base == pytest.approx(counted @ base, rel=1e-5)
    assert summary.log_likelihood == pytest.approx(counted @ log_density(X, eta), rel=1e-5)


def test_blocks_give_the_same_sums(X, weight, experts):
    rows = Rows.of(X, experts.family, weight)
    cuts = range(0, len(X), 70)
    parts, weights = [X[i : i + 70] for i in cuts], [weight[i : i + 70] for i in cuts]
    data = open_data(parts, make_engine("reference"), weights)
    engine, blocks = data.engine, data.encoded(experts.family)
    codes = pursue(engine, blocks, experts, RULES[0])
    exact = pursue(make_engine("reference"), rows, experts, RULES[0])
    found, expected = codes.summary(N_EXPERTS), exact.summary(N_EXPERTS)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood)
    assert found.log_base == pytest.approx(expected.log_base)
    sums = engine.responsibility_sums(blocks, experts, codes)
    expected = make_engine("reference").responsibility_sums(rows, experts, exact)
    np.testing.assert_allclose(sums.array, expected.array)


def test_a_background_expert_holds_the_average_opinion(experts):
    background = background_expert(experts, 3)
    family = experts.family
    np.testing.assert_allclose(
        family.mean(background.eta)[0], family.mean(experts.eta).mean(axis=0)
    )


# ------------------------------------------------------------------ the model


def test_the_model_finds_what_is_in_the_data(model, X):
    assert model.family_.name == "rayleigh"
    # Both halves are still or windy: experts know one state of one half each.
    H = model.transform(X)
    composed = model.inverse_transform(H)
    quiet = np.nanmean(X, axis=1) < 1.2
    assert composed[quiet].max() < 4
    assert composed.max() > 6
    assert model.variances_ == pytest.approx((4 / np.pi - 1) * model.means_**2)


@pytest.mark.parametrize("engine", [pytest.param(ENGINES[0], marks=pytest.mark.slow), *ENGINES[1:]])
def test_scores_include_the_base_measure(model, X, engine):
    device = "cpu" if engine == "torch" else None
    twin = copy.deepcopy(model).set_params(engine=engine, device=device)
    H = twin.transform(X)
    experts = twin._experts()
    eta = experts.eta[0][twin.partition(H), np.arange(X.shape[1])]
    np.testing.assert_allclose(twin.log_likelihood(X, H), log_density(X, eta), rtol=1e-9)
    expected = log_density(X, eta) + twin.log_prior(H)
    np.testing.assert_allclose(twin.score_samples(X), expected, rtol=1e-5)
    assert twin.score(X) == pytest.approx(twin.score_samples(X).mean())
    story = twin.pursue(X[:5])
    ends = story.log_likelihood[np.arange(5), (story.order >= 0).sum(axis=1) - 1]
    np.testing.assert_allclose(ends, twin.log_likelihood(X[:5], H[:5]), rtol=1e-5)


def test_a_weight_stands_for_as_many_rows(X, weight):
    options = {"family": "rayleigh", "random_state": 0, "max_iter": 6, "learning": "paper"}
    weighted = DynamicPartitionModel(N_EXPERTS, **options).fit(X, sample_weight=weight)
    repeated = DynamicPartitionModel(N_EXPERTS, **options).fit(X.repeat(weight.astype(int), axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
    weighted.partial_fit(X[:50], sample_weight=weight[:50] + 1)
    repeated.partial_fit(X[:50].repeat(weight[:50].astype(int) + 1, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)


def test_rows_are_drawn_and_wrong_ones_refused(model, X):
    drawn = model.sample(400, random_state=0)
    assert (drawn > 0).all()
    assert np.isfinite(model.score(drawn))
    assert drawn.mean() == pytest.approx(np.nanmean(X), rel=0.3)
    with pytest.raises(ValueError, match=r"X must be positive, found -1 in row 1, column 2"):
        model.transform(np.where(np.arange(18).reshape(3, 6) == 8, -1.0, 2.0))


def test_gaps_are_filled_and_nothing_else(model, X):
    filled = model.impute(X)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    assert (filled > 0).all()
    # A still hour is still everywhere in its half.
    quiet = (X[:, 0] < 1.5) & (X[:, 2] < 1.5) & ~observed[:, 1]
    assert filled[quiet, 1].max() < 4


def test_a_stream_goes_on_after_a_file(X, tmp_path):
    options = {"family": "rayleigh", "random_state": 0, "max_iter": 4}
    straight = DynamicPartitionModel(N_EXPERTS, **options)
    for part in np.array_split(X, 4):
        straight.partial_fit(part)
    cut = DynamicPartitionModel(N_EXPERTS, **options)
    for part in np.array_split(X, 4):
        cut.partial_fit(part)
        cut.save(tmp_path / "m.dynpart")
        cut = load(tmp_path / "m.dynpart")
    np.testing.assert_array_equal(cut.means_, straight.means_)


def test_a_fit_is_resumed(X, tmp_path):
    options = {"family": "rayleigh", "random_state": 0, "max_iter": 4}
    path = tmp_path / "checkpoint"
    first = DynamicPartitionModel(N_EXPERTS, **options).fit(X, checkpoint=path, every=0)
    again = DynamicPartitionModel(N_EXPERTS, **options).fit(X, checkpoint=path, every=0)
    np.testing.assert_array_equal(first.means_, again.means_)


def test_criterion_and_cost_work(model, X):
    twin = copy.deepcopy(model).set_params(criterion="reconstruction", activation_cost=0.5)
    twin.recount(X)
    assert np.isfinite(twin.score(X))


# ------------------------------------------------------------------ files, figures, words


def test_a_model_file_needs_the_family_and_believes_nothing(model, X, tmp_path, monkeypatch):
    path = tmp_path / "m.dynpart"
    model.save(path)
    back = load(path)
    assert back.family_ == model.family_
    assert back.schema_ == model.schema_
    assert set(back.schema_.kinds) == {"positive"}
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    with monkeypatch.context() as without:
        without.delitem(families._FAMILIES, "rayleigh")
        with pytest.raises(ModelFileError, match="'rayleigh', which is not registered: import"):
            load(path)
    broken = copy.deepcopy(model)
    object.__setattr__(broken._learnt.family, "floor", -1.0)
    with pytest.raises(ModelFileError, match="family 'rayleigh': floor"):
        broken.save(path)


def test_figures_are_drawn(model, X, tmp_path):
    for i, figure in enumerate(
        [plot_experts(model), plot_partition(model, X[:6]), plot_reconstructions(model, X[:6])]
    ):
        figure.savefig(tmp_path / f"{i}.png", dpi=50)
        assert figure.axes[0].images
    opinions = plot_experts(model).axes[0].images[0]
    low, high = opinions.get_clim()
    assert low == pytest.approx(model.means_.min(), rel=0.2)
    assert high == pytest.approx(model.means_.max(), rel=0.2)


def test_the_explorer_packs_it(model, X):
    content = pack(model, X, names=None, labels=None, image_shape=None, title="Winds", n_samples=20)
    assert content["levels"] is None
    assert not content["normal"]
    assert content["low"] > 0
    assert "rayleigh" in report_html(model, X, title="Winds")


def test_a_row_is_explained_in_words(model, X, tmp_path):
    model.save(tmp_path / "m.dynpart")
    np.savetxt(tmp_path / "winds.csv", X, delimiter=",", header="a,b,c,d,e,f", comments="")
    arguments = ["explain", str(tmp_path / "m.dynpart"), str(tmp_path / "winds.csv"), "--row", "0"]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0, said.output
    assert re.search(r"says [\d.]+ \(usually [\d.]+\); is [\d.]+", said.output)
    assert re.search(r"x1 +[\d.]+ \(usually [\d.]+\), says", said.output)  # not observed
    assert "as likely as column by column" in said.output


@pytest.mark.slow
def test_a_cluster_learns_it(X):
    distributed = pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    options = {"family": "rayleigh", "random_state": 0, "max_iter": 3, "engine": "reference"}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        spread = DynamicPartitionModel(N_EXPERTS, **options).fit(da.from_array(X, chunks=(100, 6)))
    blocks = [X[start : start + 100] for start in range(0, len(X), 100)]
    here = DynamicPartitionModel(N_EXPERTS, **options).fit(blocks)
    np.testing.assert_allclose(spread.means_, here.means_)
