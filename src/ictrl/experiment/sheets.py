"""Sheets: a few pictures of each class in one PNG file that can be cut again.

A run that is asked to (`run.keep_pictures`) keeps two kinds of them in RUN/pictures, for its report: `originals.png`, a
few test images of each class, and after each task `after-task-001.png`, the same images as the learner reconstructs
them then. The learner never reads them, and deleting them costs nothing but those figures.

A row of a sheet is a class, in the order of learning; a row has `across` places of `side` by `side` pixels, without
gaps, and a class of fewer images leaves its last places white. The PNG's text entry `ictrl` says all this as JSON:
{"labels": [3, 5], "counts": [4, 4], "across": 4, "side": 32}. One channel is stored as grey, three as colours; of other
numbers the first three are shown, of two the first.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ictrl.data import Task
from ictrl.errors import InputError
from ictrl.files import make_folder, remove, write_atomically
from ictrl.limits import PIXELS, open_regular
from ictrl.methods.capabilities import Draws
from ictrl.shapes import UInt8
from ictrl.typed_json import parse_json, typed

MOST = 100  # classes on a sheet
SHEET = re.compile(r"originals\.png|after-task-\d{3,}\.png", re.ASCII)  # names of ours
ENTRY = "ictrl"
SHOWN = ("figures/reconstructions.png", "report.html")  # in a run folder: what the sheets are shown in


@dataclass(frozen=True)
class SheetFolder:
    """Where the sheets of a run lie, and how many pictures of a class each has; of none, there are no sheets."""

    path: Path
    each: int = 0

    @property
    def originals(self) -> Path:
        return self.path / "originals.png"

    def after_task(self, number: int) -> Path:
        """Counted from 1."""
        return self.path / f"after-task-{number:03d}.png"

    def begin(self, learner: object, tasks: list[Task], done: int) -> None:
        """When a run begins, or goes on after so many tasks: remove what was kept by another setting, and write what is
        missing and still can be drawn."""
        each = self.each if isinstance(learner, Draws) else 0
        originals = to_png(few_of_each(tasks, each)) if each else b""
        before = self.originals.read_bytes() if self.originals.exists() else b""
        shown = [self.path.parent / name for name in SHOWN]
        if before != originals and (self.path.exists() or shown[0].exists()):
            sheets = [path for path in self.path.glob("*.png") if SHEET.fullmatch(path.name)]
            remove([*sheets, *shown])
            with suppress(OSError):  # it holds something of the user's, or never was
                self.path.rmdir()
        if originals:
            make_folder(self.path)
            write_atomically(self.originals, originals)
            if done and not self.after_task(done).exists():  # begun by another run, or without pictures
                self.write_reconstructions(learner, tasks[:done])

    def write_reconstructions(self, learner: object, tasks: list[Task]) -> None:
        """After the last of these tasks. Images are all that is needed, and no random number is drawn."""
        if not self.each or not isinstance(learner, Draws):
            return
        originals = few_of_each(tasks, self.each)
        decoded = learner.reconstruct(torch.cat(list(originals.values())))
        parts = decoded.split([len(images) for images in originals.values()])
        write_atomically(self.after_task(len(tasks)), to_png(dict(zip(originals, parts))))


def few_of_each(tasks: list[Task], each: int) -> dict[int, UInt8[Tensor, "n c h w"]]:
    """The first test images of each class, classes in the order of learning."""
    chosen: dict[int, Tensor] = {}
    for task in tasks:
        labels = task.test_labels
        for label in task.classes[: MOST - len(chosen)]:
            rows = task.test_rows[(labels == label).nonzero().flatten()[:each]]
            chosen[label] = task.dataset.test_images[rows]
    return chosen


def to_png(pictures: Mapping[int, UInt8[Tensor, "_ c h w"]]) -> bytes:
    """A sheet of the pictures of each label."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    channels, side = next(iter(pictures.values())).shape[1:3]
    shown = 3 if channels >= 3 else 1
    across = max(len(images) for images in pictures.values())
    sheet = torch.full((len(pictures), across, side, side, shown), 255, dtype=torch.uint8)
    for row, images in zip(sheet, pictures.values()):
        row[: len(images)] = images[:, :shown].permute(0, 2, 3, 1)
    pixels = sheet.permute(0, 2, 1, 3, 4).reshape(len(pictures) * side, across * side, shown)
    about = {
        "labels": list(pictures),
        "counts": [len(images) for images in pictures.values()],
        "across": across,
        "side": side,
    }
    text = PngInfo()
    text.add_text(ENTRY, json.dumps(about))
    buffer = BytesIO()
    Image.fromarray(pixels.squeeze(-1).numpy()).save(buffer, format="PNG", pnginfo=text)
    return buffer.getvalue()


@dataclass(frozen=True)
class _About:
    """What the text entry of a sheet says."""

    labels: list[int]
    counts: list[int]
    across: int
    side: int


def read_sheet(path: Path) -> dict[int, UInt8[Tensor, "_ shown side side"]]:
    """The inverse of `to_png`; what is no such sheet is refused."""
    from PIL import Image

    try:
        with open_regular(path) as file, Image.open(file, formats=["PNG"]) as picture:
            if problem := PIXELS.exceeded(picture.width * picture.height):
                raise ValueError(problem)
            about = typed(parse_json(picture.info[ENTRY]), _About)
            size = about.across * about.side, len(about.labels) * about.side
            if picture.size != size or picture.mode not in ("L", "RGB"):  # before it is decoded
                raise ValueError(f"its entry says {size[0]}×{size[1]} but it has {picture.width}×{picture.height}")
            pixels = torch.from_numpy(np.array(picture))
        side, across, labels = about.side, about.across, about.labels
        sheet = pixels.reshape(len(labels), side, across, side, -1).permute(0, 2, 4, 1, 3)
        return {int(label): row[:count] for label, count, row in zip(labels, about.counts, sheet, strict=True)}
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SyntaxError) as error:
        reason = f"{type(error).__name__} {error}".splitlines()[0]
        raise InputError(f"Expected a sheet of pictures but could not read {path}: {reason}.") from None
