"""Settings shared by all tests: no window for figures, and bounded property tests."""

import os

from hypothesis import HealthCheck, settings

# Figures are drawn to files; a test machine has no display.
os.environ.setdefault("MPLBACKEND", "Agg")

# Compilation and shared cores make single examples slow, so time is no criterion. CI draws the
# same examples every time: a red run means that the code changed, not the dice.
settings.register_profile(
    "dev",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("dev"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
