"""Writes docs/scale.md and the measured part of docs/large-data.md from the files in docs/results/scale.

    python experiments/publish_scale.py

`benchmarks/classes.py`, `streaming.py` and `cost.py` write those files. Nobody types numbers by hand: a test compares
the pages with the files. What has no file yet is left out.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # where the model lies

import imagenet1k  # noqa: E402
from cost_model import WideRun  # noqa: E402

RESULTS, PAGE, LARGE = ROOT / "docs" / "results" / "scale", ROOT / "docs" / "scale.md", ROOT / "docs" / "large-data.md"
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
STATED = 0.25  # how far the model may be off


def read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def where(found: dict[str, Any]) -> str:
    return f"{found['device']}; torch {found['versions']['torch']}, ictrl {found['versions']['ictrl']}"


def table(head: str, rows: list[list[str]]) -> list[str]:
    columns = head.split(" | ")
    return [f"| {head} |", "|---" + "|--:" * (len(columns) - 1) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def time_of(seconds: float) -> str:
    """
    >>> time_of(0.0123), time_of(42.5), time_of(400), time_of(8000)
    ('12 ms', '42 s', '6.7 min', '2.2 h')
    """
    for limit, unit, text in ((1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (float("inf"), 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{0 if seconds / unit >= 10 else 1}f} {text}"
    raise AssertionError(seconds)


def many_classes(found: dict[str, Any]) -> list[str]:
    scale = found["scale"]
    lines = [
        "## A thousand classes",
        "",
        f"Generated images of {scale['classes']:,} classes in {scale['tasks']} tasks, {scale['images']} per class, "
        f"features of d = {scale['d']}. The encoder is one fixed matrix, which costs nothing: what is measured is all "
        f"that is done with what is kept of classes. `python benchmarks/classes.py`, {where(found)}.",
        "",
    ]
    for name, about in (
        ("wide", "class means and one covariance"),
        ("ictrl", "mean, covariance and directions of every class"),
    ):
        rows = [
            [
                f"{row['classes']:,}",
                time_of(row["learn_seconds"]),
                time_of(row["classifier_seconds"]),
                f"{row['predict_microseconds']:.0f} µs",
                f"{row['kept_bytes'] / 1e6:,.1f} MB",
                f"{row['peak_gigabytes']:.1f} GB",
            ]
            for row in found[name]
        ]
        head = "classes | a task | the classifier, once | predicting an image | kept | memory at the most"
        lines += [f"`{name}`: {about}.", "", *table(head, rows)]
    if found["game"]:
        rows = [
            [
                f"{row['classes']:,}",
                f"{row['rows']:,}",
                time_of(row["step_seconds"]),
                f"{row['peak_gigabytes']:.1f} GB" if row["peak_gigabytes"] is not None else "not told apart",
            ]
            for row in found["game"]
        ]
        lines += ["A step of the game, both players:", "", *table("classes | rows | a step | memory", rows)]
    rows = [
        [
            f"{row['classes']:,}",
            time_of(row["task_seconds"]),
            f"{row['checkpoint_bytes'] / 1e6:,.1f} MB",
            f"{row['results_bytes'] / 1e6:,.2f} MB",
        ]
        for row in found["run"]["rows"]
    ]
    lines += [
        "A whole run of `wide` with evaluation, records and checkpoints; in the first task's time is the floor "
        "untrained, of all tasks:",
        "",
    ]
    return [*lines, *table("classes | the task | a checkpoint | results.json", rows)]


def checks(runs: list[dict[str, Any]], games: Sequence[dict[str, Any]] = ()) -> tuple[list[str], float]:
    """The comparison, and how far the model was off at the most."""
    rows, off = [], []
    for check in runs:
        measured, predicted = check["measured"], check["predicted"]
        for what in ("learn", "whole"):
            off.append(predicted[what] / measured[what] - 1)
            label = {"learn": "learning", "whole": "all"}[what]
            rows.append([f"{check['name']}: {label}", f"{measured[what]:.1f} s", f"{predicted[what]:.1f} s"])
        if measured["gigabytes"]:
            off.append(predicted["gigabytes"] / measured["gigabytes"] - 1)
            pair = (f"{part['gigabytes']:.2f} GB" for part in (measured, predicted))
            rows.append([f"{check['name']}: memory of the GPU", *pair])
    for check in games:
        off.append(check["predicted"] / check["measured"] - 1)
        rows.append([check["name"], f"{check['measured']:.1f} s", f"{check['predicted']:.1f} s"])
    rows = [[*row, f"{100 * part:+.0f} %"] for row, part in zip(rows, off)]
    return table("run | measured | predicted | difference", rows), max(map(abs, off))


def model(machines: list[dict[str, Any]]) -> list[str]:
    """The model, and for each machine its constants and how far it was off."""
    start, convolutions, rates, moments = machines[0]["game"]["constants"]
    lines = [
        "## The cost model",
        "",
        "Seconds are sums of what has to be done, each kind of work divided by its speed. *F* are multiplications and "
        "additions of one image's pass through the encoder's convolutions, *A* the numbers that come out of them: both "
        "grow with the pixels. *D* are wide features, *d* features, *k* classes. The constants are least squares of "
        "relative errors on short measurements; the runs below were not among these.",
        "",
        "    a step of the trunk   launch + 3 · batch/GPUs · (F/f + A/a)",
        "    reading an image      views · (F/f′ + A/a′) + D²/p          and D³/q per task",
        "    a step of the game    launch + convolutions/f″ + (3k + 2) · 2d³/r + rows · d²/m",
        "    between GPUs          2 (1 − 1/GPUs) · 4 bytes · (weights + moments) per step",
        "",
    ]
    for found in machines:
        (launch, per_flop, per_number), (read_flop, read_number, product, factor) = (
            found["constants"][name] for name in ("trunk", "reading")
        )
        compared, worst = checks(found["checks"])
        assert worst <= STATED, f"the model is off by {worst:.0%}"
        flops, numbers = (per_flop, read_flop), (per_number, read_number)
        lines += [
            f"`wide`, {where(found)}:",
            "",
            *table(
                "constant | value",
                [
                    ["launch of a step", f"{1e3 * launch:.2f} ms"],
                    ["f, f′: convolutions, 10¹² per second", ", ".join(map(speed, flops))],
                    ["a, a′: activations, 10⁹ per second", ", ".join(speed(x, 1e9) for x in numbers)],
                    ["p, q: sums and factors of the covariance, 10¹² per second", f"{speed(product)}, {speed(factor)}"],
                ],
            ),
            *compared,
            f"The model is off by {100 * worst:.0f} % at the most.",
            "",
        ]
    compared, worst = checks([], machines[0]["game"]["checks"])
    assert worst <= STATED, f"the model is off by {worst:.0%}"
    return [
        *lines,
        "The game of i-CTRL, on the GPU of [Speed](speed.md), by steps that lie there:",
        "",
        *table(
            "constant | value",
            [
                ["launch of a step", f"{1e3 * start:.2f} ms"],
                ["f″: convolutions, 10¹² per second", speed(convolutions)],
                ["r, m: rates and moments, 10¹² per second", f"{speed(rates)}, {speed(moments)}"],
            ],
        ),
        *compared,
        "`python benchmarks/cost.py`.",
        "",
    ]


def speed(seconds: float, unit: float = 1e12) -> str:
    """
    >>> speed(1e-12), speed(3e-10, 1e9), speed(4e-11), speed(0.0)
    ('1', '3.3', '0.025', '–')
    """
    each = 1 / seconds / unit if seconds else 0.0
    return f"{each:,.0f}" if each >= 10 else f"{each:.2g}" if each else "–"


def imagenet(found: dict[str, Any]) -> list[str]:
    """What was never run."""
    run: WideRun = imagenet1k.wide_run()
    rows, kept = imagenet1k.wide_rows(found["constants"]), imagenet1k.kept()
    games = imagenet1k.game_rows(found["game"]["constants"])
    one, most = rows[0], rows[-1]
    return [
        "## ImageNet-1k in 100 tasks: by the model, not run",
        "",
        f"{imagenet1k.IMAGES:,} images of {imagenet1k.SIDE} px by `{imagenet1k.RECIPE}`: {run.images:,} images per "
        f"task, {run.epochs} epochs of the first, {kept['D']:,.0f} wide features, {run.views} views of each image. "
        f"Kept: {kept['bytes'] / 1e6:,.0f} MB. The file of decoded pictures has {kept['file'] / 1e9:,.0f} GB.",
        "",
        *table(
            "GPUs | first task | of it between GPUs | reading all tasks | measuring after each | sent a step | memory",
            [
                [
                    f"{row['gpus']}",
                    *(time_of(row[name]) if row[name] else "–" for name in PARTS),
                    f"{row['megabytes sent in a step']:.0f} MB",
                    f"{row['gigabytes']:.1f} GB",
                ]
                for row in rows
            ],
        ),
        f"Between GPUs: {imagenet1k.NVLINK.name}, and {imagenet1k.FABRIC.name}, by data sheets.",
        "",
        "**Where it breaks first.**",
        "",
        f"1. The first task stops getting faster: with {most['gpus']} GPUs a step has "
        f"{most['images of a step on each']:.0f} images on each, and the task takes {time_of(most['first task'])}, "
        f"not {time_of(one['first task'] / most['gpus'])}. More images in a step would be another recipe.",
        f"2. Measuring after every task looks at {run.test_images * run.tasks * (run.tasks + 1) // 2:,} test images in "
        "all: it grows with the square of the tasks.",
        "3. The game of i-CTRL replays every old class in every step. By the paper's rule (12 directions, 40 samples, "
        f"d = 512) a step of the last task has {games[0]['rows']:,.0f} rows:",
        "",
        *table(
            "GPUs | a step | convolutions | rates | between GPUs | moments, on each | activations, on each",
            [
                [
                    f"{row['gpus']}",
                    *(time_of(row[name]) if row[name] else "–" for name in GAME),
                    *(f"{row[f'gigabytes of {name}']:,.0f} GB" for name in ("moments", "activations")),
                ]
                for row in games
            ],
        ),
        "   Activations of one pass alone do not fit on one GPU; rates are computed by each process and do not get "
        "faster with more of them.",
        "",
    ]


PARTS = ("first task", "of it between GPUs", "reading", "measuring")
GAME = ("seconds", "convolutions", "rates", "between GPUs")


def page() -> str:
    lines = [
        "# Scale",
        "",
        "Written by `python experiments/publish_scale.py` from `docs/results/scale`; do not edit. What more classes, "
        "images and GPUs cost: measured where it says so, and by a model where it does not.",
        "",
    ]
    for name in ("classes-h200", "classes"):
        if found := read(name):
            lines += many_classes(found)
            break
    if machines := [found for name in ("cost", "cost-cpu") if (found := read(name))]:
        lines += model(machines)
    if found := read("cost"):
        lines += imagenet(found)
    else:
        lines += [
            "What waits for a GPU that does nothing else: its constants of the cost model, and what they say of "
            "ImageNet-1k in 100 tasks: `python benchmarks/cost.py --out docs/results/scale/cost.json`, then this "
            "page's command.",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def large_data() -> str:
    """The measured part of the page on data larger than memory, without its markers."""
    lines = []
    if found := read("memory"):
        rows = [
            [
                f"{row['pictures']:,}",
                row["cache"],
                f"{row['in_use_gigabytes']:.2f} GB",
                f"{row['pages_of_files_gigabytes']:.2f} GB",
            ]
            for row in found["memory"]
        ]
        lines += [
            "Whole runs on folders of generated pictures of 64 px, a fifth of them per task, by a small encoder: what "
            "the process had allocated at the most, and pages of files that the system kept for it while there was "
            f"room. `python benchmarks/streaming.py memory`, {where(found)}.",
            "",
            *table("pictures | cache | memory in use | pages of files", rows),
        ]
    if found := read("streaming"):
        rows = [
            [
                f"`{name}`",
                f"{row['held_images_per_second']:,}",
                f"{row['streamed_images_per_second']:,}",
                f"{row['ratio']:.2f}",
                f"{row['cold_first_epoch_seconds'] - row['warm_first_epoch_seconds']:+.1f} s",
            ]
            for name, row in found["speed"].items()
        ]
        lines += [
            "Images of 64 px per second while the first task is learned, from images on the GPU and from the file, in "
            f"turns within one run. `python benchmarks/streaming.py speed`, {where(found)}, {found['cores']} cores.",
            "",
            *table(
                "recipe | on the GPU | from the file | ratio | the first pass, if none of the file is in memory", rows
            ),
        ]
    return "\n".join(lines)


def with_measured(text: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{large_data()}{END}{rest.split(END)[1]}"


def main() -> None:
    if any(map(read, ("classes", "classes-h200", "cost", "cost-cpu"))):
        PAGE.write_text(page(), "utf-8")
    LARGE.write_text(with_measured(LARGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
