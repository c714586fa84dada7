"""`ictrl gallery`: what learners draw, side by side on one sheet with titles."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from ictrl.cli.learners import check_drawn, check_png, find_label, open_position
from ictrl.cli.options import Device, Flag, OptionalInt, Out, Root
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import tell
from ictrl.errors import InputError
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.taught import LearnerPlace
from ictrl.experiment.teaching import known_names
from ictrl.files import make_folder, write_atomically
from ictrl.methods.capabilities import Draws, DrawsFeatures, ask
from ictrl.methods.inputs import whole_number
from ictrl.methods.storage import learners_in, task_of
from ictrl.visualize.gallery import Artist, by_class, by_direction, by_task, classes_of, compared, nearest_of
from ictrl.visualize.titled_sheet import Panel, titled_sheet

GALLERY_HELP = """Draw the classes of one or several learners onto one sheet, side by side and with titles.

Every learner gets a panel with a row per class, the same classes in the same order, so that methods can be compared by
eye. A panel shows samples of each class (--by class), the strongest of its principal directions, a column each (--by
direction; for methods that keep some, such as ictrl), or the class as it was drawn after every task (--by task), from
the same random numbers each time, so that one sees it fade. After every task the run must have kept its learner:
`ictrl run … --checkpoint.every-task`; otherwise the two newest are there.

--nearest puts below each picture the training image that is nearest to it in pixels, so that nobody takes a memorised
picture for a new one; it needs the data of the runs, and shows images of it. The same run and seed give the same sheet.
A sheet with colours has 256 of them, which keeps the file small.

Examples:
  ictrl gallery runs/mine -o classes.png
  ictrl gallery runs/ictrl runs/dgr runs/mergan --n 4 -o side-by-side.png
  ictrl gallery runs/mine --by direction --classes 2 3 5 -o directions.png
  ictrl gallery runs/mine runs/dgr --by task --titles ours DGR -o tasks.png
  ictrl gallery runs/mine --nearest --root data --n 6 -o nearest.png
"""

EACH = {"class": 8, "direction": 2, "task": 2}
"""pictures in each place, where their number is not chosen"""


@dataclass(frozen=True)
class GalleryCommand:
    """What learners draw, on one sheet."""

    out: Out
    runs: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(
            metavar="RUN…", help="run folders, or learners that `save` wrote; a panel each", help_behavior_hint=""
        ),
    ] = ()
    by: Literal["class", "direction", "task"] = "class"
    """what the columns of a panel are"""
    classes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="CLASS…", help_behavior_hint="")] = ()
    """classes to show, by name or number, in this order; all of them by default"""
    n: OptionalInt = None
    """pictures in each place; 8 by class, 2 by direction or task"""
    nearest: Flag = False
    """below each picture, the nearest training image of its run"""
    titles: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TITLE…", help_behavior_hint="")] = ()
    """a title for each run, instead of its method"""
    seed: int = 0
    """another one draws other pictures"""
    root: Root = None
    device: Device = "auto"

    def execute(self) -> None:
        check_png(self.out)
        n = whole_number(EACH[self.by] if self.n is None else self.n, "--n", least=1)
        self._check()
        artists = self._artists()
        known = classes_of(artists)
        classes = [self._class(given, artists) for given in self.classes] or known
        check_drawn(n * len(classes) * len(artists), "--n")
        panels = [self._panel(run, artist, classes, n) for run, artist in zip(self.runs, artists)]
        content = titled_sheet(panels)
        make_folder(self.out.parent)
        write_atomically(self.out, content)
        drawn = sum(len(cell) for panel in panels for row in panel.rows for cell in row.cells if cell is not None)
        what = f"{counted(drawn, 'picture', 'pictures')} of {counted(len(classes), 'class', 'classes')}"
        by = f"{what} by {counted(len(artists), 'learner', 'learners')}"
        open_console().print(f"{by}, {len(content) / 1000:.0f} kB: {self.out}", soft_wrap=True)

    def _check(self) -> None:
        """What can be refused before a learner is opened."""
        if not self.runs:
            raise InputError("Expected at least one run folder but got none: ictrl gallery RUN… -o sheet.png.")
        if self.titles and len(self.titles) != len(self.runs):
            raise InputError(f"Expected a title for each of {len(self.runs)} runs but got {len(self.titles)}.")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"Expected --seed from 0 to 2^63 − 1 but got {self.seed}.")
        if self.nearest or self.by == "task":
            for run in self.runs:
                RunFolder.existing(run)
        twice = [name for name, times in Counter(self.classes).items() if times > 1]
        if twice:
            raise InputError(f"Expected each of --classes once but got {twice[0]!r} again.")

    def _artists(self) -> list[Artist]:
        """The learners, each with a title; two of one method and recipe are told apart by their folders."""
        found = []
        for run in self.runs:
            position = open_position(LearnerPlace(run), self.device)
            learner = position.learner
            if self.by == "direction":
                ask(learner, DrawsFeatures, "draw along directions")
            ask(learner, Draws, "draw")
            found.append(Artist(learner, known_names(position), learner.recipe.method.name, learner.recipe.name))
        alike = Counter((artist.title, artist.subtitle) for artist in found)
        return [
            Artist(
                artist.learner,
                artist.names,
                self.titles[i] if self.titles else artist.title,
                f"{artist.subtitle} ({run.name})" if alike[artist.title, artist.subtitle] > 1 else artist.subtitle,
            )
            for i, (run, artist) in enumerate(zip(self.runs, found))
        ]

    def _class(self, given: str, artists: Sequence[Artist]) -> str:
        """The name of a class that was asked for."""
        for artist in artists:
            if given in artist.names.values():
                return given
        for artist in artists:
            if given in map(str, artist.names):
                return artist.names[int(given)]
        find_label(given, artists[0].names, "--classes")  # which says what there is
        raise AssertionError(given)

    def _panel(self, run: Path, artist: Artist, classes: list[str], n: int) -> Panel:
        if self.by == "class":
            panel = by_class(artist, classes, n, self.seed)
        elif self.by == "direction":
            panel = by_direction(artist, classes, n, self.seed)
        else:
            panel = by_task(self._states(run, artist), classes, n, self.seed)
        if not self.nearest:
            return panel
        _, tasks = run_data(RunFolder.existing(run), self.root)
        return compared(panel, nearest_of(torch.cat([task.images for task in tasks])))

    def _states(self, run: Path, artist: Artist) -> Iterator[tuple[str, Artist]]:
        """The learner after each task that is still there, and as it was taught since."""
        found = sorted(learners_in(RunFolder(run).checkpoints), key=task_of)
        missing = sorted(set(range(1, task_of(found[-1]) + 1)) - set(map(task_of, found))) if found else []
        if missing:
            kept = ", ".join(str(task_of(path)) for path in found)
            tasks = "task" if len(found) == 1 else "tasks"
            tell(
                f"warning: {run} has kept its learner only after {tasks} {kept}: a run with --checkpoint.every-task "
                "keeps it after every task."
            )
        for path in found:
            try:
                position = open_position(LearnerPlace(path), self.device)
            except InputError as error:
                tell(f"warning: {error} It is left out.")
                continue
            yield (
                f"after {task_of(path)}",
                Artist(position.learner, known_names(position), artist.title, artist.subtitle),
            )
        if LearnerPlace(run).taught.is_file():
            yield "taught", artist
