"""To load a learner and predict takes torch, numpy, pillow and safetensors, and nothing else that is installed."""

import subprocess
import sys
from pathlib import Path

from method_support import TESTS, learner_of
from PIL import Image

FORBIDDEN = ["matplotlib", "jinja2", "sklearn", "scipy", "tyro", "rich", "pooch", "filelock", "jaxtyping", "onnx"]

SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

class Forbidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {forbidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

import torch  # whatever torch itself needs
before = {{name.partition(".")[0] for name in sys.modules}}
sys.meta_path.insert(0, Forbidden())
for name in [name for name in sys.modules if name.partition(".")[0] in {forbidden!r}]:
    del sys.modules[name]

import ictrl
from ictrl.data import read_picture
from pathlib import Path

picture = read_picture(Path({picture!r}), 8, 1)
for path in {paths!r}:
    print(ictrl.load_learner(path).predict(picture[None]).item())
new = {{name.partition(".")[0] for name in sys.modules}} - before - set(sys.stdlib_module_names)
print(sorted(name for name in new if not name.startswith("_")))
"""


def test_a_fresh_process_predicts_without_the_rest(tmp_path: Path) -> None:
    Image.fromarray(TESTS[0, 0].numpy()).save(tmp_path / "picture.png")
    paths, expected = [], []
    for method in ("wide", "ictrl", "fecam"):
        learner = learner_of(method)
        paths.append(str(tmp_path / method))
        learner.save(paths[-1], inference_only=True)
        expected.append(str(learner.predict(TESTS[:1]).item()))
    script = SCRIPT.format(forbidden=FORBIDDEN, picture=str(tmp_path / "picture.png"), paths=paths)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *labels, imported = done.stdout.splitlines()
    assert labels == expected
    allowed = {"PIL", "ictrl", "safetensors", "numpy", "defusedxml", "packaging", "torchgen", "sitecustomize"}
    allowed |= {"sympy", "mpmath"}  # of torch itself, which cannot be installed without them
    assert set(eval(imported)) <= allowed
