"""Publishes what was measured of wide memory: docs/wide.md and its figure, docs/tried.md, from files.

    python experiments/publish_wide.py

`curve.py`, `seconds.py` and `unknown.py` beside this file wrote what it reads, in docs/results. Nobody types numbers by
hand: a test compares the page with the files.
"""

import json
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ictrl.report.house_style import canvas_with_legend, house_style, legend, mark_heights, name_axes
from ictrl.report.palette import LIGHT
from ictrl.report.svg import to_svg

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGE = ROOT / "docs" / "wide.md"
TRIED, TRIED_PAGE = ROOT / "experiments" / "tried.toml", ROOT / "docs" / "tried.md"
FIGURE = ROOT / "docs" / "figures" / "curve.svg"
IMAGE_BYTES = 3 * 32 * 32
ALT = "Accuracy on CIFAR-10 after five tasks against kilobytes kept, in equal ratios: mostly, the more, the higher."

Found = Mapping[str, Any]


def read(folder: str) -> list[Found]:
    """The files of one kind, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / folder).glob("*.json"))]


def conditions(found: Sequence[Found]) -> str:
    """Recipe, images, seeds, machine and versions behind a table."""
    first = found[0]
    seeds = f"seed{'s' * (len(found) > 1)} {', '.join(str(run['seed']) for run in found)}"
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    return f"Recipe `{first['recipe']['name']}`, {first['measured_on']}, {seeds}; {first['device']}; {versions}."


def by_label(found: Sequence[Found]) -> list[tuple[str, list[Found]]]:
    """Lines of the same label in all files, by the bytes they keep."""
    labels = [line["label"] for line in found[0]["lines"]]
    grouped = [(label, [line for run in found for line in run["lines"] if line["label"] == label]) for label in labels]
    return sorted(grouped, key=lambda pair: pair[1][0]["kept_bytes"])


def curve_table(found: Sequence[Found]) -> list[str]:
    """A row per reading."""
    rows = ["| reading | wide features | kept | as many as | last | average |", "|---|---|---|---|---|---|"]
    for label, lines in by_label(found):
        last = [line["last"] for line in lines]
        average = statistics.mean(line["average"] for line in lines)
        kept = lines[0]["kept_bytes"]
        rows.append(
            f"| {label} | {lines[0]['wide_features']:,} | {kept / 1000:,.0f} kB | {kept / IMAGE_BYTES:,.0f} images | "
            f"{statistics.mean(last):.3f} ± {statistics.stdev(last):.3f} | {average:.3f} |"
        )
    return rows


def curve_figure(found: Sequence[Found]) -> bytes:
    """Last accuracy against kilobytes kept, as an SVG file."""
    parts = {"16 bits": ("memory", []), "8 bits": ("reencoded", [])}
    for label, lines in by_label(found):
        if "no shifts" not in label:
            kept, last = lines[0]["kept_bytes"] / 1000, statistics.mean(line["last"] for line in lines)
            parts[f"{lines[0]['reading']['bits']} bits"][1].append((kept, last))
    with house_style():
        names = [f"{name} a number of the covariance" for name in parts]
        drawing, axes = canvas_with_legend(240, names)
        artists = []
        for colour, points in parts.values():
            artists += axes.plot(*zip(*points), "o", color=LIGHT[colour], markersize=6)
        axes.set_xscale("log")
        axes.set_xticks([100, 300, 1000, 3000, 10000, 30000], ["100", "300", "1,000", "3,000", "10,000", "30,000"])
        axes.minorticks_off()
        mark_heights(axes, 0.7, 0.82, rounded=False)
        name_axes(axes, "kilobytes kept besides the encoder", "last accuracy, memory")
        legend(drawing, artists, names)
        return to_svg(drawing, ALT, "curve-").file


def seconds_table(found: Sequence[Found]) -> list[str]:
    rows = ["| epochs of the first task | seconds for all five tasks | last |", "|---|---|---|"]
    rows += [f"| {line['epochs']} | {line['seconds']:.1f} | {line['last']:.3f} |" for line in found[0]["lines"]]
    return rows


def unknown_part(found: Found) -> list[str]:
    others = sorted(found["auroc_of_others"].items(), key=lambda pair: -pair[1])
    return [
        f"After the last task {found['known_images']:,} test images of CIFAR-10 are classified at "
        f"{found['accuracy']:.3f} with an expected calibration error of **{found['ece']:.3f}** (15 bins; the "
        f"temperature is {found['temperature']:.2f}). Against {found['stranger_images']:,} test images of CIFAR-100, "
        f"whose classes are all unknown, the area under the ROC curve is **{found['auroc']:.3f}**. Where "
        f"{found['asked_false_alarms']:.0%} of false alarms were asked for, {found['false_alarms']:.1%} of the known "
        f"images are called unknown, and {found['detections']:.0%} of the strangers: pictures of such neighbours are "
        "hard to tell, so take it as a warning, not as a guard.",
        "",
        "Other measures of strangeness, from the same learner:",
        "",
        "| measure | area under the ROC curve |",
        "|---|---|",
        *(f"| {name} | {value:.3f} |" for name, value in others),
    ]


def page() -> str:
    """docs/wide.md."""
    curve, seconds, (unknown,) = read("curve"), read("seconds"), read("unknown")
    smallest, largest = (statistics.mean(line["last"] for line in by_label(curve)[i][1]) for i in (0, -1))
    parts = [
        "# Wide memory, measured",
        "",
        "Written by `python experiments/publish_wide.py` from files in `docs/results`; do not edit. What `wide` is, "
        "[How it works](how-it-works.md#wide-features) says; all recipes and other data are in "
        "[Results](results.md#best), what lost in [Tried and lost](tried.md).",
        "",
        "## Accuracy against bytes",
        "",
        "The same three trained encoders, read in many ways. Everything that is kept besides the encoder counts: "
        "means, the covariance, matrices of reduction, calibration. From the smallest to the largest, last accuracy "
        f"goes from {smallest:.3f} to {largest:.3f}. CIFAR-10 has 50,000 training images, so a third of them is "
        "51,200 kB.",
        "",
        f"![{ALT}](figures/curve.svg)",
        "",
        *curve_table(curve),
        "",
        "*Pools a b c* are cells per side for each of the three stages. *Channels* reduces the channels of a stage by "
        "principal directions of the first task, whose matrix is kept; a *random* matrix comes from a seed. All read "
        "mirror images and four shifts by two pixels, but for the two lines that say otherwise.",
        "",
        f"{conditions(curve)} Command: `python experiments/curve.py --root DATA --seeds 0 1 2 --out "
        "docs/results/curve`.",
        "",
        "## Seconds",
        "",
        *seconds_table(seconds),
        "",
        "Learning alone, images on the GPU, nothing else running. The first line of a process also pays for the start "
        "of the GPU, about ten seconds. The whole recipe, 800 epochs, takes the seconds that "
        f"[Results](results.md#best) shows. {conditions(seconds)} Command: `python experiments/seconds.py --root "
        f"DATA --epochs {' '.join(str(line['epochs']) for line in seconds[0]['lines'])} --out docs/results/seconds`.",
        "",
        "## Probabilities and unknown pictures",
        "",
        *unknown_part(unknown),
        "",
        f"{conditions([unknown])} Command: `ictrl run {unknown['recipe']['name']} --out RUN`, then `python "
        "experiments/unknown.py RUN --root DATA --strangers cifar100 --out FILE`.",
    ]
    return "\n".join(parts) + "\n"


def tried() -> str:
    """docs/tried.md."""
    parts = [
        "# Tried and lost",
        "",
        "Written by `python experiments/publish_wide.py` from `experiments/tried.toml`; do not edit. What was tried "
        "for the method `wide` and did not stay, a line each with its figure: last accuracy from memory, if nothing "
        "else is said. What i-CTRL's settings were chosen by is in [What was tried](experiments.md).",
    ]
    for section in tomllib.loads(TRIED.read_text(encoding="utf-8"))["sections"]:
        parts += ["", f"## {section['title']}", "", f"{section['conditions']}. Files: {section['files']}.", ""]
        parts += ["| tried | found |", "|---|---|", *(f"| {what} | {found} |" for what, found in section["lines"])]
    return "\n".join(parts) + "\n"


def main() -> None:
    TRIED_PAGE.write_text(tried(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    FIGURE.write_bytes(curve_figure(read("curve")))


if __name__ == "__main__":
    main()
