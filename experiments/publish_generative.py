"""Publishes the generative methods: docs/generative.md, from files.

    python experiments/publish_generative.py

It reads what `ictrl study generative-digits` and `ictrl study generative` put into docs/results, what
`experiments/drawing.py` measured of their run folders (in docs/results/drawings/STUDY, a file for each data set), the
figures that the i-CTRL paper has of each method (the studies' own), and what is said of methods that are not run
(not_run.toml). Nobody types numbers by hand: a test compares the page with the files.
"""

import json
import statistics
import tomllib
from collections.abc import Mapping
from typing import Any

from publish import RESULTS, ROOT, mean_and_deviation

from ictrl import Results
from ictrl.experiment.study import Line, load_study, slug
from ictrl.experiment.study_table import COLUMNS, read_published

PAGE = ROOT / "docs" / "generative.md"
NOT_RUN = ROOT / "experiments" / "not_run.toml"
STUDIES = {"generative-digits": "Digits, 5 tasks", "generative": "MNIST and CIFAR-10"}
BESIDE = {"generative-digits": ("methods-digits",)}
PARTS = ("distances", "precision", "recall", "classified")
SAMPLES = ("by another classifier", "distance", "precision", "recall", "copies")
HEAD = (
    *("", "last", "average", "forgetting", "drawings recognised", *SAMPLES),
    *("kept", "parameters", "seconds", "seeds", "i-CTRL paper, last / average"),
)


def drawings(name: str, results: Any = RESULTS) -> tuple[dict[str, Any], list[str]]:
    """What was measured of the samples of each run of a study, by the run's name; and what to say of it."""
    found, said = {}, []
    for path in sorted((results / "drawings" / name).glob("*.json")):
        table = json.loads(path.read_text("utf-8"))
        runs = {run["name"]: run["overall"] for run in table["runs"]}
        found |= runs
        whole = next(iter(runs.values()))
        images, real = whole["images"], {part: whole[part]["test images"] for part in PARTS}
        said.append(
            f"`{path.stem}`: {table['distance']} of {images['samples']:,} samples to {images['training']:,} training "
            f"images. {images['test images']:,} test images have {real['distances']:.1f}, precision "
            f"{real['precision']:.2f} and recall {real['recall']:.2f}, and the other classifier takes "
            f"{real['classified']:.1%} of them for what they are. {table['device']}, torch "
            f"{table['versions']['torch']}."
        )
        own = {slug(line.label) for line in load_study(name).lines}
        for run in table["runs"]:
            if run["name"].rpartition("-seed")[0] not in own:
                shown = ", ".join(f"{head} {cell}" for head, cell in zip(SAMPLES, samples(run["overall"])))
                said.append(f"Another run, of `{run['recipe']['name']}` and seed {run['seed']}: {shown}.")
    return found, said


def samples(*measured: Mapping[str, Any]) -> list[str]:
    """Recognised by another classifier, distance, precision, recall, copies: means of several runs."""

    def mean(part: str, name: str = "samples") -> float:
        return statistics.mean(whole[part][name] for whole in measured)

    shares = f"{mean('precision'):.2f}", f"{mean('recall'):.2f}", f"{mean('copies', 'share'):.1%}"
    return [f"{mean('classified'):.0%}", f"{mean('distances'):.1f}", *shares]


def of_samples(line: Line, runs: list[Results], drawn: Mapping[str, Any]) -> list[str]:
    """Cells of how the samples of these runs look, if they were measured."""
    measured = [drawn[name] for run in runs if (name := f"{slug(line.label)}-seed{run.seed}") in drawn]
    return samples(*measured) if measured else [""] * 5


def cells(line: Line, runs: list[Results], drawn: Mapping[str, Any]) -> list[str]:
    """A row of the table."""
    memory = [results.memory for results in runs]
    own = [results.replay[-1] for results in runs if results.replay]
    kept = statistics.mean(results.kept_bytes for results in runs)
    return [
        line.label,
        mean_and_deviation([scores.last for scores in memory]),
        f"{statistics.mean(scores.average for scores in memory):.3f}",
        f"{statistics.mean(scores.forgetting for scores in memory):.3f}",
        f"{statistics.mean(own):.0%}" if own else "",
        *of_samples(line, runs, drawn),
        f"{kept / 1000:,.0f} kB" if kept >= 1000 else f"{kept / 1000:.2f} kB",
        f"{statistics.mean(results.parameters for results in runs) / 1e6:.2f} M",
        f"{statistics.mean(results.seconds['learn'] for results in runs):,.0f}",
        ", ".join(str(results.seed) for results in runs),
        COLUMNS["paper, reencoded"](line, runs),
    ]


def rows(head: tuple[str, ...], body: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in body)]


def study_part(name: str, results: Any = RESULTS) -> list[str]:
    """A study's heading, its table, the machine, and what was not run yet."""
    study, found = load_study(name), read_published(results / name)
    drawn, said = drawings(name, results)
    parts = ["", f"## {STUDIES[name]}", "", f"{study.description}: `ictrl study {name}`.", ""]
    if found:
        body = [cells(line, found[line.label], drawn) for line in study.lines if line.label in found]
        runs = [run for line in found.values() for run in line]
        for beside in BESIDE.get(name, ()):  # of another study, of the same stream
            measured = read_published(results / beside)
            for line in load_study(beside).lines:
                first, *rest = cells(line, measured[line.label], {})
                body.append([f"{first} (study {beside})", *rest])
                runs += measured[line.label]
        parts += rows(HEAD, body)
        machines = sorted({f"{run.device}, torch {run.versions['torch']}" for run in runs})
        parts += ["", f"{'; '.join(machines)}; test images. Runs shared the machine: compare seconds roughly."]
        parts += ["", " ".join(["Samples:", *said])] if said else []
    if missing := [line for line in study.lines if line.label not in found]:
        told = [
            f"{line.label} (i-CTRL paper: {COLUMNS['paper, reencoded'](line, [])})" if line.paper else line.label
            for line in missing
        ]
        parts += ["" if found else "No runs yet.", *([""] if not found else []), f"Not run yet: {'; '.join(told)}."]
    return parts


def not_run() -> list[str]:
    """The methods that are not here, each with the reason."""
    methods = tomllib.loads(NOT_RUN.read_text(encoding="utf-8"))["methods"]
    said = "The i-CTRL paper names these expanding networks and reports no figure of theirs, so that none stands here."
    body = [[method["name"], method["paper"], "none", method["reason"]] for method in methods]
    return ["", "## Not run", "", said, "", *rows(("method", "from", "i-CTRL paper", "why not"), body)]


def page(results: Any = RESULTS) -> str:
    """docs/generative.md."""
    parts = [
        "# Generative methods side by side",
        "",
        "Written by `python experiments/publish_generative.py` from files in `docs/results`; do not edit. What each "
        "method is, [Methods](methods.md#methods-that-draw) says.",
        "",
        "*Last*, *average* and *forgetting* are of accuracy from memory on the test images of all classes so far. "
        "*Drawings recognised* is the share of images drawn of each class in the end that the method's own classifier "
        "takes for that class; of `dgr` and `joint_dcgan`, whose classifier names what was drawn, there is no such "
        "figure. What another classifier, trained on real images alone, takes them for, their distance from training "
        "images, precision, recall and copies are explained in [Measuring drawings](measuring-drawings.md). *Kept* is "
        "everything besides the networks. Decoders, critics and autoencoders are networks, and their numbers "
        "parameters, as are copies that are kept from task to task; the copy that a decoder is frozen in while a task "
        "is learned is not kept.",
        "",
        "What the i-CTRL paper reports stands in the last column. Its averages of EEC, EECS and DGMw are, by its "
        "sources, probably accuracies after the last task.",
    ]
    for name in STUDIES:
        parts += study_part(name, results)
    return "\n".join([*parts, *not_run()]) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
