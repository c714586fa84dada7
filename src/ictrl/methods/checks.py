"""What settings of several methods are refused for."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from ictrl.config import StageConfig
from ictrl.errors import ConfigError


def check_stage(name: str, stage: StageConfig) -> None:
    """Refuse what only the game has."""
    if stage.batch == "rule":
        raise ConfigError(f'Expected {name}.batch to be a number but got "rule", which is a rule of i-CTRL.')
    if stage.augmentation.rotations:
        raise ConfigError(f"Expected {name}.augmentation.rotations to be false: a head has no rows for rotations.")


def check_chance(name: str, value: float) -> None:
    """Refuse what is no probability."""
    if not 0 <= value <= 1:
        raise ConfigError(f"Expected {name} to be from 0 to 1 but got {value}.")


def check_types(tensors: Mapping[str, Tensor], whole: Collection[str], bits: Collection[str] = ()) -> None:
    """ValueError where what is kept is not of numbers as it should be: those named whole, or bits, or in float32."""
    for name, tensor in tensors.items():
        expected = torch.int64 if name in whole else torch.uint8 if name in bits else torch.float32
        if tensor.dtype != expected:
            raise ValueError(f"{name[:80]} has numbers of type {tensor.dtype} and not {expected}")
