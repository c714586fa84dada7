"""`ictrl walk`, `reconstruct`, `nearest` and `interpolate`: sheets of what a learner draws."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from ictrl.cli.learners import (
    check_png,
    find_label,
    open_learner,
    read_pictures,
    refuse_unread,
    tested_images,
    warn_of_replay,
    write_sheet,
)
from ictrl.cli.options import Device, Label, Learned, OptionalInt, Out, Root, Run
from ictrl.cli.output import counted, open_console
from ictrl.cli.sample import SampleCommand
from ictrl.cli.terminal import shown
from ictrl.errors import InputError
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.capabilities import Draws, DrawsFeatures, ask
from ictrl.visualize import walks

WALK_HELP = """Walk through a class from one side of its mean to the other, from memory alone.

A class varies more in some directions than in others: from upright to slanted, from thin to thick. Each row of the
sheet follows one of them, the widest first, from 3 standard deviations below the mean to 3 above it. What lies so far
out is rare: the ends may look like another class. These directions are not those of `ictrl sample`, which start at 0.

Examples:
  ictrl walk runs/mine --label 3 --out walk.png
  ictrl walk runs/mine --label cat --direction 0 --steps 15 --sigmas 2 -o cats.png
"""
RECONSTRUCT_HELP = """Show pictures as the learner sees them: encoded and decoded again, below the originals.

Pictures of any format and size are made to fit as in training. Without any, a few test images of every class learned so
far are taken from the run's data. Files that cannot be read are named at the end, and the exit code is then 2.

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
INTERPOLATE_HELP = """Go from one picture to another through feature space, in a row of pictures.

Features have unit length, so the path follows the great circle between the two. The first and the last picture of the
row are the given ones; next to them are their reconstructions, and between these what the learner draws on the way.

Examples:
  ictrl interpolate runs/mine cat.png dog.png --out sheet.png
  ictrl interpolate runs/mine cat.png dog.png --steps 15 -o sheet.png
"""

ACROSS = 8  # pictures in a row of a sheet that has no other order
WIDEST = 6  # directions of a walk, where none is chosen
STRONGEST = 4  # principal directions with their nearest images, as in the paper's figure


@dataclass(frozen=True)
class WalkCommand:
    """A class from one side of its mean to the other."""

    run: Learned
    label: Label
    out: Out
    direction: OptionalInt = None
    """one of the directions in which the class varies, counted from 0, the widest first; the six widest by default"""
    steps: int = 9
    """pictures in a row; with an odd number the middle one shows the mean"""
    sigmas: float = 3.0
    """standard deviations from the mean to each end"""
    device: Device = "auto"

    def execute(self) -> None:
        check_png(self.out)
        learner, names = open_learner(self.run, self.device)
        artist = ask(learner, DrawsFeatures, "draw from feature space")
        label = find_label(self.label, names)
        there = len(walks.variation(artist.recall(label))[0])
        chosen = range(min(WIDEST, there)) if self.direction is None else [self.direction]
        rows = [walks.walk(artist, label, direction, self.steps, self.sigmas) for direction in chosen]
        write_sheet(self.out, rows)
        along = f"direction {chosen[0]}" if len(chosen) == 1 else f"its {len(chosen)} widest directions"
        span = f"from -{self.sigmas:g}σ to {self.sigmas:g}σ around the mean"
        open_console().print(f"Class {shown(names[label])} along {along}, {span}, from memory: {self.out}")
        warn_of_replay(learner)


@dataclass(frozen=True)
class ReconstructCommand:
    """Pictures and their reconstructions."""

    run: Learned
    out: Out
    images: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE…", help_behavior_hint="")
    ] = ()
    """picture files; without any, test images from the data of the run folder"""
    n: int = ACROSS
    """test images of each class"""
    root: Root = None
    device: Device = "auto"

    def execute(self) -> None:
        """Pictures that cannot be read are named once the others are done."""
        check_png(self.out)
        learner, _ = open_learner(self.run, self.device)
        artist = ask(learner, Draws, "draw")
        network = learner.recipe.method.network
        read, unread = read_pictures(self.images, network.image_size, network.channels)
        if read:
            rows = list(torch.stack(list(read.values())).split(ACROSS))
        elif not unread:
            rows = tested_images(learner, RunFolder.existing(self.run), self.root, self.n)
        if read or not unread:
            write_sheet(self.out, [part for row in rows for part in (row, artist.reconstruct(row))])
            total = sum(len(row) for row in rows)
            pictures = counted(total, "picture, its reconstruction", "pictures, their reconstructions")
            open_console().print(f"{pictures} below: {self.out}")
        refuse_unread(unread, len(read) + len(unread))


@dataclass(frozen=True)
class NearestCommand:
    """Training images near the principal directions of a class."""

    run: Run
    label: Label
    out: Out
    directions: OptionalInt = None
    """how many of the class's principal directions, the strongest first; four by default"""
    n: int = 5
    """images per direction"""
    root: Root = None
    device: Device = "auto"

    def execute(self) -> None:
        check_png(self.out)
        learner, names = open_learner(self.run, self.device)
        artist = ask(learner, DrawsFeatures, "draw from feature space")
        label = find_label(self.label, names)
        there = len(walks.principal_directions(artist.recall(label)))
        wanted = min(STRONGEST, there) if self.directions is None else self.directions
        if not 1 <= wanted <= there:
            raise InputError(f"Expected --directions from 1 to {there} but got {wanted}.")
        _, tasks = run_data(RunFolder.existing(self.run), self.root)
        task = next((task for task in tasks if label in task.classes), None)
        if task is None:
            raise InputError(f"Expected a class of the run but {names[label]} was taught later: its images are gone.")
        images = task.images[task.labels == label]
        rows = []
        for direction in range(wanted):
            found = images[walks.nearest(artist, images, label, direction, self.n)]
            rows += [found, artist.decode(artist.features(found)).cpu()]
        write_sheet(self.out, rows)
        chosen = f"{len(rows[0])} of {len(images)} training images of class {shown(names[label])} nearest to each of"
        open_console().print(f"{chosen} {wanted} directions, their reconstructions below: {self.out}")


@dataclass(frozen=True)
class InterpolateCommand:
    """Pictures on the way from one to another."""

    run: Learned
    start: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="START")]
    """the picture file to start from"""
    end: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="END")]
    """the picture file to end with"""
    out: Out
    steps: int = 9
    """pictures that are drawn, both reconstructions included"""
    device: Device = "auto"

    def execute(self) -> None:
        check_png(self.out)
        learner, _ = open_learner(self.run, self.device)
        artist = ask(learner, DrawsFeatures, "draw from feature space")
        network = learner.recipe.method.network
        files = (self.start, self.end)
        read, unread = read_pictures(files, network.image_size, network.channels)
        refuse_unread(unread, len(set(files)))
        start, end = (read[file] for file in files)
        drawn = walks.interpolate(artist, start, end, self.steps)
        write_sheet(self.out, [torch.cat([start[None], drawn, end[None]])])
        open_console().print(f"{self.steps} pictures from {self.start} to {self.end}: {self.out}")


DrawCommands = SampleCommand | WalkCommand | ReconstructCommand | NearestCommand | InterpolateCommand
