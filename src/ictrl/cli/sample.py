"""`ictrl sample`: a sheet of pictures replayed from memory, with the training images that are nearest to them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ictrl.cli.learners import check_drawn, check_png, find_label, open_learner, warn_of_replay, write_sheet
from ictrl.cli.options import Device, Flag, Label, Learned, OptionalInt, Out, Root
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import shown
from ictrl.errors import InputError
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.capabilities import Draws, ask
from ictrl.shapes import UInt8
from ictrl.visualize.nearest_images import nearest_images

SAMPLE_HELP = """Replay pictures of a class from memory, as a sheet of them in a PNG file.

A class is kept as a few principal directions, each with a Gaussian. The sheet takes samples from all of them in turn,
or from one. This needs a method with a decoder, such as ictrl or frozen.

With --nearest every row has a second one below it: of each picture the training image that is nearest to it in pixels,
so that nobody takes memorised pictures for generated ones. The learner keeps no image, so this needs the data of the
run.

Examples:
  ictrl sample runs/mine --label 3 --out sheet.png
  ictrl sample runs/mine --label cat --n 16 --direction 2 -o cats.png
  ictrl sample runs/mine --label 3 --n 16 --nearest -o beside.png
"""


@dataclass(frozen=True)
class SampleCommand:
    """Pictures of a class, replayed from memory."""

    run: Learned
    label: Label
    out: Out
    n: int = 64
    """number of pictures"""
    direction: OptionalInt = None
    """one of the class's directions, counted from 0, the strongest first; all of them by default"""
    nearest: Flag = False
    """also show the training image nearest to each picture, below it"""
    root: Root = None
    device: Device = "auto"

    def execute(self) -> None:
        check_png(self.out)
        check_drawn(self.n, "--n")
        learner, names = open_learner(self.run, self.device)
        artist = ask(learner, Draws, "draw")
        label = find_label(self.label, names)
        images = self._training_images(names[label], label) if self.nearest else None
        pictures = artist.sample(label, self.n, self.direction)
        rows = pictures.split(max(1, round(self.n**0.5)))
        below = ""
        if images is not None:
            rows = tuple(part for row in rows for part in (row, images[nearest_images(row, images)[0]]))
            below = f", below each the nearest of {len(images)} training images in pixels"
        write_sheet(self.out, rows)
        replayed = counted(self.n, "picture", "pictures")
        along = "" if self.direction is None else f" along direction {self.direction}"
        open_console().print(
            f"{replayed} of class {shown(names[label])} replayed from memory{along}{below}: {self.out}"
        )
        warn_of_replay(learner)

    def _training_images(self, name: str, label: int) -> UInt8[Tensor, "n c h w"]:
        """Of all classes of the run: what is drawn may be a picture of another."""
        _, tasks = run_data(RunFolder.existing(self.run), self.root)
        if not any(label in task.classes for task in tasks):
            raise InputError(f"Expected a class of the run but {name} was taught later: its images are gone.")
        return torch.cat([task.images for task in tasks])
