"""The commands that are attacked, each on files so small that it takes a fraction of a second, and what they leave."""

import io
import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from attack.limits import Ended, forked

Made = TypeVar("Made")
STAGE = {"epochs": 1, "batch": 24, "ema": 0.0}
TINY: dict[str, Any] = {
    "method": {
        "network": {"image_size": 8, "channels": 1, "width": 8, "feature_dim": 16},
        "memory": {"directions": 3, "neighbours": 5, "disjoint": False, "samples": 4},
        "first": STAGE,
        "later": {**STAGE, "epochs": 2},
    },
    "run": {"device": "cpu", "keep_pictures": 2, "checkpoint": {"every_epochs": 1}},
}
LATE = (
    "filelock",
    "ictrl.report",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "PIL.PngImagePlugin",
    "sklearn.linear_model",
    "torch._dynamo",  # by every optimiser
)
"""Modules that are imported when they are needed."""
ORDERLY = ("error: ", "warning: ", "Opened ", "Stopped", "Decoding ")
"""How lines begin that a command may print beside its results."""
STUDY = """
recipe = "tiny.toml"
[[lines]]
label = "as it is"
[[lines]]
label = "another weight"
settings.method.later.weights.lambda_new = 5.0
"""


@dataclass(frozen=True)
class Called:
    """What a command of the command line came to."""

    code: int
    out: str
    err: str

    @property
    def unclean(self) -> str:
        """What it printed that is neither a warning nor the one line of its error; nothing if it did as it should."""
        lines = self.err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        others = [line for line in lines if not line.startswith(ORDERLY)]
        wrong = len(errors) != (self.code in (1, 2))
        return f"exit code {self.code} with {self.err!r}" if wrong or others or "Traceback" in self.out else ""


class Left(BaseException):
    """Ctrl-C once a command has ended: the process that it would have to itself ends at once."""


def call(*arguments: str | Path) -> Called:
    """A command of the command line, in this process."""
    from ictrl.cli import main

    out, err, before = io.StringIO(), io.StringIO(), (sys.stdout, sys.stderr)
    sys.stdout, sys.stderr = out, err  # not by contextlib, whose bytecodes are interrupted: these here are not ictrl's
    try:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        sys.stdout, sys.stderr = before
    except Left:
        code = 130
    finally:
        sys.stdout, sys.stderr = before
    return Called(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Command:
    """A command in a folder, and how it is judged."""

    name: str
    prepare: Callable[[Path, Path], None]
    """makes the folder from what was prepared"""
    attacked: Callable[[Path], Called]
    """the command"""
    again: Callable[[Path], Called]
    """what its user would do after it was killed"""
    state: Callable[[Path], Any]
    """what it has left, as far as two undisturbed calls leave the same"""


def import_everything() -> None:
    """What the commands import when they need it, so that a forked process has it already."""
    for name in LATE:
        import_module(name)
    with redirect_stdout(io.StringIO()):
        call("methods")


@cache
def prepared(root: Path) -> Path:
    """Files that the commands begin with, made by the process that needs them first."""
    import_everything()
    folder = root / "prepared"

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        made = forked(lambda: _make(folder), seconds=120)
        assert not made.error, made.error

    once(root / "prepared.done", make)
    return folder


def once(result: Path, make: Callable[[], Made]) -> Made:
    """What a function returns, called by the first process that asks, and read from a file by the others."""
    from filelock import FileLock

    result.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{result}.lock"):
        if not result.exists():
            made = make()
            result.write_bytes(pickle.dumps(made))
        return pickle.loads(result.read_bytes())


def _make(folder: Path) -> None:
    import numpy as np
    from PIL import Image

    import ictrl
    from ictrl.experiment.run import Listener, Stopped
    from ictrl.recipes.tables import recipe_with, to_toml

    data = ictrl.load_dataset(ictrl.StreamConfig(), 8, 1)
    few = np.concatenate([np.flatnonzero(data.labels.numpy() == label)[:12] for label in range(4)])
    tested = np.concatenate([np.flatnonzero(data.test_labels.numpy() == label)[:4] for label in range(4)])
    np.savez(
        folder / "digits.npz",
        images=data.images[few][:, 0].numpy(),
        labels=data.labels[few].numpy(),
        test_images=data.test_images[tested][:, 0].numpy(),
        test_labels=data.test_labels[tested].numpy(),
    )
    recipe = recipe_with(ictrl.load_recipe("ictrl-digits"), TINY)
    recipe = recipe_with(
        recipe, {"stream": {"dataset": "npz", "root": str(folder / "digits.npz"), "tasks": 2, "task_sizes": []}}
    )
    (folder / "tiny.toml").write_text(to_toml(recipe))
    (folder / "study.toml").write_text(STUDY)
    new = folder / "new" / "five"
    new.mkdir(parents=True)
    for number, image in enumerate(data.images[data.labels == 5][:14]):
        Image.fromarray(image[0].numpy()).save(new / f"{number:02d}.png")
    for number, image in enumerate(data.images[data.labels < 3][:24]):
        pets = folder / "pets" / f"{number % 3}"
        pets.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(pets / f"{number:02d}.png")
    (folder / "pets" / "1" / "10.png").write_bytes(b"no picture")
    ictrl.run(recipe, folder / "finished")
    epochs = 0

    class Stops(Listener):
        def on_epoch(self, index: int, report: Any) -> None:
            nonlocal epochs
            epochs += 1

    with suppress(Stopped):
        ictrl.run(recipe, folder / "stopped", listener=Stops(), stop=lambda: epochs == 2)
    finished = sorted((folder / "finished" / "checkpoint").glob("after-task-*"))[-1]
    shutil.copy(finished, folder / "learner.safetensors")


# what is left


def tensors(path: Path) -> dict[str, bytes]:
    """Every number of a saved learner."""
    from ictrl.methods.storage import LEARNER, read_stored

    return {name: tensor.numpy().tobytes() for name, tensor in read_stored(path, LEARNER).tensors.items()}


def state_of_run(out: Path) -> dict[str, Any]:
    """All that a run leaves, without times."""
    results = json.loads((out / "results.json").read_text())
    return {
        "results": {**results, "seconds": None},
        "metrics": (out / "metrics.jsonl").read_bytes(),
        "config": (out / "config.toml").read_bytes(),
        "learners": {path.name: tensors(path) for path in out.glob("checkpoint/after-task-*")},
        "pictures": {path.name: path.read_bytes() for path in out.glob("pictures/*")},
        "files": files_in(out),
    }


def files_in(folder: Path) -> list[str]:
    """The names of all files below a folder but locks, which stay or go as the library that makes them likes."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in names if not name.endswith(".lock"))


def _state_of_study(folder: Path) -> dict[str, Any]:
    runs = sorted(path.parent for path in folder.glob("out/study/*/config.toml"))
    rows = [line.split("|") for line in (folder / "out" / "study" / "table.md").read_text().splitlines()]
    table = [[cell for cell in row if not re.fullmatch(r" \d+ s ", cell)] for row in rows]
    states = {path.name: state_of_run(path) for path in runs}
    return {"table": table, "runs": states, "files": files_in(folder / "out")}


def _state_of_review(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "run" / "review.json").read_text())
    learner = tensors(folder / "run" / "review" / "learner.safetensors")
    return {"review": found, "learner": learner, "files": files_in(folder)}


def _state_of_report(folder: Path) -> dict[str, Any]:
    run = folder / "run"
    figures = {path.name: len(path.read_bytes()) > 0 for path in (run / "figures").iterdir()}
    return {"page": (run / "report.html").stat().st_size > 0, "figures": figures, "files": files_in(folder)}


def _state_of_decoded(folder: Path) -> dict[str, Any]:
    from ictrl.data.image_file import open_arrays

    found = [open_arrays(path) for path in (folder / "data").rglob("*.safetensors")]
    arrays = [{name: array.tobytes() for name, array in arrays.items() if name != "about"} for arrays in found]
    skipped = [json.loads(arrays["about"].tobytes())["skipped"] for arrays in found]
    files = [re.sub(r"[0-9a-f]{8}-[0-9a-f]{24}", "DIGESTS", name) for name in files_in(folder / "data")]
    return {"arrays": arrays, "skipped": skipped, "files": files}


# the commands


def _nothing(made: Path, folder: Path) -> None:
    folder.mkdir()
    for name in ("tiny.toml", "study.toml"):
        shutil.copy(made / name, folder)


def _run_of(which: str) -> Callable[[Path, Path], None]:
    return lambda made, folder: _copied(made / which, folder / "run")


def _copied(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, to)


def _learner(made: Path, folder: Path) -> None:
    folder.mkdir()
    shutil.copy(made / "learner.safetensors", folder)
    shutil.copytree(made / "new", folder / "new")


def _taught_run(made: Path, folder: Path) -> None:
    _copied(made / "finished", folder / "run")
    shutil.copytree(made / "new", folder / "new")


def _pets(made: Path, folder: Path) -> None:
    _copied(made / "pets", folder / "pets")


def _decode(folder: Path) -> Called:
    """With blocks of a few pictures, each told of in the journal, and one thread, so that there is one order."""
    from ictrl.data import decoding, picture_source

    os.environ["ICTRL_DATA"] = str(folder / "data")
    picture_source.BLOCK, picture_source.THREADS, decoding.FLUSHED = 5, 1, 1
    return call("data", "show", "folder", "--stream.root", folder / "pets", "--stream.cache", "always")


def _go_on(folder: Path) -> Called:
    out = folder / "run"
    if (out / "config.toml").exists():
        return call("resume", out)
    return _run(folder)


def _run(folder: Path) -> Called:
    return call("run", folder / "tiny.toml", "--out", folder / "run")


def _study(folder: Path) -> Called:
    return call("study", folder / "study.toml", "--out", folder / "out")


def _review(folder: Path) -> Called:
    return call("review", folder / "run", "--cycles", "1")


def _teach(learner: str) -> Callable[[Path], Called]:
    return lambda folder: call("teach", folder / learner, folder / "new", "--device", "cpu")


def _teach_again(learner: str) -> Callable[[Path], Called]:
    """Once more; a learner that knows the class already was written before the process was killed."""

    def again(folder: Path) -> Called:
        called = _teach(learner)(folder)
        known = called.code == 2 and "five is known already" in called.err
        return Called(0, called.out, "") if known else called

    return again


def _forget(folder: Path) -> Called:
    return call("forget", folder / "learner.safetensors", "3", "--yes")


def _forget_again(folder: Path) -> Called:
    called = _forget(folder)
    gone = called.code == 2 and "Expected NAME to be a class that was learned" in called.err
    return Called(0, called.out, "") if gone else called


def _learner_in(name: str) -> Callable[[Path], Any]:
    return lambda folder: {"learner": tensors(folder / name), "files": files_in(folder)}


COMMANDS = {
    command.name: command
    for command in (
        Command("run", _nothing, _run, _go_on, lambda folder: state_of_run(folder / "run")),
        Command("resume", _run_of("stopped"), _go_on, _go_on, lambda folder: state_of_run(folder / "run")),
        Command("study", _nothing, _study, _study, _state_of_study),
        Command("review", _run_of("finished"), _review, _review, _state_of_review),
        Command(
            "teach a learner",
            _learner,
            _teach("learner.safetensors"),
            _teach_again("learner.safetensors"),
            _learner_in("learner.safetensors"),
        ),
        Command("teach a run", _taught_run, _teach("run"), _teach_again("run"), _learner_in("run/taught.safetensors")),
        Command("forget", _learner, _forget, _forget_again, _learner_in("learner.safetensors")),
        Command(
            "report",
            _run_of("finished"),
            lambda folder: call("report", folder / "run"),
            lambda folder: call("report", folder / "run"),
            _state_of_report,
        ),
        Command("decode", _pets, _decode, _decode, _state_of_decoded),
    )
}


def without_report() -> None:
    """A run without its page and figures, which take longer than the run; the command `report` is attacked itself."""
    import ictrl.cli.run

    ictrl.cli.run.finish = lambda console, finished, out: None  # type: ignore[assignment]


def alone(function: Callable[[], Any], **limits: Any) -> Ended:
    """In a process of its own, with runs that write no page."""

    def inner() -> Any:
        without_report()
        return function()

    return forked(inner, **limits)
