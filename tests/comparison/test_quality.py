"""The benchmark of learning quality: its rows, its settings, its two files."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "quality.py"


@pytest.fixture(scope="module")
def quality():
    if not PATH.exists():
        pytest.skip("the benchmark is not part of this distribution")
    spec = spec_from_file_location("quality", PATH)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_baselines_and_the_literal_paper_are_rows(quality):
    assert {"default", "paper", "k-means", "pca", "quantisation"} <= set(quality.settings())


def test_settings_are_read_from_text(quality):
    row = quality.parsed_setting("long: max_iter=60, n_swaps=2")
    model = row.make(quality.load_problem("bars"), 3)
    assert row.name == "long"
    assert model.settings["max_iter"] == 60
    assert model.settings["n_swaps"] == 2
    for bad in ("", "name: 3", ": a=1"):
        with pytest.raises(ValueError, match="--setting"):
            quality.parsed_setting(bad)


def test_tuning_scores_validation_rows_and_only_final_the_test_rows(quality, tmp_path):
    common = ["--data", "digits", "--only", "k-means", "--seeds", "1", "--out", str(tmp_path)]
    quality.main(common)
    quality.main([*common, "--final"])
    results = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [(r["split"], r["n_scored"]) for r in results] == [("validation", 250), ("test", 297)]
    assert "validation rows" in (tmp_path / "quality-validation.md").read_text()
    assert "| k-means | 1.0 |" in (tmp_path / "quality-test.md").read_text()


def test_unknown_rows_are_refused(quality, capsys):
    with pytest.raises(SystemExit):
        quality.main(["--only", "nonsense"])
    assert "--only must be among default" in capsys.readouterr().err
