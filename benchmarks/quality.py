"""Quality of the learner: data sets x settings x seeds -> one table (JSON, Markdown).

The same runner, problems and scores as `dynpart compare`. Settings are compared on rows held back
from training (the default); test rows are used only with --final, for the last row of a table.

    python -m benchmarks.quality --data bars --data digits --seeds 10
    python -m benchmarks.quality --data mnist --setting "long: max_iter=60" --only long
    python -m benchmarks.quality --data bars --only default --seeds 20 --first-seed 1000 --final
    python -m benchmarks.quality --data synthetic --data bars --ablations --seeds 20

Published images are read from the folder named by DYNPART_DATA, or downloaded where they can be;
data sets that are not there are left out with a line that says so.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.feature_extraction.image import grid_to_graph

from benchmarks.ablations import ABLATIONS
from dynpart.baselines import Baseline, DynamicPartition
from dynpart.comparison import CONTESTANTS, PROBLEMS, Contestant, Problem, load_problem, ours, run
from dynpart.comparison.contestants import AT_LEISURE, OURS, our_settings
from dynpart.comparison.report import Row, markdown_table, rows_of, table_of

# Targets for the defaults on test rows.
WANTED = {
    "synthetic": "all found in 95 of 100 (15 iterations), 99 of 100 (30)",
    "pairs10": "all found in 19 of 20",
    "pairs20": "all found in 15 of 20",
    "bars": "all found and error 0 in 19 of 20",
    "mnist": "error 3.5 %, code 110 nats (158.7 bits)",
    "motorcycles": "RMSE .157, with connectivity .152",
    "horses": "error 10.8 %, with connectivity 10.0 %",
}
DATA = ("synthetic", "pairs10", "pairs20", "bars", "digits", "mnist", "motorcycles", "horses")
EXTRA = ("silhouettes", "faces", "news", "digits-gray")
BASELINES = ("paper", "k-means", "pca", "quantisation")


def connected(name: str, **changes: Any) -> Contestant:
    """Our model with the graph of neighbouring pixels."""

    def make(problem: Problem, seed: int) -> DynamicPartition:
        if problem.image_shape is None:
            raise ValueError(f"{problem.title} has no neighbours")
        graph = grid_to_graph(*problem.image_shape)
        settings = our_settings(problem) | {"connectivity": graph} | changes
        return DynamicPartition(problem.n_components, settings=settings, random_state=seed)

    return Contestant(name, name.replace("-", ", "), make)


def on_device(row: Contestant, device: str) -> Contestant:
    """The same row, with our model on a GPU; the others stay where they are."""

    def make(problem: Problem, seed: int) -> Baseline:
        model = row.make(problem, seed)
        if isinstance(model, DynamicPartition):
            model.settings = {**(model.settings or {}), "device": device}
        return model

    return replace(row, make=make)


def settings() -> dict[str, Contestant]:
    """The rows every table may have."""
    rows = [ours(OURS, "default"), CONTESTANTS["greedy"]]
    rows += [CONTESTANTS[name] for name in AT_LEISURE]
    rows += [connected("connectivity")]
    rows += [connected(f"connectivity-{name}", **how) for name, how in AT_LEISURE.items()]
    rows += [CONTESTANTS[name] for name in BASELINES]
    return {"default" if row.name == OURS else row.name: row for row in rows}


def parsed_setting(text: str) -> Contestant:
    """A row from a text such as ``name: n_swaps=2, max_iter=60``."""
    name, _, arguments = text.partition(":")
    call = ast.parse(f"f({arguments})", mode="eval").body
    if not name.strip() or not isinstance(call, ast.Call) or call.args:
        raise ValueError(f"--setting must look like 'name: argument=value', got {text!r}")
    changes = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    return ours(name.strip(), text, **changes)


def applies(row: Contestant, problem: Problem) -> bool:
    """Whether a row makes sense for a problem."""
    neighbours = problem.image_shape is not None and problem.truth is None
    return not row.name.startswith("connectivity") or neighbours


def perfect(row: Row) -> str:
    """Seeds without a single wrong value."""
    errors = row.values("error")
    return f"{sum(error == 0 for error in errors)} of {len(errors)}"


def section(problem: Problem, rows: Sequence[Row]) -> str:
    """One data set as Markdown."""
    headings, lines = table_of(rows, binary=problem.binary)
    if problem.truth is not None:
        headings = [*headings, "error 0"]
        lines = [[*line, perfect(row)] for line, row in zip(lines, rows, strict=True)]
    how_many = "exactly" if problem.exactly else "at most"
    limit = f", {how_many} {problem.n_active} active" if problem.capped else ""
    wanted = f"\n\nWanted: {WANTED[problem.name]}." if problem.name in WANTED else ""
    head = f"## {problem.title}: {problem.n_components} units{limit}, {problem.split} rows"
    return f"{head}{wanted}\n\n{markdown_table(headings, lines)}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", action="append", choices=list(PROBLEMS), help="repeat for more")
    parser.add_argument("--only", action="append", help="only this row; repeat for more")
    parser.add_argument(
        "--setting", action="append", default=[], help="'name: argument=value, ...'"
    )
    parser.add_argument(
        "--ablations", action="store_true", help="the default beside itself with one change each"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--final", action="store_true", help="learn from all, score on test rows")
    parser.add_argument("--redo", action="append", default=[], help="compute this row afresh")
    parser.add_argument("--device", help="where our model learns, for example cuda")
    parser.add_argument("--out", type=Path, default=Path("quality-output"))
    options = parser.parse_args(arguments)

    rows = settings() | {row.name: row for row in map(parsed_setting, options.setting)}
    if options.ablations:
        plans = {name: ours(name, name, learning=plan) for name, plan in ABLATIONS.items()}
        rows = {"default": rows["default"]} | plans
    unknown = set(options.only or ()) - set(rows)
    if unknown:
        parser.error(f"--only must be among {', '.join(rows)}, got {', '.join(sorted(unknown))}")
    chosen = [rows[name] for name in options.only or rows]
    if options.device:
        chosen = [on_device(row, options.device) for row in chosen]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    split = "test" if options.final else "validation"
    text = [f"# Quality of learning, {split} rows\n"]
    for name in options.data or [*DATA, *EXTRA]:
        try:
            problem = load_problem(name, seeds[0], split)
        except OSError as error:
            print(f"{name} left out: {error}")
            continue
        fitting = [row for row in chosen if applies(row, problem)]
        redo = [OURS if row == "default" else row for row in options.redo]
        results = run(
            [name], fitting, list(seeds), folder=options.out, split=split, redo=redo, curves=False
        )
        kept = [r for r in results if r.split == split]
        text.append(section(problem, rows_of(name, kept, options.out)))
        print(text[-1])
        (options.out / f"quality-{split}.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
