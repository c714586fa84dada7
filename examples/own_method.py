"""Your own method: a class with settings, known to recipes and harness by its name. Here the nearest mean of pixels.

In the library it would be a file in `methods/`. Checked input, saving, exact resume, studies and reports come with it;
from a script they are known to that script only.

    python examples/own_method.py
"""

import sys
from dataclasses import dataclass
from typing import ClassVar

import torch

from ictrl import Learner, MethodConfig, TrainingState, load_recipe, recipe_with, run


@dataclass(frozen=True)
class PixelMeansConfig(MethodConfig):
    name: ClassVar[str] = "pixel-means"


class PixelMeans(Learner):
    settings_type = PixelMeansConfig

    def build(self, initial):
        return TrainingState({}, {}, torch.Generator().manual_seed(self.seed))  # it has no network

    def learn_task(self, X, y, hooks):
        return self.kept | {label: X[y == label].float().mean(0) for label in y.unique().tolist()}

    def class_scores(self, X):
        means = torch.stack([self.kept[label] for label in sorted(self.kept)])
        return -torch.cdist(X.float().flatten(1), means.flatten(1))

    def kept_tensors(self):
        return {str(label): mean for label, mean in self.kept.items()}

    def kept_from(self, labels, tensors):
        return {label: tensors[str(label)] for label in labels}


recipe = recipe_with(load_recipe("digits"), {"name": "pixel-means", "method": {"name": "pixel-means"}})
results = run(recipe, sys.argv[1] if len(sys.argv) > 1 else "runs/own-method").results
print(f"memory {results.memory.last:.3f}, {results.kept_bytes:,} bytes kept, {results.parameters} parameters")
