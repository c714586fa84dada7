"""On a GPU steps are recorded and replayed: every method's can be, and they do what the plain ones do."""

import logging
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from method_support import METHODS, TASKS, everything, recipe_of
from torch import Tensor

from ictrl import create_learner
from ictrl.training.graphs import unrecorded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="records steps; needs a GPU")


def learned(method: str, recorded: bool, **settings: Any) -> dict[str, Tensor]:
    """The networks after two tasks on a GPU."""
    learner = create_learner(recipe_of(method, **settings), device="cuda")
    with nullcontext() if recorded else unrecorded():
        for task in TASKS:
            learner.learn(*task)
    names = tuple(f"{name}." for name in learner._state.networks)
    found = everything(learner)
    return {name: tensor for name, tensor in found.items() if name.startswith(names) and tensor.is_floating_point()}


def exactly(method: str) -> dict[str, Any]:
    """Settings by which that method computes in float32, so that rounding does not drive two runs apart."""
    part = recipe_of(method).method
    if hasattr(part, "precision"):
        return {"precision": "float32"}
    return {"game": {"precision": "float32"}} if hasattr(part, "game") else {}


@pytest.mark.parametrize("method", METHODS)
def test_every_step_is_recorded_and_does_what_the_plain_one_does(method: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        recorded = learned(method, recorded=True, **exactly(method))
    assert not [record.message for record in caplog.records if "recorded" in record.message]
    plain = learned(method, recorded=False, **exactly(method))
    assert recorded.keys() == plain.keys()
    for name, tensor in recorded.items():
        torch.testing.assert_close(tensor, plain[name], rtol=0.02, atol=0.02, msg=lambda text: f"{name}: {text}")  # noqa: B023
