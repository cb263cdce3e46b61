"""The report: the paper's claims, our measurements, thumbnails. Reads only kept runs."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dynpart.atomic import atomic_write
from dynpart.markdown import wrapped
from dynpart.reproduce._design import Experiment, Picture, Result, Variant
from dynpart.reproduce._runs import read_record

MOST_THUMBNAIL_BYTES = 95_000
THUMBNAIL_SIZE = (1000, 1400)

INTRODUCTION = """\
# The paper's experiments

This page repeats the experiments of section 4 of M. Goessling and Y. Amit, *Dynamic Partition
Models* (2017), with the paper's settings: once with a literal implementation of the paper
(`learning="paper"`) and once with our default learner. The paper reports only numbers of active
experts; all other numbers are new. The sections at the end, *Beyond: the discussion*, implement
proposals of the paper's discussion. The page is written by `dynpart reproduce`; do not edit it.

- **Error**: share of test pixels for which the rounded composed template is wrong (binary data);
  root mean square error of the composed means (gray data, values between 0 and 1).
- **log P(x | h)**: conditional log-likelihood of a test row under the hard rule (eq. 2), in nats. A
  density for gray data.
- **Code length**: bits that describe a test row: its code under independent bits with learnt
  probabilities, then the row given its code. Gray values count as 256 levels.
- **Local experts**: an expert's weight on a variable is the frequency with which it owns the
  variable when it is active, times the distance of its opinion from the average. In images, its
  *extent* is the root mean square distance of this weight from its centre, relative to that of all
  pixels; it is local up to 0.5 (about a quarter of the image). In tables, the extent is the share
  of variables that holds 80% of the weight; it is local up to 0.2.
- **Learning** is wall time, with CPU time over all threads in brackets. **Encoding** is wall time
  for all test rows. Both exclude compilation and depend on the machine and its other load.
"""


def figure_path(folder: Path, picture: Picture, variant: Variant | None) -> Path:
    """File of a figure: one per variant, or one for all."""
    return folder / (f"{picture.name}-{variant.key}.png" if variant else f"{picture.name}.png")


def write_report(experiments: Iterable[Experiment], out: Path, report: Path) -> None:
    """Write the report on all kept runs, with thumbnails in ``images/reproduction`` beside it.

    Parameters
    ----------
    experiments : iterable of Experiment
        For experiments without a kept run, the existing section of the report is kept.
    out : Path
        Folder with one subfolder of runs and figures per experiment.
    report : Path
        The Markdown file.
    """
    sections, before = [INTRODUCTION], _sections_of(report)
    for experiment in experiments:
        folder = out / experiment.name
        results = {
            variant.key: result
            for variant in experiment.variants
            if (result := read_record(folder, variant)) is not None
        }
        if results:
            sections.append(_section(experiment, results, folder, report))
        elif experiment.title in before:
            sections.append(before[experiment.title])
    report.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(report) as file:
        file.write(wrapped("\n".join(sections)).encode())


def _sections_of(report: Path) -> dict[str, str]:
    """The sections of a report that was written before, by their titles."""
    if not report.exists():
        return {}
    _, *parts = re.split(r"^## ", report.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.split("\n", 1)[0].strip(): f"## {part.rstrip()}\n" for part in parts}


def _section(
    experiment: Experiment, results: Mapping[str, Result], folder: Path, report: Path
) -> str:
    variants = [variant for variant in experiment.variants if variant.key in results]
    lines = [
        f"## {experiment.title}",
        "",
        f"{experiment.setting}",
        "",
        f"**The paper says:** {experiment.claim}",
        "",
        *_table(variants, results),
        "",
    ]
    missing = [variant.title for variant in experiment.variants if variant.key not in results]
    if missing:
        lines += [f"Not run yet: {', '.join(missing)}.", ""]
    for picture in experiment.pictures:
        lines += _pictures(experiment, picture, variants, folder, report)
    lines += ["**Where we differ, and why**", ""]
    lines += [f"- {remark}" for remark in experiment.remarks(results)]
    return "\n".join(lines) + "\n"


def _table(variants: list[Variant], results: Mapping[str, Result]) -> list[str]:
    rows: list[tuple[str, Callable[[Result], str | None]]] = [
        ("active experts per row", lambda r: f"{r.mean_active:.1f}"),
        ("error", lambda r: _error(r)),
        ("error of as many principal components as real numbers", _linear_error),
        ("log P(x \\| h), nats", lambda r: f"{r.log_likelihood:,.1f}"),
        ("code length, bits", lambda r: f"{r.bits:,.1f}"),
        ("local experts, of those in use", lambda r: f"{r.n_local} of {r.n_used}"),
        ("median extent of an expert", lambda r: f"{r.extent:.2f}"),
        ("factor levels found", lambda r: None if r.recovered is None else str(r.recovered)),
        (
            "fits that find all factors",
            lambda r: f"{r.seeds_recovered} of {r.n_seeds}" if r.n_seeds else None,
        ),
        ("learning", _learning_time),
        ("encoding all test rows", lambda r: _time(r.encode_seconds)),
    ]
    lines = [
        "| | " + " | ".join(variant.title for variant in variants) + " |",
        "|---" + "|---:" * len(variants) + "|",
        "| settings | " + " | ".join(_settings(variant) for variant in variants) + " |",
    ]
    for name, cell in rows:
        cells = [cell(results[variant.key]) for variant in variants]
        if any(text is not None for text in cells):
            lines.append(f"| {name} | " + " | ".join(text or "" for text in cells) + " |")
    return lines


def _settings(variant: Variant) -> str:
    parts = [f"{name}={value!r}" for name, value in variant.parameters.items()]
    return "`" + ", ".join(parts + ["connectivity=grid"] * variant.on_grid) + "`"


def _error(result: Result) -> str:
    # Only densities have a discretised code length.
    gray = result.bits + result.log_likelihood / math.log(2) > 200
    return f"{result.error:.4f} RMSE" if gray else f"{result.error:.2%}"


def _linear_error(result: Result) -> str | None:
    if result.linear_error is None:
        return None
    return f"{result.linear_error:.4f} RMSE ({result.n_linear})"


def _learning_time(result: Result) -> str:
    text = f"{_time(result.fit_seconds)} ({_time(result.fit_processor_seconds)})"
    return text + ", after an interruption" * result.resumed


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _pictures(
    experiment: Experiment,
    picture: Picture,
    variants: list[Variant],
    folder: Path,
    report: Path,
) -> list[str]:
    shared = picture.draw is None
    lines = [f"**{picture.caption}**", ""]
    for variant in [None] if shared else variants:
        source = figure_path(folder, picture, variant)
        if not source.exists():
            continue
        target = Path("images", "reproduction", f"{experiment.name}-{source.stem}.jpg")
        thumbnail(source, report.parent / target)
        title = variant.title if variant else experiment.title
        lines += [f"{title}:" if variant else "", "", f"![{title}]({target.as_posix()})", ""]
    return lines


def thumbnail(source: Path, target: Path) -> None:
    """Write a JPEG that is small enough for a repository."""
    from PIL import Image

    with Image.open(source) as opened:
        picture = opened.convert("RGB")
    picture.thumbnail(THUMBNAIL_SIZE, Image.Resampling.LANCZOS)
    for quality in (88, 80, 70, 60, 45):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= MOST_THUMBNAIL_BYTES:
            break
        picture = picture.resize((int(0.9 * picture.width), int(0.9 * picture.height)))
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as file:
        file.write(buffer.getvalue())
