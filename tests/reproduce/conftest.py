"""A small experiment with everything a large one has."""

import shutil

import numpy as np
import pytest

from dynpart.datasets import make_pairs
from dynpart.plotting import plot_experts, plot_templates, plot_training
from dynpart.reproduce import reproduce
from dynpart.reproduce._design import Data, Experiment, Picture, Variant


@pytest.fixture(scope="session")
def experiment():
    def load():
        X = np.tile(make_pairs(3), (5, 1))  # rows enough for the experts, so that none warns
        return Data(X, X, (2, 3))

    return Experiment(
        name="tiny",
        title="Three pairs",
        setting="All 8 rows, five times.",
        claim="Every factor is found.",
        load=load,
        variants=(
            Variant("paper", "Literal", {"n_experts": 4, "max_iter": 4, "learning": "paper"}),
            Variant("default", "Ours", {"n_experts": 6, "max_iter": 4}),
        ),
        pictures=(
            Picture("training", "During training.", lambda run, data: plot_training(run.snapshots)),
            Picture("experts", "Experts.", lambda run, data: plot_experts(run.model)),
            Picture("data", "Rows.", draw_shared=lambda data, seed: plot_templates(data.train)),
        ),
        remarks=lambda results: [f"{len(results)} variants ran."],
        snapshots=(0, 2),
        n_seeds=1,
    )


@pytest.fixture(scope="session")
def finished_once(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    runs = reproduce(["tiny"], folder, experiments={"tiny": experiment})
    return folder, runs


@pytest.fixture
def finished(finished_once, tmp_path):
    """A folder of its own with the finished experiment in it, and the runs."""
    folder, runs = finished_once
    return shutil.copytree(folder, tmp_path / "finished"), runs
