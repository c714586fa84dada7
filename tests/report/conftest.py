"""Run folders to report on."""

import shutil
from pathlib import Path

import pytest
from support import pictures, tiny_recipe

import ictrl
from ictrl.config import MethodConfig, NetworkConfig, Recipe, RunConfig, StageConfig
from ictrl.data import tasks_from_arrays
from ictrl.methods.finetune import FinetuneConfig
from ictrl.methods.joint import JointConfig

STAGE = StageConfig(epochs=2, batch=16, learning_rate=1e-3, ema=0.0)
NETWORK = NetworkConfig(image_size=8, channels=1, width=8, feature_dim=16)
STREAM = tasks_from_arrays([(*pictures(labels), *pictures(labels, each=8, seed=1)) for labels in ([0, 1], [2, 3])])


@pytest.fixture
def run(odd_run: Path, tmp_path: Path) -> Path:
    """A copy of a run of ictrl that may be spoiled."""
    return Path(shutil.copytree(odd_run, tmp_path / "run"))


def learn(method: MethodConfig, out: Path) -> Path:
    ictrl.run(Recipe(method.name, method=method, run=RunConfig(device="cpu")), out, stream=STREAM)
    return out


@pytest.fixture(scope="session")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each method on the same two tasks, whose images were given in memory."""
    root = tmp_path_factory.mktemp("stripes")
    methods = [
        tiny_recipe().method,
        FinetuneConfig(NETWORK, first=STAGE, later=STAGE),
        JointConfig(NETWORK, stage=STAGE),
    ]
    return {method.name: learn(method, root / f"run-of-{method.name}") for method in methods}
