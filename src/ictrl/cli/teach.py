"""`ictrl teach`: new classes for a learner that lives, from their pictures alone."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ictrl.cli.learners import open_position, read_pictures, refuse_unread
from ictrl.cli.options import Device, Flag, Learned, OptionalPath
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import shown, tell
from ictrl.cli.watch import bars_on
from ictrl.data.readers.folder import files_by_class
from ictrl.errors import InputError
from ictrl.experiment.taught import LearnerPlace, writing
from ictrl.experiment.teaching import TaughtClass, check_new_names, check_share, known_names, teach
from ictrl.shapes import UInt8
from ictrl.training.loop import EpochReport

TEACH_HELP = """Teach a learner new classes. Nothing is needed but the new pictures.

Pictures lie in a folder with one folder per new class; or, with --label, they are named one by one and show one class.
They are made to fit as in training. Some of each class are not learned from: the learner is measured on them, and then
they are forgotten like the others. A new class that looks like an old one is named at the end.

A saved learner is replaced by the one that has learned, in one step at the end: after Ctrl-C, a crash or an error it is
as it was. In a run folder the taught learner is written as taught.safetensors; `predict` and all commands that open the
run's learner take that one from then on, while the run's own checkpoints and results stay as they are.

Examples:
  ictrl teach runs/mine new-classes
  ictrl teach runs/mine --label hedgehog garden/*.jpg
  ictrl teach learner.safetensors new-classes --held-out 0.1 --out larger.safetensors
"""


@dataclass(frozen=True)
class TeachCommand:
    """New classes for a learner."""

    learner: Learned
    pictures: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FOLDER|FILE…", help_behavior_hint="")
    ]
    """a folder with one folder of pictures per new class; with --label, picture files of one class"""
    label: Annotated[str | None, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")] = None
    """the name of the one new class, whose pictures are named file by file"""
    held_out: float = 0.2
    """share of each new class's pictures that are measured on and not learned from; 0 measures nothing"""
    seed: int = 0
    """chooses the pictures that are held out"""
    out: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None
    """another .safetensors file to write the taught learner to; the one that was named stays as it is"""
    json: Flag = False
    """print what was learned as JSON"""
    device: Device = "auto"

    def execute(self) -> None:
        place, console = LearnerPlace(self.learner), open_console()
        check_share(self.held_out)
        target, files = place.target(self.out), self.files()
        bars = bars_on(console)
        epochs = bars.add_task("epochs", total=None, note="", visible=False)

        def progress(report: EpochReport) -> None:
            bars.update(epochs, total=report.epochs, completed=report.epoch, visible=not self.json)

        try:
            with writing(target):
                position = open_position(place, self.device)
                check_new_names(files, known_names(position))
                network = position.learner.recipe.method.network
                pictures = read_classes(files, network.image_size, network.channels)
                if not self.json:
                    print_begin(console, pictures)
                with bars:
                    taught = teach(position, pictures, held_out=self.held_out, seed=self.seed, progress=progress)
                position.learner.save(target, position.notes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"Stopped. {target} is as it was.") from None
        if self.json:
            classes = [asdict(new) for new in taught]
            print(
                json.dumps(
                    {"written": str(target), "known": len(position.learner.labels), "classes": classes}, indent=2
                )
            )
        else:
            print_taught(console, taught)
            known = counted(len(position.learner.labels), "class", "classes")
            console.print(f"\nThe learner knows {known} now: {target}", soft_wrap=True)
        warn_of_likeness(taught)

    def files(self) -> dict[str, list[Path]]:
        """The picture files of each new class."""
        if self.label is None:
            if len(self.pictures) != 1:
                raise InputError(
                    f"Expected one folder with a folder per new class but got {len(self.pictures)} paths: name the "
                    "class of picture files with --label."
                )
            return files_by_class(self.pictures[0])
        if not self.label.strip():
            raise InputError("Expected --label to be the name of the new class but got nothing.")
        return {self.label: list(self.pictures)}


def read_classes(files: dict[str, list[Path]], image_size: int, channels: int) -> dict[str, UInt8[Tensor, "_ c h w"]]:
    """The pictures of each class; files that can not be read are all named."""
    for name, listed in files.items():
        if not listed:
            raise InputError(f"Expected pictures of class {name} but got none.")
    found: dict[str, UInt8[Tensor, "_ c h w"]] = {}
    unread: dict[Path, str] = {}
    for name, listed in files.items():
        read, broken = read_pictures(listed, image_size, channels)
        unread |= broken
        if read:
            found[name] = torch.stack(list(read.values()))
    refuse_unread(unread, sum(map(len, files.values())))
    return found


def print_begin(console: Console, pictures: dict[str, UInt8[Tensor, "_ c h w"]]) -> None:
    """What is about to be learned."""
    total = counted(sum(map(len, pictures.values())), "picture", "pictures")
    classes = counted(len(pictures), "new class", "new classes")
    console.print(f"Learning {classes} from {total}.", soft_wrap=True)


def print_taught(console: Console, taught: list[TaughtClass]) -> None:
    """A row per new class: pictures, and accuracy among all classes on those that were held out."""
    table = Table("class", box=None, pad_edge=False)
    for title in ("pictures learned", "held out", "accuracy among all classes"):
        table.add_column(title, justify="right")
    for new in taught:
        accuracy = "" if new.accuracy is None else f"{new.accuracy:.3f}"
        table.add_row(shown(new.name), str(new.images), str(new.held_out), accuracy)
    console.print()
    console.print(table)


def warn_of_likeness(taught: list[TaughtClass]) -> None:
    """New classes that look like old ones."""
    for new in taught:
        if new.likeness is not None:
            tell(f"warning: {new.name} looks like {new.likeness.name}: {new.likeness.reason}.")
