"""`ictrl compare`: several methods on the same stream, one table and one page."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

import tyro

from ictrl.cli.many_runs import Jobs, check_jobs, do_all
from ictrl.cli.options import KeepPictures, OptionalPath, OtherDevice
from ictrl.cli.output import open_console
from ictrl.cli.unknown_options import typed_settings
from ictrl.config import StreamConfig
from ictrl.experiment.comparison import check_data, comparison
from ictrl.experiment.findings import of_few_images
from ictrl.experiment.study import plan, slug
from ictrl.experiment.study_workers import check_planned
from ictrl.recipes.reader import load_recipe

COMPARE_HELP = """Learn the same stream by several methods, and show them side by side: one table and one page.

Takes two or more recipes: names that `ictrl recipes` lists, any METHOD-STREAM such as er-digits (`ictrl methods` lists
the methods), or TOML files of your own. Options of the stream hold for all of them; settings of a method belong in a
recipe file, three lines that begin with base = "er-digits". Recipes on different streams are refused.

The folder gets a run folder for each recipe and seed, table.md, and report.html with accuracy, forgetting, bytes kept
and seconds of every method. Ctrl-C stops after the current epoch, and the same command goes on; finished runs are not
repeated, also if a recipe is added. More than recipes, seeds and a stream: `ictrl study`.

Examples:
  ictrl compare er-digits slda-digits
  ictrl compare pictures er-pictures --stream.root shapes --stream.task-sizes 2 1 --out runs/both
  ictrl compare wide-digits er-digits joint-digits --seeds 0 1 2 --jobs 2
  ictrl compare er-digits my-recipe.toml --stream.limit 40
"""
NAMED = 3  # recipes that the name of a folder names


@dataclass(frozen=True)
class CompareCommand:
    """Several methods on the same stream."""

    recipes: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        tyro.conf.arg(metavar="RECIPE RECIPE [RECIPE …]", help_behavior_hint=""),
    ] = ()
    """two or more recipes"""
    out: OptionalPath = None
    """folder for the runs, the table and the page; by default runs/RECIPE-RECIPE"""
    seeds: tuple[int, ...] = (0,)
    """each recipe is learned once with each of these seeds"""
    jobs: Jobs = 1
    keep_pictures: KeepPictures = None
    device: OtherDevice = None
    stream: StreamConfig = field(default_factory=StreamConfig)
    typed: tyro.conf.Suppress[tuple[str, ...]] = ()
    """settings of the stream that the command line has: these alone take the place of the recipes' own"""

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "CompareCommand":
        """The command before any option; what it shows of the stream is the first recipe's."""
        known = {setting.name for setting in fields(StreamConfig)}
        typed = tuple(
            name.removeprefix("stream.")
            for name in typed_settings(arguments)
            if name.startswith("stream.") and name.removeprefix("stream.") in known
        )
        named = arguments[:1] == ["compare"] and len(arguments) > 1 and not arguments[1].startswith("-")
        return cls(stream=load_recipe(arguments[1]).stream if named else StreamConfig(), typed=typed)

    def execute(self) -> None:
        from ictrl.report import write_report  # Jinja and matplotlib: a second that --help should not take

        check_jobs(self.jobs)
        study = comparison(self.recipes, {name: getattr(self.stream, name) for name in self.typed}, self.seeds)
        out = self.out or Path("runs") / "-".join(slug(line.label) for line in study.lines[:NAMED])
        planned = plan(study, out, device=self.device, keep_pictures=self.keep_pictures)
        check_planned(planned)
        check_data(planned)
        console = open_console()

        def shown() -> None:
            told = [coarse for item in planned if item.results and (coarse := of_few_images(item.results))]
            if told:
                console.print(f"\n{told[0]}", soft_wrap=True)
            page = write_report([item.folder for item in planned if item.finished], out / "report.html").page
            console.print(f"\nReport: {page}", soft_wrap=True)

        do_all(console, study, planned, out, self.jobs, shown=shown)
