"""Tables of what was measured: for the terminal, and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.speed.growth import AXES, LABELS, exponent
from dynpart.markdown import wrapped

BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"
BASES = {"fit": ("rbm",), "encode": ("omp", "omp-jobs"), "subset": ("reference",)}
"""Cases that the ratios of a group refer to; the fastest if there are several."""
HEADINGS = {
    "fit": ("Fit", "time relative to the RBM"),
    "encode": ("Encode", "speed-up over OMP"),
    "subset": ("Encode with the compiled and the reference engine", "speed-up over the reference"),
}


def seconds(result: dict) -> float:
    return median(result["seconds"])


def shown(value: float) -> str:
    """Seconds, rounded to a readable number of digits."""
    return f"{value:.2f} s" if value >= 1 else f"{value:.3f} s"


def base_seconds(results: Sequence[dict], group: str) -> float | None:
    """Time of the group's yardstick, None if it was not measured."""
    times = [seconds(r) for r in results if r["name"] in BASES[group]]
    return min(times, default=None)


def ratio(results: Sequence[dict], result: dict) -> float | None:
    """Fits as a share of the yardstick's time, everything else as times its speed."""
    base = base_seconds(results, result["group"])
    if base is None:
        return None
    return seconds(result) / base if result["group"] == "fit" else base / seconds(result)


def group_table(results: Sequence[dict], group: str) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of one group."""
    headings = [
        *("what", "rows", "threads", "median", "CPU time"),
        HEADINGS[group][1],
        "memory beyond input",
    ]
    lines = []
    for result in results:
        if result["group"] != group or result["twin"]:
            continue
        share, memory = ratio(results, result), result["beyond_input_mb"]
        lines.append(
            [
                result["title"],
                f"{result['n_rows']:,}",
                str(result["threads"]),
                shown(seconds(result)),
                shown(median(result["cpu_seconds"])),
                "–" if share is None else f"{share:.2f}",
                "–" if memory is None else f"{memory:.0f} MB",
            ]
        )
    return headings, lines


def thread_table(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """One thread against those of the command."""
    found = {r["name"]: r for r in results}
    lines = []
    for alone in results:
        both = found.get(alone["twin"])
        if both is not None:
            verb = HEADINGS[both["group"]][0].lower()
            lines.append(
                [
                    f"{verb} {both['n_rows']:,} rows: {both['title']}",
                    shown(seconds(alone)),
                    f"{shown(seconds(both))} with {both['threads']}",
                    f"{seconds(alone) / seconds(both):.2f}",
                ]
            )
    return ["what", "one thread", "all threads", "speed-up"], lines


def growth_table(growth: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Exponents of growth: 1 is linear."""
    lines = []
    for axis, name in AXES.items():
        sizes = [r[axis] for r in growth if r["axis"] == axis]
        if sizes:
            exponents = [f"{exponent(growth, axis, what):.2f}" for what in LABELS]
            lines.append([name, f"{min(sizes):,} to {max(sizes):,}", *exponents])
    return ["what grows", "from, to", *(f"{label}, exponent" for label in LABELS.values())], lines


def image_table(images: list[dict]) -> tuple[list[str], list[list[str]]]:
    """Fits of large images, by the iteration."""
    lines = [
        [
            result["name"],
            f"{result['n_rows']:,}",
            f"{result['n_features']:,}",
            str(result["n_experts"]),
            str(result["n_iter"]),
            shown(result["seconds"]),
            shown(result["cpu_seconds"]),
        ]
        for result in images
    ]
    headings = ["what", "rows", "variables", "experts", "iterations"]
    return [*headings, "per iteration", "CPU time per iteration"], lines


def tables(saved: dict) -> list[tuple[str, list[str], list[list[str]]]]:
    """Everything as (title, headings, lines)."""
    results = saved.get("results", [])
    found = [(HEADINGS[group][0], *group_table(results, group)) for group in HEADINGS]
    found.append(("One thread and all threads", *thread_table(results)))
    found.append(("Fit large images, default settings", *image_table(saved.get("images", []))))
    found.append(("Growth", *growth_table(saved.get("growth", []))))
    return [table for table in found if table[2]]


def about(saved: dict) -> str:
    """One sentence on what was run where."""
    rounds = max((len(r["seconds"]) for r in saved.get("results", [])), default=1)
    data = saved["data"][0].upper() + saved["data"][1:]
    return (
        f"{data}, {saved['sizes']['n_components']} components, "
        f"{saved['threads']} thread{'s' * (saved['threads'] > 1)}, "
        f"median of {rounds} round{'s' * (rounds > 1)}, "
        f"{saved['date']}; {saved['machine']}; load {saved['load']:.1f} at the start."
    )


def print_tables(saved: dict, console: Console) -> None:
    console.print(about(saved))
    for title, headings, lines in tables(saved):
        table = Table(title=title, title_justify="left")
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left")
        for line in lines:
            table.add_row(*line)
        console.print(table)


def markdown(saved: dict, picture: str | None = None) -> str:
    """The same tables for the documentation."""
    parts = [about(saved)]
    for title, headings, lines in tables(saved):
        head, *body = ("| " + " | ".join(cells) + " |" for cells in [headings, *lines])
        rule = "|---|" + "---:|" * (len(headings) - 1)
        parts.append("\n".join([f"### {title}\n", head, rule, *body]))
    if picture and saved.get("growth"):
        parts.append(f"![Time against rows, experts and variables, on logarithmic axes]({picture})")
    return "\n\n".join(parts)


def write_block(page: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put `text` between the markers of a page, and change nothing else."""
    old = page.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise ValueError(f"{page.name} must have {begin} and {end} once each, in this order")
    head, tail = old[: old.index(begin)], old[old.index(end) :]
    page.write_text(f"{head}{begin}\n\n{wrapped(text)}\n\n{tail}", encoding="utf-8")
