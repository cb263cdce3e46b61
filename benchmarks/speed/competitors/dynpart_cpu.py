"""Our model with its defaults: compiled kernels, everything but the number of experts untouched."""

from __future__ import annotations

from functools import partial

# Imported here so that the memory of libraries is not counted as ours.
import dynpart.engines.cpu  # noqa: F401
from benchmarks.speed.case import Case
from benchmarks.speed.competitors.omp import N_ATOMS
from dynpart import DynamicPartitionModel


def fit(rows, n_components, max_iter=30):
    return DynamicPartitionModel(n_components, max_iter=max_iter, random_state=0).fit(rows)


def encode(model, rows, n_swaps=None):
    """As many active experts at most as orthogonal matching pursuit gets atoms."""
    most = min(N_ATOMS, len(model.means_))
    return model.set_params(n_swaps=n_swaps, max_active=most).transform(rows)


fit_10 = partial(fit, max_iter=10)
greedily = partial(encode, n_swaps=0)

TITLE = f"dynpart, at most {N_ATOMS} active"
CASES = (
    Case("dynpart-10", "dynpart, max_iter=10", "fit", fit_10, "uint8"),
    Case("dynpart-30", "dynpart, defaults (30 iterations)", "fit", fit, "uint8"),
    Case(
        "dynpart-10-alone", "dynpart, max_iter=10", "fit", fit_10, "uint8",
        threads=1, twin="dynpart-10",
    ),
    Case("dynpart-encode", TITLE, "encode", encode, "uint8", model="dynpart-30"),
    Case(
        "dynpart-greedy", f"{TITLE}, n_swaps=0", "encode", greedily, "uint8", model="dynpart-30"
    ),
    Case(
        "dynpart-encode-alone", TITLE, "encode", encode, "uint8", model="dynpart-30",
        threads=1, twin="dynpart-encode",
    ),
    Case("dynpart-subset", "dynpart, compiled", "subset", encode, "uint8", model="dynpart-30"),
)  # fmt: skip
