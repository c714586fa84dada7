"""What freezing gives away: the trunk of `wide` learns on in later tasks, held by distillation, and memory follows it.

    python experiments/learning_on.py --root DATA --trunk trunk.safetensors --out experiments/results/learning-on

The first task is learned once and kept in the file of `--trunk`. From there each line of HOLDS goes through the later
tasks: cross-entropy on new classes × rotations, and a price for what becomes of the stages' pooled activations φ,

    l2           mean of ((φ − φ_before) / σ)², σ of the new images
    projector    the same of Pφ instead of φ: what was must be predictable from what is, by a linear P that is learned
    mahalanobis  (φ − φ_before)ᵀ (Σ + ρI)⁻¹ (φ − φ_before) / D, Σ the covariance that memory keeps

BatchNorm keeps its statistics. Then memory follows in several ways (FOLLOWING), by an affine map of φ_before to φ,
fitted on the new images. *Reencoded* is what all training images would say. One JSON file a line, on validation images.
"""

import argparse
import json
import time
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl import Recipe, Task, create_learner, load_dataset, load_recipe, split_tasks
from ictrl.config import AugmentationConfig, StageConfig
from ictrl.experiment.evaluation import device_name, versions
from ictrl.files import make_folder, write_atomically
from ictrl.memory.compensation import fit_movement
from ictrl.memory.wide_features import pooled
from ictrl.memory.wide_memory import WideClassifier, WideMemory, nothing_yet
from ictrl.methods.wide import Wide
from ictrl.nets.dcgan import Encoder
from ictrl.nets.head import LinearHead
from ictrl.recipes.tables import recipe_to_table, recipe_with
from ictrl.training.augmentation import ROTATIONS, draw, rotated, rotated_labels
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam
from ictrl.training.state import TrainingState

CHANGES: dict[str, Any] = {
    "method": {
        "network": {"width": 32},
        "trunk": {"epochs": 80, "warmup": 20, "batch": 250, "augmentation": {"crop": 0.45}},
        "reading": {"pool": 2, "shifts": 0},
    },
    "stream": {"validation": 0.2, "class_order_seed": 7, "subset": 0.5},
}  # of best-cifar10-5: what one core trains in minutes
POOL = 2  # of the reading that is held; the readings below are made of it
READINGS = {"pool 1": 1, "pool 2": POOL}


@dataclass(frozen=True)
class Hold:
    """How the trunk is held while it learns on."""

    kind: Literal["frozen", "l2", "projector", "mahalanobis"]
    weight: float = 0.0
    epochs: int = 12
    learning_rate: float = 5e-4


HOLDS = {
    "frozen": Hold("frozen"),
    "l2, 1": Hold("l2", 1.0),
    "l2, 3": Hold("l2", 3.0),
    "l2, 10": Hold("l2", 10.0),
    "projector, 1": Hold("projector", 1.0),
    "mahalanobis, 1": Hold("mahalanobis", 1.0),
}


@dataclass(frozen=True)
class Following:
    """How memory follows the encoder."""

    ridge: float | None
    """of the map, towards the identity; None: means stay"""
    covariance: Literal["stays", "moves", "moves, residual", "new"]
    """stays; WΣWᵀ; the same and what the map leaves unexplained of the new images; that of the new task alone"""
    rotated: bool = False
    """fit the map on the new images' rotations too"""


FOLLOWING = {
    "not at all": Following(None, "stays"),
    "map 0.1, covariance stays": Following(0.1, "stays"),
    "map 0.1, covariance of the new task": Following(0.1, "new"),
    "map 0.1, residual": Following(0.1, "moves, residual"),
    "map 0.01": Following(0.01, "moves"),
    "map 0.01, residual": Following(0.01, "moves, residual"),
    "map 0.001, residual": Following(0.001, "moves, residual"),
    "map 0.01, residual, rotations": Following(0.01, "moves, residual", rotated=True),
    "map 0.001, residual, rotations": Following(0.001, "moves, residual", rotated=True),
}
MAIN = "map 0.01, residual"  # what the price of mahalanobis is made of


def learn_on(
    encoder: Encoder, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hold: Hold, memory: WideMemory, seed: int
) -> None:
    """One later task, in place."""
    before = deepcopy(encoder).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.searchsorted(y.unique(), y)
    d, D = encoder(torch.zeros(1, *X.shape[1:])).shape[1], memory.means.shape[1]
    head = LinearHead(d).grown(ROTATIONS * (int(rows.max()) + 1), generator)
    projector = nn.Linear(D, D)
    with torch.no_grad():
        projector.weight.copy_(torch.eye(D))
        projector.bias.zero_()
    price = price_of(hold, memory, features(before, X[:2000]).std(0), projector)
    trained: dict[str, nn.Module] = {"encoder": encoder, "head": head, "projector": projector}
    optimiser = adam(nn.ModuleDict(trained), hold.learning_rate, (0.9, 0.999), 5e-4)
    stage = StageConfig(hold.epochs, 100, hold.learning_rate, "cosine", 2, 0.0)
    views = AugmentationConfig(mirror=True, crop=0.45, jitter=0.4, grey=0.15)
    turning = AugmentationConfig(rotations=True)
    source = ImageSource(X, torch.device("cpu"))
    batches = Batches(len(X), 100, generator, torch.device("cpu"))

    def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
        turned = draw(turning, chosen, generator).turned
        assert turned is not None
        view = rotated(draw(views, chosen, generator).apply(source.pixels(chosen, *sent), torch.float32), turned)
        stages = encoder.stages(view)
        with torch.no_grad():
            held = wide(before.stages(view), POOL)
        loss = cross_entropy(head(encoder.layers[-1](stages[-1])), rotated_labels(rows[chosen], turned, 0))
        paid = price(wide(stages, POOL), held)
        optimiser.zero_grad()
        (loss + hold.weight * paid).backward()
        optimiser.step()
        return {"rotations": loss.detach(), "price": paid.detach()}

    def told(report: Any) -> None:
        if report.epoch in (1, report.epochs):
            print("   ", report.epoch, {name: round(value, 4) for name, value in report.terms.items()}, flush=True)

    run_epochs(step, source, batches, stage, TrainingState(trained, {"network": optimiser}, generator), TaskHooks(told))
    encoder.eval()


def price_of(hold: Hold, memory: WideMemory, sigma: Float[Tensor, " D"], projector: nn.Module) -> Any:
    """(φ, φ_before) -> what the encoder pays."""

    def l2(phi: Tensor, before: Tensor) -> Tensor:
        return ((phi - before) / sigma).square().mean()

    if hold.kind == "l2":
        return l2
    if hold.kind == "projector":
        return lambda phi, before: l2(sigma * projector(phi / sigma), before)
    factor = WideClassifier.of(memory).factor
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(sigma)), upper=False)
    return lambda phi, before: ((phi - before) @ inverse.T).square().mean()


def wide(stages: list[Tensor], pool: int) -> Float[Tensor, "n D"]:
    return torch.cat([stage.flatten(1) for stage in pooled(stages, (pool,))], 1)


def features(encoder: Encoder, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n D"]:
    """φ of images, the mean of theirs and their mirror images'."""
    found = []
    with torch.no_grad():
        for part in X.split(500):
            pixels = (part - 127.5) / 127.5
            found.append((wide(encoder.stages(pixels), POOL) + wide(encoder.stages(pixels.flip(-1)), POOL)) / 2)
    return torch.cat(found)


def read(phi: Float[Tensor, "n D"], pool: int) -> Float[Tensor, "n D"]:
    """The same, pooled further."""
    return phi if pool == POOL else phi.view(len(phi), -1, POOL**2).mean(2)


def follow(
    memory: WideMemory, before: Float[Tensor, "m D"], after: Float[Tensor, "m D"], y: Int[Tensor, " n"], how: Following
) -> WideMemory:
    """Memory after features have moved, without the new classes. Of the witnesses, the first n are the new images."""
    n, means, covariance = len(y), memory.means, memory.covariance()
    if how.ridge is not None:
        many = len(before) if how.rotated else n
        movement = fit_movement(before[:many], after[:many], how.ridge, judged=n)
        M = movement.matrix
        means = (means.double() @ M.T + movement.shift).float()
        if how.covariance.startswith("moves"):
            covariance = M @ covariance @ M.T
        if how.covariance == "moves, residual":
            covariance = covariance + movement.residual
    if how.covariance == "new":
        within = torch.cat([after[:n][y == label] - after[:n][y == label].mean(0) for label in y.unique()]).double()
        covariance = within.T @ within / n
    return WideMemory.of(memory.counts, means, memory.degrees * covariance)


def accuracies(memory: WideMemory, labels: list[int], tests: list[tuple[Tensor, Tensor]]) -> list[float]:
    """Of each task's validation images."""
    classifier, known = WideClassifier.of(memory), torch.tensor(labels)
    return [float((known[classifier.scores(phi).argmax(1)] == y).double().mean()) for phi, y in tests]


def stream_through(learner: Wide, tasks: list[Task], hold: Hold, seed: int, ways: list[str]) -> dict[str, Any]:
    """All tasks, from a learner of the first; what memory, followed in each way, and all images say in the end."""
    encoder = deepcopy(learner.reader.encoder)
    assert isinstance(encoder, Encoder)
    memories: dict[tuple[str, str], WideMemory] = {}
    labels: list[int] = []
    for t, task in enumerate(tasks):
        X, y = task.images, task.labels
        witnesses = torch.cat([X.rot90(quarters, (2, 3)) for quarters in range(ROTATIONS)])  # the images come first
        phi_before = features(encoder, witnesses)
        if t and hold.kind != "frozen":
            learn_on(encoder, X, y, hold, memories["pool 2", MAIN], 1000 * seed + t)
        phi_after = features(encoder, witnesses) if t and hold.kind != "frozen" else phi_before
        labels += y.unique().tolist()
        for reading, pool in READINGS.items():
            before, after = read(phi_before, pool), read(phi_after, pool)
            for name in ways:
                memory = memories.get((reading, name), nothing_yet(torch.device("cpu")))
                if t and hold.kind != "frozen":
                    memory = follow(memory, before, after, y, FOLLOWING[name])
                memories[reading, name] = memory.with_classes(after[: len(X)], y)
    tests = [(features(encoder, task.test_images), task.test_labels) for task in tasks]
    trained = [(features(encoder, task.images), task.labels) for task in tasks]
    found: dict[str, Any] = {}
    for reading, pool in READINGS.items():
        seen = [(read(phi, pool), y) for phi, y in tests]
        whole = nothing_yet(torch.device("cpu"))
        for phi, y in trained:
            whole = whole.with_classes(read(phi, pool), y)
        kept = {"reencoded": whole} | {name: memories[reading, name] for name in ways}
        if hold.kind == "frozen":
            kept = {"reencoded": whole}
        rows = {name: accuracies(memory, labels, seen) for name, memory in kept.items()}
        found[reading] = {
            name: {"last": round(sum(row) / len(row), 6), "tasks": [round(value, 6) for value in row]}
            for name, row in rows.items()
        }
    return found


def recipe_of(name: str, root: str | None) -> Recipe:
    return recipe_with(load_recipe(name), CHANGES | {"stream": CHANGES["stream"] | {"root": root}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data lies")
    parser.add_argument("--recipe", default="best-cifar10-5")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--trunk", type=Path, required=True, help="learner of the first task; learned, if not there")
    parser.add_argument("--only", nargs="+", help="these lines of HOLDS")
    parser.add_argument("--follow", nargs="+", default=[], help="these ways of FOLLOWING, beside the main one")
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a line")
    options = parser.parse_args()
    recipe = recipe_of(options.recipe, options.root)
    network = recipe.method.network
    tasks = split_tasks(load_dataset(recipe.stream, network.image_size, network.channels), recipe.stream)
    if not options.trunk.exists():
        create_learner(recipe, seed=options.seed).learn(tasks[0].images, tasks[0].labels).save(options.trunk)
    learner = Wide.load(options.trunk)
    make_folder(options.out)
    ways = [MAIN, *options.follow] if options.follow else list(FOLLOWING)
    for name in options.only or HOLDS:
        start = time.process_time()
        found = stream_through(learner, tasks, HOLDS[name], options.seed, ways)
        line = {
            "line": name,
            "hold": asdict(HOLDS[name]),
            "last": found,
            "measured_on": "validation images",
            "cpu_seconds": round(time.process_time() - start, 1),
            "seed": options.seed,
            "seed_of_the_trunk": learner.seed,
            "device": device_name(learner.device),
            "versions": versions(),
            "recipe": recipe_to_table(replace(recipe, stream=replace(recipe.stream, root=None))),
        }
        path = options.out / f"{name.replace(', ', '-')}-seed{options.seed}.json"
        write_atomically(path, (json.dumps(line, indent=1) + "\n").encode())
        for reading, kinds in found.items():
            print(
                name, "|", reading, "|", {kind: round(scores["last"], 4) for kind, scores in kinds.items()}, flush=True
            )


if __name__ == "__main__":
    main()
