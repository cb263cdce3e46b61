"""The reference lists everything public: no name is forgotten when one is added."""

from importlib import import_module
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "api"
CONSTANTS = {"KINDS", "SURE", "__version__"}
MODULES = ["", "baselines", "datasets", "explorer", "families", "plotting", "streaming"]


@pytest.mark.skipif(not PAGES.exists(), reason="the pages are not part of this distribution")
@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(name):
    listed = set()
    for page in PAGES.glob("*.md"):
        listed.update(line.strip() for line in page.read_text().splitlines())
    module = import_module(f"dynpart.{name}".rstrip("."))
    missing = set(module.__all__) - listed - CONSTANTS
    assert not missing, f"docs/api leaves out {sorted(missing)} of {module.__name__}"
