"""`ictrl predict` and `ictrl sample`: what a learner is for, once it has learned."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from jaxtyping import UInt8
from rich.table import Table
from torch import Tensor

from ictrl.cli.output import open_console
from ictrl.data import read_picture
from ictrl.errors import InputError
from ictrl.experiment.evaluation import REPLAY_WELL
from ictrl.experiment.run_folder import Position, RunFolder
from ictrl.files import make_folder, write_atomically
from ictrl.methods.base import Draws, Learner, Replays, ask, load_learner
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.visualize.contact_sheet import contact_sheet

PREDICT_HELP = """Say which class each picture shows, from memory alone.

Pictures of any kind and size are made to fit as in training. The residual says what a class does not explain of a
picture: the class of the smallest is predicted, the next is the runner-up. By nearest subspaces it is a squared
distance; by Gaussians it is a surprise, which may be below 0; by a linear head it is minus the log of a probability.
Only residuals of one learner can be compared.
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
    """a run folder, or a learner that `save` wrote"""
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")]
    """picture files"""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """print a JSON list with the residual to every class, the nearest class first"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""

    def execute(self) -> None:
        """Pictures that cannot be read are named once the others are done."""
        if not self.images:
            raise InputError("Expected at least one picture but got none: name the files after the run.")
        learner, names = open_learner(self.run, self.device)
        network = learner.recipe.method.network
        read, unread = read_pictures(self.images, network.image_size, network.channels)
        predictions = classify(learner, read) if read else []
        if self.json:
            print(json.dumps([as_json(prediction, names) for prediction in predictions], indent=2))
        elif predictions:
            print_predictions(predictions, names)
        refuse_unread(unread, len(read) + len(unread))


@dataclass(frozen=True)
class SampleCommand:
    run: Run
    """a run folder, or a learner that `save` wrote"""
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

    def execute(self) -> None:
        check_png(self.out)
        learner, names = open_learner(self.run, self.device)
        label = find_label(self.label, names)
        pictures = ask(learner, Draws, "draw").sample(label, self.n, self.direction)
        across = max(1, round(self.n**0.5))
        write_sheet(self.out, pictures.split(across))
        replayed = "1 picture" if self.n == 1 else f"{self.n} pictures"
        along = "" if self.direction is None else f" along direction {self.direction}"
        open_console().print(f"{replayed} of class {names[label]} replayed from memory{along}: {self.out}")
        warn_of_replay(learner)


@dataclass(frozen=True)
class Prediction:
    """A picture, and its residual to every class, the nearest class first."""

    file: Path
    residuals: list[tuple[int, float]]


def warn_of_replay(learner: Learner[Any]) -> None:
    """Where the decoder has not learned to draw, pictures from memory are noise."""
    recognised = learner.replay_recognised() if isinstance(learner, Replays) else 1.0
    if recognised < REPLAY_WELL:
        hint = "the decoder has not learned to draw them well"
        print(
            f"warning: only {recognised:.0%} of what memory replays of all classes is recognised: {hint}.",
            file=sys.stderr,
        )


def open_learner(run: Path, device: str) -> tuple[Learner[Any], dict[int, str]]:
    """The newest good learner of a run folder, or the one that is saved in a file, and the names of its classes."""
    if run.is_file():
        position = Position(load_learner(run, device=device), done=0, notes=read_stored(run, LEARNER).notes)
    else:
        position = RunFolder.existing(run).learned(device)
    for warning in position.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    names = position.class_names
    return position.learner, {label: names.get(label, str(label)) for label in position.learner.classes_.tolist()}


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


def refuse_unread(unread: Mapping[Path, str], total: int) -> None:
    """Name what could not be read, if anything."""
    if unread:
        reasons = ", ".join(f"{file} ({reason})" for file, reason in unread.items())
        raise InputError(f"Expected pictures but could not read {len(unread)} of {total}: {reasons}.")


def check_png(out: Path) -> None:
    """Refuse a sheet of another kind before any work is done."""
    if out.suffix.lower() != ".png":
        raise InputError(f"Expected --out to be a file that ends in .png but got {out}.")


def write_sheet(out: Path, rows: Sequence[UInt8[Tensor, "_ c h w"]]) -> None:
    """Rows of pictures as a PNG file, in a folder that is made if need be."""
    make_folder(out.parent)
    write_atomically(out, contact_sheet(rows))


def classify(learner: Learner[Any], pictures: Mapping[Path, UInt8[Tensor, "c h w"]]) -> list[Prediction]:
    """The residuals of each picture to every class."""
    residuals = -learner.scores(torch.stack(list(pictures.values())))  # (n, classes)
    labels = learner.classes_.tolist()
    return [
        Prediction(file, sorted(zip(labels, row), key=lambda pair: pair[1]))
        for file, row in zip(pictures, residuals.tolist())
    ]


def as_json(prediction: Prediction, names: Mapping[int, str]) -> dict[str, Any]:
    classes = [
        {"label": label, "class": names[label], "residual": round(residual, 6)}
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
        cells = [cell for label, value in nearest for cell in (names[label], f"{value:.4f}")]
        table.add_row(str(prediction.file), *cells)
    open_console().print(table)


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
