"""Settings shared by all tests: no window for figures, bounded property tests, a browser.

Without Chromium and its driver the tests of pages are skipped, unless DYNPART_REQUIRE_BROWSER is
set, as it is in continuous integration.
"""

import os
import shutil
import warnings
from contextlib import nullcontext
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from dynpart import DynamicPartitionModel, fitting
from dynpart.datasets import make_pairs
from tests.effort import ALL, QUICK

# Figures are drawn to files; a test machine has no display.
os.environ.setdefault("MPLBACKEND", "Agg")

# Tests run in parallel on all cores: several torch threads per process would compete for them and
# take many times as long as one.
if "PYTEST_XDIST_WORKER" in os.environ and find_spec("torch"):
    import torch

    torch.set_num_threads(1)

# Compilation and shared cores make single examples slow, so there is no deadline. `make test` and
# CI draw the same examples every time: a failure means that the code changed.
quick = settings(
    deadline=None,
    max_examples=QUICK,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    print_blob=True,
)
settings.register_profile("quick", quick)
settings.register_profile(
    "thorough", quick, max_examples=ALL, derandomize=bool(os.environ.get("CI"))
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_sessionstart(session):
    """Let the first two workers compile the largest kernels, each of them different ones.

    Workers use all cores, so that no process of its own compiles for a fit.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        return
    fitting.expecting = lambda kernels: nullcontext()
    X = make_pairs(4)
    if worker == "gw0":
        first_fit(X)  # compiles kernels of the prior over codes, too
        first_fit(X, n_experts=2, autoregressive="all")
    if worker == "gw1":
        first_fit(X + 0.5, prior=None)
        first_fit(X + 0.5, prior=None, amplitude="gain")


def first_fit(X, *, n_experts=4, **settings):
    model = DynamicPartitionModel(n_experts, max_iter=8, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X).transform(X)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed NumPy's global generator, which scikit-learn uses for ``random_state=None``."""
    np.random.seed(0)  # noqa: NPY002


FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-size=1280,900"
)


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if not (chromium and chromedriver):
        if os.environ.get("DYNPART_REQUIRE_BROWSER"):
            pytest.fail("DYNPART_REQUIRE_BROWSER is set, but there is no Chromium here")
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(chromedriver))
    yield driver
    driver.quit()
