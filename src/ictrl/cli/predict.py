"""`ictrl predict`: which class each picture shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.table import Table
from torch import Tensor

from ictrl.cli.learners import open_learner, read_pictures, refuse_unread
from ictrl.cli.options import Device, Flag, Learned
from ictrl.cli.output import open_console
from ictrl.cli.terminal import shown
from ictrl.errors import InputError
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import TellsUnknown, ask
from ictrl.shapes import UInt8

UNKNOWN = "unknown"
PREDICT_HELP = """Say which class each picture shows, from memory alone.

Pictures of any format and size are made to fit as in training. The residual says how badly a class explains a picture:
the class with the smallest is predicted, the next one is the runner-up. A subspace classifier's residual is a squared
distance; a Gaussian classifier's is a negative log-likelihood, which may be below 0; a linear head's is a negative
log-probability, as is that of wide features. Residuals can only be compared within one learner. Files that cannot be
read are named at the end, and the exit code is then 2.

With --unknown, pictures that look like no class are called unknown. Its number is the share of false alarms: of
pictures of known classes, about so many are called unknown too. Methods without such a measure refuse it.

Examples:
  ictrl predict runs/mine holiday/cat.jpg holiday/dog.png
  ictrl predict runs/mine holiday/*.jpg --json
  ictrl predict runs/mine holiday/*.jpg --unknown 0.05
"""


@dataclass(frozen=True)
class PredictCommand:
    """Predictions for picture files."""

    run: Learned
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")]
    """picture files"""
    json: Flag = False
    """print a JSON list with the residual of every class, the nearest class first"""
    unknown: float | None = None
    """call pictures unknown that look like no class, with this share of false alarms, such as 0.05"""
    device: Device = "auto"

    def execute(self) -> None:
        """Pictures that cannot be read are named once the others are done."""
        if not self.images:
            raise InputError("Expected at least one picture but got none: name the files after the run.")
        learner, names = open_learner(self.run, self.device)
        if self.unknown is not None:
            ask(learner, TellsUnknown, "tell unknown pictures")
        network = learner.recipe.method.network
        read, unread = read_pictures(self.images, network.image_size, network.channels)
        by_file = {found.file: found for found in classify(learner, read, self.unknown)} if read else {}
        predictions = [by_file[file] for file in self.images if file in by_file]  # one that is named twice, twice
        if self.json:
            print(json.dumps([as_json(prediction, names) for prediction in predictions], indent=2))
        elif predictions:
            print_predictions(predictions, names)
        refuse_unread(unread, len(self.images))


@dataclass(frozen=True)
class Prediction:
    """A picture, and its residual to every class, the nearest class first."""

    file: Path
    residuals: list[tuple[int, float]]
    unknown: bool | None = None
    """whether it looks like no class; None if that was not asked"""


def classify(
    learner: Learner[Any], pictures: Mapping[Path, UInt8[Tensor, "c h w"]], false_alarms: float | None = None
) -> list[Prediction]:
    """The residuals of each picture to every class and, at a rate of false alarms, whether it looks like none."""
    images = torch.stack(list(pictures.values()))
    residuals = 0.0 - learner.scores(images)  # (n, classes); no -0.0
    labels = sorted(learner.labels)
    unknown: list[bool | None] = [None] * len(images)
    if false_alarms is not None:
        unknown = ask(learner, TellsUnknown, "tell unknown pictures").unknown(images, false_alarms).tolist()
    return [
        Prediction(file, sorted(zip(labels, row), key=lambda pair: pair[1]), strange)
        for file, row, strange in zip(pictures, residuals.tolist(), unknown)
    ]


def as_json(prediction: Prediction, names: Mapping[int, str]) -> dict[str, Any]:
    """A prediction as --json prints it; an unknown picture has no label."""
    classes = [
        {"label": label, "class": names[label], "residual": round(residual, 6)}
        for label, residual in prediction.residuals
    ]
    nearest = {"label": None, "class": UNKNOWN} if prediction.unknown else classes[0]
    found = {"file": str(prediction.file), "label": nearest["label"], "class": nearest["class"]}
    asked = {} if prediction.unknown is None else {"unknown": prediction.unknown}
    return {**found, **asked, "residuals": classes}


def print_predictions(predictions: Sequence[Prediction], names: Mapping[int, str]) -> None:
    """A row per picture: the predicted class and the runner-up, each with its residual.

    Of an unknown picture, the runner-up is the class that it looks most like.
    """
    table = Table("picture", "class", box=None, pad_edge=False)
    table.add_column("residual", justify="right")
    table.add_column("runner-up")
    table.add_column("residual", justify="right")
    for prediction in predictions:
        nearest = prediction.residuals[: 1 if prediction.unknown else 2]
        cells = [cell for label, value in nearest for cell in (shown(names[label]), f"{value:.4f}")]
        table.add_row(shown(prediction.file), *[UNKNOWN, ""] * bool(prediction.unknown), *cells)
    open_console().print(table)
