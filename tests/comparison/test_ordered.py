"""Autoregressive models: scores, kept results and the report."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynpart.baselines import MaskedNetwork, Mixture
from dynpart.comparison import ordered
from dynpart.comparison.command import compare
from dynpart.comparison.ordered import (
    ORDERED_CONTESTANTS,
    ORDERED_PROBLEMS,
    OrderedProblem,
    OrderedResult,
    load_ordered,
    run_ordered,
)
from dynpart.comparison.ordered_report import (
    ordered_findings,
    ordered_section,
    ordered_table,
    write_ordered_document,
)
from dynpart.datasets import ImageDataset, make_bars


def bars():
    return ImageDataset("bars", make_bars(4, 60, random_state=0), (4, 4), n_train=40)


PROBLEM = OrderedProblem("autoregressive", "digits", bars, 3, 2, 4)


def test_results_are_measured_kept_and_written_down(tmp_path):
    contestants = [ORDERED_CONTESTANTS["bernoulli-mixture"], ORDERED_CONTESTANTS["dynamic-plain"]]
    found = run_ordered([PROBLEM], contestants, [0], folder=tmp_path, report=lambda line: None)
    mixture, ours = found
    assert ours.scores["nearby"] > ours.scores["nats"]  # the sum has more codes than the best one
    assert 1 <= ours.scores["active"] <= 2
    assert load_ordered(tmp_path) == found
    again = run_ordered([PROBLEM], contestants, [0], folder=tmp_path, report=pytest.fail)
    assert again == found
    headings, lines = ordered_table(found)
    assert len(headings) == len(lines[0])
    assert lines[0][1] == f"{mixture.scores['nats']:.2f}"
    text = ordered_section(found, str, tmp_path)
    assert "mixture of Bernoullis" in text
    assert text.count(".png") == 2


def results_of(**nats):
    names = {"plain": "dynamic-plain", "ours": "dynamic-autoregressive", "made": "made"}
    return [
        OrderedResult("autoregressive", names[key], ORDERED_CONTESTANTS[names[key]].title, 0,
                      {"nats": value}, 1.0)
        for key, value in nats.items()
    ]  # fmt: skip


def test_findings_say_what_the_table_says():
    assert ordered_findings(results_of(plain=-20.0, ours=-18.5, made=-17.0)) == [
        "Earlier pixels take ours from 20.00 to 18.50 nats a row.",
        "Ours takes 18.50 nats a row, MADE 17.00.",
    ]
    assert ordered_findings(results_of(made=-17.0)) == []


def test_a_document_of_its_own_has_all_that_is_kept(tmp_path):
    path = tmp_path / "docs" / "ordered.md"
    write_ordered_document(path, tmp_path, results_of(ours=-18.5, made=-17.0), "On a toaster.")
    text = path.read_text()
    assert text.startswith("# Autoregressive models")
    assert "dynpart compare --data autoregressive --seeds 1" in text
    assert "On a toaster." in text
    assert "| MADE | -17.00 |" in text


def test_a_device_is_for_rows_told_value_after_value():
    with pytest.raises(ValueError, match="--device=cuda is for --data autoregressive and"):
        compare(["bars", "autoregressive"], Path("nowhere"), [0], device="cuda")


def test_networks_learn_on_the_device_that_is_asked_for():
    pytest.importorskip("torch")
    X = bars().train
    asked, usual = (
        MaskedNetwork(4, max_epochs=3, device=device, random_state=0).fit(X)
        for device in ("cpu", None)
    )
    assert_allclose(asked.log_density(X), usual.log_density(X), rtol=1e-4)
    with pytest.raises(RuntimeError):
        MaskedNetwork(device="nowhere").fit(X)


def test_the_mixture_is_scored_by_its_density():
    X = bars().train
    model = Mixture(2, random_state=0).fit(X)
    p = model.means_.clip(1e-4, 1 - 1e-4)
    expected = [
        np.log(
            sum(
                w * np.prod(np.where(x == 1, q, 1 - q))
                for w, q in zip(model.weights_, p, strict=True)
            )
        )
        for x in X
    ]
    assert ordered._Mixture(model).scores(X)["nats"] == pytest.approx(np.mean(expected))


def test_pictures_show_rows_where_they_belong():
    rows = np.eye(13, 16, dtype=np.uint8)
    figure = ordered.draw_rows(rows, (4, 4))
    drawn = figure.axes[0].images[0].get_array()
    assert drawn.shape == (2 * 5, 12 * 5)
    assert drawn[0, 0] == 1
    assert drawn[5 + 3, 0] == 1  # the thirteenth row begins the second line
    assert (drawn == 1).sum() == 13


def test_every_problem_has_its_own_name():
    assert all(name == problem.name for name, problem in ORDERED_PROBLEMS.items())
