"""What a judge is: a network with a known weights file that gives features of many images."""

import hashlib
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ictrl.errors import InputError
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, UInt8

BATCH, CPU_BATCH = 128, 8  # images per batch; on a CPU few, whose activations still fit into its caches


class Judge(nn.Module):
    """A network that gives features (n, d) of uint8 images, grey or in colour, of any size."""

    distance: str
    """what a Fréchet distance between its features is called"""


def look(judge: Judge, images: UInt8[Tensor, "n c h w"], device: torch.device) -> Float[Tensor, "n d"]:
    """The features of all images, on the CPU."""
    if images.shape[1] not in (1, 3):
        raise InputError(f"Expected grey or colour images but got {images.shape[1]} channels: no judge knows such.")
    batch = CPU_BATCH if device.type == "cpu" else BATCH
    with torch.no_grad(), exact_float32():
        return torch.cat([judge(part.to(device)).cpu() for part in images.split(batch)])


def enlarge(images: UInt8[Tensor, "n c h w"], side: int) -> Float[Tensor, "n 3 side side"]:
    """Images in colour and of the size that a judge was trained with, still from 0 to 255."""
    colour = images.expand(-1, 3, -1, -1).float()
    return interpolate(colour, size=(side, side), mode="bilinear", align_corners=False)


def load_weights(network: nn.Module, path: Path, sha256: str) -> None:
    """Put a weights file into a network, if it is the one with this digest."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"Expected a weights file but could not read {path}: {error.strerror}.") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(f"Expected the weights with SHA-256 {sha256[:8]}… but {path} has {found[:8]}…: get it again.")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)  # numbers only: no code is run
        missing, unknown = network.load_state_dict(tensors, strict=False)
    except (RuntimeError, TypeError, AttributeError, pickle.UnpicklingError) as error:
        raise InputError(f"Expected weights that fit but {path} does not: {str(error).splitlines()[0]}") from None
    # files older than PyTorch 0.4.1 do not count batches, and nothing here depends on the count
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unknown:
        raise InputError(f"Expected weights that fit but {path} lacks {missing[:3]} and has {unknown[:3]} too many.")
