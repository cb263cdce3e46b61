"""Runs are kept: what is in the folder is drawn again without learning, the rest is learnt."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dynpart.datasets import make_pairs
from dynpart.estimator import DynamicPartitionModel
from dynpart.reproduce import EXPERIMENTS, reproduce
from dynpart.reproduce._design import Data, Variant
from dynpart.reproduce._runs import read_record, run
from dynpart.reproduce._snapshots import snapshots


def refuse_to_learn(self, X, y=None, **options):
    raise AssertionError("learnt again")


def test_a_whole_experiment_leaves_models_numbers_figures_and_a_report(finished):
    folder, runs = finished
    assert [run.variant.key for run in runs] == ["paper", "default"]
    names = {path.name for path in (folder / "tiny").iterdir()}
    assert {"paper.dynpart", "default.dynpart", "paper.json", "default.json"} <= names
    assert {"training-paper.png", "experts-default.png", "data.png"} <= names
    report = (folder / "reproduction.md").read_text()
    assert "Every factor is found." in report
    assert "2 variants ran." in report
    assert f"{runs[1].result.seeds_recovered} of 1" in report


def test_kept_runs_are_drawn_again_without_learning(experiment, finished, monkeypatch):
    folder, first = finished
    figure = folder / "tiny" / "training-default.png"
    drawn = figure.read_bytes()
    figure.unlink()
    monkeypatch.setattr(DynamicPartitionModel, "fit", refuse_to_learn)
    again = reproduce(["tiny"], folder, experiments={"tiny": experiment})
    assert figure.read_bytes() == drawn
    for before, after in zip(first, again, strict=True):
        assert after.result == before.result
        assert np.array_equal(after.model.means_, before.model.means_)
        assert np.array_equal(after.snapshots[2], before.snapshots[2])


@pytest.mark.parametrize("change", [{"seed": 5}, {"fresh": True}])
def test_other_settings_are_learnt_anew(change, experiment, finished, monkeypatch):
    folder = finished[0] / "tiny"
    variant, data = experiment.variants[0], experiment.load()
    monkeypatch.setattr(DynamicPartitionModel, "fit", refuse_to_learn)
    asked = {"seed": 0, "engine": "auto"}
    assert run(experiment, variant, data, folder, **asked).variant == variant
    with pytest.raises(AssertionError, match="learnt again"):
        run(experiment, variant, data, folder, **(asked | change))


def test_an_interruption_keeps_what_is_finished(experiment, tmp_path, monkeypatch):
    everything = {"tiny": experiment}
    learn = DynamicPartitionModel.fit

    def interrupted(self, X, y=None, **options):
        if self.learning == DynamicPartitionModel().learning:
            raise KeyboardInterrupt
        return learn(self, X, y, **options)

    monkeypatch.setattr(DynamicPartitionModel, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reproduce(["tiny"], tmp_path, experiments=everything)
    assert read_record(tmp_path / "tiny", experiment.variants[0]) is not None
    assert read_record(tmp_path / "tiny", experiment.variants[1]) is None
    assert "1 variants ran." in (tmp_path / "reproduction.md").read_text()

    def only_the_rest(self, X, y=None, **options):
        assert self.learning != "paper"
        return learn(self, X, y, **options)

    monkeypatch.setattr(DynamicPartitionModel, "fit", only_the_rest)
    assert len(reproduce(["tiny"], tmp_path, experiments=everything)) == 2


def test_a_fit_goes_on_from_its_checkpoint(experiment, finished, tmp_path, monkeypatch):
    variant, data = experiment.variants[0], experiment.load()
    learn = DynamicPartitionModel.fit

    def stopped_halfway(self, X, y=None, **options):
        if "checkpoint" in options:
            learn(self, X, y, **options, every=0)
            raise KeyboardInterrupt
        return learn(self, X, y)

    monkeypatch.setattr(DynamicPartitionModel, "fit", stopped_halfway)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, variant, data, tmp_path, seed=0, engine="auto")
    assert (tmp_path / "paper.checkpoint").exists()
    monkeypatch.setattr(DynamicPartitionModel, "fit", learn)
    resumed = run(experiment, variant, data, tmp_path, seed=0, engine="auto")
    assert resumed.result.resumed
    assert not (tmp_path / "paper.checkpoint").exists()
    assert np.array_equal(resumed.model.means_, finished[1][0].model.means_)


def test_a_run_warns_of_the_model_it_keeps_and_of_no_other_fit(experiment, tmp_path):
    X = make_pairs(3)  # too few rows: every fit of them warns
    variant = Variant("few", "Few", {"n_experts": 4, "max_iter": 4, "learning": "paper"})
    with pytest.warns(ConvergenceWarning) as alone:
        DynamicPartitionModel(**variant.parameters, random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning) as found:
        run(experiment, variant, Data(X, X, (2, 3)), tmp_path, seed=0, engine="auto")
    assert [str(w.message) for w in found] == [str(w.message) for w in alone]


def test_a_damaged_record_counts_as_none(experiment, tmp_path):
    variant = experiment.variants[0]
    for text in ("", "{", json.dumps({"result": {"mean_active": 1}}), json.dumps([1])):
        (tmp_path / "paper.json").write_text(text)
        assert read_record(tmp_path, variant) is None


@pytest.mark.parametrize("learning", ["paper", DynamicPartitionModel().learning])
def test_snapshots_go_the_way_of_the_whole_fit(learning):
    X = np.tile(make_pairs(3), (5, 1)).astype(np.uint8)
    # Under a learnt prior opinions are refitted after the last iteration.
    options = {"learning": learning, "prior": None}
    model = DynamicPartitionModel(4, max_iter=6, random_state=3, **options).fit(X)
    taken = snapshots(model, X, [0, 1, 99])
    assert list(taken) == [0, 1, model.n_iter_]
    assert np.allclose(taken[model.n_iter_], model.means_)
    assert not np.allclose(taken[0], taken[1])
    # The start is scattered around the data's average, and learning moves away from it.
    away = {step: np.abs(means - X.mean(axis=0)).mean() for step, means in taken.items()}
    assert away[0] < 0.8 * away[model.n_iter_]
    assert snapshots(model, X, []) == {}


def test_unknown_experiments_are_named(tmp_path):
    with pytest.raises(ValueError, match="no-such"):
        reproduce(["no-such"], tmp_path)


def test_codes_with_gains_are_measured_beside_principal_components(experiment, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 1.5, (60, 1)) * rng.normal(0, 1, (2, 6))[rng.integers(0, 2, 60)]
    data, usual = Data(X, X, (2, 3)), {"n_experts": 2, "max_active": 1, "max_iter": 3}
    plain = replace(experiment, snapshots=(), n_seeds=0)
    found = {
        mode: run(
            plain, Variant(mode or "binary", "", usual | {"amplitude": mode}), data, tmp_path,
            seed=0, engine="cpu",
        ).result
        for mode in (None, "offset", "gain")
    }  # fmt: skip
    assert found[None].linear_error is found[None].n_linear is None
    assert [found[mode].n_linear for mode in ("offset", "gain")] == [1, 2]
    assert found["gain"].linear_error < found["offset"].linear_error


@pytest.mark.slow
def test_photographs_are_cut_into_patches_that_show_something():
    data = EXPERIMENTS["intensities-photographs"].load()
    assert data.train.shape == (4000, 256)
    assert data.test.shape == (1000, 256)
    assert min(data.train.std(axis=1).min(), data.test.std(axis=1).min()) > 0.05
    assert 0 <= data.train.min() < data.train.max() <= 1
