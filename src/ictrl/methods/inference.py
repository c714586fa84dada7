"""Learners that only predict: a small file without what it takes to go on learning, and what such a learner refuses.

A file may hold all of a learner; or what `predict` needs, which is some of its networks and some of what it keeps; or
that and what drawing needs. Numbers are stored as they are, so that each predicts exactly as the whole learner does.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ictrl.errors import InputError
from ictrl.methods.storage import ALL, TO_DRAW, TO_PREDICT, Stored
from ictrl.training.state import TrainingState, group

if TYPE_CHECKING:
    from ictrl.methods.base import Learner

MEMORY = "memory"  # what is kept, among the names of a file


def parts_of(learner: "Learner[Any]", inference_only: bool, decoder: bool) -> tuple[str, dict[str, Tensor]]:
    """What to store of a learner, and its name."""
    state, kept = learner._state, learner.kept_tensors()
    if not inference_only:
        check_can_learn(learner, "be saved as a whole", "pass inference_only=True")
        if decoder:
            raise InputError("Expected decoder=True with inference_only=True: a whole learner has its decoder anyway.")
        tensors = state.tensors()
    elif decoder:
        if "decoder" not in state.networks:
            check_can_draw(learner, "be saved with its decoder")
            raise InputError(f"Expected a method with a decoder but {learner.recipe.method.name} has none.")
        tensors = _network_tensors(state, list(state.networks))
    else:
        kept = learner.kept_to_predict()
        tensors = _network_tensors(state, predicting(learner))
    parts = ALL if not inference_only else TO_DRAW if decoder else TO_PREDICT
    return parts, {**tensors, **{f"{MEMORY}.{name}": tensor for name, tensor in kept.items()}}


def load_parts(learner: "Learner[Any]", stored: Stored) -> None:
    """Take over what a file holds; KeyError, RuntimeError or ValueError if it does not fit."""
    state, labels = learner._state, stored.labels
    kept = {name: tensor.to(learner.device) for name, tensor in group(stored.tensors, MEMORY).items()}
    if stored.parts == ALL:
        state.load(stored.tensors, same_device=stored.device == learner.device.type)
    elif stored.parts in (TO_PREDICT, TO_DRAW):
        names = list(state.networks) if stored.parts == TO_DRAW else predicting(learner)
        networks = {name: state.networks[name] for name in names}
        learner._state = TrainingState(networks, {}, state.generator)
        learner._state.load(stored.tensors, same_device=False)
    else:
        raise ValueError(f"it holds {stored.parts!r} of a learner")
    found = learner.kept_to_predict_from if stored.parts == TO_PREDICT else learner.kept_from
    learner.kept, learner.labels, learner.parts = found(labels, kept), labels, stored.parts


def predicting(learner: "Learner[Any]") -> list[str]:
    """Names of the networks that `predict` needs."""
    return list(learner.predicts_by or learner._state.networks)


def check_can_learn(learner: "Learner[Any]", what: str, remedy: str = "load the file of the whole learner") -> None:
    """Refuse what only a whole learner can do."""
    if learner.parts != ALL:
        raise InputError(
            f"Expected a whole learner to {what} but this one was saved with inference_only=True: {remedy}."
        )


def check_can_draw(learner: "Learner[Any]", what: str) -> None:
    """Refuse what only a learner with its decoder can do."""
    if learner.parts == TO_PREDICT:
        raise InputError(
            f"Expected a learner with its decoder to {what} but this one was saved without it: save the whole learner "
            "with inference_only=True, decoder=True."
        )


def _network_tensors(state: TrainingState, names: list[str]) -> dict[str, Tensor]:
    chosen = replace(state, networks={name: state.networks[name] for name in names}, optimisers={}, ema=None)
    return {name: tensor for name, tensor in chosen.tensors().items() if name != "generator"}
