"""One file per competitor. Each has small functions `fit` and `encode`, and names them as cases."""

from __future__ import annotations

from benchmarks.speed.case import Case
from benchmarks.speed.competitors import (
    dictionary,
    dynpart_cpu,
    dynpart_reference,
    kmeans,
    nmf,
    omp,
    rbm,
)

MODULES = (rbm, dynpart_cpu, dictionary, nmf, kmeans, omp, dynpart_reference)
CASES: dict[str, Case] = {case.name: case for module in MODULES for case in module.CASES}
