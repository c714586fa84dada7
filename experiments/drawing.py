"""How several runs draw, measured with one judge and one independent classifier on the same real images.

    python experiments/drawing.py runs/before runs/after --root data --images 50000 --out docs/results/drawing.json
    python experiments/drawing.py runs/before runs/after --inception pt_inception-2015-12-05-6726825d.pth --out fid.json

Writes the figures of each run beside its recipe and seed, and device and versions; with --after-each-task and --review
those of the other learners in its folder too. Prints a row per run; ratios are to the first one.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ictrl.cli.fidelity_tables import figures
from ictrl.data import Task
from ictrl.errors import InputError, UserError
from ictrl.experiment.evaluation import device_name, versions
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.run_learners import after_each_task, around_review
from ictrl.files import make_folder, write_atomically
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, ask
from ictrl.recipes.tables import recipe_to_table, without_place
from ictrl.visualize.fidelity import measure_against
from ictrl.visualize.independent import Training, chosen_training, describe, independent_classifier, mirrors
from ictrl.visualize.judges import EfficientNetLite0, Inception
from ictrl.visualize.real_images import RealImages

HEAD = (
    *("run", "samples", "reconstructions", "floor", "ratio", "precision", "recall"),
    *("recognised", "by the classifier", "nearness", "copies"),
)


def measure_runs(given: argparse.Namespace) -> dict[str, Any]:
    """What the file holds."""
    judge = EfficientNetLite0.installed() if given.inception is None else Inception.from_file(given.inception)
    folders = [RunFolder.existing(path) for path in given.runs]
    learners = [_learners(folder, given) for folder in folders]
    tasks, mirror = _same_images(folders, given.root)
    device = learners[0]["run"].device
    training = chosen_training(tasks, device, mirror, given.classifier_file, given.classifier_epochs)
    classifier, _, _ = independent_classifier(
        tasks, training, given.classifier_file, device=device, progress=lambda report: _say(f"classifier: {report}")
    )
    labels = sorted({label for some in learners for learner in some.values() for label in learner.classes_.tolist()})
    real = RealImages(tasks, labels, judge.to(device), given.images, device, lambda: _say("."))
    runs = []
    for folder, some in zip(folders, learners):
        began = time.perf_counter()
        found = {name: measure_against(real, learner, classifier=classifier) for name, learner in some.items()}
        measured = {name: figures(one) for name, one in found.items()}
        _say(f"{folder.path.name}: {found['run'].overall}")
        runs.append(
            {
                "name": folder.path.name,
                "seed": some["run"].seed,
                "seconds": round(time.perf_counter() - began, 1),
                "recipe": recipe_to_table(without_place(folder.recipe())),
                **measured.pop("run"),
                "learners": measured,
            }
        )
    return {
        "distance": judge.distance,
        "to": "training images",
        "images": given.images,
        "classifier": {**asdict(training), "data": describe(tasks, training)["images"]},
        "device": device_name(device),
        "versions": versions(),
        "runs": runs,
    }


def _learners(folder: RunFolder, given: argparse.Namespace) -> dict[str, Learner[Any]]:
    """The newest learner of a run, which is called `run`, and the others that are asked for."""
    found: dict[str, Learner[Any]] = {"run": folder.learned(given.device).learner}
    ask(found["run"], Draws, "draw")
    if given.after_each_task:
        found |= {f"after task {task}": learner for task, learner in after_each_task(folder, given.device).items()}
    if given.review:
        found |= around_review(folder, given.device)
    return found


def _same_images(folders: list[RunFolder], root: Path | None) -> tuple[list[Task], bool]:
    """The tasks of the first run, whose images are those of every other, and whether any recipe mirrors them."""
    streams = [run_data(folder, root)[1] for folder in folders]
    probe = Training("dcgan", 1, False)
    known = [describe(tasks, probe)["images"] for tasks in streams]
    for folder, found in zip(folders, known):
        if found != known[0]:
            raise InputError(
                f"Expected runs of the same training images but those of {folder.path} are not those of "
                f"{folders[0].path}: measure them one after the other."
            )
    return streams[0], any(mirrors(folder.recipe()) for folder in folders)


def table(found: dict[str, Any]) -> list[str]:
    """The rows that are printed."""
    first = found["runs"][0]["overall"]["distances"]["samples"]
    rows = []
    for run in found["runs"]:
        whole = run["overall"]
        distances, samples = whole["distances"], [whole[part]["samples"] for part in ("precision", "recall")]
        shares = [*samples, whole["recognised"]["samples"], whole["classified"]["samples"]]
        rows.append(
            (
                run["name"],
                *(f"{distances[name]:.2f}" for name in ("samples", "reconstructions", "test images")),
                f"{distances['samples'] / first:.3f}",
                *(f"{share:.3f}" for share in shares),
                f"{whole['copies']['nearness']:.2f}",
                f"{whole['copies']['share']:.1%}",
            )
        )
    lines = [f"| {' | '.join(row)} |" for row in (HEAD, *rows)]
    return [lines[0], "|---" * len(HEAD) + "|", *lines[1:]]


def _say(line: str) -> None:
    print(line, end="" if line == "." else "\n", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders of the same data")
    parser.add_argument("--root", type=Path, help="where the data lies now, if it has moved")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--images", type=int, default=10_000, help="training images to compare with, and samples")
    parser.add_argument("--inception", type=Path, help="weights of FID's network")
    parser.add_argument("--classifier-file", type=Path, help="where the independent classifier is kept")
    parser.add_argument("--classifier-epochs", type=int)
    parser.add_argument("--after-each-task", action="store_true", help="the learners after every task as well")
    parser.add_argument("--review", action="store_true", help="the learners after review as well")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args(arguments)
    try:
        found = measure_runs(given)
        make_folder(given.out.parent)
        write_atomically(given.out, (json.dumps(found, indent=1) + "\n").encode())
    except UserError as error:
        raise SystemExit(f"error: {error}") from None
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
