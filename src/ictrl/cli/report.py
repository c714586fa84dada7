"""`ictrl report`: the page that one sends to a colleague."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ictrl.cli.options import OptionalPath
from ictrl.cli.output import open_console
from ictrl.cli.terminal import tell

REPORT_HELP = """Write a page on one run, or on several side by side: one HTML file that needs nothing else.

It begins with a verdict: did learning pay against both floors? Then accuracy under each protocol and of each class,
forgetting, confusion, training curves, how the classes lie in feature space, what memory replays, reconstructions after
each task, memory and time, and the recipe; what a method does not have is left out. Everything comes from the run
folder: no data is needed. A finished run has such a page already. The figures are also written as SVG and PNG files,
for a paper.

Examples:
  ictrl report runs/mine
  ictrl report runs/first runs/second -o compared.html --figures compared
"""


@dataclass(frozen=True)
class ReportCommand:
    """The page of one or several runs."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN…", help_behavior_hint="")]
    """run folders"""
    out: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None
    """HTML file to write; by default RUN/report.html, for several runs ./report.html"""
    figures: OptionalPath = None
    """folder for the figures as files; by default RUN/figures, for several runs none"""

    def execute(self) -> None:
        from ictrl.report import write_report  # Jinja and matplotlib: a second that --help should not take

        written = write_report(self.runs, self.out, self.figures)
        for run in written.runs:
            for note in run.notes:
                tell(f"warning: {note}")
        console = open_console()
        if written.figures:
            console.print(f"{len(written.figures)} figures in {written.figures[0].parent}.", soft_wrap=True)
        console.print(f"Report: {written.page}", soft_wrap=True)
