"""Your own pictures, whatever they are: opened with Pillow, of any size, called by name, from a DataLoader.

python examples/own_pictures.py
"""

import random

from PIL import Image, ImageDraw
from torch.utils.data import DataLoader

from ictrl import Wide, load_learner, load_recipe, recipe_with


def picture(shape):  # any PIL picture does: Image.open("circle.jpg")
    side, grey = random.randint(40, 60), random.randint(60, 255)
    drawn = Image.new("RGB", (side + random.randint(0, 9), side))
    kind = {"circle": "ellipse", "square": "rectangle", "bar": "line"}[shape]
    getattr(ImageDraw.Draw(drawn), kind)([12, 12, side - 12, side - 12], fill=(grey, grey, 40))
    return drawn


random.seed(0)
recipe = recipe_with(load_recipe("pictures"), {"method": {"network": {"image_size": 16}, "trunk": {"epochs": 8}}})
learner = Wide(recipe)
shapes = ["circle", "square"] * 40
learner.learn([picture(shape) for shape in shapes], shapes, verbose=False)  # True prints progress
bars = DataLoader(
    [(picture("bar"), "bar") for _ in range(40)], batch_size=20, collate_fn=lambda rows: tuple(zip(*rows))
)
learner.learn(bars)  # a dataset or loader brings its labels
learner.save("shapes.safetensors")

tests = ["bar", "circle", "square"] * 10
again = load_learner("shapes.safetensors")
print(*again.classes_, f"accuracy {again.score([picture(shape) for shape in tests], tests):.2f}")
