"""Problems, runs that continue, tables, findings, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dynpart.comparison import CONTESTANTS, PROBLEMS, load_problem, load_results, ours, run, run_one
from dynpart.comparison.command import compare
from dynpart.comparison.report import findings, markdown_table, rows_of, table_of
from dynpart.comparison.runner import Result, rate_distortion, unavailable

FAST = ["mixture", "k-means", "partition", "quantisation"]


def result(contestant, error, *, seed=0, binary=True, active=5.0, **scores):
    values = {"active": active, "error": error, "log_likelihood": -1.0} | scores
    return Result("synthetic", contestant, seed, "test", 32, 32, binary, 1.0, 0.1, values)


def is_drawn(path):
    """Whether a figure has content: different shades on a large part of its area."""
    with Image.open(path) as picture:
        gray = np.asarray(picture.convert("L"))
    return len(np.unique(gray)) > 50 and (gray < 250).mean() > 0.02


def test_validation_rows_come_from_the_training_rows_only():
    tuned, final = load_problem("digits", split="validation"), load_problem("digits")
    assert len(tuned.train) + len(tuned.score) == len(final.train)
    both = np.concatenate([tuned.train, tuned.score])
    assert sorted(map(bytes, both)) == sorted(map(bytes, final.train))
    assert len(tuned.score_labels) == len(tuned.score)


def test_bars_are_new_for_every_seed_and_split():
    a, b = load_problem("bars", 0), load_problem("bars", 1)
    assert not np.array_equal(a.train, b.train)
    assert not np.array_equal(a.score, load_problem("bars", 0, "validation").score)
    assert np.array_equal(a.train, load_problem("bars", 0, "validation").train)


def test_factors_of_pairs_and_bars():
    pairs, bars = load_problem("synthetic"), load_problem("bars")
    assert np.array_equal(pairs.factors, pairs.score[:, ::2])
    assert bars.factors.shape == (1000, 10)
    empty = ~bars.score.any(axis=1)
    assert not bars.factors[empty].any()


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match="data must be one of synthetic"):
        load_problem("mnits")
    with pytest.raises(ValueError, match="split"):
        load_problem("bars", split="train")


def test_scores_of_the_fixed_partition_on_pairs():
    outcome, templates = run_one(load_problem("synthetic"), CONTESTANTS["partition"], 0)
    assert outcome.scores["found_all"] == 1
    assert outcome.scores["error"] == 0
    assert outcome.scores["active"] == 5
    assert outcome.scores["told"] == pytest.approx(1)
    # One of two per pair: five bits for the code, and next to nothing for the row.
    assert outcome.scores["code_bits"] == pytest.approx(5, abs=0.3)
    assert templates.shape == (10, 10)


def test_gray_problems_leave_binary_models_out():
    problem = load_problem("digits-gray")
    assert unavailable(CONTESTANTS["boltzmann"], problem) == "learns only from binary rows"
    assert unavailable(CONTESTANTS["pca"], problem) is None
    missing = replace(CONTESTANTS["pca"], needs="no_such_package")
    assert "no_such_package" in unavailable(missing, problem)


def test_rate_distortion_falls_with_the_rate():
    problem = replace(load_problem("digits"), rates=(1, 4, 10))
    model = CONTESTANTS["pca"].make(problem, 0).fit(problem.train)
    curve = np.array(rate_distortion(model, problem))
    assert curve[:, 0].tolist() == [1, 4, 10]
    assert (np.diff(curve[:, 1]) < 0).all()


def test_a_run_continues_and_redoes_what_is_asked(tmp_path):
    contestants = [CONTESTANTS["k-means"], CONTESTANTS["partition"]]
    said = []
    run(["synthetic"], contestants, [0], folder=tmp_path, report=said.append)
    assert len(said) == 2
    run(["synthetic"], contestants, [0, 1], folder=tmp_path, report=said.append)
    assert len(said) == 4
    kept = run(
        ["synthetic"], contestants, [0], folder=tmp_path, redo=["k-means"], report=said.append
    )
    assert len(said) == 5
    assert {r.key for r in kept} == {r.key for r in load_results(tmp_path)}
    stored = json.loads((tmp_path / "results.json").read_text())["results"]
    active = {(r["contestant"], r["seed"]): r["scores"]["active"] for r in stored}
    # What is done again replaces all that was kept of that model.
    assert active == {("k-means", 0): 1, ("partition", 0): 5, ("partition", 1): 5}


def test_table_has_means_spreads_and_seeds():
    rows = rows_of(
        "synthetic",
        [result("dynamic", 0.1, found_all=1.0), result("dynamic", 0.3, seed=1, found_all=0.0)],
    )
    headings, lines = table_of(rows)
    entry = dict(zip(headings, lines[0], strict=True))
    assert entry["error %"] == "20.00 ± 14.14"
    assert entry["all found"] == "1 of 2"
    assert entry["seeds"] == "0, 1"
    assert "accuracy %" not in headings
    assert markdown_table(headings, lines).count("\n") == 2


def test_findings_say_plainly_who_is_ahead():
    problem = load_problem("synthetic")
    common = {"found_all": 1.0, "code_bits": 9.0}
    rows = rows_of(
        "synthetic",
        [
            result("dynamic", 0.02, **common),
            result("max-min", 0.01, found_all=1.0, code_bits=8.0),
            result("pca", 0.0, binary=False, found_all=0.0),
        ],
    )
    text = " ".join(findings(problem, rows))
    assert "No model finds all factors more often than ours (1 of 1 seeds)" in text
    assert "**Ahead of ours in reconstruction with binary codes** (2.00%" in text
    assert "max-min rule (1.00% with 5.0)" in text
    assert "PCAʳ (0.00%)" in text
    assert "**Shorter codes than ours** (9.0 bits): max-min rule (8.0 bits)" in text
    alone = findings(problem, rows_of("synthetic", [result("dynamic", 0.02, **common)]))
    assert any("No model with binary codes reconstructs better" in line for line in alone)


def test_ours_takes_changed_settings():
    problem = load_problem("digits")
    model = ours("few", "few", max_active=2, max_iter=3).make(problem, 0)
    assert model.settings == {"max_iter": 3, "max_active": 2}


def test_every_problem_names_itself():
    for name in ("synthetic", "pairs10", "pairs20", "bars", "digits", "digits-gray"):
        assert load_problem(name).name == name
        assert name in PROBLEMS


def test_the_command_writes_tables_figures_and_a_document(tmp_path):
    document = tmp_path / "docs" / "comparison.md"
    folder = tmp_path / "out"
    compare(["synthetic", "tracking"], folder, [0, 1], document=document, models=FAST)
    text = document.read_text()
    assert "| fixed partitionᵗ | 5.0 ± 0.0 | 0.00 ± 0.00 |" in text
    assert "../out/synthetic-rate-distortion.png" in text
    assert "Tracking the best expert" in text
    for figure in ("synthetic-rate-distortion.png", "synthetic-templates.png"):
        assert is_drawn(folder / figure)
    with pytest.raises(ValueError, match="--data"):
        compare(["nothing"], folder, [0], document=document)
    with pytest.raises(ValueError, match="--model"):
        compare(["synthetic"], folder, [0], document=document, models=["nothing"])


def test_kept_results_are_written_down_without_computing(tmp_path):
    document = tmp_path / "comparison.md"
    with pytest.raises(ValueError, match="holds no results for synthetic"):
        compare(["synthetic"], tmp_path, [0], document=document, kept_only=True)
    compare(["synthetic"], tmp_path, [0], document=document, models=["k-means"])
    before = (tmp_path / "results.json").read_text()
    document.unlink()
    compare(["synthetic"], tmp_path, [0, 1], document=document, kept_only=True)
    assert (tmp_path / "results.json").read_text() == before
    assert "dynpart compare --data synthetic --seeds 1" in document.read_text()


def test_results_of_contestants_of_an_earlier_version_are_left_aside(tmp_path):
    document = tmp_path / "comparison.md"
    compare(["synthetic"], tmp_path, [0], document=document, models=["k-means"])
    kept = json.loads((tmp_path / "results.json").read_text())
    kept["results"].append(kept["results"][0] | {"contestant": "long-gone"})
    (tmp_path / "results.json").write_text(json.dumps(kept))
    compare(["synthetic"], tmp_path, [0], document=document, kept_only=True)
    assert document.read_text().count("| k-means |") == 1
    assert "long-gone" not in document.read_text()


def test_images_are_drawn_as_images(tmp_path):
    document = tmp_path / "comparison.md"
    compare(["digits"], tmp_path, [0], document=document, models=["k-means", "pca"])
    assert is_drawn(tmp_path / "digits-templates.png")
    assert "accuracy %" in document.read_text()
