"""What a thousand classes cost: time and memory per task, what is kept, prediction, by the number of classes.

    python benchmarks/classes.py --out docs/results/scale/classes.json                  on a CPU: some minutes
    python benchmarks/classes.py --device cuda --out docs/results/scale/classes-h200.json    on a GPU: under a minute

Generated images of 1,000 classes come in 100 tasks to the learners `ictrl` and `wide`. Their encoder is one fixed
matrix that turns pixels into d = 512 features: it costs nothing, so that what is measured is all that is done with the
features of classes. Networks are not trained: how long that takes depends on images and epochs, not on classes, but for
the rates of the game, of which a step is timed by itself. A whole run of `wide`, with its records and checkpoints, is
measured too.

Seconds of a task are the median of the last five before the number of classes was reached. Memory is the peak until
then while tasks were learned and the learner predicted, all that lay there before included.
"""

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ictrl import Recipe, run
from ictrl.config import ClassifierConfig, ICTRLConfig, MemoryConfig, NetworkConfig, RunConfig
from ictrl.data.streams import tasks_from_arrays
from ictrl.experiment.evaluation import device_name, versions
from ictrl.experiment.results import Results
from ictrl.experiment.run import Listener
from ictrl.files import make_folder, write_atomically
from ictrl.memory.classifiers import classifier_of
from ictrl.memory.store import Gaussians, Memory
from ictrl.methods.base import Learner
from ictrl.methods.ictrl import ICTRL
from ictrl.methods.wide import Wide, WideConfig
from ictrl.methods.wide_reading import ReadingConfig
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder
from ictrl.theory.objectives import closed_loop
from ictrl.theory.statistics import Moments, class_layout
from ictrl.training.game import Batch, Rules, decoder_step, encoder_step
from ictrl.training.players import Players

SIDE, CHANNELS = 16, 3
PIXELS = CHANNELS * SIDE**2
MEASURED = (10, 100, 300, 1000)  # classes
PREDICTED = 256  # images that are predicted at once
TESTED = 5  # test images per class in the whole run
MOST_SUBSPACES = 300  # an eigendecomposition of each class: it takes three times as long with three times the classes
MOST_STEPS = 300  # classes of a step of the game, on a CPU
LATEST = 5  # tasks whose median counts


@dataclass(frozen=True)
class Scale:
    """How many of everything."""

    classes: int = 1000
    tasks: int = 100
    images: int = 20
    """per class"""
    d: int = 512
    directions: int = 4
    neighbours: int = 10
    device: str = "cpu"

    @property
    def together(self) -> int:
        """Classes of a task."""
        return self.classes // self.tasks

    @property
    def measured(self) -> tuple[int, ...]:
        """Numbers of classes at which everything is measured."""
        return tuple(k for k in MEASURED if k <= self.classes and k % self.together == 0)


class OneMatrix(nn.Module):
    """d features of an image by a fixed random matrix; as the only stage, the same."""

    def __init__(self, d: int) -> None:
        super().__init__()
        matrix = torch.randn(PIXELS, d, generator=torch.Generator().manual_seed(0)) / PIXELS**0.5
        self.matrix = nn.Parameter(matrix)

    def forward(self, X: Tensor) -> Tensor:
        return X.flatten(1) @ self.matrix

    def stages(self, X: Tensor) -> list[Tensor]:
        return [self(X)[:, :, None, None]]


class Back(nn.Module):
    """A decoder of one matrix."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(d, PIXELS)

    def forward(self, Z: Tensor) -> Tensor:
        return self.matrix(Z).tanh().view(-1, CHANNELS, SIDE, SIDE)


class Untrained(ICTRL):
    """i-CTRL without its game: everything else of a task."""

    def play(self, *given: Any) -> None:
        """The networks stay as they are."""


def recipe_of(method: Any, scale: Scale) -> Recipe:
    network = NetworkConfig(image_size=SIDE, channels=CHANNELS, width=1, feature_dim=scale.d)
    return Recipe(name="classes", method=replace(method, network=network), run=RunConfig(device=scale.device))


def ictrl_of(scale: Scale) -> ICTRL:
    memory = MemoryConfig(scale.directions, scale.neighbours, samples=1, drift_compensation=False)
    recipe = recipe_of(ICTRLConfig(memory=memory), scale)
    return Untrained(recipe, encoder=OneMatrix(scale.d), decoder=Back(scale.d))


def wide_of(scale: Scale) -> Wide:
    recipe = recipe_of(WideConfig(reading=ReadingConfig(pool=1)), scale)
    return Wide(recipe, encoder=OneMatrix(scale.d)).remembering()


def images_of(classes: range, each: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images of these classes: noise around a centre of each."""
    parts = []
    for label in classes:
        centre = torch.randint(64, 192, (PIXELS,), generator=torch.Generator().manual_seed(label))
        noise = 30 * torch.randn(each, PIXELS, generator=torch.Generator().manual_seed(seed + label))
        parts.append((centre + noise).clamp(0, 255).to(torch.uint8))
    return torch.cat(parts).view(-1, CHANNELS, SIDE, SIDE), torch.arange(len(classes) * each) // each + classes.start


def tasks_of(scale: Scale) -> Iterator[range]:
    return (range(t * scale.together, (t + 1) * scale.together) for t in range(scale.tasks))


class Clock:
    """Seconds and peak memory of what is done within it."""

    def __init__(self, device: str) -> None:
        self.gpu = device != "cpu"

    def __enter__(self) -> "Clock":
        self._settle()
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        self.begun = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._settle()
        self.seconds = time.perf_counter() - self.begun
        # of the process, which only ever grows: on a CPU, classes are added in the order in which they are measured
        self.gigabytes = (
            torch.cuda.max_memory_allocated() / 1e9
            if self.gpu
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        )

    def _settle(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()


def timed(what: Callable[[], object], device: str) -> Clock:
    with Clock(device) as clock:
        what()
    return clock


def grown(
    learner: Learner[Any], scale: Scale, more: Callable[[Learner[Any]], dict[str, float]]
) -> list[dict[str, Any]]:
    """A row for each number of classes, of a learner that is taught task after task."""
    rows, spent = [], []
    for classes in tasks_of(scale):
        images, labels = images_of(classes, scale.images, seed=10**6)
        with Clock(scale.device) as learned:
            learner.learn(images, labels)
        spent.append(learned.seconds)
        if (k := len(learner.labels)) not in scale.measured:
            continue
        shown = torch.arange(PREDICTED) % k
        chosen = [images_of(range(label, label + 1), 1, seed=2 * 10**6)[0] for label in shown.tolist()]
        test = torch.cat(chosen)
        with Clock(scale.device) as first:
            learner.predict(test[:1])
        with Clock(scale.device) as again:
            found = learner.predict(test)
        rows.append(
            {
                "classes": k,
                "learn_seconds": statistics.median(spent[-LATEST:]),
                "classifier_seconds": first.seconds,
                "predict_microseconds": 1e6 * again.seconds / PREDICTED,
                "right": round(float((found.cpu() == shown).double().mean()), 4),
                "kept_bytes": learner.kept_bytes,
                "peak_gigabytes": max(learned.gigabytes, again.gigabytes),
                **more(learner),
            }
        )
        print(f"{type(learner).__name__} {rows[-1]}", flush=True)
    return rows


def subspaces(learner: Learner[Any], scale: Scale) -> dict[str, float]:
    """The paper's classifier from the same memory, and moving that memory along with an encoder."""
    assert isinstance(learner, ICTRL)
    if len(learner.labels) > MOST_SUBSPACES:
        return {}
    Z = learner.features(images_of(range(1), PREDICTED, seed=3 * 10**6)[0])
    with Clock(scale.device) as made:
        classifier = classifier_of(Moments.of_classes(learner.memory), ClassifierConfig(kind="subspace"))
    judged = timed(lambda: classifier.judge(Z[None]), scale.device)
    del classifier
    W = torch.eye(scale.d, device=Z.device)
    few = Memory(dict(list(learner.memory.items())[: scale.together]))
    moved = timed(lambda: few.moved(W), scale.device)
    return {
        "subspace_seconds": made.seconds,
        "subspace_microseconds": 1e6 * judged.seconds / PREDICTED,
        "move_seconds": moved.seconds * len(learner.memory) / len(few),
    }


def game_step(old: int, scale: Scale) -> dict[str, Any]:
    """One step of both players with so many old classes, twelve rows of each: what the rates cost."""
    d, device, rows = scale.d, torch.device(scale.device), 12
    generator = torch.Generator().manual_seed(0)
    encoder = ImageEncoder(OneMatrix(d), d).to(device)
    players = Players.pair(encoder, ImageDecoder(Back(d)).to(device), 1e-4, (0.5, 0.999))
    means = nn.functional.normalize(torch.randn(old, d, generator=generator), dim=1).to(device)
    drawn, y_old = Gaussians(means, means[:, None] / 30, torch.arange(old, device=device)).sample(
        rows, torch.Generator(device).manual_seed(1)
    )
    images, labels = images_of(range(scale.together), scale.images, seed=1)
    y = torch.cat([labels.to(device) + old, y_old])
    X = images.to(device).float() / 127.5 - 1
    layout = class_layout(y, old + scale.together, d)
    batch = Batch(X, None, drawn, None, layout, old)
    rules = Rules(closed_loop({"lambda_new": 1.0, "gamma_old": 1.0}, first=False), eps_sq=1.0)

    def step() -> None:
        encoder_step(players, batch, rules)
        decoder_step(players, batch, rules)

    step()
    clocks = [timed(step, scale.device) for _ in range(3)]
    return {
        "classes": old + scale.together,
        "rows": len(y),
        "step_seconds": statistics.median(clock.seconds for clock in clocks),
        "peak_gigabytes": clocks[-1].gigabytes if clocks[-1].gpu else None,  # a process's peak is that of before
    }


class Watch(Listener):
    """Seconds of each task of a run, and the size of its folder's files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.begun = folder, list[dict[str, Any]](), time.perf_counter()

    def on_measured(self, results: Results) -> None:
        seconds = time.perf_counter() - self.begun
        newest = max((self.folder / "checkpoint").glob("after-task-*.safetensors"))
        self.rows.append(
            {
                "classes": sum(map(len, results.tasks[: results.done])),
                "task_seconds": seconds,
                "results_bytes": (self.folder / "results.json").stat().st_size,
                "checkpoint_bytes": newest.stat().st_size,
                "kept_bytes": results.kept_bytes,
            }
        )
        self.begun = time.perf_counter()


def whole_run(scale: Scale) -> dict[str, Any]:
    """`wide` through all tasks, measured after each, with everything that a run writes."""
    given = []
    for classes in tasks_of(scale):
        given.append((*images_of(classes, scale.images, seed=10**6), *images_of(classes, TESTED, seed=2 * 10**6)))
    learner = wide_of(scale)
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(Path(folder) / "run")
        stream = tasks_from_arrays(given)
        begun = time.perf_counter()
        results = run(learner.recipe, watch.folder, stream=stream, learner=learner, listener=watch).results
        seconds = time.perf_counter() - begun
    rows = [row for row in watch.rows if row["classes"] in scale.measured]
    for row in rows:
        print(f"run {row}", flush=True)
    return {"seconds": round(seconds, 2), "phases": results.seconds, "last": results.memory.last, "rows": rows}


def measure(scale: Scale, game: tuple[int, ...]) -> dict[str, Any]:
    device = torch.device(scale.device)
    found: dict[str, Any] = {"scale": vars(scale), "device": device_name(device), "versions": versions()}
    begun = time.perf_counter()
    found["run"] = whole_run(scale)  # what takes more memory comes later: peaks of a process only grow
    found["wide"] = grown(wide_of(scale), scale, lambda learner: {})
    found["ictrl"] = grown(ictrl_of(scale), scale, lambda learner: subspaces(learner, scale))
    found["game"] = [game_step(k - scale.together, scale) for k in game if k > scale.together]
    for row in found["game"]:
        print(f"game {row}", flush=True)
    found["seconds"] = round(time.perf_counter() - begun, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", type=int, default=Scale.classes)
    parser.add_argument("--tasks", type=int, default=Scale.tasks)
    parser.add_argument("--images", type=int, default=Scale.images, help="training images per class")
    parser.add_argument("--d", type=int, default=Scale.d, help="features")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    if options.classes % options.tasks or options.images < 10:
        parser.error("expected as many classes in each task, and at least 10 images of each")
    scale = Scale(options.classes, options.tasks, options.images, options.d, device=options.device)
    # a step with a thousand classes takes minutes and 20 GB on a CPU
    game = tuple(k for k in scale.measured if options.device != "cpu" or k <= MOST_STEPS)
    found = measure(scale, game)
    if options.out is not None:
        make_folder(options.out.parent)
        write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
