"""`ictrl data`: which datasets there are, how to get them, and what a stream of tasks would be."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.table import Table

from ictrl.cli.options import OptionalPath
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import shown
from ictrl.config import ICTRLConfig, NetworkConfig, Recipe, StreamConfig
from ictrl.data import (
    Listing,
    Task,
    TaskSummary,
    cache_folder,
    describe_stream,
    download,
    list_datasets,
    load_dataset,
    split_tasks,
)
from ictrl.data.image_file import FileImages
from ictrl.data.registry import registered
from ictrl.errors import InputError
from ictrl.files import make_folder, write_atomically
from ictrl.recipes.reader import load_recipe, recipe_names
from ictrl.recipes.tables import did_you_mean
from ictrl.visualize.contact_sheet import contact_sheet

SHOWN = "digits"  # what `ictrl data show` shows where nothing is named
SHEET = 10  # training images of a class on a sheet

DATA_HELP = """List datasets, fetch them, see what a stream of tasks would be.

Examples:
  ictrl data list
  ictrl data download cifar10
  ictrl data show ictrl-cifar10-5
"""
LIST_HELP = """List the datasets, and whether they are at hand.

Example:
  ictrl data list
"""
DOWNLOAD_HELP = """Fetch a dataset, and check that it is complete.

Each comes from its official site, MNIST from PyTorch's mirror. What is there already is not fetched again. Without
network, the error says which files to put where.

Examples:
  ictrl data download mnist
  ictrl data download cifar10 --root big-disk/datasets
"""
SHOW_HELP = """Show what a stream of tasks would be: the classes of each task, and how many images they have.

Takes the name of a recipe or of a dataset, and the same --stream options as `ictrl run`; a dataset is one task until
--stream.tasks or --stream.task-sizes splits it. Nothing is learned. Pictures of your own that cannot be read are named.

Examples:
  ictrl data show ictrl-cifar10-5 --stream.class-order-seed 1
  ictrl data show folder --stream.root pictures --stream.task-sizes 2 1
  ictrl data show mnist --sheet mnist.png
"""


@dataclass(frozen=True)
class DataListCommand:
    """The list of datasets."""

    root: OptionalPath = None
    """where to look; by default where downloads go"""

    def execute(self) -> None:
        table = Table("name", box=None, pad_edge=False)
        for title in ("classes", "training", "test"):
            table.add_column(title, justify="right")
        for title in ("images", "at hand", "what it is"):
            table.add_column(title)
        for listing in list_datasets(self.root):
            counts = (listing.classes, listing.images, listing.test_images)
            size = _size(listing.side, listing.channels) if listing.side and listing.channels else ""
            table.add_row(listing.name, *map(_count, counts), size, _at_hand(listing), listing.description)
        console = open_console()
        console.print(table)
        console.print(
            f"\nLooked for in {self.root or cache_folder()}. `ictrl data download NAME` fetches what is not there."
        )


@dataclass(frozen=True)
class DataDownloadCommand:
    """A dataset from the web."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """a dataset that can be downloaded"""
    root: OptionalPath = None
    """where to put it; by default the folder in the variable ICTRL_DATA, else the platform's cache folder"""

    def execute(self) -> None:
        folder = download(self.name, self.root)
        use = f"; use it with --stream.root {self.root}" if self.root else ""
        open_console().print(f"{self.name} is in {folder}{use}.")


@dataclass(frozen=True)
class DataShowCommand:
    """What a stream of tasks would be."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[RECIPE|DATASET]")] = SHOWN
    """a name that `ictrl recipes` or `ictrl data list` lists, or a recipe file of your own"""
    sheet: OptionalPath = None
    """PNG file for a few training images of each class, a row per class in the order in which they arrive"""
    stream: StreamConfig = field(default_factory=lambda: load_recipe(SHOWN).stream)

    def execute(self) -> None:
        """Print the stream task by task, with what was skipped on the way, and write the sheet if one is wanted."""
        if self.sheet is not None and self.sheet.suffix.lower() != ".png":
            raise InputError(f"Expected --sheet to be a file that ends in .png but got {self.sheet}.")
        network = recipe_or_dataset(self.what).method.network
        dataset = load_dataset(self.stream, network.image_size, network.channels)
        tasks = split_tasks(dataset, self.stream)
        console = open_console()
        held_out = "validation" if self.stream.validation else "test"
        console.print(stream_table(describe_stream(tasks), held_out))
        cut = f"{counted(len(dataset.class_names), 'class', 'classes')} in {counted(len(tasks), 'task', 'tasks')}"
        images, test_images = sum(len(task.rows) for task in tasks), sum(len(task.test_rows) for task in tasks)
        console.print(
            f"\n{dataset.name} as {_size(network.image_size, network.channels)}: {cut}, "
            f"{images:,} training and {test_images:,} {held_out} images."
        )
        if isinstance(dataset.images, FileImages) and (path := dataset.images.path) is not None:
            console.print(f"\nImages stay in {path} ({path.stat().st_size / 1e6:,.3g} MB).")
        if dataset.skipped:
            console.print(f"\n{counted(len(dataset.skipped), 'file was', 'files were')} skipped:")
            for line in dataset.skipped:
                console.print(f"  {shown(line)}")
        if self.sheet is not None:
            make_folder(self.sheet.parent)
            write_atomically(self.sheet, training_sheet(tasks))
            console.print(f"\nTraining images of each class, a row per class: {self.sheet}")


def download_help() -> str:
    """The help of `ictrl data download`, with the names of the datasets that have a source."""
    names = [name for name, entry in registered().items() if entry.source is not None]
    first, blank, rest = DOWNLOAD_HELP.partition("\n\n")
    return f"{first}{blank}There are {', '.join(names[:-1])} and {names[-1]}. {rest}"


def show_default(what: str) -> DataShowCommand:
    """The command before any option: its defaults are the stream of the recipe or dataset that is named."""
    return DataShowCommand(what, stream=recipe_or_dataset(what).stream)


def recipe_or_dataset(name: str) -> Recipe:
    """The recipe of that name, or the dataset as one task, at a size that its pictures have or nearly have."""
    if name in recipe_names() or name.endswith(".toml"):
        return load_recipe(name)
    datasets = {listing.name: listing for listing in list_datasets()}
    if name in datasets:
        method = ICTRLConfig(network=NetworkConfig(channels=datasets[name].channels or 3))
        return Recipe(name=name, method=method, stream=StreamConfig(dataset=name, tasks=1))
    guess = did_you_mean(name, [*datasets, *recipe_names()])
    raise InputError(
        f"Expected a recipe or a dataset but got {name!r}{guess}: `ictrl recipes` and `ictrl data list` list them."
    )


def stream_table(summaries: Sequence[TaskSummary], held_out: str) -> Table:
    """A row per task; beside each class the number of its training images and of those held out."""
    table = Table("task", box=None, pad_edge=False)
    for title in ("training", held_out):
        table.add_column(title, justify="right")
    table.add_column(f"classes (training + {held_out} images)")
    for summary in summaries:
        classes = []
        for label, name, images, test_images in zip(
            summary.classes, summary.names, summary.images, summary.test_images
        ):
            named = str(label) if name == str(label) else f"{label} {shown(name)}"
            classes.append(f"{named} ({images:,} + {test_images:,})")
        counts = (_count(sum(summary.images)), _count(sum(summary.test_images)))
        table.add_row(str(summary.number), *counts, ", ".join(classes))
    return table


def training_sheet(tasks: Sequence[Task]) -> bytes:
    """The first training images of every class, in the order of arrival."""
    rows = []
    for task in tasks:
        labels = task.labels
        rows += [task.dataset.images[task.rows[labels == label][:SHEET]] for label in task.classes]
    return contact_sheet(rows)


def _at_hand(listing: Listing) -> str:
    return {True: "yes", False: "no", None: ""}[listing.present]


def _size(side: int, channels: int) -> str:
    return f"{side}×{side} " + {1: "grey", 3: "colour"}.get(channels, f"with {channels} channels")


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
