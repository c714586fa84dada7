"""`ictrl study`: the runs behind a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from ictrl.cli.many_runs import Jobs, check_jobs, do_all
from ictrl.cli.on_ray import Address, Asked, Cpus, Gpus, On, crew_on
from ictrl.cli.options import KeepPictures, OptionalPath, OtherDevice
from ictrl.cli.output import open_console
from ictrl.errors import InputError
from ictrl.experiment.study import chosen, load_study, plan, study_names
from ictrl.experiment.study_parts import part_of, read_part
from ictrl.experiment.study_table import publish
from ictrl.experiment.study_workers import check_planned
from ictrl.files import make_folder

STUDY_HELP = """Do all the runs of a study, one by one or several at once, and write its table. No name: list them.

A study is a set of recipes, seeds and changed settings: those of the paper's tables come with ictrl, and you can write
your own as a TOML file. Finished runs are not repeated, and runs that begin alike share their first task. Ctrl-C stops
after the current epoch; the same command goes on. A run that fails does not stop the others.

On a Ray cluster (--on ray, with pip install 'ictrl[ray]') as many runs go at once as have room; a run whose worker dies
goes on from its last checkpoint on another. Every machine needs the same ictrl, and the data under the same --root.

Examples:
  ictrl study
  ictrl study methods-digits --seeds 0
  ictrl study constraint --root data
  ictrl study table1 --root data --only MNIST --seeds 0
  ictrl study my-study.toml --jobs 2
  ictrl study my-study.toml --on ray                        (the cluster of this machine, started if there is none)
  ictrl study my-study.toml --on ray --cpus 4 --gpus 0.5    (two runs share a GPU)
  ictrl study my-study.toml --on ray --address 10.0.0.1:6379
  ictrl study my-study.toml --part 1/4   (the first of four parts, for four machines with one folder)

A study file with three lines: a recipe, the same with one setting changed, and another method:
  description = "What the weight of new classes does"
  seeds = [0, 1]
  recipe = "ictrl-digits"
  [[lines]]
  label = "as it is"
  [[lines]]
  label = "a weight of 10"
  settings.method.later.weights.lambda_new = 10.0
  [[lines]]
  label = "no protection"
  recipe = "finetune-digits"
"""


Part = Annotated[
    str | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        metavar="K/N",
        help="only the K-th of N parts of the runs, for several machines that share the folder; the same command "
        "without it then gathers the table",
        help_behavior_hint="",
    ),
]


@dataclass(frozen=True)
class StudyCommand:
    """The runs behind a table."""

    name: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.DisallowNone,
        tyro.conf.arg(metavar="[STUDY]", help_behavior_hint=""),
    ] = None
    """a study that `ictrl study` lists, or a TOML file of your own"""
    out: Path = Path("runs") / "studies"
    """folder in which the study gets a folder of its own"""
    root: OptionalPath = None
    """folder that holds the datasets' files; by default where downloads go"""
    device: OtherDevice = None
    seeds: tuple[int, ...] = ()
    """other seeds than the study's"""
    only: tuple[str, ...] = ()
    """only the lines whose labels contain one of these"""
    part: Part = None
    jobs: Jobs = 1
    on: On = None
    address: Address = None
    cpus: Cpus = None
    gpus: Gpus = None
    keep_pictures: KeepPictures = None
    publish: OptionalPath = None
    """folder in which to write the results of every finished run too, one JSON file each, below the study's name"""

    def execute(self) -> None:
        console = open_console()
        if self.name is None:
            listed = Table("study", "runs", "what it answers", box=None, pad_edge=False)
            for name in study_names():
                study = load_study(name)
                listed.add_row(name, str(sum(len(line.seeds) for line in study.lines)), study.description)
            console.print(listed)
            return
        check_jobs(self.jobs)
        asked = Asked(self.on, self.address, self.cpus, self.gpus, self.jobs)
        asked.check()
        if self.on is not None and self.part is not None:
            raise InputError(
                "Expected --part or --on ray but got both: parts are for machines that know nothing of each other."
            )
        part = None if self.part is None else read_part(self.part)
        study = chosen(load_study(self.name), self.only)
        out = self.out / study.name
        root = None if self.root is None else str(self.root)
        planned = plan(study, out, root=root, device=self.device, seeds=self.seeds, keep_pictures=self.keep_pictures)
        check_planned(planned)
        if self.publish is not None:  # better refused now than after hours
            make_folder(self.publish / study.name)

        def written() -> None:
            if self.publish is not None:
                publish(study, planned, self.publish / study.name)

        own = None if part is None else part_of(planned, *part)
        devices = {item.recipe.run.device for item in planned if not item.finished}
        with crew_on(console, asked, devices, out) as crew:
            do_all(console, study, planned, out, self.jobs, only=own, crew=crew, finished=written, shown=written)
