"""The page of a table with columns of counts: the browser scores rows as Python does."""

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from tests.explorer.conftest import made

COUNTS = 4


def sites(*, others):
    """Species that come in two groups, and with `others` a measurement and a category."""
    rng = np.random.default_rng(0)
    wet = rng.integers(0, 2, 120)
    rates = np.where(wet[:, None] == 1, [12.0, 8.0, 0.3, 1.0], [0.3, 1.0, 9.0, 15.0])
    X = rng.negative_binomial(2, 2 / (2 + rates)).astype(float)
    if not others:
        return X, ["count"] * COUNTS
    more = np.column_stack([wet + rng.normal(0, 0.5, 120), (wet + rng.integers(0, 2, 120)) % 3])
    return np.hstack([X, more]), ["count"] * COUNTS + ["real", "categorical"]


@pytest.fixture(scope="module", params=[False, True], ids=["counts", "mixed"])
def page_of_counts(request, tmp_path_factory):
    X, kinds = sites(others=request.param)
    model = DynamicPartitionModel(3, columns=kinds, max_iter=10, random_state=0).fit(X)
    names = [f"column {d}" for d in range(X.shape[1])]
    return made(tmp_path_factory.mktemp("page"), "sites", model, X, names=names)


def test_rows_are_scored_in_bits(visit, page_of_counts):
    page, model, X = visit(page_of_counts), page_of_counts.model, page_of_counts.X
    experts = model._experts().like(np.empty(0))
    for n in (0, 1, 50):
        page.execute_script("dynpart.choose(arguments[0])", n)
        codes = model.transform(X[n : n + 1])
        told = page.execute_script("return dynpart.logLikelihood()")
        assert told == pytest.approx(float(model.log_likelihood(X[n : n + 1], codes)[0]), abs=1e-3)
        usual = experts.family.log_density(
            model._checked_rows(X[n : n + 1], model._engine(X)).to_numpy().values,
            model._usual_eta(),
        )
        # with the cost of naming the experts
        bits = (told + float(model.log_prior(codes)[0]) - float(np.nansum(usual))) / np.log(2)
        word = "fewer" if bits >= 0 else "more"
        assert f"{abs(bits):.1f} bits {word}" in page.find_element("id", "readout").text


def test_only_columns_of_counts_have_a_dispersion(visit, page_of_counts):
    page, model = visit(page_of_counts), page_of_counts.model
    content = page.execute_script("return JSON.parse(document.getElementById('data').textContent)")
    assert [one is not None for one in content["dispersions"][:COUNTS]] == [True] * COUNTS
    assert content["dispersions"][COUNTS:] == [None] * (model.n_features_in_ - COUNTS)


def test_cards_tell_means_as_the_description_does(visit, page_of_counts):
    """To the second digit of the spread, and in how many rows if these are few."""
    page, X = visit(page_of_counts), page_of_counts.X
    told = page_of_counts.model.describe(X, top=6)
    for one in told.experts:
        lines = page.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(l => l.textContent)",
            f'.card[data-expert="{one.expert}"] .bars li',
        )
        assert len(lines) == len(one.opinions)
        for line, opinion in zip(lines, one.opinions, strict=True):
            assert (" of its rows" in line) == (opinion.decides < 0.5)
            if opinion.chance is None:
                words = opinion.words.replace(" (", " ").replace(")", "").replace("-", "−")
                assert line.endswith(words)


def test_the_note_says_what_bars_are(visit, page_of_counts):
    note = visit(page_of_counts).find_element("id", "experts-note").text
    has_levels = "categorical" in page_of_counts.model.schema_.kinds
    assert "mean" in note
    assert ("how sure it is" in note) == has_levels
