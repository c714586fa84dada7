"""Publishes every method side by side: docs/rivals.md and its figure, from files.

    python experiments/publish_rivals.py

It reads what `ictrl study rivals` and `ictrl study references` put into docs/results, our own methods' results of the
studies `best`, `table1` and `cifar100`, the figures that the i-CTRL paper quotes (quoted.toml) and the words for those
that others published (references.toml). Lines without results are left out and named. Nobody types numbers by hand: a
test compares the page with the files.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from publish import RESULTS, ROOT, from_to, mean_and_deviation
from rivals_checked import checked_part
from rivals_figure import ALT, figure
from rivals_rows import DRAWN, GROUPS, STREAMS, Found, Row, read, rows_of

from ictrl import Results
from ictrl.experiment.study import load_study
from ictrl.experiment.study_table import COLUMNS
from ictrl.methods.base import LEARNERS

PAGE = ROOT / "docs" / "rivals.md"
FIGURE = ROOT / "docs" / "figures" / "rivals.svg"
QUOTED = ROOT / "experiments" / "quoted.toml"
QUOTED_BUFFER = 2000  # the paper's buffers were no larger
HEAD = (
    "method",
    "images kept",
    "last",
    "average",
    "forgetting",
    "kept",
    "as many as",
    "parameters",
    "seconds",
    "seeds",
    "quoted in the i-CTRL paper",
)
FORGETFUL = ("finetune", "lwf", "ewc", "si")


def images_kept(row: Row) -> str:
    if row.images is not None:
        return f"{row.images:,}"
    return "all" if LEARNERS[row.method].keeps_images else "none"


def quoted(row: Row, figures: Mapping[str, dict[str, float]]) -> dict[str, float]:
    """What the paper says of this method; of one that keeps images once, where it keeps most."""
    if row.ours:
        return row.line.paper if row.line.label.endswith("the paper's recipe") else {}
    return figures.get(row.method, {}) if row.images in (None, QUOTED_BUFFER) else {}


def cells(row: Row, figures: Mapping[str, dict[str, float]]) -> list[str]:
    """A row of the table."""
    name = f"[`{row.method}`](api/methods.md#ictrl.methods.{row.method})"
    memory = [results.memory for results in row.runs]
    kept, network = row.mean("kept_bytes"), row.line.recipe.method.network
    return [
        f"{name}, `{row.line.recipe.name}`" if row.ours else name,
        images_kept(row),
        mean_and_deviation([scores.last for scores in memory]),
        f"{statistics.mean(scores.average for scores in memory):.3f}",
        f"{statistics.mean(scores.forgetting for scores in memory):.3f}",
        f"{kept / 1000:,.0f} kB" if kept >= 1000 else f"{kept / 1000:.2f} kB",
        f"{kept / (network.channels * network.image_size**2):,.0f} images",
        f"{row.mean('parameters') / 1e6:.2f} M",
        f"{statistics.mean(results.seconds['learn'] for results in row.runs):,.0f}",
        ", ".join(str(results.seed) for results in row.runs),
        COLUMNS["paper, reencoded"](replace(row.line, paper=quoted(row, figures)), row.runs),
    ]


def stream_table(rows: Sequence[Row], figures: Mapping[str, dict[str, float]]) -> list[str]:
    """The table of one stream: ours first, then by what is kept."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for group in GROUPS:
        if members := [row for row in rows if row.group == group]:
            lines.append(f"| **{group}** |{' |' * (len(HEAD) - 1)}")
            lines += [f"| {' | '.join(cells(row, figures))} |" for row in members]
    return lines


def old_and_new(row: Row) -> tuple[float, float]:
    """Accuracy after the last task on the images of earlier tasks, and on those of the last."""
    both = []
    for results in row.runs:
        *old, newest = results.memory.matrix[-1]
        images = results.test_images[: len(old)]
        both.append((sum((share or 0.0) * n for share, n in zip(old, images)) / sum(images), newest or 0.0))
    return statistics.mean(old for old, _ in both), statistics.mean(newest for _, newest in both)


def why_old_classes_are_lost(rows: Sequence[Row]) -> list[str]:
    """What the methods that let old classes go end at, and why."""
    told = []
    for methods in (FORGETFUL, ("agem",)):
        members = [row for row in rows if row.method in methods]
        names = ", ".join(dict.fromkeys(f"`{row.method}`" for row in members))
        ends = [from_to(sorted(values), ".1%") for values in zip(*map(old_and_new, members))]
        told += [f"{ends[0]} by {names} (on the last task's {ends[1]})"] if members else []
    if not told:
        return []
    return [
        f"After the last task, accuracy on the images of earlier tasks is {' and '.join(told)}. Nothing is broken: in "
        "the class-incremental setting one head must tell classes of different tasks apart, and by these methods "
        "images of old and new classes never meet in a loss.",
        "",
    ]


def conditions(runs: Sequence[Results]) -> str:
    """Machines, versions and seeds behind a table."""
    machines = sorted({f"{run.device}, torch {run.versions['torch']}, Python {run.versions['python']}" for run in runs})
    return f"{'; '.join(machines)}; test images."


def stream_part(stream: str, found: Found, figures: Mapping[str, dict[str, float]]) -> list[str]:
    """A stream's heading, table, conditions, and what was not run."""
    rows, missing = rows_of(stream, found)
    parts = ["", f"## {STREAMS[stream]}", ""]
    if rows:
        parts += [*stream_table(rows, figures), "", *(why_old_classes_are_lost(rows) if stream == DRAWN else [])]
        parts.append(conditions([results for row in rows for results in row.runs]))
    if missing:
        parts += ["", f"No results yet: {'; '.join(missing)}."]
    return parts


def page(results: Path = RESULTS) -> str:
    """docs/rivals.md."""
    found, figures = read(results), tomllib.loads(QUOTED.read_text(encoding="utf-8"))
    parts = [
        "# Methods side by side",
        "",
        "Written by `python experiments/publish_rivals.py` from files in `docs/results`; do not edit. "
        f"{load_study('rivals').description}. What each method is, [Methods](methods.md) says; where settings come "
        "from, [What was tried](experiments.md#choosing-rivals).",
        "",
        f"![{ALT}](figures/rivals.svg)",
        "",
        "All of it is **memory**: accuracy on the test images of all classes so far, from what the method itself kept. "
        "*Last* is after the last task ± deviation over seeds, *average* the mean over tasks, *forgetting* how far "
        "accuracy on earlier tasks has fallen from its best. *Kept* is everything besides the networks, images "
        "included, and *as many as* says how many training images take as many bytes. *Seconds* of learning were "
        "taken while other runs shared the GPU: compare them within a table only, and roughly.",
        "",
        "The last column has what the i-CTRL paper reports, last / average. For other methods it followed the "
        "protocol of Buzzega et al. (NeurIPS 2020) or the authors' code, with other networks than ours and buffers no "
        f"larger than {QUOTED_BUFFER:,} images, so it stands on the row of that size. "
        "Its figure for i-CTRL itself, on the row of its recipe, is **reencoded**, which refits the classifier from "
        "the training images of all old classes: ours on that row is from memory ([both](results.md#table1)). The "
        "averages that it quotes of CLS-ER and DER++ for CIFAR-10 in 5 tasks are what those papers report as *last* "
        "accuracy, with 200 images.",
        "",
        "Commands: `ictrl study rivals --root DATA --publish docs/results`, with `--only cifar10-5 --seeds 0 1 2` for "
        f"{STREAMS['cifar10-5']}; our own methods `ictrl study best`, `table1` and `cifar100`; `small-…` reads the "
        "encoder of `best-…` in fewer bytes ([wide memory](wide.md)).",
    ]
    for stream in STREAMS:
        parts += stream_part(stream, found, figures.get(stream, {}))
    return "\n".join([*parts, *checked_part(results)]) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    FIGURE.write_bytes(figure(rows_of(DRAWN, read(RESULTS))[0]))


if __name__ == "__main__":
    main()
