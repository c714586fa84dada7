"""`ictrl review`: going through a run's classes again, without labels."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro
from rich.console import Console

from ictrl.cli.options import OptionalPath, OtherDevice, Root, Run
from ictrl.cli.output import accuracies, counted, open_console
from ictrl.cli.terminal import shown, tell
from ictrl.cli.watch import bars_on, stop_requests
from ictrl.experiment.review import Listener, Manner, review
from ictrl.experiment.run import Stopped
from ictrl.training.loop import EpochReport

REVIEW_HELP = """Let a finished run see its classes again, one at a time and without labels.

The images of each class are recognised by the subspace of their features and learned once more, in the game in which
they were learned first; what memory holds of the class is replaced. Accuracy is measured after every cycle, under each
protocol. Where a class is recognised with doubt, nothing changes. The run itself stays as it was: the reviewed learner
is written to RUN/review. After Ctrl-C the same command goes on where it was. This needs a method that can review, which
ictrl can.

Examples:
  ictrl review runs/digits-seed0 --cycles 2
  ictrl review runs/digits-seed0 --cycles 8 --joint runs/joint
  ictrl review runs/digits-seed0 --cycles 2 --with-labels
  ictrl review runs/digits-seed0 --doubtful
"""


WORSE = 0.005  # a loss of accuracy that is worth a warning


@dataclass(frozen=True)
class ReviewCommand:
    """Cycles of review."""

    run: Run
    cycles: int = 1
    """how often every class is reviewed, earlier reviews of this run included"""
    manner: Annotated[Manner, tyro.conf.arg(name="")] = field(default_factory=Manner)
    joint: OptionalPath = None
    """folder of a run that learned all classes in one task, to compare with"""
    root: Root = None
    device: OtherDevice = None

    def execute(self) -> None:
        console = open_console()
        with stop_requests() as stop, _Watch(console) as watch:
            try:
                found = review(
                    self.run,
                    self.cycles,
                    self.manner,
                    joint=self.joint,
                    device=self.device,
                    root=self.root,
                    listener=watch,
                    stop=stop,
                )
            except KeyboardInterrupt:
                raise Stopped("Stopped. The same command goes on where it was.") from None
        if found["joint"] is not None:
            console.print(f"all classes at once: accuracy {accuracies(found['joint'])}", soft_wrap=True)
        before, after = (found["cycles"][i]["memory"] for i in (0, -1))
        if after < before - WORSE:
            tell(
                f"warning: accuracy from memory fell from {before:.3f} to {after:.3f}: learning a class again moves "
                "the encoder under the others. The run's own learner is as it was, and the better one."
            )
        name = self.manner.name
        console.print(f"Accuracies: {self.run / f'{name}.json'}", soft_wrap=True)
        saved = self.run / name / "learner.safetensors"
        console.print(f'The learner: ictrl.load_learner("{saved}")', soft_wrap=True)


class _Watch(Listener):
    """Bars on a terminal, and a line per cycle everywhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = bars_on(console)
        self.classes = self.bars.add_task("classes", total=None, note="")
        self.epochs = self.bars.add_task("epochs", total=None, note="")

    def __enter__(self) -> "_Watch":
        self.bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bars.stop()

    def on_warning(self, line: str) -> None:
        tell(f"warning: {line}")

    def on_begin(self, cycles: int, done: int) -> None:
        if done >= cycles:
            self.console.print(
                f"{counted(done, 'cycle is', 'cycles are')} done already: ask for more with --cycles.", soft_wrap=True
            )

    def on_class(self, cycle: int, index: int, total: int, name: str) -> None:
        self.bars.update(self.classes, total=total, completed=index, note=f"cycle {cycle}, now {shown(name)}")
        self.bars.reset(self.epochs, note="")

    def on_epoch(self, report: EpochReport) -> None:
        self.bars.update(self.epochs, total=report.epochs, completed=report.epoch)

    def on_reviewed(self, cycle: int, name: str, seen: dict[str, Any]) -> None:
        if seen["reason"]:
            self.console.print(f"cycle {cycle}, class {shown(name)}: left as it was, {seen['reason']}", soft_wrap=True)

    def on_cycle(self, entry: dict[str, Any]) -> None:
        when = f"after {counted(entry['cycle'], 'cycle', 'cycles')}" if entry["cycle"] else "before"
        known = "" if entry["recognised"] is None else f"; {entry['recognised']:.0%} of the classes recognised"
        self.console.print(f"{when}: accuracy {accuracies(entry)}{known}", soft_wrap=True)
