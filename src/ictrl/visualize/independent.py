"""An independent classifier: a judge of which class a drawn image shows.

A learner recognises its own drawings by the very features that it draws from. So a second network, which knows nothing
of it, is trained with cross-entropy on the real training images of all classes of the run, and sees no drawn image.
Its accuracy on test images is the ceiling: what it says of drawings can hardly be above it.

It is trained once and kept in a file that says what it was trained on. Where images, classes and settings are the same,
the file is read instead.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ictrl.config import AugmentationConfig, NetworkConfig, Recipe, RunConfig, StageConfig
from ictrl.data import Task
from ictrl.data.layout import cache_folder
from ictrl.errors import InputError, UnreadableError
from ictrl.files import make_folder
from ictrl.methods.base import Learner, load_learner
from ictrl.methods.finetune import Finetune, FinetuneConfig
from ictrl.methods.inputs import resolve_device, whole_number
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.recipes.legacy import flat
from ictrl.recipes.tables import recipe_to_table
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import Progress
from ictrl.training.task import CHUNK

NOTE = "independent classifier"  # in the file: what it was trained on, and how
EPOCHS, STEPS, BATCH = 20, 1000, 128  # as many epochs, and more where that gives few steps, but
MOST_EPOCHS = 100
NETWORKS = {"dcgan": 128, "resnet18": 512}
"""the encoder of i-CTRL's recipes, or ResNet-18; with their numbers of features at a width of 64"""


@dataclass(frozen=True)
class Training:
    """How the classifier is trained."""

    network: Literal["dcgan", "resnet18"]
    epochs: int
    mirror: bool
    """whether half of the images are mirrored: not for letters"""
    seed: int = 0

    @classmethod
    def suited(
        cls, tasks: Sequence[Task], device: str | torch.device, mirror: bool, epochs: int | None = None
    ) -> "Training":
        """ResNet-18 for colour pictures where there is a GPU, and otherwise a small network; short."""
        channels, images = tasks[0].dataset.images.shape[1], sum(len(task.rows) for task in tasks)
        large = channels == 3 and resolve_device(device).type == "cuda"
        usual = min(MOST_EPOCHS, max(EPOCHS, ceil(STEPS * BATCH / max(1, images))))
        epochs = usual if epochs is None else whole_number(epochs, "epochs of the classifier", least=1)
        return cls("resnet18" if large else "dcgan", epochs, mirror)

    @classmethod
    def of_file(cls, path: Path) -> "Training":
        """How the classifier in a file was trained."""
        known = _noted(path)
        try:
            return cls(**{field.name: known[field.name] for field in fields(cls)})
        except KeyError as missing:
            raise InputError(f"Expected an independent classifier but {path} does not tell its {missing}.") from None

    def recipe(self, side: int, channels: int, device: str | torch.device) -> Recipe:
        """As a recipe of the method `finetune` with one task."""
        stage = StageConfig(
            epochs=self.epochs,
            batch=BATCH,
            learning_rate=1e-3,
            schedule="cosine",
            warmup=min(1, self.epochs - 1),
            ema=0.0,
            augmentation=AugmentationConfig(mirror=self.mirror, shifts=side // 8),
        )
        network = NetworkConfig(
            image_size=side, channels=channels, kind=self.network, width=64, feature_dim=NETWORKS[self.network]
        )
        run = RunConfig(seed=self.seed, device=str(device))
        return Recipe(name=NOTE, method=FinetuneConfig(network=network, first=stage), run=run)


def chosen_training(
    tasks: Sequence[Task], device: str | torch.device, mirror: bool, path: Path | None, epochs: int | None
) -> Training:
    """As the classifier of a file was trained, if there is one and nothing else is asked for; else what suits."""
    if path is not None and path.exists() and epochs is None:
        return Training.of_file(path)
    return Training.suited(tasks, device, mirror, epochs)


def mirrors(recipe: Recipe) -> bool:
    """Whether a recipe has pictures mirrored anywhere: then this says something of them, and not of a method."""
    return any(name.endswith(".mirror") and value is True for name, value in flat(recipe_to_table(recipe)))


def independent_classifier(
    tasks: Sequence[Task],
    training: Training,
    path: Path | None = None,
    *,
    device: str | torch.device = "auto",
    progress: Progress | None = None,
) -> tuple[Learner[Any], Path, bool]:
    """The classifier, the file it is kept in, and whether it was read from there instead of trained.

    Without a path the file lies in the cache folder, under a name that says what the classifier was trained on.
    """
    known = describe(tasks, training)
    kept = path is None
    path = path or cache_folder() / "classifiers" / f"{_digest(known)[:16]}.safetensors"
    if path.exists():
        try:
            return _read(path, known, device), path, True
        except InputError as error:
            if not kept or isinstance(error, UnreadableError):
                raise
            # nobody named this file: what is wrong with it is mended by training anew
    if path.suffix != ".safetensors":
        raise InputError(f"Expected a file that ends in .safetensors for the classifier but got {path}.")
    make_folder(path.parent)  # before what may take minutes
    images, labels = _images(tasks)
    _, channels, side, _ = images.shape
    learner = Finetune(training.recipe(side, channels, device), device=device).learn(images, labels, progress)
    learner.save(path, {NOTE: json.dumps(known)}, inference_only=True)
    return learner, path, False


def describe(tasks: Sequence[Task], training: Training) -> dict[str, Any]:
    """What a classifier is known by: its settings, its classes and a digest of its images, whatever their tasks."""
    sha = hashlib.sha256()
    for label, task, rows in _by_class(tasks):
        sha.update(f"{label} {len(rows)} {tuple(task.dataset.images.shape[1:])}".encode())
        images = task.images
        for some in rows.split(CHUNK):
            sha.update(images[some].flatten().numpy().data)
    return {**asdict(training), "classes": [label for label, _, _ in _by_class(tasks)], "images": sha.hexdigest()}


def _by_class(tasks: Sequence[Task]) -> list[tuple[int, Task, Int[Tensor, " n"]]]:
    """Every class with its task and its rows there, labels ascending: the order of tasks does not matter."""
    found = [(label, task, (task.labels == label).nonzero().flatten()) for task in tasks for label in task.classes]
    return sorted(found, key=lambda entry: entry[0])


def _images(tasks: Sequence[Task]) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
    parts = _by_class(tasks)
    labels = torch.cat([torch.full((len(rows),), label) for label, _, rows in parts])
    return torch.cat([task.images[rows] for _, task, rows in parts]), labels


def _digest(known: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _noted(path: Path) -> dict[str, Any]:
    """What a file says that its classifier was trained on, and how."""
    notes = read_stored(path, LEARNER).notes
    try:
        return dict(json.loads(notes[NOTE]))
    except (KeyError, ValueError, TypeError):
        raise InputError(
            f"Expected an independent classifier but {path} holds another learner: name another file."
        ) from None


def _read(path: Path, known: dict[str, Any], device: str | torch.device) -> Learner[Any]:
    """The classifier of a file, if it was trained like this."""
    found = _noted(path)
    changed = [name for name in known if found.get(name) != known[name]]
    if changed:
        raise InputError(
            f"Expected a classifier trained on the images of this run in the same way but that of {path} differs in "
            f"its {', '.join(changed)}: name another file, or remove that one to have it trained anew."
        )
    return load_learner(path, device=device)
