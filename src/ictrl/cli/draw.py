"""`ictrl walk`, `reconstruct`, `nearest` and `interpolate`: sheets of what a learner draws."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from jaxtyping import UInt8
from torch import Tensor

from ictrl.cli.output import open_console
from ictrl.cli.use import (
    Run,
    check_png,
    find_label,
    open_learner,
    read_pictures,
    refuse_unread,
    warn_of_replay,
    write_sheet,
)
from ictrl.errors import InputError
from ictrl.experiment.run import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.base import Draws, DrawsFeatures, Learner, ask
from ictrl.methods.inputs import whole_number
from ictrl.visualize import walks

WALK_HELP = """Walk through a class from one side of its mean to the other, from memory alone.

A class varies in some directions more than in others: upright to slanted, thin to thick. Each row of the sheet follows
one of them, the widest first, from 3 standard deviations before the mean to 3 after it. What lies so far out is rare:
the ends may look like another class. These are not the directions of `ictrl sample`, which go out from 0.

Examples:
  ictrl walk runs/mine --label 3 --out walk.png
  ictrl walk runs/mine --label cat --direction 0 --steps 15 --sigmas 2 -o cats.png
"""
RECONSTRUCT_HELP = """Show pictures as the learner sees them: encoded and decoded again, below the originals.

Pictures of any kind and size are made to fit as in training. Without any, a few test images of every class that was
learned are taken from the run's data. What cannot be read is named in the end, and the exit code is then 2.

Examples:
  ictrl reconstruct runs/mine holiday/cat.jpg holiday/dog.png --out sheet.png
  ictrl reconstruct runs/mine -o test-images.png
  ictrl reconstruct runs/mine --root data --n 12 -o test-images.png
"""
NEAREST_HELP = """Show which training images lie nearest to the principal directions of a class.

These are the directions that memory keeps of a class, the strongest first. For each there are two rows: the images
whose features reach furthest along it, and below them their reconstructions. The learner keeps no image, so this needs
the data of the run.

Examples:
  ictrl nearest runs/mine --label 4 --out fours.png
  ictrl nearest runs/mine --label ship --directions 6 --n 10 --root data -o ships.png
"""
INTERPOLATE_HELP = """Go from one picture to another through the feature space, in a row of pictures.

Features have unit length, so the way is along the circle between the two. The first and the last of the row are the
pictures themselves; beside them stand their reconstructions, and between these what the learner draws on the way.

Examples:
  ictrl interpolate runs/mine cat.png dog.png --out sheet.png
  ictrl interpolate runs/mine cat.png dog.png --steps 15 -o sheet.png
"""

ACROSS = 8  # pictures in a row of a sheet that has no other order
WIDEST = 6  # directions of a walk, where none is chosen
STRONGEST = 4  # principal directions with their nearest images, as in the paper's figure

Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


@dataclass(frozen=True)
class WalkCommand:
    run: Run
    """a run folder, or a learner that `save` wrote"""
    label: str
    """the class, by its name or its number"""
    out: Out
    """PNG file to write"""
    direction: int | None = None
    """one of the directions in which the class varies, counted from 0, the widest first; the six widest by default"""
    steps: int = 9
    """pictures in a row; with an odd number the middle one shows the mean"""
    sigmas: float = 3.0
    """standard deviations from the mean to each end"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""

    def execute(self) -> None:
        check_png(self.out)
        learner, names = open_learner(self.run, self.device)
        label = find_label(self.label, names)
        artist = ask(learner, DrawsFeatures, "walk through feature space")
        there = len(walks.variation(artist.recall(label))[0])
        chosen = range(min(WIDEST, there)) if self.direction is None else [self.direction]
        rows = [walks.walk(artist, label, direction, self.steps, self.sigmas) for direction in chosen]
        write_sheet(self.out, rows)
        along = f"direction {chosen[0]}" if len(chosen) == 1 else f"its {len(chosen)} widest directions"
        span = f"from -{self.sigmas:g}σ to {self.sigmas:g}σ around the mean"
        open_console().print(f"Class {names[label]} along {along}, {span}, from memory: {self.out}")
        warn_of_replay(learner)


@dataclass(frozen=True)
class ReconstructCommand:
    run: Run
    """a run folder, or, for pictures of your own, a learner that `save` wrote"""
    out: Out
    """PNG file to write"""
    images: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")
    ] = ()
    """picture files; without any, test images of the run's data"""
    n: int = ACROSS
    """test images of each class"""
    root: Path | None = None
    """where the run's data lies, if no longer where it was"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""

    def execute(self) -> None:
        """Pictures that cannot be read are named once the others are done."""
        check_png(self.out)
        learner, _ = open_learner(self.run, self.device)
        network = learner.recipe.method.network
        read, unread = read_pictures(self.images, network.image_size, network.channels)
        if read:
            rows = list(torch.stack(list(read.values())).split(ACROSS))
        elif not unread:
            rows = tested_images(learner, RunFolder.existing(self.run), self.root, self.n)
        if read or not unread:
            artist = ask(learner, Draws, "draw")
            write_sheet(self.out, [part for row in rows for part in (row, artist.reconstruct(row))])
            shown = sum(len(row) for row in rows)
            counted = "1 picture, its reconstruction" if shown == 1 else f"{shown} pictures, their reconstructions"
            open_console().print(f"{counted} below: {self.out}")
        refuse_unread(unread, len(read) + len(unread))


@dataclass(frozen=True)
class NearestCommand:
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """a run folder"""
    label: str
    """the class, by its name or its number"""
    out: Out
    """PNG file to write"""
    directions: int | None = None
    """how many of the class's principal directions, the strongest first; four by default"""
    n: int = 5
    """images at each"""
    root: Path | None = None
    """where the run's data lies, if no longer where it was"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""

    def execute(self) -> None:
        check_png(self.out)
        learner, names = open_learner(self.run, self.device)
        label = find_label(self.label, names)
        artist = ask(learner, DrawsFeatures, "draw from feature space")
        there = len(walks.principal_directions(artist.recall(label)))
        wanted = min(STRONGEST, there) if self.directions is None else self.directions
        if not 1 <= wanted <= there:
            raise InputError(f"Expected --directions from 1 to {there} but got {wanted}.")
        _, tasks = run_data(RunFolder.existing(self.run), self.root)
        task = next(task for task in tasks if label in task.classes)
        images = task.images[task.labels == label]
        rows = []
        for direction in range(wanted):
            found = images[walks.nearest(artist, images, label, direction, self.n)]
            rows += [found, artist.decode(artist.features(found)).cpu()]
        write_sheet(self.out, rows)
        shown = f"{len(rows[0])} of {len(images)} training images of class {names[label]}"
        open_console().print(f"{shown} nearest to each of {wanted} directions, their reconstructions below: {self.out}")


@dataclass(frozen=True)
class InterpolateCommand:
    run: Run
    """a run folder, or a learner that `save` wrote"""
    start: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="START")]
    """a picture file"""
    end: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="END")]
    """another"""
    out: Out
    """PNG file to write"""
    steps: int = 9
    """pictures that are drawn, both reconstructions included"""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU where there is one"""

    def execute(self) -> None:
        check_png(self.out)
        learner, _ = open_learner(self.run, self.device)
        network = learner.recipe.method.network
        files = (self.start, self.end)
        read, unread = read_pictures(files, network.image_size, network.channels)
        refuse_unread(unread, len(set(files)))
        start, end = (read[file] for file in files)
        drawn = walks.interpolate(ask(learner, DrawsFeatures, "draw from feature space"), start, end, self.steps)
        write_sheet(self.out, [torch.cat([start[None], drawn, end[None]])])
        open_console().print(f"{self.steps} pictures from {self.start} to {self.end}: {self.out}")


def tested_images(
    learner: Learner[Any], folder: RunFolder, root: Path | None, n: int
) -> list[UInt8[Tensor, "_ c h w"]]:
    """The first n test images of each class that was learned, a row per class."""
    n = whole_number(n, "n", least=1)
    _, tasks = run_data(folder, root)
    by_class = {label: task.test_images[task.test_labels == label][:n] for task in tasks for label in task.classes}
    return [by_class[label] for label in learner.classes_.tolist()]
