"""`ictrl predict`: which class each picture shows."""

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

from ictrl.cli.learners import open_learner, read_pictures, refuse_unread
from ictrl.cli.options import Device, Flag, Learned
from ictrl.cli.output import open_console
from ictrl.errors import InputError
from ictrl.methods.base import Learner

PREDICT_HELP = """Say which class each picture shows, from memory alone.

Pictures of any format and size are made to fit as in training. The residual says how badly a class explains a picture:
the class with the smallest is predicted, the next one is the runner-up. A subspace classifier's residual is a squared
distance; a Gaussian classifier's is a negative log-likelihood, which may be below 0; a linear head's is a negative
log-probability. Residuals can only be compared within one learner. Files that cannot be read are named at the end, and
the exit code is then 2.

Examples:
  ictrl predict runs/mine holiday/cat.jpg holiday/dog.png
  ictrl predict runs/mine holiday/*.jpg --json
"""


@dataclass(frozen=True)
class PredictCommand:
    """Predictions for picture files."""

    run: Learned
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")]
    """picture files"""
    json: Flag = False
    """print a JSON list with the residual of every class, the nearest class first"""
    device: Device = "auto"

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
class Prediction:
    """A picture, and its residual to every class, the nearest class first."""

    file: Path
    residuals: list[tuple[int, float]]


def classify(learner: Learner[Any], pictures: Mapping[Path, UInt8[Tensor, "c h w"]]) -> list[Prediction]:
    """The residuals of each picture to every class."""
    residuals = 0.0 - learner.scores(torch.stack(list(pictures.values())))  # (n, classes); no -0.0
    labels = learner.classes_.tolist()
    return [
        Prediction(file, sorted(zip(labels, row), key=lambda pair: pair[1]))
        for file, row in zip(pictures, residuals.tolist())
    ]


def as_json(prediction: Prediction, names: Mapping[int, str]) -> dict[str, Any]:
    """A prediction as --json prints it."""
    classes = [
        {"label": label, "class": names[label], "residual": round(residual, 6)}
        for label, residual in prediction.residuals
    ]
    nearest = classes[0]
    return {"file": str(prediction.file), "label": nearest["label"], "class": nearest["class"], "residuals": classes}


def print_predictions(predictions: Sequence[Prediction], names: Mapping[int, str]) -> None:
    """A row per picture: the predicted class and the runner-up, each with its residual."""
    table = Table("picture", "class", box=None, pad_edge=False)
    table.add_column("residual", justify="right")
    table.add_column("runner-up")
    table.add_column("residual", justify="right")
    for prediction in predictions:
        nearest = prediction.residuals[:2]
        cells = [cell for label, value in nearest for cell in (names[label], f"{value:.4f}")]
        table.add_row(str(prediction.file), *cells)
    open_console().print(table)
