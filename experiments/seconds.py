"""Seconds against accuracy: the whole stream of a recipe of `wide`, learned with fewer and with more epochs.

    python experiments/seconds.py --root DATA --recipe best-cifar10-5 --epochs 5 20 80 800 --out docs/results/seconds

Seconds are those of learning all tasks, images at hand; nothing else should run on the machine. The first line of a
process also pays for the start of the GPU. One JSON file a seed.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ictrl import Recipe, create_learner, load_dataset, load_recipe, split_tasks
from ictrl.experiment.evaluation import device_name, near, versions
from ictrl.files import make_folder, write_atomically
from ictrl.methods.wide import Wide
from ictrl.recipes.tables import recipe_to_table, recipe_with


def lines(recipe: Recipe, epochs: list[int], seed: int) -> dict[str, Any]:
    """Learning seconds and last accuracy, from memory, for each number of epochs; a quarter of them is warm-up."""
    network = recipe.method.network
    dataset = load_dataset(recipe.stream, network.image_size, network.channels)
    found = []
    for count in epochs:
        changed = recipe_with(recipe, {"method": {"trunk": {"epochs": count, "warmup": count // 4}}})
        learner = create_learner(changed, seed=seed)
        tasks = near(split_tasks(dataset, recipe.stream), learner.device)
        begun = time.perf_counter()
        for task in tasks:
            learner.learn(task.images, task.labels)
        if learner.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
        images, labels = (torch.cat(parts) for parts in zip(*((task.test_images, task.test_labels) for task in tasks)))
        found.append({"epochs": count, "seconds": round(seconds, 2), "last": round(learner.score(images, labels), 6)})
        print(f"{count:6d} epochs {seconds:8.2f} s {found[-1]['last']:.4f}", flush=True)
    return {
        "lines": found,
        "seed": seed,
        "measured_on": "validation images" if recipe.stream.validation else "test images",
        "device": device_name(learner.device),
        "versions": versions(),
        "recipe": recipe_to_table(replace(recipe, stream=replace(recipe.stream, root=None))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data lies")
    parser.add_argument("--recipe", default="best-cifar10-5")
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 20, 80, 800])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON file")
    options = parser.parse_args()
    recipe = load_recipe(options.recipe)
    if not isinstance(recipe.method, Wide.settings_type):
        parser.error(f"{options.recipe} is not a recipe of the method wide")
    found = lines(replace(recipe, stream=replace(recipe.stream, root=options.root)), options.epochs, options.seed)
    make_folder(options.out)
    text = json.dumps(found, indent=1) + "\n"
    write_atomically(options.out / f"{options.recipe}-seed{options.seed}.json", text.encode())


if __name__ == "__main__":
    main()
