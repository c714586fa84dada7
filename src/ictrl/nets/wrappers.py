"""What the learner adds around any two networks: pixels as numbers, precision, unit length.

`ImageEncoder` and `ImageDecoder` hold the *backbones*, ours (`dcgan`) or a user's. A backbone that sets `casts = True`
works in the precision of what it is given, as ours do; any other one runs under autocast where half precision is asked
for. Features come out in float32, whatever the precision, and of unit length.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ictrl.errors import ConfigError, InputError
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, UInt8


def to_float(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Pixels 0 … 255 as −1 … 1, the range of the decoder's tanh."""
    return (images - 127.5).div_(127.5)


def floats(images: Tensor) -> Float[Tensor, "n c h w"]:
    """uint8 images by `to_float`, and decoded ones as they are."""
    return to_float(images) if images.dtype == torch.uint8 else images


def to_uint8(X: Float[Tensor, "n c h w"]) -> UInt8[Tensor, "n c h w"]:
    """The inverse of `to_float`, rounded and clipped."""
    return X.float().add(1).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


class ImageEncoder(nn.Module):
    """f: images (n, channels, side, side) in [−1, 1] to unit-length features (n, d)."""

    def __init__(self, backbone: nn.Module, feature_dim: int, precision: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.backbone = backbone
        self.feature_dim = feature_dim
        self.precision = precision

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        with exact_float32():
            return _UnitLength.apply(run_in(self.precision, self.backbone, X))

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The activations of the backbone's stages, which it must offer."""
        check_stages(self.backbone)
        with exact_float32():
            return run_stages(self.precision, self.backbone, X)

    def with_stages(self, X: Float[Tensor, "n c h w"]) -> tuple[Float[Tensor, "n d"], list[Tensor]]:
        """Features and `stages`; in one pass, if the backbone has a method `from_stages`."""
        check_stages(self.backbone)
        with exact_float32():
            features, stages = run_through(self.precision, self.backbone, X)
            return _UnitLength.apply(features), stages


class ImageDecoder(nn.Module):
    """g: features (n, d) to images (n, channels, side, side) in [−1, 1]."""

    def __init__(self, backbone: nn.Module, precision: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.backbone = backbone
        self.precision = precision

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c h w"]:
        with exact_float32():
            return run_in(self.precision, self.backbone, Z)


def run_in(precision: torch.dtype, backbone: nn.Module, x: Tensor) -> Tensor:
    """What the backbone gives, computed in this precision."""
    if getattr(backbone, "casts", False):
        return backbone(x.to(precision))
    with torch.autocast(x.device.type, precision, enabled=precision != torch.float32):
        return backbone(x.float()).float()


def run_stages(precision: torch.dtype, backbone: nn.Module, x: Tensor) -> list[Tensor]:
    """The activations of the backbone's stages, computed in this precision."""
    stages: Callable[[Tensor], list[Tensor]] = backbone.stages  # type: ignore[assignment]
    if getattr(backbone, "casts", False):
        return stages(x.to(precision))
    with torch.autocast(x.device.type, precision, enabled=precision != torch.float32):
        return stages(x.float())


def run_through(precision: torch.dtype, backbone: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Features and stages; in one pass, if the backbone has a method `from_stages` that goes on from its stages."""
    stages = run_stages(precision, backbone, x)
    if callable(go_on := getattr(backbone, "from_stages", None)):
        return go_on(stages), stages
    return run_in(precision, backbone, x), stages


def check_stages(backbone: nn.Module) -> None:
    """Refuse a network without stages where they are needed."""
    if said := getattr(backbone, "no_stages", None):
        raise ConfigError(said)
    if not callable(getattr(backbone, "stages", None)):
        raise InputError(
            f"Expected an encoder with a method stages(X), which gives a list of (n, channels, side, side), but "
            f"{type(backbone).__name__} has none."
        )


def check_backbone(name: str, backbone: Callable[[Tensor], Any], given: Tensor, expected: tuple[int, ...]) -> None:
    """Refuse a network of the user's own that gives something of another shape than the learner will need."""
    try:
        with torch.no_grad():
            found = backbone(given)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"Expected {name} to take a tensor {tuple(given.shape)} but it failed: {reason}") from None
    if not isinstance(found, Tensor) or tuple(found.shape) != expected:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"Expected {name} to turn {tuple(given.shape)} into {expected} but got {got}: "
            "change it, or the recipe's method.network."
        )


class _UnitLength(torch.autograd.Function):
    """z = x/‖x‖ in float32, and dx = (dz − z zᵀdz)/‖x‖ in as few passes."""

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        length = x.float().norm(dim=1, keepdim=True).clamp_(min=1e-12)
        z = x / length
        ctx.save_for_backward(z, length)
        ctx.dtype = x.dtype
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Float[Tensor, "n d"]) -> Tensor:
        z, length = ctx.saved_tensors
        return torch.addcmul(dz, z, (z * dz).sum(1, keepdim=True), value=-1).div_(length).to(ctx.dtype)


def precision_of(name: str, device: torch.device) -> torch.dtype:
    """By its name in recipes; auto is bfloat16 on a GPU and float32 elsewhere."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[name]


def parameter_count(*networks: nn.Module) -> int:
    return sum(parameter.numel() for network in networks for parameter in network.parameters())
