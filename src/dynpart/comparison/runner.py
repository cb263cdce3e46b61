"""The runner: fits every contestant on every problem with every seed, and keeps the scores.

Results are kept in a folder (`results.json`, and templates beside it). A run computes only results
that are not in the folder yet.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from dynpart.baselines import Baseline, DynamicPartition, Mixture
from dynpart.comparison import scores
from dynpart.comparison.contestants import Contestant
from dynpart.comparison.problems import Problem, load_problem
from dynpart.datasets import bars_recovered, pairs_recovered

MOST_CODED_ROWS = 5000  # training rows encoded for the prior and for logistic regression
MOST_CURVE_ROWS = 1000  # scored rows of the rate-distortion curve
LN2 = float(np.log(2))


@dataclass(frozen=True)
class Result:
    """Result of one contestant on one problem with one seed.

    Attributes
    ----------
    problem, contestant, split : str
    seed : int
    n_train, n_scored : int
        Rows learnt from and rows scored on.
    binary_codes : bool
        Whether the scored codes hold only 0 and 1.
    fit_seconds, encode_seconds : float
        The latter per 1,000 rows.
    scores : dict
        Name -> value, see `score_model`.
    curve : list of [mean active units, error]
        Rate and distortion, for the first seed.
    """

    problem: str
    contestant: str
    seed: int
    split: str
    n_train: int
    n_scored: int
    binary_codes: bool
    fit_seconds: float
    encode_seconds: float
    scores: dict[str, float]
    curve: list[list[float]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Unique key of the run."""
        return self.problem, self.contestant, self.seed, self.split


def unavailable(contestant: Contestant, problem: Problem) -> str | None:
    """Why a contestant cannot take part in a problem, or None."""
    if not problem.binary and not contestant.gray:
        return "learns only from binary rows"
    if contestant.needs is not None and find_spec(contestant.needs) is None:
        return f"needs {contestant.needs}: pip install 'dynpart[gpu]'"
    return None


def run_one(
    problem: Problem, contestant: Contestant, seed: int, *, with_curve: bool = False
) -> tuple[Result, NDArray]:
    """Fit one contestant on one problem and score it.

    Parameters
    ----------
    problem : Problem
    contestant : Contestant
    seed : int
    with_curve : bool, default=False
        Also compute the rate-distortion curve.

    Returns
    -------
    result : Result
    templates : ndarray of shape (n_units, n_features)
    """
    problem = problem.first_rows(contestant.max_rows)
    with warnings.catch_warnings():
        # Warnings are not needed: a collapsed or unfinished model has bad scores.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        began = time.perf_counter()
        model = contestant.make(problem, seed).fit(problem.train)
        fit_seconds = time.perf_counter() - began
        began = time.perf_counter()
        codes = model.encode(problem.score, _limit(problem))
        encode_seconds = time.perf_counter() - began
        values = score_model(model, problem, codes, natural=contestant.natural)
        curve = rate_distortion(model, problem) if with_curve else []
    result = Result(
        problem.name,
        contestant.name,
        seed,
        problem.split,
        len(problem.train),
        len(problem.score),
        _is_binary(codes),
        fit_seconds,
        encode_seconds * 1000 / len(problem.score),
        values,
        curve,
    )
    return result, np.asarray(model.templates)


def score_model(
    model: Baseline, problem: Problem, codes: NDArray, *, natural: bool = False
) -> dict[str, float]:
    """All scores of a fitted model whose `codes` are those of the problem's scored rows.

    Parameters
    ----------
    model : Baseline
    problem : Problem
    codes : ndarray of shape (n_rows, n_units)
    natural : bool, default=False
        Also score the model's own codes, if those in `codes` are limited.

    Returns
    -------
    dict
        ``active`` (mean number of active units), ``error``, ``log_likelihood`` (conditional,
        nats per row), and if they apply ``code_bits`` (joint code length, bits per row),
        ``exact_bits`` (for mixtures, whose log P(x) is known), ``found`` and ``found_all``
        (factors), ``told`` (information of the best unit) and ``selective``, ``accuracy``
        (logistic regression on codes), ``natural_active`` and ``natural_error``.
    """
    X, binary = problem.score, problem.binary
    some = problem.train[:MOST_CODED_ROWS]
    train_codes = model.encode(some, _limit(problem))
    noise = 1.0
    if not binary:
        noise = float(np.mean((some - model.decode(train_codes)) ** 2))
    decoded = model.decode(codes)
    likelihood = scores.conditional_log_likelihood(X, decoded, binary=binary, noise_variance=noise)
    values = {
        "active": _mean_active(codes),
        "error": scores.reconstruction_error(X, decoded, binary=binary),
        "log_likelihood": float(likelihood.mean()),
    }
    if _is_binary(codes) and binary:
        prior = scores.code_log_prior(codes, train_codes, model.groups_)
        values["code_bits"] = float(-(likelihood + prior).mean() / LN2)
    if isinstance(model, Mixture) and binary:
        values["exact_bits"] = float(-model.score_samples(X).mean() / LN2)
    if problem.factors is not None:
        values |= _factor_scores(model, problem, codes)
    if problem.train_labels is not None and problem.score_labels is not None:
        values["accuracy"] = _accuracy(
            train_codes, problem.train_labels[: len(some)], codes, problem.score_labels
        )
    if natural and _limit(problem) is not None:
        own = model.encode(X)
        values["natural_active"] = _mean_active(own)
        values["natural_error"] = scores.reconstruction_error(X, model.decode(own), binary=binary)
    return values


def rate_distortion(model: Baseline, problem: Problem) -> list[list[float]]:
    """Mean active units and error for every limit in `problem.rates`."""
    X = problem.score[:MOST_CURVE_ROWS]
    points = []
    for limit in problem.rates:
        fitted = model
        if model.refit_for_rate:
            try:
                fitted = clone(model).set_params(n_active=limit).fit(problem.train)
            except ValueError:  # this image has no grid of so many cells
                continue
        codes = fitted.encode(X, limit)
        error = scores.reconstruction_error(X, fitted.decode(codes), binary=problem.binary)
        points.append([_mean_active(codes), error])
    return sorted(points)


def run(
    names: Iterable[str],
    contestants: Sequence[Contestant],
    seeds: Sequence[int],
    *,
    folder: Path,
    split: str = "test",
    redo: Sequence[str] = (),
    curves: bool = True,
    report: Callable[[str], None] = print,
) -> list[Result]:
    """Fit and score everything that is not in the folder yet.

    Parameters
    ----------
    names : iterable of str
        Problems.
    contestants : sequence of Contestant
    seeds : sequence of int
    folder : Path
        Folder of results; created if needed.
    split : {"test", "validation"}, default="test"
    redo : sequence of str
        Contestants whose kept results are computed again.
    curves : bool, default=True
        Compute rate-distortion curves with the first seed.
    report : callable, default=print
        Called with a line about each run.

    Returns
    -------
    list of Result
        All results in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    warm: set[tuple[str, bool]] = set()
    kept = {r.key: r for r in load_results(folder)}
    wanted = {c.name for c in contestants} & set(redo)
    for name in names:
        kept = {k: r for k, r in kept.items() if not (r.problem == name and k[1] in wanted)}
        for seed in seeds:
            problem = load_problem(name, seed, split)
            for contestant in contestants:
                if (problem.name, contestant.name, seed, split) in kept:
                    continue
                reason = unavailable(contestant, problem)
                if reason is not None:
                    if seed == seeds[0]:
                        report(f"{problem.title}: {contestant.title} left out ({reason})")
                    continue
                if contestant.compiled and (contestant.name, problem.binary) not in warm:
                    _warm_up(problem, contestant)
                    warm.add((contestant.name, problem.binary))
                result, templates = run_one(
                    problem, contestant, seed, with_curve=curves and seed == seeds[0]
                )
                kept[result.key] = result
                _save(folder, list(kept.values()), result, templates)
                report(_line(problem, contestant, result))
    return list(kept.values())


def _warm_up(problem: Problem, contestant: Contestant) -> None:
    """Compile all kernels on a few rows, so that times exclude compilation."""
    few = replace(problem, train=problem.train[:40], n_components=6, n_active=3, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        contestant.make(few, 0).fit(few.train).encode(few.train)


def load_results(folder: Path) -> list[Result]:
    """Results kept in a folder; none if there is no file."""
    path = folder / "results.json"
    if not path.is_file():
        return []
    return [Result(**entry) for entry in json.loads(path.read_text())["results"]]


def load_templates(folder: Path, result: Result) -> NDArray:
    """Templates of a kept result, (n_units, n_features)."""
    return np.load(folder / "templates" / _template_file(result), allow_pickle=False).astype(
        np.float64
    )


def _save(folder: Path, results: list[Result], latest: Result, templates: NDArray) -> None:
    (folder / "templates").mkdir(exist_ok=True)
    np.save(folder / "templates" / _template_file(latest), templates.astype(np.float16))
    text = json.dumps({"results": [asdict(r) for r in results]}, indent=1)
    part = folder / "results.json.part"
    part.write_text(text)
    os.replace(part, folder / "results.json")


def _template_file(result: Result) -> str:
    return f"{result.problem}-{result.contestant}-{result.seed}-{result.split}.npy"


def _line(problem: Problem, contestant: Contestant, result: Result) -> str:
    values = result.scores
    found = f", {values['found']:.0f} factors found" if "found" in values else ""
    return (
        f"{problem.title}, seed {result.seed}: {contestant.title}: error {values['error']:.4f} "
        f"with {values['active']:.1f} active{found} ({result.fit_seconds:.1f} s)"
    )


def _limit(problem: Problem) -> int | None:
    return problem.n_active if problem.capped else None


def _is_binary(codes: NDArray) -> bool:
    return bool(((codes == 0) | (codes == 1)).all())


def _mean_active(codes: NDArray) -> float:
    return float(np.count_nonzero(codes, axis=1).mean())


def _factor_scores(model: Baseline, problem: Problem, codes: NDArray) -> dict[str, float]:
    factors = problem.factors
    assert factors is not None
    if problem.truth == "pairs":
        found = pairs_recovered(model.templates)
    elif isinstance(model, DynamicPartition):
        found = bars_recovered(model.templates, model.owners(codes))
    else:
        found = scores.bars_separated(model.templates)
    best_unit, selective = scores.disentanglement(codes, factors)
    return {
        "found": float(found.sum()),
        "found_all": float(found.all()),
        "told": best_unit,
        "selective": selective,
    }


def _accuracy(H_train: NDArray, y_train: NDArray, H: NDArray, y: NDArray) -> float:
    classifier = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=300))
    return float(classifier.fit(H_train, y_train).score(H, y))
