"""Options of commands that put runs on a Ray cluster, and the crew that they ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from ictrl.cli.terminal import tell
from ictrl.errors import InputError
from ictrl.experiment.crew import Crew

On = Annotated[
    Literal["ray"] | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        metavar="ray",
        help="put the runs on a Ray cluster: the one at --address or RAY_ADDRESS, or one that runs on this machine, or "
        "else one that is started here for them",
        help_behavior_hint="",
    ),
]
Address = Annotated[
    str | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(metavar="HOST:PORT", help="the Ray cluster's address", help_behavior_hint=""),
]
Cpus = Annotated[
    float | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        metavar="NUMBER",
        help="cores that each run takes of the cluster, and its threads (default: 1)",
        help_behavior_hint="",
    ),
]
Gpus = Annotated[
    float | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        metavar="NUMBER",
        help="GPUs that each run takes; 0.25 lets four share one (default: 1 where the cluster has any)",
        help_behavior_hint="",
    ),
]


@dataclass(frozen=True)
class Asked:
    """What was typed of all this."""

    on: str | None
    address: str | None
    cpus: float | None
    gpus: float | None
    jobs: int

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.on is None:
            if named := [name for name in ("address", "cpus", "gpus") if getattr(self, name) is not None]:
                raise InputError(
                    f"Expected --{named[0]} together with --on ray but got it alone: it is of a Ray cluster."
                )
        elif self.jobs != 1:
            raise InputError(
                f"Expected --jobs or --on ray but got both (--jobs {self.jobs}): on a cluster --cpus and --gpus decide "
                "how many runs go at once."
            )


@contextmanager
def crew_on(console: Console, asked: Asked, devices: set[str], out: Path) -> Iterator[Crew | None]:
    """Who carries out runs on these devices if a cluster is asked for; None if it is not, or there are no runs."""
    if asked.on is None:
        yield None
        return
    from ictrl.experiment.ray_cluster import connected, ray_module
    from ictrl.experiment.ray_crew import RayCrew

    if not devices:
        ray_module()
        yield None
        return
    with connected(asked.address, 1.0 if asked.cpus is None else asked.cpus, asked.gpus, devices) as cluster:
        console.print(cluster.described(), soft_wrap=True)
        yield RayCrew(cluster, out, lambda line: tell(f"warning: {line}"))
