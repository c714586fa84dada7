"""Options that several commands share: each has one type and one help text."""

from pathlib import Path
from typing import Annotated

from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, arg

Run = Annotated[Positional[Path], arg(metavar="RUN", help="a run folder")]
Learned = Annotated[Positional[Path], arg(metavar="RUN", help="a run folder, or a learner that `save` wrote")]
Label = Annotated[str, arg(help="the class, by its name or its number")]
Out = Annotated[Path, arg(aliases=["-o"], help="PNG file to write")]
Device = Annotated[str, arg(help="cpu, cuda, cuda:1 …; auto takes a GPU where there is one")]
OtherDevice = Annotated[
    str | None, DisallowNone, arg(help="another device than the recipe's: cpu, cuda, cuda:1 …", help_behavior_hint="")
]
Root = Annotated[
    Path | None,
    DisallowNone,
    arg(help="where the run's data lies now, if it has moved", help_behavior_hint=""),
]
OptionalPath = Annotated[Path | None, DisallowNone, arg(help_behavior_hint="")]
"""A path that has no default, or one that the help text describes."""
OptionalInt = Annotated[int | None, DisallowNone, arg(help_behavior_hint="")]
"""A whole number that has no default, or one that the help text describes."""
KeepPictures = Annotated[
    int | None,
    DisallowNone,
    arg(
        help="test images per class to keep in folder and report, instead of as many as the recipe keeps",
        help_behavior_hint="",
    ),
]
Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]
"""Something that is done only where it is asked for."""
