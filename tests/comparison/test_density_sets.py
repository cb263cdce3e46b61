"""Densities of binary sets: what is read, how models are scored, kept and run by the command."""

import json
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp
from typer.testing import CliRunner

from dynpart.baselines import Mixture
from dynpart.cli import app
from dynpart.comparison import density_models
from dynpart.comparison.command import compare
from dynpart.comparison.density_models import DENSITY_MODELS, DensityModel
from dynpart.comparison.density_runs import file_of, load_density, run_density, score_model
from dynpart.comparison.density_sets import (
    DENSITY_NAMES,
    DENSITY_SETS,
    chosen_sets,
    load_density_set,
)

NLTCS = DENSITY_SETS["nltcs"]
CHEAP = ["independent-columns", "chow-liu", "mixture-chosen", "mixture-30"]


def two_kinds(n_rows, n_features=6, seed=0):
    """Rows of two kinds that all columns tell apart, with some noise."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(n_rows, 1))
    return np.where(rng.random((n_rows, n_features)) < 0.1, 1 - kind, kind).astype(np.uint8)


def store(root, name="nltcs", **splits):
    """A set in the folder `root`, small where nothing else is said."""
    sizes = {"train": 120, "valid": 40, "test": 60}
    rows = {split: two_kinds(n, seed=i) for i, (split, n) in enumerate(sizes.items())}
    (root / "debd").mkdir(exist_ok=True, parents=True)
    np.savez(root / "debd" / f"{name}.npz", **(rows | splits))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder of data with two small sets, and mixtures of few components."""
    root = tmp_path / "data"
    store(root)
    store(root, "kdd")
    monkeypatch.setenv("DYNPART_DATA", str(root))
    monkeypatch.setattr(density_models, "MIXTURE_SIZES", (1, 2))
    return root


def fake(nats, name="fake", *, seeded=True):
    """A model that says the same of all rows."""
    return DensityModel(name, name, lambda rows, seed: {"nats": nats}, seeded=seeded)


# ------------------------------------------------------------------ sets


def test_rows_are_read_as_they_are_stored(data):
    rows = load_density_set(NLTCS)
    assert np.array_equal(rows.train, two_kinds(120, seed=0))
    assert rows.valid.shape == (40, 6)
    assert rows.test.dtype == np.uint8


def test_names_ask_for_all_sets_or_for_one():
    assert len(DENSITY_SETS) == 12
    assert chosen_sets(["density"]) == list(DENSITY_SETS.values())
    assert chosen_sets(["density-kdd", "density-nltcs"]) == [NLTCS, DENSITY_SETS["kdd"]]
    assert chosen_sets(["bars", "nltcs"]) == []
    assert all(len(chosen_sets([name])) == 1 for name in DENSITY_NAMES[1:])


def test_a_file_that_is_not_there_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path))
    wanted = r"put debd/nltcs\.npz into the folder named by DYNPART_DATA"
    with pytest.raises(FileNotFoundError, match=wanted):
        load_density_set(NLTCS)
    monkeypatch.delenv("DYNPART_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="DYNPART_DATA"):
        load_density_set(NLTCS)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"test": np.zeros((3, 5), np.uint8)}, "'test' must be a table with as many columns"),
        ({"valid": np.full((3, 6), 2)}, "'valid' must hold only zeros and ones"),
        ({"train": np.zeros((0, 6), np.uint8)}, "'train' must be a table"),
    ],
)
def test_files_that_hold_something_else_are_refused(data, splits, message):
    store(data, **splits)
    with pytest.raises(ValueError, match=message):
        load_density_set(NLTCS)


# ------------------------------------------------------------------ models


def test_independent_columns_add_half_a_row_for_each_value(data):
    rows = load_density_set(NLTCS)
    p = (rows.train.sum(axis=0) + 0.5) / (len(rows.train) + 1)
    expected = np.where(rows.test == 1, np.log(p), np.log(1 - p)).sum(axis=1).mean()
    found = DENSITY_MODELS["independent-columns"].score(rows, 0)
    assert found == {"nats": pytest.approx(expected)}


def test_models_that_know_the_kinds_are_ahead_of_independent_columns(data):
    rows = load_density_set(NLTCS)
    nats = {name: DENSITY_MODELS[name].score(rows, 0)["nats"] for name in CHEAP}
    assert nats["mixture-chosen"] > nats["chow-liu"] > nats["independent-columns"] + 0.5


def test_the_mixture_is_the_one_that_validation_rows_prefer(data, monkeypatch):
    rows = load_density_set(NLTCS)
    found = DENSITY_MODELS["mixture-chosen"].score(rows, 0)
    fits = {
        (size, smoothing): Mixture(size, epsilon=smoothing, clip=1e-4, random_state=0).fit(
            rows.train
        )
        for size, smoothing in product((1, 2), density_models.MIXTURE_SMOOTHING)
    }
    best = max(fits, key=lambda key: fits[key].score_samples(rows.valid).mean())
    assert (found["components"], found["smoothing"]) == best
    assert best[0] == 2
    assert found["nats"] == pytest.approx(fits[best].score_samples(rows.test).mean())


def test_em_never_lowers_the_smoothed_likelihood():
    X, smoothing, clip = two_kinds(200), 0.5, 1e-4
    mean = X.mean(axis=0)

    def objective(n_iter):
        model = Mixture(4, max_iter=n_iter, epsilon=smoothing, clip=clip, random_state=0).fit(X)
        p, w = model.means_, model.weights_
        explained = X @ np.log(p).T + (1.0 - X) @ np.log(1 - p).T
        added = smoothing * np.sum(mean * np.log(p) + (1 - mean) * np.log(1 - p))
        added += 1e-3 * np.sum(np.log(w))
        return logsumexp(explained + np.log(w), axis=1).sum() + added

    found = [objective(n) for n in range(1, 30)]
    assert (np.diff(found) > -1e-2).all()
    assert found[-1] > found[0] + 1


def test_probabilities_of_mixtures_are_kept_off_0_and_1_as_far_as_is_said():
    X = np.zeros((50, 3), dtype=np.uint8)
    assert Mixture(2, clip=1e-4, random_state=0).fit(X).means_ == pytest.approx(1e-4)
    assert Mixture(2, random_state=0).fit(X).means_ == pytest.approx(1e-3)


@pytest.mark.slow
def test_ours_is_scored_by_its_density_and_tells_its_size(data, monkeypatch):
    rows = load_density_set(NLTCS)
    given = density_models._ours(2)(rows, 0)
    assert given["experts"] == 2
    assert 1 <= given["active"] <= 2
    assert given["nats"] > given["code_nats"]  # the sum has more codes than the best one
    chosen = DENSITY_MODELS["dynamic-auto"].score(rows, 0)
    assert chosen["experts"] > 1
    columns = DENSITY_MODELS["independent-columns"].score(rows, 0)["nats"]
    assert min(given["nats"], chosen["nats"]) > columns + 0.5


# ------------------------------------------------------------------ runs


def test_what_is_kept_is_not_computed_again_unless_asked(data, tmp_path):
    def run(nats, **options):
        run_density([NLTCS], [fake(nats)], [0, 1], folder=tmp_path, **options)
        return {r.seed: r.scores["nats"] for r in load_density([NLTCS], tmp_path)}

    assert run(-1.0) == {0: -1.0, 1: -1.0}
    assert run(-2.0, report=pytest.fail) == {0: -1.0, 1: -1.0}
    assert run(-2.0, redo=["other"], report=pytest.fail) == {0: -1.0, 1: -1.0}
    assert run(-2.0, redo=["fake"]) == {0: -2.0, 1: -2.0}


def test_an_interrupted_run_keeps_what_was_done(data, tmp_path):
    def fail(rows, seed):
        raise KeyboardInterrupt

    models = [fake(-1.0), DensityModel("slow", "slow", fail)]
    with pytest.raises(KeyboardInterrupt):
        run_density([NLTCS], models, [0], folder=tmp_path)
    [kept] = load_density([NLTCS], tmp_path)
    assert kept.model == "fake"
    assert (kept.n_features, kept.n_train, kept.n_valid, kept.n_test) == (6, 120, 40, 60)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "density-nltcs.json"]


def test_each_set_has_a_file_and_models_without_a_seed_run_once(data, tmp_path):
    said = []
    sets = [NLTCS, DENSITY_SETS["kdd"]]
    models = [fake(-1.0, "same", seeded=False), fake(-2.5)]
    run_density(sets, models, [3, 4], folder=tmp_path / "new", report=said.append)
    for entry in sets:
        stored = json.loads(file_of(entry, tmp_path / "new").read_text())["results"]
        assert [(r["model"], r["seed"]) for r in stored] == [("same", 0), ("fake", 3), ("fake", 4)]
    assert len(said) == 6
    assert said[1].startswith("NLTCS, fake, seed 3: -2.50 nats")


def test_a_missing_set_is_told_before_anything_is_computed(data, tmp_path):
    never = DensityModel("never", "never", lambda rows, seed: pytest.fail("ran"))
    with pytest.raises(FileNotFoundError, match=r"debd/msnbc\.npz"):
        run_density([NLTCS, DENSITY_SETS["msnbc"]], [never], [0], folder=tmp_path)


def test_a_set_whose_results_are_kept_needs_no_file(data, tmp_path):
    run_density([NLTCS], [fake(-1.0)], [0], folder=tmp_path)
    (data / "debd" / "nltcs.npz").unlink()
    run_density([NLTCS], [fake(-1.0)], [0], folder=tmp_path, report=pytest.fail)


def test_seconds_are_those_of_learning_and_scoring(data):
    result = score_model(NLTCS, load_density_set(NLTCS), fake(-1.0), 2)
    assert 0 <= result.seconds < 1
    assert (result.data, result.model, result.seed) == ("nltcs", "fake", 2)


# ------------------------------------------------------------------ the command


def test_the_command_prints_tables_and_writes_a_document_of_its_own(data, tmp_path, capsys):
    out = tmp_path / "out"
    options = {"models": CHEAP}
    compare(["density-nltcs", "density-kdd"], out, [0], **options)
    text = (out / "density.md").read_text()
    printed = capsys.readouterr().out
    for result in load_density(chosen_sets(["density"]), out):
        nats = f"{result.scores['nats']:.2f}"
        assert nats in text
        assert nats in printed
    assert "dynpart compare --data density-nltcs --seeds 1" in text
    assert not (out / "comparison.md").exists()
    compare(["density"], out, [0], kept_only=True, **options)
    assert (out / "density.md").read_text() == text
    compare(["density-kdd"], out, [0], kept_only=True, document=out / "kdd.md", **options)
    assert "NLTCS" not in (out / "kdd.md").read_text()


def test_other_data_have_the_other_document(data, tmp_path, monkeypatch):
    monkeypatch.setattr("dynpart.comparison.command.TRACKING_SEEDS", range(1))
    names = ["density-nltcs", "tracking"]
    compare(names, tmp_path, [0], models=CHEAP[:2], document=tmp_path / "page.md")
    assert "Chow-Liu" in (tmp_path / "density.md").read_text()
    page = (tmp_path / "page.md").read_text()
    assert "Tracking the best expert" in page
    assert "NLTCS" not in page
    with pytest.raises(ValueError, match=r"--report must not be density\.md"):
        compare(names, tmp_path, [0], document=tmp_path / "density.md")


def test_what_the_command_cannot_do_is_an_error(data, tmp_path):
    with pytest.raises(ValueError, match="holds no results for nltcs"):
        compare(["density-nltcs"], tmp_path, [0], kept_only=True)
    with pytest.raises(ValueError, match="--validation does not apply to density sets"):
        compare(["density-nltcs"], tmp_path, [0], split="validation")
    with pytest.raises(ValueError, match=r"--data must be one of .*density-nltcs"):
        compare(["density-zoo"], tmp_path, [0])


def test_a_missing_folder_of_data_is_one_line_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNPART_DATA", str(tmp_path / "nowhere"))
    found = CliRunner().invoke(app, ["compare", "-d", "density", "-o", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert "DYNPART_DATA" in found.output
    assert "Traceback" not in found.output
