"""`ictrl predict` and `ictrl sample`: what a learner is for, once it has learned."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from jaxtyping import UInt8
from rich.table import Table
from torch import Tensor

from ictrl.cli.output import contact_sheet, open_console
from ictrl.data import read_picture
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.learner import ICTRL

LEARNER = Path("checkpoint") / "learner.safetensors"
RESULTS = "results.json"

PREDICT_HELP = """Say which class each picture shows, from memory alone.

Pictures of any kind and size are made to fit as in training. The residual is the squared distance of a picture's
features to the subspace of a class, from 0 to 4: the class of the smallest is predicted, the next is the runner-up.
What cannot be read is named in the end, and the exit code is then 2.

Examples:
  ictrl predict runs/mine holiday/cat.jpg holiday/dog.png
  ictrl predict runs/mine holiday/*.jpg --json
"""
SAMPLE_HELP = """Replay pictures of a class from memory, as a sheet of them in a PNG file.

A class is kept as a few directions with a Gaussian each. The sheet goes through all of them in turn, or shows one.

Examples:
  ictrl sample runs/mine --label 3 --out sheet.png
  ictrl sample runs/mine --label cat --n 16 --direction 2 -o cats.png
"""

Run = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]


@dataclass(frozen=True)
class PredictCommand:
    run: Run
    """a run folder, or a learner that `ICTRL.save` wrote"""
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")]
    """picture files"""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """print a JSON list with the residual to every class, the nearest class first"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""


@dataclass(frozen=True)
class SampleCommand:
    run: Run
    """a run folder, or a learner that `ICTRL.save` wrote"""
    label: str
    """the class, by its name or its number"""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """PNG file to write"""
    n: int = 64
    """number of pictures"""
    direction: int | None = None
    """one of the class's directions, counted from 0, the strongest first; all of them by default"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""


@dataclass(frozen=True)
class Prediction:
    """A picture, and its residual to every class, the nearest class first."""

    file: Path
    residuals: list[tuple[int, float]]


def load_learner(run: Path, device: str) -> ICTRL:
    """The learner of a run folder, or the one that is saved in a file."""
    if not run.exists():
        raise InputError(f"Expected a run folder or a saved learner but {run} is not there: `ictrl run` makes one.")
    path = run / LEARNER if run.is_dir() else run
    if not path.exists():
        raise InputError(f"Expected a run folder but {run} has no {LEARNER} in it: has it learned a task yet?")
    return ICTRL.load(path, device=device)


def class_names(run: Path) -> dict[int, str]:
    """What the run's classes are called; empty where it does not say."""
    try:
        table = json.loads((run / RESULTS).read_text(encoding="utf-8")).get("class_names", {})
        return {int(label): str(name) for label, name in table.items()}
    except (OSError, ValueError, AttributeError):  # no run folder, or one that was written by hand
        return {}


def predict(command: PredictCommand) -> int:
    """Print what each picture shows; pictures that cannot be read are named once the others are done."""
    if not command.images:
        raise InputError("Expected at least one picture but got none: name the files after the run.")
    learner, names = load_learner(command.run, command.device), class_names(command.run)
    network = learner.recipe.network
    read, unread = read_pictures(command.images, network.image_size, network.channels)
    predictions = []
    if read:
        residuals = learner.residuals(torch.stack(list(read.values())))
        labels = learner.classes_.tolist()
        for file, row in zip(read, residuals.tolist()):
            predictions.append(Prediction(file, sorted(zip(labels, row), key=lambda pair: pair[1])))
    if command.json:
        print(json.dumps([as_json(prediction, names) for prediction in predictions], indent=2))
    elif predictions:
        print_predictions(predictions, names)
    if unread:
        total = len(dict.fromkeys(command.images))
        reasons = ", ".join(f"{file} ({reason})" for file, reason in unread.items())
        raise InputError(f"Expected pictures but could not read {len(unread)} of {total}: {reasons}.")
    return 0


def read_pictures(
    files: Sequence[Path], image_size: int, channels: int
) -> tuple[dict[Path, UInt8[Tensor, "c h w"]], dict[Path, str]]:
    """The pictures that can be read, and for each of the others the reason."""
    read, unread = {}, {}
    for file in files:
        if file.is_dir():
            unread[file] = f"a folder: name the pictures in it, such as {file / '*'}"
        elif not file.exists():
            unread[file] = "there is no such file"
        else:
            try:
                read[file] = read_picture(file, image_size, channels)
            except InputError as error:
                beginning = f"Expected a picture but could not read {file.name}: "
                unread[file] = str(error).removeprefix(beginning).rstrip(".")
    return read, unread


def as_json(prediction: Prediction, names: Mapping[int, str]) -> dict[str, Any]:
    classes = [
        {"label": label, "class": names.get(label, str(label)), "residual": round(residual, 6)}
        for label, residual in prediction.residuals
    ]
    nearest = classes[0]
    return {"file": str(prediction.file), "label": nearest["label"], "class": nearest["class"], "residuals": classes}


def print_predictions(predictions: Sequence[Prediction], names: Mapping[int, str]) -> None:
    table = Table("picture", "class", box=None, pad_edge=False)
    table.add_column("residual", justify="right")
    table.add_column("runner-up")
    table.add_column("residual", justify="right")
    for prediction in predictions:
        nearest = prediction.residuals[:2]
        cells = [cell for label, value in nearest for cell in (names.get(label, str(label)), f"{value:.4f}")]
        table.add_row(str(prediction.file), *cells)
    open_console().print(table)


def sample(command: SampleCommand) -> int:
    """Write a sheet of pictures that memory replays of a class."""
    if command.out.suffix.lower() != ".png":
        raise InputError(f"Expected --out to be a file that ends in .png but got {command.out}.")
    learner, names = load_learner(command.run, command.device), class_names(command.run)
    label = find_label(command.label, {label: names.get(label, str(label)) for label in learner.classes_.tolist()})
    pictures = learner.sample(label, command.n, command.direction)
    across = max(1, round(len(pictures) ** 0.5))
    write_atomically(command.out, contact_sheet(pictures.split(across)))
    replayed = "1 picture" if command.n == 1 else f"{command.n} pictures"
    along = "" if command.direction is None else f" along direction {command.direction}"
    open_console().print(f"{replayed} of class {names.get(label, label)} replayed from memory{along}: {command.out}")
    return 0


def find_label(given: str, learned: Mapping[int, str]) -> int:
    """The label of the class of that name or, where no class has it, of that number."""
    by_number = {str(label): label for label in learned}
    by_name = {name: label for label, name in learned.items()}
    found = {**by_number, **by_name}.get(given)
    if found is None:
        known = [str(label) if name == str(label) else f"{label} {name}" for label, name in learned.items()]
        some = ", ".join(known[:20]) + (f" … ({len(known)} in all)" if len(known) > 20 else "")
        raise InputError(f"Expected --label to be a class that was learned but got {given!r}; learned are {some}.")
    return found
