"""Your own backbone: any two modules of the stated shapes take the place of the paper's networks.

A measured run in a folder takes the learner too: `ictrl.run(recipe, "runs/mine", learner=learner)`.

python examples/own_backbone.py
"""

from torch import nn

from ictrl import ICTRL, load_dataset, load_recipe, recipe_with, split_tasks

method = {"network": {"image_size": 8, "feature_dim": 32}, "first": {"epochs": 20}, "later": {"epochs": 10}}
recipe = recipe_with(load_recipe("ictrl-digits"), {"method": method, "stream": {"tasks": 2}})

encoder = nn.Sequential(  # images (n, 1, 8, 8) in [-1, 1] to features (n, 32); the learner adds unit length
    nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.Flatten(), nn.Linear(64 * 2 * 2, 32),
)  # fmt: skip
decoder = nn.Sequential(  # features to images in [-1, 1]
    nn.Linear(32, 64 * 4 * 4), nn.Unflatten(1, (64, 4, 4)), nn.BatchNorm2d(64), nn.ReLU(),
    nn.ConvTranspose2d(64, 1, 4, stride=2, padding=1), nn.Tanh(),
)  # fmt: skip

learner = ICTRL(recipe, encoder=encoder, decoder=decoder)
dataset = load_dataset(recipe.stream, image_size=8, channels=1)
for task in split_tasks(dataset, recipe.stream):
    learner.learn(task.images, task.labels)
print(learner, f"accuracy from memory {learner.score(dataset.test_images, dataset.test_labels):.3f}")
