"""Your own term of the objective: one function, and its weight in a player's loss.

In the library a term lives in `theory/objectives.py` and its weight in `config.WeightsConfig`; here both are given to
the learner from outside.

    python examples/own_term.py
"""

from ictrl import ICTRL, load_dataset, load_recipe, recipe_with, split_tasks
from ictrl.theory.objectives import Objective, closed_loop

SPARSITY = 2.0


def sparsity(seen):
    """Mean over rows of the features' L1 norm."""
    return seen.Z.abs().sum(1).mean()


def objective(weights, first):
    encoder, decoder = closed_loop(weights, first)
    return Objective({**encoder, sparsity: SPARSITY}, decoder)  # the encoder pays for it: both players minimise


method = {"network": {"image_size": 8, "width": 16}, "first": {"epochs": 20}, "later": {"epochs": 10}}
recipe = recipe_with(load_recipe("ictrl-digits"), {"method": method, "stream": {"tasks": 2}})
learner = ICTRL(recipe, objective=objective)
dataset = load_dataset(recipe.stream, image_size=8, channels=1)
norms = []
for task in split_tasks(dataset, recipe.stream):
    learner.learn(task.images, task.labels, progress=lambda report: norms.append(report.terms["encoder.sparsity"]))
accuracy = learner.score(dataset.test_images, dataset.test_labels)
print(f"accuracy from memory {accuracy:.3f}; L1 norm from {norms[0]:.2f} to {norms[-1]:.2f}")
