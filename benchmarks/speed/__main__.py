"""Measure everything, print tables, keep them as JSON.

    python -m benchmarks.speed --quick              # does everything work? a minute, small sizes
    python -m benchmarks.speed --repeats 3          # the real thing
    python -m benchmarks.speed --growth --write-docs # and how time grows, into docs/performance.md
    python -m benchmarks.speed --images             # and the paper's large images
    python -m benchmarks.speed --saved --write-docs  # measure nothing, write what was kept

MNIST is read from --data or the folder named by DYNPART_DATA; without either, drawings of the same
shape are made up, and large images are left out. Cases run one after another, each in a process of
its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks.speed import case, report
from benchmarks.speed.competitors import CASES
from benchmarks.speed.growth import draw
from benchmarks.speed.images import SETS as IMAGES
from benchmarks.speed.measure import ROOT, measure, work

PAGE = ROOT / "docs" / "performance.md"
PICTURE = "images/growth.png"
WIDTH = 120


def machine() -> str:
    """Processor, cores and versions, without the name of the computer."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    libraries = ", ".join(f"{name} {version(name)}" for name in ("scikit-learn", "numpy", "numba"))
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {libraries}"


def chosen(names: Sequence[str] | None) -> list[case.Case]:
    """The named cases and those whose models they need, in the order of the tables."""
    if not names:
        return list(CASES.values())
    wanted = set(names)
    wanted |= {CASES[name].twin for name in names} | {CASES[name].model for name in names}
    return [found for name, found in CASES.items() if name in wanted]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work?")
    parser.add_argument("--repeats", type=int, default=1, help="rounds over all cases")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", help="folder with MNIST; default: DYNPART_DATA, or made-up rows")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--growth", action="store_true", help="also vary rows, experts, variables")
    parser.add_argument("--images", action="store_true", help="also fit horses and motorcycles")
    parser.add_argument("--saved", action="store_true", help="measure nothing, show what was kept")
    parser.add_argument("--write-docs", action="store_true", help=f"write into docs/{PAGE.name}")
    return parser.parse_args(arguments)


def measured(option: argparse.Namespace, console: Console) -> dict:
    sizes = case.QUICK if option.quick else case.FULL
    saved = {
        "sizes": asdict(sizes),
        "threads": option.threads,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"),
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        order = {"sizes": asdict(sizes), "place": folder}
        saved["data"] = work(option.threads, task="data", folder=option.data, **order)["data"]

        def tell(line: str) -> None:
            console.print(line, highlight=False, markup=False)

        saved["results"] = measure(
            chosen(option.only), sizes, place, option.threads, option.repeats, tell
        )
        if option.growth:
            tell("growth")
            saved |= work(option.threads, task="growth", quick=option.quick, **order)
        if option.images:
            saved["images"] = measured_images(option, order, tell)
    return saved


def measured_images(
    option: argparse.Namespace, order: dict, tell: Callable[[str], None]
) -> list[dict]:
    found = []
    for name in IMAGES:
        tell(name)
        about = {"name": name, "folder": option.data, "quick": option.quick}
        answer = work(option.threads, task="images", **about, **order)["images"]
        if answer is None:
            tell(f"{name}: left out, no folder has them")
        else:
            found.append(answer)
    return found


def main(arguments: Sequence[str] | None = None, page: Path = PAGE) -> None:
    option, console = options(arguments), Console()
    # Tables are for reading, also where the output goes to a file.
    console.width = max(console.width, WIDTH)
    kept = option.out / ("speed-quick.json" if option.quick else "speed.json")
    if option.saved:
        saved = json.loads(kept.read_text())
    else:
        saved = measured(option, console)
        option.out.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(saved, indent=1) + "\n")
    if saved.get("growth"):
        draw(saved["growth"], option.out / kept.name.replace(".json", "-growth.png"))
    report.print_tables(saved, console)
    if option.write_docs:
        if saved.get("growth"):
            draw(saved["growth"], page.parent / PICTURE)
        report.write_block(page, report.markdown(saved, PICTURE))


if __name__ == "__main__":
    main()
