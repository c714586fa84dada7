"""The layers of both networks, each with its normalisation and activation, in the precision of what comes in.

A network has a 4×4 layer next to the image, some that halve or double the side, and one next to the feature. A layer is
what its line of PyTorch says; on a GPU a few of them are done by faster kernels, which compute the same.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from ictrl import kernels
from ictrl.nets.batchnorm import shared_batch_norm
from ictrl.parallel.sharing import shared
from ictrl.shapes import Float

LEAK = 0.2  # slope of the encoder's LeakyReLU, from the paper
cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
# of `exact_float32`: what is within and in which thread, and the switches as they were
_switches, _within, _before = threading.Lock(), dict[object, int](), list[bool]()


class Convolution(nn.Conv2d):
    """Without a bias, in the precision of what comes in."""

    def __init__(self, below: int, above: int, stride: int = 2, padding: int = 1, kernel: int = 4) -> None:
        super().__init__(below, above, kernel, stride, padding, bias=False)

    def reset_parameters(self) -> None:
        """Left to `initialise`, whose numbers come from the caller's generator and not from the global one."""

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        return functional.conv2d(H, self.weight.to(H.dtype), stride=self.stride, padding=self.padding)


class _Transposed(nn.ConvTranspose2d):
    def __init__(self, below: int, above: int, stride: int = 2, padding: int = 1) -> None:
        super().__init__(below, above, 4, stride, padding, bias=False)

    def reset_parameters(self) -> None:
        """Left to `initialise`."""

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:  # type: ignore[override]
        weight, padding = self.weight.to(H.dtype), int(self.padding[0])
        return functional.conv_transpose2d(H, weight, stride=self.stride, padding=padding)


class FromImage(Convolution):
    """An image to features of half its side, and LeakyReLU."""

    def forward(self, X: Float[Tensor, "n c h w"]) -> Tensor:
        if self.in_channels <= kernels.MOST_CHANNELS and (fast := kernels.gpu(X)):
            return fast.image_convolution(X, self.weight, LEAK)
        H = super().forward(X.contiguous(memory_format=torch.channels_last))
        return functional.leaky_relu(H, LEAK, inplace=True)


class Halve(nn.Module):
    """Features to features of half the side, BatchNorm and LeakyReLU."""

    def __init__(self, below: int, above: int) -> None:
        super().__init__()
        self.conv, self.norm = Convolution(below, above), nn.BatchNorm2d(above)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        return normalise(self.conv(H), self.norm, LEAK)


class ToFeature(Convolution):
    """A whole 4×4 map to one feature."""

    def __init__(self, below: int, d: int) -> None:
        super().__init__(below, d, stride=1, padding=0)

    def forward(self, H: Float[Tensor, "n c 4 4"]) -> Float[Tensor, "n d"]:
        # as a matrix product: cuDNN is far slower at this, and with channels last nothing has to be copied
        return _flat(H) @ _flat(self.weight).to(H.dtype).T


class FromFeature(_Transposed):
    """One feature to a 4×4 map."""

    def __init__(self, d: int, above: int) -> None:
        super().__init__(d, above, stride=1, padding=0)

    def forward(self, Z: Float[Tensor, "n d"]) -> Tensor:  # type: ignore[override]
        H = Z @ _flat(self.weight).to(Z.dtype)  # (n, 4 · 4 · above)
        return H.view(len(Z), 4, 4, -1).permute(0, 3, 1, 2)


class Double(nn.Module):
    """BatchNorm and ReLU of features, and features of twice the side."""

    def __init__(self, below: int, above: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(below), _Transposed(below, above)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        return self.conv(normalise(H, self.norm, 0.0))


class ToImage(Double):
    """BatchNorm and ReLU of features, an image of twice their side, and tanh."""

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        if self.conv.out_channels <= kernels.MOST_CHANNELS and (fast := kernels.gpu(H)):
            return fast.normed_image(H, self.norm, self.conv.weight)
        return super().forward(H).float().tanh().to(H.dtype)  # of 1 − tanh² too little is left in half precision


def initialise(network: nn.Module, generator: torch.Generator | None) -> None:
    """DCGAN: convolutions from N(0, 0.02²), BatchNorm scales from N(1, 0.02²) and shifts 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02, generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02, generator=generator)
            nn.init.zeros_(module.bias)
    # convolutions are faster with channels last, on a CPU and on a GPU
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def initialise_uniformly(network: nn.Module, generator: torch.Generator | None) -> None:
    """PyTorch's own: weights of convolutions and linear layers, and biases, uniform within ±1/√fan-in."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = module.weight[0].numel() ** -0.5
            for part in module.parameters():
                nn.init.uniform_(part, -bound, bound, generator=generator)


@contextmanager
def exact_float32() -> Iterator[None]:
    """float32 means float32: a GPU's convolutions and products do not shorten it to TF32. Restored afterwards.

    The switches are the whole process's: of all that are within, the first turns them and the last back.
    """
    me = object()
    try:
        with _switches:
            if not _within:
                _before[:] = cudnn.allow_tf32, matmul.allow_tf32
            _within[me] = threading.get_ident()
            cudnn.allow_tf32 = matmul.allow_tf32 = False
        yield
    finally:
        _leave(me)


def _leave(one: object) -> None:
    """May be repeated, if it was interrupted."""
    with _switches:
        if list(_within) == [one]:
            cudnn.allow_tf32, matmul.allow_tf32 = _before
        _within.pop(one, None)


def exactly_within() -> frozenset[object]:
    """What is within `exact_float32` in this thread."""
    return frozenset(one for one, thread in list(_within.items()) if thread == threading.get_ident())


def no_longer_exact(but: frozenset[object]) -> None:
    """Of this thread only these are still within: others were interrupted before they could leave."""
    for one in exactly_within() - but:
        _leave(one)


def _forked() -> None:
    """In a new process there is one thread."""
    global _switches
    _switches = threading.Lock()
    for one, thread in list(_within.items()):
        if thread != threading.get_ident():
            _leave(one)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def normalise(H: Float[Tensor, "n c h w"], norm: nn.BatchNorm2d, slope: float) -> Float[Tensor, "n c h w"]:
    """BatchNorm, and ReLU with a slope below 0, in place: neither gradient needs what was there."""
    if fast := kernels.gpu(H):
        return fast.leaky_norm(H, norm, slope)
    normed = shared_batch_norm(H, norm) if norm.training and shared() else norm(H)
    return normed if slope == 1 else functional.leaky_relu(normed, slope, inplace=True)


def _flat(H: Float[Tensor, "n c 4 4"]) -> Float[Tensor, "n c16"]:
    """Each map as one row, in the order in which channels-last memory holds it."""
    return H.permute(0, 2, 3, 1).flatten(1)
