"""Fuzzing: thousands of damaged files, invalid tables and random parameters.

Every target draws cases with hypothesis (or injects faults) and accepts only two outcomes: a
documented error, or a consistent result. Each target runs in its own process, so that a crash of
the interpreter is counted, too.

    python benchmarks/fuzz.py                  # at least 15,000 cases
    python benchmarks/fuzz.py --cases 500 --only model-file
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
import fuzz_cases as cases
import fuzz_tables

from dynpart import cli
from dynpart.explorer import report_html
from dynpart.explorer._page import embedded
from dynpart.persistence import (
    Checkpoint,
    ModelFileError,
    load,
    load_checkpoint,
    save,
    save_checkpoint,
)
from dynpart.tables import Table, TableError, read_table
from dynpart.tables._columns import advice
from dynpart.terminal import printable

GOLDEN = Path(__file__).parents[1] / "tests" / "data"
Counts = dict[str, int]


def drawn(n_cases: int, strategy: st.SearchStrategy, check: Callable[..., str]) -> Counts:
    """Run `check` on drawn cases; it says what became of each."""
    counts: Counts = {}

    @settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(case: object) -> None:
        outcome = check(case)
        counts[outcome] = counts.get(outcome, 0) + 1

    run()
    return counts


# ------------------------------------------------------------------- targets


def model_file(n_cases: int, folder: Path) -> Counts:
    """Golden files with flipped bits, cuts, insertions and false lengths."""
    contents = [path.read_bytes() for path in sorted(GOLDEN.glob("golden-v*.dynpart"))]
    path = folder / "m.dynpart"

    def check(case: tuple[int, bytes]) -> str:
        which, content = case
        path.write_bytes(content)
        try:
            load(path)
        except ModelFileError:
            return "refused"
        assert content == contents[which], "a damaged file was accepted"
        return "untouched"

    return drawn(n_cases, cases.damaged(contents), check)


def forged_model(n_cases: int, folder: Path) -> Counts:
    """Well-formed files with a right checksum and wrong content."""
    path = folder / "m.dynpart"
    rows = np.random.default_rng(0).integers(0, 2, size=(3, 6))

    def check(content: bytes) -> str:
        path.write_bytes(content)
        try:
            model = load(path)
        except ModelFileError:
            return "refused"
        vars(model).pop("feature_names_in_", None)
        codes = model.transform(rows[:, : model.n_features_in_])
        assert np.isfinite(model.inverse_transform(codes)).all()
        return "loaded and usable"

    goldens = [GOLDEN / f"golden-{version}-bernoulli.dynpart" for version in ("v1", "v2")]
    return drawn(n_cases, st.one_of(*map(cases.forged, goldens)), check)


def tables(n_cases: int, folder: Path) -> Counts:
    """Text that is nearly a table."""

    def check(case: tuple[bytes, bool, dict[str, object]]) -> str:
        content, zipped, options = case
        path = folder / ("t.csv.gz" if zipped else "t.csv")
        path.write_bytes(gzip.compress(content) if zipped else content)
        try:
            table = read_table(path, **options)
        except TableError as error:
            return _one_line(str(error))
        for remark in (*table.remarks, *advice(table)):
            _one_line(remark)
        return _sound(table)

    return drawn(
        n_cases, st.tuples(cases.text_tables(), st.booleans(), cases.table_options()), check
    )


def command_line(n_cases: int, folder: Path) -> Counts:
    """Odd options of commands that read a model and a table."""
    (folder / "t.csv").write_text("site,a,b,c,d\nwood,1,.5,2,0\n10,0,1,3,1\n=x,1,1,1,1\n")
    model = load(GOLDEN / "golden-v1-gaussian.dynpart")
    vars(model).pop("feature_names_in_", None)
    save(model, folder / "m.dynpart")
    page = folder / "r.html"

    def check(words: list[str]) -> str:
        page.unlink(missing_ok=True)
        out = ["--output", str(page)] if words[0] == "report" else []
        files = [str(folder / "m.dynpart"), str(folder / "t.csv")]
        done = CliRunner().invoke(cli.app, [words[0], *files, *words[1:], *out])
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert done.exit_code in (0, 2), (words, done.exit_code)
        assert "\x1b" not in done.output
        assert "np.float64" not in done.output
        return "done" if done.exit_code == 0 else "refused"

    return drawn(n_cases, cases.arguments(), check)


def gappy_tables(n_cases: int, folder: Path) -> Counts:
    """Tables with gaps and weights, fitted and read by every command."""
    table, other, out = folder / "t.csv", folder / "m.dynpart", folder / "out.csv"
    page = folder / "r.html"
    fit = ["--experts=2", "--iterations=2", f"--output={other}", "--force"]

    def run(*words: str) -> bool:
        done = CliRunner().invoke(cli.app, list(words))
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert done.exit_code in (0, 2), (words, done.exit_code, done.output)
        assert "np.float64" not in done.output
        return done.exit_code == 0

    def check(case: tuple[str, list[str]]) -> str:
        text, options = case
        table.write_text(text)
        if not run("fit", str(table), *fit, *options):
            return "refused"
        files = str(other), str(table)
        assert run("info", str(other))
        drop = [word for word in options if word.startswith("--drop")]
        for command in ("encode", "reconstruct", "impute", "score"):
            run(command, *files, *drop, f"--output={out}", "--force")
        run("sample", str(other))
        run("explain", *files, *drop, "--row=1")
        run("report", *files, *drop, f"--output={page}", "--force")
        return "fitted"

    return drawn(n_cases, st.one_of(cases.gappy_tables(), fuzz_tables.files()), check)


def mixed_tables(n_cases: int, folder: Path) -> Counts:
    """Texts, numbers, flags and gaps in containers of all kinds, fitted and given back."""
    return drawn(n_cases, fuzz_tables.fits(), fuzz_tables.check_fit)


def array_files(n_cases: int, folder: Path) -> Counts:
    """Damaged .npy, .npz, .mat, .parquet, idx and picture files."""
    originals = cases.array_files(folder)

    def check(case: tuple[int, bytes]) -> str:
        which, content = case
        name = originals[which][0]
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        source = path.parent if path.parent != folder else path
        try:
            table = read_table(source)
        except TableError:
            return "refused"
        return _sound(table)

    return drawn(n_cases, cases.damaged([content for _, content in originals]), check)


def _one_line(text: str) -> str:
    """Messages are one line, with plain numbers."""
    assert text
    assert len(printable(text).splitlines()) == 1
    assert "np.float64" not in text
    return "refused"


def _sound(table: Table) -> str:
    assert table.values.ndim == 2
    assert table.values.size > 0
    assert not np.isinf(np.asarray(table.values, dtype=np.float64)).any()
    if table.names is not None:
        assert all(table.names)
        assert len(set(table.names)) == table.values.shape[1]
    if table.labels is not None:
        assert len(table.labels) == len(table.values)
    return "read"


def estimator(n_cases: int, folder: Path) -> Counts:
    """Random data and parameters for fit, encode and decode."""
    return drawn(n_cases, cases.fits(), cases.check_fit)


def codes(n_cases: int, folder: Path) -> Counts:
    """Random codes for a valid model."""
    model = load(GOLDEN / "golden-v1-gaussian.dynpart")
    return drawn(n_cases, cases.odd_codes(3), lambda H: cases.check_codes(model, H))


def names(n_cases: int, folder: Path) -> Counts:
    """Hostile names of variables, rows and pages for the explorer."""
    model = load(GOLDEN / "golden-v1-gaussian.dynpart")
    rows = np.load(GOLDEN / "golden-v1-gaussian.npz")["rows"]
    del model.feature_names_in_
    frame = report_html(model, rows)

    def check(words: list[str]) -> str:
        text = embedded(words)
        assert json.loads(text) == words
        assert not set(text) & set("<>&")
        if len(words) == 4:
            page = report_html(model, rows, names=words, title=words[0])
            assert page.count("<script") == frame.count("<script")
        return "inert"

    return drawn(n_cases, cases.hostile_words(), check)


# -------------------------------------------------------------------- faults


def killed_writer(n_cases: int, folder: Path) -> Counts:
    """A process that writes checkpoints is killed (SIGKILL) at a random moment."""
    rng = np.random.default_rng()
    path, last = folder / "c", 0
    for _ in range(n_cases):
        writer = os.fork()
        if writer == 0:
            for turn in range(last + 1, 10**9):
                save_checkpoint(path, Checkpoint({"x": np.full(50_000, turn)}, {"turn": turn}))
            os._exit(0)
        time.sleep(rng.uniform(0.001, 0.02))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        if path.exists():
            found = load_checkpoint(path)
            assert found.meta["turn"] >= last
            assert (found.arrays["x"] == found.meta["turn"]).all()
            last = found.meta["turn"]
    return {"last good checkpoint loaded": n_cases}


def full_disk(n_cases: int, folder: Path) -> Counts:
    """The disk becomes full while a new checkpoint is written."""
    rng = np.random.default_rng()
    path = folder / "c"
    save_checkpoint(path, Checkpoint({"x": np.zeros(1000)}, {"turn": 0}))
    size = path.stat().st_size
    outcome = {"old one kept": 0, "new one complete": 0}
    for turn in range(1, n_cases + 1):
        before = load_checkpoint(path).meta["turn"]
        room = int(rng.integers(0, 1.1 * size))
        if os.fork() == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            try:
                save_checkpoint(path, Checkpoint({"x": np.full(1000, turn)}, {"turn": turn}))
            except OSError:
                os._exit(1)
            os._exit(0)
        complete = os.wait()[1] == 0
        found = load_checkpoint(path)
        expected = turn if complete else before
        assert found.meta["turn"] == expected
        assert (found.arrays["x"] == expected).all()
        outcome["new one complete" if complete else "old one kept"] += 1
    assert [entry.name for entry in folder.iterdir()] == ["c"]
    return outcome


TARGETS: dict[str, tuple[Callable[[int, Path], Counts], int]] = {
    "model-file": (model_file, 4000),
    "forged-model": (forged_model, 1500),
    "text-table": (tables, 3000),
    "array-file": (array_files, 2500),
    "command-line": (command_line, 500),
    "gappy-table": (gappy_tables, 300),
    "mixed-table": (mixed_tables, 2000),
    "estimator": (estimator, 1000),
    "codes": (codes, 800),
    "names": (names, 1000),
    "killed-writer": (killed_writer, 100),
    "full-disk": (full_disk, 200),
}


def run_target(name: str, n_cases: int) -> None:
    """Run one target here and print its counts as JSON."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        counts = TARGETS[name][0](n_cases, Path(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"counts": counts, "peak_mb": round(peak)}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, help="cases per target instead of its own number")
    parser.add_argument("--only", choices=TARGETS, help="one target alone")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_target(options.only, options.cases)
        return 0
    total = failures = 0
    for name, (_, usual) in TARGETS.items():
        if options.only not in (None, name):
            continue
        n_cases = options.cases or usual
        begun = time.monotonic()
        command = [sys.executable, __file__, "--here", "--only", name, "--cases", str(n_cases)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begun
        if done.returncode != 0:
            failures += 1
            words = "\n".join(line[:400] for line in done.stderr.splitlines()[-30:])
            print(f"{name:14} FAILED with status {done.returncode}\n{words}")
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        tried = sum(result["counts"].values())
        total += tried
        words = ", ".join(f"{count} {word}" for word, count in sorted(result["counts"].items()))
        print(f"{name:14} {tried:6} cases in {seconds:5.1f} s, {result['peak_mb']} MB: {words}")
        sys.stdout.flush()
    print(
        f"{total} cases, {failures} targets with faults" if failures else f"{total} cases, no fault"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
