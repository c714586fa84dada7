"""Measures how true a learner's probabilities are, and how well it tells strangers, and writes both as JSON.

    ictrl run wide-cifar10-5 --stream.root DATA --out runs/wide
    python experiments/unknown.py runs/wide --root DATA --strangers cifar100 --out unknown.json

Known images are the test images of the classes that the learner knows (validation images, if its recipe holds some
out), strangers the test images of another data set. Beside the learner's own measure stand others that can be read from
the same memory: that is how it was chosen.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from ictrl import Learner, StreamConfig, load_dataset
from ictrl.cli.learners import open_learner
from ictrl.experiment.evaluation import device_name, versions
from ictrl.experiment.reliability import BINS
from ictrl.experiment.results import to_lines
from ictrl.experiment.run_data import moved, stream_of
from ictrl.files import write_atomically
from ictrl.memory.wide_memory import auto_ridge
from ictrl.methods.capabilities import Probabilities, TellsUnknown, ask
from ictrl.methods.wide import Wide
from ictrl.recipes.tables import recipe_to_table
from ictrl.theory.metrics import auroc, reliability

FALSE_ALARMS = 0.05


def measure(
    learner: Learner[Any], images: UInt8[Tensor, "n c h w"], labels: Tensor, strangers: UInt8[Tensor, "m c h w"]
) -> dict[str, Any]:
    """Of images of known classes and of strangers."""
    sure, tells = ask(learner, Probabilities, "give probabilities"), ask(learner, TellsUnknown, "tell strangers")
    probabilities = sure.predict_proba(images).cpu()
    rows = torch.searchsorted(torch.as_tensor(learner.classes_), labels.cpu())
    compared = zip(measures_of(learner, images).items(), measures_of(learner, strangers).values())
    return {
        "accuracy": float((probabilities.argmax(1) == rows).double().mean()),
        "temperature": sure.temperature(),
        "ece": reliability(probabilities, rows, BINS).ece,
        "auroc": auroc(tells.strangeness(images), tells.strangeness(strangers)),
        "asked_false_alarms": FALSE_ALARMS,
        "false_alarms": float(tells.unknown(images, FALSE_ALARMS).double().mean()),
        "detections": float(tells.unknown(strangers, FALSE_ALARMS).double().mean()),
        "auroc_of_others": {name: auroc(known, strange) for (name, known), strange in compared},
    }


def measures_of(learner: Learner[Any], images: UInt8[Tensor, "n c h w"]) -> dict[str, Float[Tensor, " n"]]:
    """Other measures of strangeness, the larger the stranger: by probabilities and, of wide memory, by distances."""
    log = torch.as_tensor(learner.scores(images)).double()
    found = {"largest probability": -log.amax(1), "entropy": -(log.exp() * log).sum(1)}
    if not isinstance(learner, Wide):
        return found
    memory, phi = learner.kept, learner.wide_features(images).double()
    within = memory.covariance()
    ridge = learner.settings.reading.ridge
    within.diagonal().add_((auto_ridge(memory) if ridge == "auto" else ridge) * within.diagonal().mean())
    means, shares = memory.means.double(), memory.counts.double() / memory.counts.sum()
    centre = shares @ means
    spread = (means - centre) * shares.sqrt()[:, None]
    to_means = torch.stack([_squared_distance(phi - mean, within) for mean in means], 1)
    to_all = _squared_distance(phi - centre, within + spread.T @ spread)
    T = learner.temperature()
    return found | {
        "energy": -T * (-to_means / (2 * T)).logsumexp(1).cpu(),
        "distance to the nearest mean": to_means.amin(1).cpu(),
        "relative distance": (to_means.amin(1) - to_all).cpu(),
    }


def _squared_distance(centred: Float[Tensor, "n D"], covariance: Float[Tensor, "D D"]) -> Float[Tensor, " n"]:
    factor = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(factor, centred.T, upper=False).square().sum(0)


def report(learned: Path, root: Path | None, strangers: StreamConfig, device: str) -> dict[str, Any]:
    """Everything that is measured, and under which conditions."""
    learner, _ = open_learner(learned, device)
    recipe, network = learner.recipe, learner.recipe.method.network
    _, tasks = stream_of(moved(recipe, root))
    known = [task for task in tasks if set(task.classes) <= set(learner.labels)]
    images, labels = (torch.cat(parts) for parts in zip(*((task.test_images, task.test_labels) for task in known)))
    others = load_dataset(strangers, network.image_size, network.channels).test_images
    return {
        **measure(learner, images, labels, others),
        "known": recipe.stream.dataset,
        "known_images": len(images),
        "measured_on": "validation images" if recipe.stream.validation else "test images",
        "strangers": strangers.dataset,
        "stranger_images": len(others),
        "kept_bytes": learner.kept_bytes,
        "seed": learner.seed,
        "device": device_name(learner.device),
        "versions": versions(),
        "recipe": recipe_to_table(replace(recipe, stream=replace(recipe.stream, root=None))),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learned", type=Path, help="run folder, or file of a saved learner")
    parser.add_argument("--root", type=Path, help="folder of the data, if not where the recipe has it")
    parser.add_argument("--strangers", default="cifar100", help="data set of the strangers")
    parser.add_argument("--strangers-root", type=Path, help="folder of the strangers, if not --root")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    given = parser.parse_args(arguments)
    place = given.strangers_root or given.root
    strangers = StreamConfig(dataset=given.strangers, root=None if place is None else str(place))
    found = report(given.learned, given.root, strangers, given.device)
    write_atomically(given.out, (to_lines(found) + "\n").encode())
    print(f"{given.out}: ECE {found['ece']:.3f}, AUROC {found['auroc']:.3f}, false alarms {found['false_alarms']:.3f}")


if __name__ == "__main__":
    main()
