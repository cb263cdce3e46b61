"""Commands choose a number of experts, estimate stability and print the baseline."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dynpart import load
from dynpart.baseline import Baseline
from dynpart.cli import info
from dynpart.datasets import make_pairs
from dynpart.stability import LEGEND
from dynpart.wording import saving_in_words
from tests.cli.test_choices import NAMES, run, text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    (folder / "sites.csv").write_text(text(make_pairs(3, 240, random_state=0).tolist()))
    options = ("-k", "auto", "--stability", 2, "--iterations", 10)
    result = run("fit", folder / "sites.csv", *options, "-o", folder / "m.dynpart")
    (folder / "told").write_text(result.stderr)
    return folder


def test_fit_says_how_many_were_chosen_and_which_are_stable(folder):
    model, told = load(folder / "m.dynpart"), (folder / "told").read_text()
    assert model.n_experts == "auto"
    assert str(model.selection_) in told
    assert f"{model.n_experts_} experts found in 240 rows" in told
    assert f"Stability: {model.stability_}." in told
    assert model.stability_.n_bootstraps == 2


def test_info_tells_the_choice_the_baseline_and_stability(folder):
    model = load(folder / "m.dynpart")
    facts = json.loads(run("info", folder / "m.dynpart", "--json").stdout)
    assert facts["n_experts"] == model.n_experts_
    assert facts["selection"]["n_experts"] == model.n_experts_
    assert facts["stability"]["found"] == list(model.stability_.found)
    X = make_pairs(3, 240, random_state=0)
    plain = model.on_numbers()
    bits, columns = (
        -values.mean() / np.log(2)
        for values in (plain.score_samples(X), plain.independent_scores(X))
    )
    assert facts["baseline"]["bits_a_row"] == pytest.approx(bits, abs=0.01)
    assert facts["baseline"]["independent_columns"] == pytest.approx(columns, abs=0.01)
    assert facts["baseline"]["saved"] == pytest.approx(columns - bits, abs=0.02)
    told = run("info", folder / "m.dynpart").stdout
    assert str(model.selection_) in told
    assert f"{facts['baseline']['bits_a_row']} bits a training row" in told
    for k in range(model.n_experts_):
        assert model.stability_.words(k) in told
    assert all(words in told for words in LEGEND.values())


def test_describe_marks_every_expert(folder):
    model = load(folder / "m.dynpart")
    told = run("describe", folder / "m.dynpart").stdout
    for k in range(model.n_experts_):
        assert f"stability: {model.stability_.words(k)}" in told


def test_other_words_and_numbers_are_refused(folder, tmp_path):
    for wrong in ("Auto", "0", "2.5"):
        result = run("fit", folder / "sites.csv", "-k", wrong, "-o", tmp_path / "m", status=2)
        assert "-k" in result.stderr or "--experts" in result.stderr
    assert len(NAMES) == 6


def test_info_rounds_bits_saved_once():
    """As describe and score do: 5.9477 is 5.9, and not 5.95 and then 6.0."""
    baseline = Baseline(-48.1 * np.log(2), -(48.1 + 5.9477) * np.log(2), 100)
    facts = info._baseline(SimpleNamespace(baseline_=baseline))
    (line,) = info._lines_of("baseline", facts, "column")
    assert line.endswith(saving_in_words(5.9477, "training row"))
    assert "takes 5.9 bits less" in line
