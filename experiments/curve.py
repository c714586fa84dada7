"""Accuracy against bytes kept: the same trained encoders, read in many ways.

    python experiments/curve.py --root DATA --recipe best-cifar10-5 --seeds 0 1 2 --out docs/results/curve

Each seed trains its encoder once; every line of READINGS then remembers all tasks by it. One JSON file a seed. With
`--validation 0.1 --order 7 --out experiments/results/curve` it is what readings were chosen by.
"""

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ictrl import Recipe, create_learner, load_dataset, load_recipe, split_tasks
from ictrl.experiment.evaluation import device_name, near, only_remembering, versions
from ictrl.files import make_folder, write_atomically
from ictrl.methods.wide import Wide
from ictrl.recipes.tables import recipe_to_table, recipe_with
from ictrl.theory.metrics import summarise

READINGS: dict[str, dict[str, Any]] = {
    "pool 1": {"pool": 1},
    "pool 1, 8 bits": {"pool": 1, "bits": 8},
    "pools 1 1 2, 110 channels of the last stage": {
        "stage_pools": [1, 1, 2], "reduction": "channels", "sizes": [64, 128, 110],
    },
    "pools 1 2 2, 64, 60 and 100 channels": {
        "stage_pools": [1, 2, 2], "reduction": "channels", "sizes": [64, 60, 100],
    },
    "pools 1 1 2, 140 channels of the last stage, 8 bits": {
        "stage_pools": [1, 1, 2], "reduction": "channels", "sizes": [64, 128, 140], "bits": 8,
    },
    "pool 2, 768 random directions": {"pool": 2, "reduction": "random", "sizes": [768]},
    "pool 2, 512 principal directions": {"pool": 2, "reduction": "pca", "sizes": [512]},
    "pools 1 1 2, 8 bits": {"stage_pools": [1, 1, 2], "bits": 8},
    "pools 1 1 2": {"stage_pools": [1, 1, 2]},
    "pool 2, 8 bits": {"pool": 2, "bits": 8},
    "pool 2": {"pool": 2},
    "pools 2 2 3, 8 bits": {"stage_pools": [2, 2, 3], "bits": 8},
    "pools 2 2 3": {"stage_pools": [2, 2, 3]},
    "pool 3, 8 bits": {"pool": 3, "bits": 8},
    "pool 3": {"pool": 3},
    "pool 3, no shifts": {"pool": 3, "shifts": 0},
    "pool 3, no shifts, no mirror": {"pool": 3, "shifts": 0, "mirror": False},
    "pool 4, 8 bits": {"pool": 4, "bits": 8},
    "pool 4": {"pool": 4},
}  # fmt: skip


def curve(recipe: Recipe, seed: int, learner: Wide | None = None) -> dict[str, Any]:
    """Last and average accuracy, from memory, and bytes of each reading; of a learner's encoder, if one is given."""
    trained, learner = learner, learner or create_learner(recipe, seed=seed)  # type: ignore[assignment]
    assert isinstance(learner, Wide)
    network = recipe.method.network
    dataset = load_dataset(recipe.stream, network.image_size, network.channels)
    tasks = near(split_tasks(dataset, recipe.stream), learner.device)
    if trained is None:
        learner.learn(tasks[0].images, tasks[0].labels)
    lines = []
    for label, reading in READINGS.items():
        changed = recipe_with(recipe, {"method": {"reading": reading}})
        reader = learner.remembering(changed)
        rows = only_remembering(reader, tasks)
        found = summarise(rows, [len(task.test_labels) for task in tasks])
        dimension = reader.kept.means.shape[1]
        line = {"label": label, "last": round(found.last, 6), "average": round(found.average, 6)}
        line |= {"kept_bytes": reader.kept_bytes, "wide_features": dimension}
        lines.append(line | {"reading": asdict(changed.method.reading)})  # type: ignore[attr-defined]
        print(f"{label:50s} {dimension:6d} {reader.kept_bytes / 1e3:9.0f} kB {found.last:.4f} / {found.average:.4f}")
    return {
        "recipe": recipe_to_table(recipe),
        "seed": seed,
        "measured_on": "validation images" if recipe.stream.validation else "test images",
        "device": device_name(learner.device),
        "versions": versions(),
        "lines": lines,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data lies")
    parser.add_argument("--recipe", default="best-cifar10-5")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--validation", type=float, default=0.0)
    parser.add_argument("--order", type=int, help="class order, by its seed")
    parser.add_argument("--learners", type=Path, nargs="+", help="saved learners of these seeds, instead of training")
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a seed")
    options = parser.parse_args()
    recipe = load_recipe(options.recipe)
    if not isinstance(recipe.method, Wide.settings_type):
        parser.error(f"{options.recipe} is not a recipe of the method wide")
    changes = {"root": options.root, "validation": options.validation, "class_order_seed": options.order}
    recipe = replace(recipe, stream=replace(recipe.stream, **changes))
    make_folder(options.out)
    for seed, path in zip(options.seeds, options.learners or [None] * len(options.seeds), strict=True):
        text = json.dumps(curve(recipe, seed, Wide.load(path) if path else None), indent=1) + "\n"
        write_atomically(options.out / f"{options.recipe}-seed{seed}.json", text.encode())


if __name__ == "__main__":
    main()
