"""Attacks saved learners of the digits: writes docs/results/privacy, and a section of docs/privacy.md.

    python experiments/privacy.py [--seeds 0 1 2]
    python experiments/privacy.py --page

The first learns and attacks, in about three minutes on two cores; both write the section from the files. The attacks
are in `attacks.py`. `er-digits` keeps images: it shows what the same attacks find where there is something to be found.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attacks import (
    along_axes,
    blind,
    drawn_by,
    error,
    features_of_moments,
    meeting_points,
    membership,
    nearest,
    pictures_in,
    taught,
)
from torch import Tensor

from ictrl import load_recipe
from ictrl.experiment.evaluation import device_name, versions
from ictrl.experiment.run_data import stream_of
from ictrl.files import write_atomically
from ictrl.memory.few_images import LEAST
from ictrl.memory.store import form_class_memory
from ictrl.memory.wide_memory import nothing_yet
from ictrl.methods.base import Learner, create_learner, load_learner
from ictrl.methods.capabilities import DrawsFeatures
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.methods.wide import WideLearner
from ictrl.recipes.tables import recipe_to_table, recipe_with
from ictrl.theory.metrics import auroc
from ictrl.theory.statistics import ClassStatistics

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results" / "privacy"
PAGE = ROOT / "docs" / "privacy.md"
BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
RECIPES = ("wide-ictrl-digits", "ictrl-digits", "er-digits")
SIZES = (2, 3, 4, 5, LEAST, 20)  # images of a class, from what is refused to what is not
HELD_OUT = 0.2  # share of the training images: others of the same people, so that nothing but learning tells them apart
EXACT = 0.01  # of the features' spread: nearer than this, a feature counts as found

Found = Mapping[str, Any]


def attack(name: str, seed: int) -> dict[str, Any]:
    """Learn the digits, save the learner, and attack the file."""
    settings = {"run": {"seed": seed, "device": "cpu"}, "stream": {"validation": HELD_OUT}}
    recipe = recipe_with(load_recipe(name), settings)
    _, tasks = stream_of(recipe)
    learner = create_learner(recipe)
    for task in tasks:
        learner.learn(task.images, task.labels)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.safetensors"
        learner.save(path)
        stolen = load_learner(path, "cpu")
        held = pictures_in(read_stored(path, LEARNER).tensors, tasks[0].images[0].shape)
    X, y, X_test, y_test = (
        torch.cat([getattr(task, part) for task in tasks])
        for part in ("images", "labels", "test_images", "test_labels")
    )
    return {
        "reconstruction": reconstruction(stolen, held, X, X_test),
        "membership": {
            measure: round(auroc(known, other), 3)
            for (measure, known), other in zip(
                membership(stolen, X, rows_of(stolen, y), held).items(),
                membership(stolen, X_test, rows_of(stolen, y_test), held).values(),
            )
        },
        "features": single_features(stolen, X, y, seed) if isinstance(stolen, DrawsFeatures) else None,
        "taught": differences(stolen, X, y) if isinstance(stolen, WideLearner) else None,
        "images": len(X),
        "held_out": len(X_test),
        "kept_bytes": stolen.kept_bytes,
        "seed": seed,
        "device": device_name(stolen.device),
        "versions": versions(),
        "recipe": recipe_to_table(recipe),
    }


def rows_of(learner: Learner[Any], y: Tensor) -> Tensor:
    return torch.searchsorted(torch.from_numpy(learner.classes_), y)


def reconstruction(learner: Learner[Any], held: Tensor, X: Tensor, others: Tensor) -> dict[str, Any]:
    """How near a training image the pictures come that the file holds or draws, and how near real others do."""
    guesses = torch.cat([held, drawn_by(learner)])
    return {
        "guesses": len(guesses),
        "found": int((nearest(X, guesses) == 0).sum()),
        "best": round(float(nearest(guesses, X).min()), 5),
        "to_training": round(float(nearest(X, guesses).mean()), 5),
        "to_others": round(float(nearest(others, guesses).mean()), 5),
        "best_of_others": round(float(nearest(others, X).min()), 5),
    }


def single_features(learner: Any, X: Tensor, y: Tensor, seed: int) -> dict[str, Any]:
    """Features found where directions meet, by the learner's sets and the paper's; and from moments of few images."""
    Z, settings = learner.features(X), learner.settings.memory
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Any] = {"disjoint": 0, "shared": 0, "of_moments": {}, "blind": {}}
    for label in learner.labels:
        own = Z[y == label]
        shared = form_class_memory(own, settings.directions, settings.neighbours, disjoint=False)
        for name, kept in (("disjoint", learner.recall(label)), ("shared", shared)):
            distances = torch.cdist(meeting_points(kept), own.double())
            spread = float((own - own.mean(0)).norm(dim=1).mean())
            found[name] += len({int(row) for row in (distances < EXACT * spread).nonzero()[:, 1]})
    for n in SIZES:
        few = Z[y == learner.labels[0]][:n].double()
        own = ClassStatistics.of(few)
        solutions = features_of_moments(own, generator)
        without = blind(own, generator, max(1, len(solutions)) * n)
        found["of_moments"][str(n)] = round(error(solutions, few), 4)
        found["blind"][str(n)] = round(error(without, few), 4)
    return found


def differences(learner: Any, X: Tensor, y: Tensor) -> dict[str, Any]:
    """What two versions of wide memory say of a class of n images that was taught between them."""
    old, newest = y != learner.labels[-1], X[y == learner.labels[-1]]
    bits, reader, whole = learner.settings.reading.bits, learner.reader, learner.wide_memory
    nothing = nothing_yet(learner.device, whole.reduction)
    begun = nothing.with_classes(reader.features(X[old], whole), y[old], bits)
    found = {}
    for n in SIZES:
        phi = reader.features(newest[:n], whole).double()
        stolen = taught(begun, begun.with_classes(phi.float(), torch.zeros(n, dtype=torch.long), bits))
        found[str(n)] = {
            "mean": round(float((stolen.mean - phi.mean(0)).norm() / (phi - phi.mean(0)).norm(dim=1).mean()), 4),
            "nearest": round(error(along_axes(stolen), phi), 4),
        }
    return found


# the section


def read(name: str) -> list[Found]:
    """The files of a recipe, by seed."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob(f"{name}-seed*.json"))]


def mean(found: Sequence[Found], value: Callable[[Found], float], form: str = ".3f") -> str:
    return format(statistics.mean(map(value, found)), form)


def section() -> str:
    """What stands between the markers."""
    runs = {name: read(name) for name in RECIPES}
    wide, plain, first = runs["wide-ictrl-digits"], runs["ictrl-digits"], runs["wide-ictrl-digits"][0]
    head = "| learner | guesses | images found | nearest guess | nearest other image | images, on average | others |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for name, found in runs.items():
        cells = [f"`{name}`"] + [
            mean(found, lambda run, key=key: run["reconstruction"][key], form)  # type: ignore[misc]
            for key, form in (
                ("guesses", ",.0f"), ("found", ",.0f"), ("best", ".4f"), ("best_of_others", ".4f"),
                ("to_training", ".4f"), ("to_others", ".4f"),
            )
        ]  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    measures = list(dict.fromkeys(measure for found in runs.values() for measure in found[0]["membership"]))
    told = [f"| told by | {' | '.join(f'`{name}`' for name in RECIPES)} |", f"|---|{'---|' * len(RECIPES)}"]
    for measure in measures:
        cells = [
            mean(found, lambda run: run["membership"][measure]) if measure in found[0]["membership"] else "–"  # noqa: B023
            for found in runs.values()
        ]
        told.append(f"| {measure} | {' | '.join(cells)} |")
    few = [f"| images of the class | {' | '.join(map(str, SIZES))} |", f"|---|{'---|' * len(SIZES)}"]
    for title, found, value in (
        ("mean and covariance, `ictrl-digits`", plain, lambda run, n: run["features"]["of_moments"][n]),
        ("the same, guessed without an attack", plain, lambda run, n: run["features"]["blind"][n]),
        ("two versions of wide memory, `wide-ictrl-digits`", wide, lambda run, n: run["taught"][n]["nearest"]),
    ):
        few.append(f"| {title} | {' | '.join(mean(found, lambda run: value(run, str(n))) for n in SIZES)} |")  # noqa: B023
    shared, disjoint = (mean(plain + wide, lambda run: run["features"][name], ".0f") for name in ("shared", "disjoint"))  # noqa: B023
    return "\n".join(
        [
            f"Learned from {first['images']:,} handwritten digits; {first['held_out']:,} others, drawn by chance from "
            "the same people's, were held out. Mean of seeds "
            f"{', '.join(str(run['seed']) for run in wide)}; {first['device']}, torch {first['versions']['torch']}. "
            "Command: `python experiments/privacy.py`; files: `docs/results/privacy`.",
            "",
            "**Pictures.** Everything the file holds or draws (class means, directions, a hundred samples per class) "
            "against all images learned: mean squared error, pixels from 0 to 1. A learner that had memorised images "
            "would come nearer to them than to others, and nearer than real others do.",
            "",
            *rows,
            "",
            "**Membership.** The area under the ROC curve of telling images that were learned from those held out: 0.5 "
            "is chance, 1 certainty.",
            "",
            *told,
            "",
            "**Features.** How near the best guess comes to the features of any image of a small class, as a share of "
            f"their spread: 0 is found, 1 no better than the mean. Fewer than {LEAST} images are refused; the columns "
            "before show why.",
            "",
            *few,
            "",
            f"Where directions share features, as in the paper, {shared} single images' features per learner are found "
            f"exactly, of ten classes; with disjoint sets {disjoint}.",
        ]
    )


def with_section(page: str) -> str:
    """The page with what was measured between its markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{section()}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--page", action="store_true", help="attack nothing, write the section from the files")
    given = parser.parse_args()
    for name in () if given.page else RECIPES:
        for seed in given.seeds:
            found = attack(name, seed)
            RESULTS.mkdir(parents=True, exist_ok=True)
            write_atomically(RESULTS / f"{name}-seed{seed}.json", (json.dumps(found, indent=1) + "\n").encode())
            print(
                f"{name} seed {seed}: {found['reconstruction']} {found['membership']} {found['features']}", flush=True
            )
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
