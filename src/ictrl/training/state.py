"""Everything that learning changes while a task goes on, as named tensors: what exact resume needs.

A method says once which networks, optimisers and generator it learns with. From then on its state can be copied (a task
is learned in a copy, and one that fails leaves no trace), written to a file and read again.
"""

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ictrl.training.ema import EMA


@dataclass
class TrainingState:
    """Networks, optimisers and random numbers by name, and the EMA of the task that is being learned."""

    networks: Mapping[str, nn.Module]
    optimisers: Mapping[str, torch.optim.Optimizer]
    generator: torch.Generator
    ema: EMA | None = None

    def tensors(self) -> dict[str, Tensor]:
        """All of it under the names `NETWORK.…`, `NETWORK_optimiser.…`, `averages.…` and `generator`."""
        groups = {name: network.state_dict() for name, network in self.networks.items()}
        groups |= {f"{name}_optimiser": optimiser_tensors(part) for name, part in self.optimisers.items()}
        if self.ema is not None:
            groups["averages"] = self.ema.state()
        named = {f"{group}.{name}": tensor for group, state in groups.items() for name, tensor in state.items()}
        return {**named, "generator": self.generator.get_state()}

    def load(self, tensors: Mapping[str, Tensor], same_device: bool = True) -> None:
        """The inverse; KeyError, RuntimeError or ValueError if these are tensors of something else.

        The random state of another kind of device means nothing here and is left out.
        """
        for name, network in self.networks.items():
            network.load_state_dict(group(tensors, name))
        for name, optimiser in self.optimisers.items():
            load_optimiser(optimiser, group(tensors, f"{name}_optimiser"))
        if self.ema is not None:
            self.ema.load(group(tensors, "averages"))
        if same_device:
            self.generator.set_state(tensors["generator"])

    def __deepcopy__(self, memo: dict[int, Any]) -> "TrainingState":
        """A state of its own, in no task: its optimisers move its networks, with the hooks that they had."""
        networks, optimisers = copy.deepcopy(dict(self.networks), memo), copy.deepcopy(dict(self.optimisers), memo)
        for name, optimiser in self.optimisers.items():  # torch leaves these out
            for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
                setattr(optimisers[name], hooks, copy.deepcopy(getattr(optimiser, hooks, OrderedDict()), memo))
        memo[id(self.generator)] = generator = torch.Generator(self.generator.device)
        generator.set_state(self.generator.get_state())
        return TrainingState(networks, optimisers, generator)

    def settle(self) -> None:
        """A task is over: of its last step nothing is needed any more."""
        for network in self.networks.values():
            network.zero_grad(set_to_none=True)


def group(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors called `name.…`, without that prefix."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's numbers under `PARAMETER.name`; none before its first step."""
    state = optimiser.state_dict()["state"]
    return {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse; ValueError if the numbers belong to other parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    parameters: list[Tensor] = [part for group in optimiser.param_groups for part in group["params"]]
    for index, values in state.items():
        shapes = {name: tuple(value.shape) for name, value in values.items() if name != "step"}
        expected = tuple(parameters[index].shape) if 0 <= index < len(parameters) else None
        if not shapes or set(shapes.values()) != {expected}:
            raise ValueError(f"optimiser state {index} has {shapes} for a parameter of shape {expected}")
        if isinstance(optimiser, torch.optim.Adam) and set(values) != {"step", "exp_avg", "exp_avg_sq"}:
            raise ValueError(f"optimiser state {index} of Adam has {sorted(values)}")
        for name in shapes:  # in memory as the parameter lies: files know one order, and a fused Adam insists
            values[name] = torch.empty_like(parameters[index]).copy_(values[name])
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
