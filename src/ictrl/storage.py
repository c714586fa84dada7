"""A learner as one safetensors file: numbers and names, nothing that could run when a stranger's file is loaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from ictrl.config import Recipe, recipe_from_table, recipe_to_table
from ictrl.errors import InputError, UserError
from ictrl.files import write_atomically

FORMAT = "ictrl.learner"
VERSION = "1"


@dataclass(frozen=True)
class Stored:
    """What a file holds of a learner."""

    recipe: Recipe
    seed: int
    labels: list[int]
    """in the order in which they were learned"""
    device: str
    """kind of device that the random state belongs to"""
    tensors: dict[str, Tensor]

    def group(self, name: str) -> dict[str, Tensor]:
        """The tensors called `name.…`, without that prefix."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}


def write_learner(path: Path, stored: Stored) -> None:
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "recipe": json.dumps(recipe_to_table(stored.recipe)),
        "seed": str(stored.seed),
        "labels": json.dumps(stored.labels),
        "device": stored.device,
    }
    tensors = {name: tensor.contiguous() for name, tensor in stored.tensors.items()}
    write_atomically(path, to_safetensors(tensors, metadata))


def read_learner(path: Path) -> Stored:
    """Read and check what `write_learner` wrote; anything else is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # cloned: a tensor that lies unaligned in the file's buffer can round differently in the last bit
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - no mapping
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Expected a saved learner but could not read {path}: {reason}.") from None
    except SafetensorError as error:
        raise InputError(f"Expected a saved learner but {path} is cut short or of another kind: {error}.") from None
    if metadata.get("format") != FORMAT:
        raise InputError(f"Expected a saved learner but {path} is a safetensors file of something else.")
    if metadata.get("version") != VERSION:
        raise InputError(
            f"Expected a learner saved in format {VERSION} but {path} is in format {metadata.get('version')}: "
            "load it with the version of ictrl that wrote it."
        )
    try:
        return Stored(
            recipe=recipe_from_table(json.loads(metadata["recipe"])),
            seed=int(metadata["seed"]),
            labels=[int(label) for label in json.loads(metadata["labels"])],
            device=metadata["device"],
            tensors=tensors,
        )
    except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
        raise InputError(f"Expected a saved learner but {path} describes none: {error}.") from None


def optimiser_tensors(optimiser: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's numbers under `PARAMETER.name`; none before its first step."""
    state = optimiser.state_dict()["state"]
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def load_optimiser(optimiser: torch.optim.Adam, tensors: Mapping[str, Tensor]) -> None:
    """The inverse; ValueError if the numbers belong to other parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    parameters: list[Tensor] = optimiser.param_groups[0]["params"]
    for index, values in state.items():
        shapes = {name: tuple(value.shape) for name, value in values.items() if name != "step"}
        expected = tuple(parameters[index].shape) if 0 <= index < len(parameters) else None
        if set(values) != {"step", "exp_avg", "exp_avg_sq"} or set(shapes.values()) != {expected}:
            raise ValueError(f"optimiser state {index} has {shapes} for a parameter of shape {expected}")
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
