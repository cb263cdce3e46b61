"""The reference engine in NumPy on few rows, to measure the gain from compilation."""

from __future__ import annotations

from benchmarks.speed.case import Case


def encode(model, rows):
    return model.set_params(engine="reference").transform(rows)


CASES = (
    Case("reference", "dynpart, reference", "subset", encode, "uint8", model="dynpart-30"),
)  # fmt: skip
