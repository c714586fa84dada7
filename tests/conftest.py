"""Fixtures that many tests share."""

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import CLASS_NAMES, DEVICES, SHORT, call, pictures, tiny_recipe

import ictrl
from ictrl import ICTRL, Recipe
from ictrl.config import StreamConfig

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell started the tests in its background, where Ctrl-C is deaf
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def learned() -> Callable[..., ICTRL]:
    """A function that gives a learner after two tasks of two classes."""

    def make(recipe: Recipe | None = None) -> ICTRL:
        learner = ICTRL(recipe or tiny_recipe())
        return learner.learn(*pictures([0, 1])).learn(*pictures([2, 3]))

    return make


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder: ten digits of 8×8 in two tasks, hardly learned."""
    folder = tmp_path_factory.mktemp("short")
    (folder / "short.toml").write_text(SHORT)
    assert call("run", folder / "short.toml", "--out", folder / "run") == 0
    return folder / "run"


@pytest.fixture(scope="session")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two tasks on colour pictures, whose classes have names that a page must not take for HTML."""
    root = tmp_path_factory.mktemp("odd")
    random = np.random.default_rng(0)
    for name in CLASS_NAMES:
        (root / "pictures" / name).mkdir(parents=True)
        colour = random.integers(40, 215, size=3)
        for i in range(12):
            noisy = np.clip(colour + random.normal(0, 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(root / "pictures" / name / f"{i}.png")
    recipe = tiny_recipe(
        name="odd",
        network={"channels": 3},
        stream=StreamConfig(dataset="folder", root=str(root / "pictures"), tasks=2),
        run={"keep_pictures": 4},
    )
    ictrl.run(recipe, root / "run")
    return root / "run"
