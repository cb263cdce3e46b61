"""Reports of small models, and how a browser visits them."""

from dataclasses import dataclass

import numpy as np
import pytest

from dynpart import DynamicPartitionModel
from dynpart.datasets import load_digits
from dynpart.engines import Experts
from dynpart.explorer import write_report
from dynpart.families import Bernoulli
from dynpart.learning import Annealed
from dynpart.prior import CodePrior

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload=window.hacked=1>',
    "{{DATA}}",
    "<!--",
    "\u2028 ünï çödé \U0001f98a",
    "${window.hacked = 1}",
    "' onmouseover='window.hacked=1",
]


@dataclass
class Report:
    """A page and what it shows."""

    path: object
    model: DynamicPartitionModel
    X: np.ndarray
    n_bytes: int

    def code(self, active):
        H = np.zeros((1, self.model.n_experts), dtype=np.uint8)
        H[0, list(active)] = 1
        return H


def made(folder, name, model, X, **options):
    path = folder / f"{name}.html"
    return Report(path, model, X, write_report(model, X, path, **options))


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    X = load_digits().train[:150]
    model = DynamicPartitionModel(
        12, max_iter=6, max_active=5, learning=Annealed(min_active=2), random_state=0
    ).fit(X)
    return made(tmp_path_factory.mktemp("page"), "digits", model, X, image_shape=(8, 8))


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, len(HOSTILE))) + 3 * rng.integers(0, 2, size=(30, 1))
    model = DynamicPartitionModel(4, max_iter=5, variance_floor=0.2, random_state=0).fit(X)
    labels = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(len(X))]
    options = {"names": HOSTILE, "labels": labels, "title": HOSTILE[0]}
    return made(tmp_path_factory.mktemp("page"), "table", model, X, **options)


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A model of the size the page must bear: 100 experts, 500 samples of 28 x 28."""
    rng = np.random.default_rng(0)
    model = DynamicPartitionModel(100, max_active=12)
    means, levels = rng.uniform(0.001, 0.999, size=(100, 784)), rng.normal(size=(100, 784))
    model._keep_experts(Experts(Bernoulli(), means[None], levels))
    model.activation_probabilities_ = rng.uniform(0.05, 0.2, size=100)
    model.prior_ = CodePrior.independent(model.activation_probabilities_)
    model.objective_history_ = -np.geomspace(200, 100, 30)
    model.history_, model.n_iter_, model.n_features_in_ = (), 30, 784
    model._n_features_out = 100
    X = model.sample(500, random_state=0)
    return made(tmp_path_factory.mktemp("page"), "large", model, X, image_shape=(28, 28))


@pytest.fixture
def visit(browser):
    """Open a report; afterwards the page must have been silent and must have fetched nothing."""

    def opened(report, *, width=1280, height=900, dark=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get(report.path.as_uri())
        return browser

    browser.get("about:blank")
    browser.get_log("browser")
    yield opened
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return window.hacked") is None
