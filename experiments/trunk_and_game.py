"""The trunk and the game: what the paper's game does to an encoder that was trained as a trunk, for reading it.

    python experiments/trunk_and_game.py --seed 11 --out experiments/results/trunk-and-game/seed11.json

In the first task an encoder is trained as a trunk, by the game, by one after the other with the encoder free or held
by feature distillation, or by both in turns. Then it stands still, and all tasks are read by wide features. On
validation images of the letters, minutes on a CPU core.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ictrl import ICTRL, Recipe, Wide, load_dataset, load_recipe, split_tasks
from ictrl.data import Task
from ictrl.experiment.evaluation import device_name, near, only_remembering, versions
from ictrl.files import make_folder, write_atomically
from ictrl.recipes.tables import recipe_to_table, recipe_with
from ictrl.theory.metrics import summarise
from ictrl.theory.objectives import Objective, closed_loop, distill_new

EPOCHS, TURNS = 40, 8
GAME: dict[str, Any] = {
    "network": {"image_size": 32, "channels": 3, "width": 16, "feature_dim": 64},
    "first": {"epochs": EPOCHS, "batch": 64},
}
STREAM = {"dataset": "letters", "tasks": 5, "validation": 0.2, "class_order_seed": 7}


def held(weights: Mapping[str, float], first: bool, weight: float) -> Objective:
    """The game, and what the encoder pays for features that leave the place that they had before it."""
    encoder, decoder = closed_loop(weights, first)
    return Objective({**encoder, distill_new: weight}, decoder)


def trunk(recipe: Recipe, task: Task, epochs: int, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """An encoder trained as a trunk, from this state on."""
    stage = {"method": {"trunk": {"epochs": epochs, "warmup": epochs // 4}}}
    learner = Wide(recipe_with(recipe, stage))
    if state is not None:
        learner.reader.encoder.load_state_dict(state)
    learner.learn(task.images, task.labels)
    return learner.reader.encoder.state_dict()


def game(
    recipe: Recipe, task: Task, epochs: int, state: dict[str, Any] | None = None, distillation: float = 0.0
) -> dict[str, Any]:
    """An encoder that has played the game, from this state on."""
    objective = partial(held, weight=distillation) if distillation else closed_loop
    learner = ICTRL(recipe_with(recipe, {"method": {"first": {"epochs": epochs}}}), objective=objective)
    if state is not None:
        learner._state.networks["encoder"].load_state_dict(state)
    learner.learn(task.images, task.labels)
    return learner._state.networks["encoder"].state_dict()


def lines(wide: Recipe, playing: Recipe) -> dict[str, Any]:
    """Last accuracy from memory, by wide features, of each way to train the encoder."""
    network = wide.method.network
    dataset = load_dataset(wide.stream, network.image_size, network.channels)
    reader = Wide(wide)
    tasks = near(split_tasks(dataset, wide.stream), reader.device)
    first, found = tasks[0], dict[str, float]()

    def read(name: str, state: dict[str, Any]) -> None:
        reader.reader.encoder.load_state_dict(state)
        rows = only_remembering(reader.remembering(), tasks)
        found[name] = round(summarise(rows, [len(task.test_labels) for task in tasks]).last, 6)
        print(f"{name:60s} {found[name]:.4f}", flush=True)

    read("untrained", reader.reader.encoder.state_dict())
    trained = trunk(wide, first, EPOCHS)
    read("trunk", trained)
    read("game", game(playing, first, EPOCHS))
    read("trunk, then the game", game(playing, first, EPOCHS, trained))
    for weight in (10.0, 100.0):
        name = f"trunk, then the game, held by distillation of weight {weight:g}"
        read(name, game(playing, first, EPOCHS, trained, weight))
    state = None
    for _ in range(TURNS):
        state = trunk(wide, first, EPOCHS // TURNS, game(playing, first, EPOCHS // TURNS, state))
    assert state is not None
    read(f"both in {TURNS} turns, the trunk's last", state)
    return {
        "lines": found,
        "seed": wide.run.seed,
        "measured_on": "validation images",
        "device": device_name(reader.device),
        "versions": versions(),
        "recipes": [recipe_to_table(replace(r, stream=replace(r.stream, root=None))) for r in (wide, playing)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    options = parser.parse_args()
    shared = {"stream": STREAM, "run": {"seed": options.seed}}
    wide = recipe_with(load_recipe("letters"), shared)
    playing = recipe_with(load_recipe("ictrl-digits"), {"method": GAME, **shared})
    found = lines(wide, playing)
    make_folder(options.out.parent)
    write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
