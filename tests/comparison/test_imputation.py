"""Hidden cells: masks, imputation, scores, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dynpart.comparison import gaps, imputation
from dynpart.comparison.command import compare
from dynpart.comparison.gaps import GAP_TABLES, GapTable, hide, load_gap_table, table_of_texts
from dynpart.comparison.imputation import ImputationResult, impute_one, run_imputation
from dynpart.comparison.imputers import IMPUTERS, mixture_fill
from dynpart.comparison.report import imputation_findings, imputation_table
from dynpart.comparison.scores import imputation_scores

PEERS = ["columns", "neighbours", "iterative", "mixture"]


def two_kinds(n_rows=120, *, binary=True):
    """Rows of two kinds, each column copying the first; the last one real unless `binary`."""
    kind = np.random.RandomState(0).randint(2, size=n_rows)
    values = np.repeat(kind[:, None], 6, axis=1).astype(np.float64)
    flags = np.ones(6, dtype=bool)
    if not binary:
        values[:, -1] = 2 * values[:, -1] - 1
        flags[-1] = False
    return GapTable("toy", "toy", values, flags, np.arange(6), 2)


@pytest.fixture
def toy_only(monkeypatch):
    """Let the only table be a small one."""
    monkeypatch.setattr(gaps, "GAP_TABLES", {"toy": lambda name: two_kinds(binary=False)})
    monkeypatch.setattr("dynpart.comparison.command.GAP_TABLES", gaps.GAP_TABLES)


def result(imputer, share, recovered, nats):
    scores = {"recovered": recovered, "log_likelihood": nats}
    return ImputationResult("toy", "toy", imputer, share, 0, 10, 5, 2, 5, 1.0, scores)


def test_hidden_cells_are_the_seeds_and_never_both_scored_and_held_back():
    table = load_gap_table("digits")
    first, again, other = hide(table, 0.4, 0), hide(table, 0.4, 0), hide(table, 0.4, 1)
    assert np.array_equal(first.scored, again.scored)
    assert not np.array_equal(first.scored, other.scored)
    assert not (first.scored & first.held_back).any()
    assert np.array_equal(np.isnan(first.given), first.scored | first.held_back)
    assert first.scored.mean() == pytest.approx(0.4, abs=0.01)
    assert first.held_back.mean() == pytest.approx(0.6 * gaps.HELD_BACK, abs=0.005)


def test_columns_of_one_category_are_hidden_together_and_own_gaps_are_not_scored():
    columns = {"class": ["1", "2", "3", ""] * 25, "sex": ["f", "m", "f", "m"] * 25}
    table = table_of_texts("toy", "toy", columns, 2)
    assert table.cells.tolist() == [0, 0, 0, 1]
    hidden = hide(table, 0.3, 0)
    known = ~np.isnan(table.values[:, 0])
    assert (hidden.scored[:, 0] == hidden.scored[:, 2]).all()
    assert not hidden.scored[~known, :3].any()
    assert hidden.scored[known, 0].any()


def test_numbers_of_many_values_are_real_and_standardised():
    columns = {"age": [str(age) for age in range(20)], "legs": ["0", "2", "4", "2"] * 5}
    table = table_of_texts("toy", "toy", columns, 2)
    assert table.binary.tolist() == [False, True, True, True]
    assert table.values[:, 0].mean() == pytest.approx(0)
    assert table.values[:, 0].std() == pytest.approx(1)


def test_scores_choose_how_sure_a_method_may_be_on_the_cells_held_back():
    X = np.zeros((400, 1))
    X[::5] = 1  # a fifth of the cells is not what a sure method says
    scored = np.arange(400)[:, None] < 200
    sure = np.zeros_like(X)
    values = imputation_scores(
        X, sure, sure, binary=np.array([True]), scored=scored, held_back=~scored
    )
    assert values["recovered"] == pytest.approx(0.8)
    assert values["log_likelihood"] == pytest.approx(0.2 * np.log(0.2) + 0.8 * np.log(0.8))


def test_real_cells_get_the_variance_of_the_errors_held_back():
    rng = np.random.RandomState(0)
    X = rng.normal(scale=0.5, size=(20_000, 1))
    scored = rng.uniform(size=X.shape) < 0.5
    expected = np.zeros_like(X)
    values = imputation_scores(
        X, expected, expected, binary=np.array([False]), scored=scored, held_back=~scored
    )
    assert values["rmse"] == pytest.approx(0.5, abs=0.02)
    entropy = 0.5 * np.log(2 * np.pi * np.e * 0.25)
    assert values["log_likelihood"] == pytest.approx(-entropy, abs=0.02)
    assert "recovered" not in values


@pytest.mark.filterwarnings("ignore:.*Early stopping criterion not reached")
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("binary", [True, False])
def test_peers_keep_what_is_observed_and_fill_the_rest(name, binary):
    table = two_kinds(binary=binary)
    given = hide(table, 0.4, 0).given
    filled = IMPUTERS[name].fill(given, table, 0).filled
    known = ~np.isnan(given)
    assert np.array_equal(filled[known], given[known])
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("binary", [True, False])
def test_methods_that_look_at_other_columns_beat_column_means(binary):
    table = two_kinds(binary=binary)
    columns, *others = (impute_one(table, IMPUTERS[name], 0.1, 0).scores for name in PEERS)
    for scores in others:
        assert scores["recovered"] > columns["recovered"] + 0.2
        assert scores["log_likelihood"] > columns["log_likelihood"] + 0.2


def test_a_mixture_of_one_fills_with_means_of_what_is_observed():
    given = np.array([[0.0, 3.0], [1.0, np.nan], [np.nan, 1.0], [1.0, 2.0]])
    filled = mixture_fill(given, np.array([True, False]), 1, seed=0)
    assert filled[2, 0] == pytest.approx(2 / 3)
    assert filled[1, 1] == pytest.approx(2)


@pytest.mark.parametrize("binary", [True, False])
def test_ours_fills_gaps(binary):
    table = two_kinds(binary=binary)
    ours = impute_one(table, IMPUTERS["dynamic"], 0.1, 0).scores
    columns = impute_one(table, IMPUTERS["columns"], 0.1, 0).scores
    assert ours["recovered"] > columns["recovered"] + 0.2
    assert ours["log_likelihood"] > columns["log_likelihood"] + 0.2


def test_a_run_continues_redoes_and_leaves_missing_tables_out(tmp_path, monkeypatch, toy_only):
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path))
    monkeypatch.setitem(gaps.GAP_TABLES, "zoo", GAP_TABLES["zoo"])
    said = []
    peers = [IMPUTERS["columns"], IMPUTERS["mixture"]]
    run_imputation(["zoo", "toy"], peers, [0], folder=tmp_path, report=said.append)
    assert "zoo left out (put tables/zoo.csv into the folder" in said[0]
    assert len(said) == 1 + 4
    run_imputation(["toy"], peers, [0, 1], folder=tmp_path, report=said.append)
    assert len(said) == 5 + 4
    kept = run_imputation(
        ["toy"], peers, [0], folder=tmp_path, redo=["mixture"], report=said.append
    )
    assert len(said) == 9 + 2
    assert len(kept) == 4 + 2


def test_a_compiled_imputer_is_warmed_up_on_few_rows(tmp_path, toy_only):
    seen = []

    def fill(given, table, seed):
        seen.append(len(given))
        return IMPUTERS["columns"].fill(given, table, seed)

    compiled = replace(IMPUTERS["columns"], fill=fill, compiled=True)
    run_imputation(["toy"], [compiled], [0], folder=tmp_path, report=lambda line: None)
    assert seen == [40, 120, 120]


def test_findings_say_plainly_who_is_ahead():
    results = [
        result("dynamic", 0.1, 0.9, -0.3),
        result("neighbours", 0.1, 0.95, -0.4),
        result("dynamic", 0.4, 0.8, -0.5),
        result("neighbours", 0.4, 0.7, -0.6),
    ]
    first, second = imputation_findings(results)
    assert first == "**Ahead of ours** at 10%: in recovered % (90.00) KNNImputer (95.00)."
    assert second == "At 40% no method is ahead of ours."
    headings, lines = imputation_table(results)
    entry = dict(zip(headings, lines[1], strict=True))
    assert entry["method"] == "KNNImputer"
    assert entry["40%: recovered %"] == "70.00"
    assert entry["10%: nats"] == "-0.4000"
    assert "10%: RMSE" not in headings


def test_the_command_writes_tables_and_a_document(tmp_path, toy_only):
    document = tmp_path / "comparison.md"
    compare(["imputation"], tmp_path, [0, 1], document=document, models=PEERS)
    text = document.read_text()
    assert "### toy: hidden cells" in text
    assert "dynpart compare --data imputation --seeds 2" in text
    assert "our model did not take part" in text
    assert text.count("| KNNImputer |") == 1
    kept = json.loads((tmp_path / imputation.FILE).read_text())["results"]
    assert len(kept) == len(PEERS) * 2 * 2
    document.unlink()
    compare(["imputation"], tmp_path, [0], document=document, kept_only=True)
    assert document.read_text() == text


def test_kept_results_must_be_there(tmp_path):
    with pytest.raises(ValueError, match="holds no results for imputation"):
        compare(["imputation"], tmp_path, [0], document=tmp_path / "comparison.md", kept_only=True)


def test_unknown_tables_are_refused():
    with pytest.raises(ValueError, match="table must be one of zoo"):
        load_gap_table("nothing")
