"""Unseen rows of tables: what is learnt from, how it is scored, and the command."""

import json

import numpy as np
import pytest

from dynpart.comparison import unseen
from dynpart.comparison.command import compare
from dynpart.comparison.densities import (
    DENSITY_METHODS,
    DensityMethod,
    load_mixed_table,
    mixed_table,
    usual_shares,
)
from dynpart.comparison.unseen import N_FOLDS, UnseenResult, load_unseen, run_unseen, score_fold
from dynpart.comparison.unseen_report import unseen_findings, unseen_table


def two_kinds(n_rows=100):
    """Rows of two kinds that all four columns tell apart; two gaps; one level seen once."""
    rng = np.random.RandomState(0)
    kind = rng.randint(2, size=n_rows)
    words = {name: [["no", "yes"][k] for k in kind] for name in ("sick", "tired")}
    words["town"] = [["north", "south"][k] for k in kind]
    words["town"][0] = "west"
    words["age"] = [f"{20 + 40 * k + rng.normal():.3f}" for k in kind]
    words["sick"][1] = words["age"][2] = ""
    return mixed_table("toy", "toy", words)


def fake(value):
    """A method that says the same of all rows."""
    return DensityMethod("fake", "fake", lambda *_: {"nats": value})


def result(method, fold, nats, n_experts=2):
    scores = {} if nats is None else {"nats": nats}
    n = 1 if DENSITY_METHODS[method].alone else n_experts
    return UnseenResult("toy", "toy", method, n, fold, 100, 1, 3, 1.0, scores)


@pytest.fixture
def toy_only(monkeypatch):
    """Let the only table be a small one, with two experts."""
    monkeypatch.setattr("dynpart.comparison.command.MIXED_TABLES", {"toy": ("toy", None)})
    monkeypatch.setattr(unseen, "load_mixed_table", lambda name: two_kinds())
    monkeypatch.setattr(unseen, "N_EXPERTS", (2,))


def test_texts_become_levels_numbers_and_gaps():
    table = two_kinds()
    assert table.levels == (("no", "yes"), ("no", "yes"), ("north", "south", "west"), None)
    assert np.argwhere(np.isnan(table.values)).tolist() == [[1, 0], [2, 3]]
    assert table.values[0, 2] == 2


def test_a_table_is_read_from_the_folder_without_names_of_rows(monkeypatch, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "zoo.csv").write_text("name,legs,type\nbear,4,mammal\ncrab,,other\n")
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path))
    table = load_mixed_table("zoo")
    assert table.names == ("legs", "type")
    assert np.array_equal(table.values, [[0, 0], [np.nan, 1]], equal_nan=True)


def test_folds_hold_every_row_once_and_never_learn_from_what_they_score():
    table, seen = two_kinds(), []

    def watch(table, train, test, n_experts, seed):
        seen.append(test)
        assert len(train) + len(test) == len(table.values)
        both = {row.tobytes() for row in train} & {row.tobytes() for row in test}
        assert not both  # ages differ, but for the gap
        return {"nats": -1.0}

    for fold in range(N_FOLDS):
        score_fold(table, DensityMethod("watch", "watch", watch), 2, fold)
    rows = np.concatenate(seen)
    assert sorted(map(str, rows.tolist())) == sorted(map(str, table.values.tolist()))


def test_one_expert_is_independent_columns_and_two_know_the_kinds():
    table = two_kinds()
    alone = score_fold(table, DENSITY_METHODS["one-expert"], 1, 0).scores
    two = score_fold(table, DENSITY_METHODS["dynamic"], 2, 0).scores
    assert alone["nats"] == pytest.approx(alone["code_nats"])
    assert two["nats"] > alone["nats"] + 2
    assert two["nats"] > two["code_nats"]  # the sum has more codes than the best one
    assert 1 <= two["active"] <= 2


def test_shares_of_levels_sum_to_one_and_leave_none_out():
    table = two_kinds()
    shares = usual_shares(table, table.values[1:]).reshape(3, 3)
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares[2, 2] == pytest.approx(0.5 / (99 + 1.5))
    assert (shares[:2, 2] == 0).all()


def test_smoothing_helps_latent_classes_with_a_level_they_have_not_seen():
    pytest.importorskip("stepmix")
    table = two_kinds()
    row, others = table.values[:1], table.values[1:]
    plain, smoothed = (
        DENSITY_METHODS[name].score(table, others, row, 2, 0)["nats"]
        for name in ("stepmix", "stepmix-smoothed")
    )
    assert plain < -30
    assert smoothed > plain + 20


def test_a_score_that_is_no_number_is_no_value(tmp_path):
    assert score_fold(two_kinds(), fake(float("nan")), 2, 0).scores == {}
    results = [result("dynamic", fold, -1.0) for fold in range(2)]
    results += [result("stepmix", 0, None), result("stepmix", 1, -2.0)]
    headings, [line] = unseen_table(results)
    assert line[headings.index("StepMix")] == "-2.00 (1 of 2 folds)"
    _, [line] = unseen_table([*results[:2], result("stepmix", 0, None)])
    assert line[headings.index("StepMix")] == "no value"


def test_findings_say_who_is_ahead_and_in_how_many_folds():
    ours = [result("dynamic", fold, -3.0) for fold in range(3)]
    columns = [result("one-expert", fold, -4.0) for fold in range(3)]
    rival = [result("stepmix", fold, nats) for fold, nats in enumerate((-1.0, -2.0, -3.5))]
    [said] = unseen_findings([*ours, *columns, *rival])
    assert "**ahead of ours**: StepMix (-2.17, in 2 of 3 folds)" in said
    assert "ahead of independent columns (-4.00, in 3 of 3 folds)" in said
    [said] = unseen_findings(rival)
    assert "did not take part" in said


def test_what_is_kept_is_not_computed_again_unless_asked(tmp_path, toy_only):
    first = run_unseen(["toy"], [fake(-1.0)], folder=tmp_path)
    assert len(first) == N_FOLDS
    again = run_unseen(["toy"], [fake(-2.0)], folder=tmp_path)
    assert {r.scores["nats"] for r in again} == {-1.0}
    afresh = run_unseen(["toy"], [fake(-2.0)], folder=tmp_path, redo=["fake"])
    assert {r.scores["nats"] for r in afresh} == {-2.0}
    assert load_unseen(tmp_path) == afresh


def test_tables_and_packages_that_are_not_there_are_left_out_with_a_line(
    tmp_path, monkeypatch, toy_only
):
    absent = DensityMethod("fake", "fake", fake(0.0).score, needs="no_such_package")
    said = []
    assert run_unseen(["toy"], [absent], folder=tmp_path, report=said.append) == []
    assert said == ["fake left out (pip install no_such_package)"]
    monkeypatch.setattr(unseen, "load_mixed_table", load_mixed_table)
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path))
    assert run_unseen(["zoo"], [fake(0.0)], folder=tmp_path, report=said.append) == []
    assert "tables/zoo.csv" in said[-1]


def test_the_command_prints_the_table_and_writes_its_section(tmp_path, toy_only, capsys):
    page = tmp_path / "page.md"
    options = {"document": page, "models": ["one-expert", "dynamic"]}
    compare(["tables"], tmp_path, [0], **options)
    text = page.read_text()
    assert "dynpart compare --data tables" in text
    assert "| toy | 2 | -" in text
    assert "- **toy, unseen rows.** With 2 experts ours has -" in text
    assert "independent columns" in capsys.readouterr().out
    stored = json.loads((tmp_path / "tables.json").read_text())["results"]
    assert len(stored) == 2 * N_FOLDS
    compare(["tables"], tmp_path, [0], kept_only=True, **options)
    assert page.read_text() == text


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="holds no results for tables"):
        compare(["tables"], tmp_path, [0], document=tmp_path / "page.md", kept_only=True)
