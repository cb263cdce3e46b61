"""Opinions as averages (eq. 5) against Newton's method (appendix B): iterations, likelihood, time.

``python -m benchmarks.newton`` prints the table of ``docs/learning.md``. Times are those of fits
run back to back: compare only their ratios.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dynpart import DynamicPartitionModel
from dynpart.datasets import make_bars, make_pairs

ITERATIONS = (5, 10, 30)
PLANS = ("annealed", "paper")
SEEDS = range(3)
MNIST_ROWS = 1500

Split = tuple[NDArray, NDArray, int]


def pairs() -> Split:
    """Five pairs; all rows are both learnt from and scored."""
    X = make_pairs(5)
    return X, X, 10


def bars() -> Split:
    """Bars of 5 x 5 pixels."""
    X = make_bars(n_samples=1000, random_state=0)
    return X[:500], X[500:], 12


def digits() -> Split:
    """Scikit-learn's digits, half of the range or more is ink."""
    X = (load_digits().data >= 8).astype(np.uint8)
    return X[:1200], X[1200:], 24


def mnist() -> Split:
    """The first training images and the first test images of MNIST."""
    from dynpart.datasets import load_mnist

    data = load_mnist()
    return data.train[:MNIST_ROWS], data.test[:500], 20


TABLES: dict[str, Callable[[], Split]] = {
    "pairs": pairs,
    "bars": bars,
    "digits": digits,
    "mnist": mnist,
}


def measured(split: Split, plan: str, update: str, n_iter: int) -> dict[str, float]:
    """Mean scores over seeds of one update of opinions."""
    train, test, n_experts = split
    found = []
    for seed in SEEDS:
        model = DynamicPartitionModel(
            n_experts,
            learning=plan,
            expert_update=update,
            prior=None,
            max_iter=n_iter,
            random_state=seed,
        )
        begun = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - begun
        H = model.transform(test)
        wrong = float(((model.inverse_transform(H) > 0.5) != test).mean())
        found.append((model.score(train), model.score(test), wrong, H.sum() / len(H), seconds))
    keys = ("train", "test", "wrong", "active", "seconds")
    return dict(zip(keys, np.mean(found, axis=0), strict=True))


def lines(names: list[str], plans: list[str]) -> Iterator[str]:
    """The table, row by row."""
    columns = ["table", "plan", "iterations", "opinions", "train", "test", "wrong %", "active"]
    yield "| " + " | ".join([*columns, "time"]) + " |"
    yield "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for name in names:
        split = TABLES[name]()
        for plan in plans:
            for n_iter in ITERATIONS:
                base = None
                for update in ("average", "newton"):
                    found = measured(split, plan, update, n_iter)
                    base = base or found["seconds"]
                    yield (
                        f"| {name} | {plan} | {n_iter} | {update} | {found['train']:.2f} | "
                        f"{found['test']:.2f} | {100 * found['wrong']:.2f} | "
                        f"{found['active']:.1f} | {found['seconds'] / base:.1f} |"
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # short fits warn that they are short
    for update in ("average", "newton"):  # compiles, which is not to be timed
        DynamicPartitionModel(3, max_iter=2, expert_update=update).fit(make_pairs(2))
    for line in lines(arguments.data, arguments.plans):
        print(line, flush=True)


if __name__ == "__main__":
    main()
