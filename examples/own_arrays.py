"""Your own arrays: a stream of tasks given in memory, learned, measured and written to a run folder.

python examples/own_arrays.py
"""

import sys

from sklearn.datasets import load_digits

from ictrl import load_recipe, recipe_with, run, tasks_from_arrays

digits = load_digits()
images = (digits.images * 255 / 16).astype("uint8")[:, None]  # (n, 1, 8, 8)
labels = digits.target

tasks = []
for classes in ((3, 5, 8), (0, 1)):  # each task brings classes that no other has
    chosen = [i for i, label in enumerate(labels) if label in classes]
    train, test = chosen[20:], chosen[:20]
    tasks.append((images[train], labels[train], images[test], labels[test]))

method = {"network": {"image_size": 8, "width": 16}, "first": {"epochs": 20}, "later": {"epochs": 10}}
recipe = recipe_with(load_recipe("ictrl-digits"), {"method": method})
out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-arrays"
results = run(recipe, out, stream=tasks_from_arrays(tasks)).results
print(f"memory {results.memory.last:.3f}, reencoded {results.reencoded.last:.3f}, {results.kept_bytes:,} bytes kept")
