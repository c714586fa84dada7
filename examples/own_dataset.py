"""Your own data set: a reader, registered where it is defined; recipes then know it by its name.

In the library it would be a file in `data/readers/`.

    python examples/own_dataset.py
"""

import numpy as np

from ictrl import ICTRL, Dataset, StreamConfig, load_dataset, load_recipe, recipe_with, split_tasks
from ictrl.data import register_dataset


@register_dataset("stripes", "stripes in ten directions, drawn by a formula", classes=10, side=16, channels=1)
def read_stripes(stream, image_size, channels):
    rows, columns = np.mgrid[0:16, 0:16]
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 120)
    angles = labels * np.pi / 10 + random.normal(0, 0.05, labels.shape)
    waves = np.sin(np.multiply.outer(np.cos(angles), rows) + np.multiply.outer(np.sin(angles), columns))
    images = (127 + 100 * waves + random.normal(0, 20, waves.shape)).clip(0, 255).astype(np.uint8)[:, None]
    test = np.arange(len(labels)) % 6 == 0
    return Dataset.from_arrays("stripes", images[~test], labels[~test], images[test], labels[test])


method = {"network": {"width": 8}, "first": {"epochs": 10}, "later": {"epochs": 5}}
recipe = recipe_with(load_recipe("ictrl-digits"), {"method": method, "stream": {"dataset": "stripes", "tasks": 2}})
learner = ICTRL(recipe)
dataset = load_dataset(StreamConfig(dataset="stripes"), image_size=16, channels=1)
for task in split_tasks(dataset, recipe.stream):
    learner.learn(task.images, task.labels)
print(f"accuracy from memory {learner.score(dataset.test_images, dataset.test_labels):.3f}")
