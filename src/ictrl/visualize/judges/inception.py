"""Inception v3 as FID and the Inception score know it: 2048 features and 1008 classes.

The network of Szegedy et al., *Rethinking the Inception Architecture* (2015), in the graph of December 2015 that Heusel
et al. (2017) measured with. It differs from today's in three ways: averages at the border do not count the padding, the
last block pools by the maximum, and it has 1008 outputs. Parameters have the names of these weights' PyTorch port,
`pt_inception-2015-12-05-6726825d.pth`, which a user of this class has to bring.

The file could not be had where this was written. Names, shapes and the arithmetic were checked against the port's own
network with random weights; with the real ones it has not been run.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from ictrl.shapes import Float, UInt8
from ictrl.visualize.judges.judge import Judge, enlarge, load_weights

SHA256 = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
SIDE, FEATURES, CLASSES = 299, 2048, 1008
ROW, COLUMN = (1, 7), (7, 1)


class Inception(Judge):
    """uint8 images to 2048 features, and these to the probabilities of 1008 classes."""

    distance = "fid"

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = _Convolution(3, 32, 3, stride=2, padding=0)
        self.Conv2d_2a_3x3 = _Convolution(32, 32, 3, padding=0)
        self.Conv2d_2b_3x3 = _Convolution(32, 64, 3)
        self.Conv2d_3b_1x1 = _Convolution(64, 80, 1)
        self.Conv2d_4a_3x3 = _Convolution(80, 192, 3, padding=0)
        self.Mixed_5b = _Mixed35(192, pooled=32)
        self.Mixed_5c = _Mixed35(256, pooled=64)
        self.Mixed_5d = _Mixed35(288, pooled=64)
        self.Mixed_6a = _To17(288)
        self.Mixed_6b = _Mixed17(768, inner=128)
        self.Mixed_6c = _Mixed17(768, inner=160)
        self.Mixed_6d = _Mixed17(768, inner=160)
        self.Mixed_6e = _Mixed17(768, inner=192)
        self.Mixed_7a = _To8(768)
        self.Mixed_7b = _Mixed8(1280, _average)
        self.Mixed_7c = _Mixed8(2048, _largest)
        self.fc = nn.Linear(FEATURES, CLASSES)

    @classmethod
    def from_file(cls, path: Path) -> "Inception":
        """With the weights in a file, which must be the known one."""
        network = cls().eval()
        load_weights(network, path, SHA256)
        return network

    def forward(self, images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n 2048"]:
        H = enlarge(images, SIDE) / 127.5 - 1  # -1 … 1
        H = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(H)))
        H = max_pool2d(H, 3, stride=2)
        H = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(H))
        H = max_pool2d(H, 3, stride=2)  # (n, 192, 35, 35)
        H = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(H)))  # (n, 288, 35, 35)
        H = self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(H)))
        H = self.Mixed_6e(self.Mixed_6d(H))  # (n, 768, 17, 17)
        return self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(H))).mean((2, 3))  # (n, 2048, 8, 8) before the mean

    def probabilities(self, features: Float[Tensor, "n 2048"]) -> Float[Tensor, "n 1008"]:
        """Of each class. As in the original Inception score, the last layer's bias is left out."""
        with torch.no_grad():
            return (features @ self.fc.weight.T.to(features.device)).softmax(1)


class _Convolution(nn.Module):
    """A convolution, its normalisation and ReLU; padded to keep the size unless told otherwise."""

    def __init__(
        self, below: int, above: int, kernel: int | tuple[int, int], stride: int = 1, padding: int | None = None
    ) -> None:
        super().__init__()
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        border = (height // 2, width // 2) if padding is None else (padding, padding)
        self.conv = nn.Conv2d(below, above, (height, width), stride, border, bias=False)
        self.bn = nn.BatchNorm2d(above, eps=1e-3)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        return self.bn(self.conv(H)).relu_()


class _Mixed35(nn.Module):
    """Four branches side by side, on 35×35."""

    def __init__(self, below: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = _Convolution(below, 64, 1)
        self.branch5x5_1 = _Convolution(below, 48, 1)
        self.branch5x5_2 = _Convolution(48, 64, 5)
        self.branch3x3dbl_1 = _Convolution(below, 64, 1)
        self.branch3x3dbl_2 = _Convolution(64, 96, 3)
        self.branch3x3dbl_3 = _Convolution(96, 96, 3)
        self.branch_pool = _Convolution(below, pooled, 1)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        once = self.branch5x5_2(self.branch5x5_1(H))
        twice = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(H)))
        return torch.cat([self.branch1x1(H), once, twice, self.branch_pool(_average(H))], 1)


class _To17(nn.Module):
    """From 35×35 to 17×17."""

    def __init__(self, below: int) -> None:
        super().__init__()
        self.branch3x3 = _Convolution(below, 384, 3, stride=2, padding=0)
        self.branch3x3dbl_1 = _Convolution(below, 64, 1)
        self.branch3x3dbl_2 = _Convolution(64, 96, 3)
        self.branch3x3dbl_3 = _Convolution(96, 96, 3, stride=2, padding=0)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        twice = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(H)))
        return torch.cat([self.branch3x3(H), twice, max_pool2d(H, 3, stride=2)], 1)


class _Mixed17(nn.Module):
    """Four branches on 17×17; what would be 7×7 filters are rows and columns."""

    def __init__(self, below: int, inner: int) -> None:
        super().__init__()
        self.branch1x1 = _Convolution(below, 192, 1)
        self.branch7x7_1 = _Convolution(below, inner, 1)
        self.branch7x7_2 = _Convolution(inner, inner, ROW)
        self.branch7x7_3 = _Convolution(inner, 192, COLUMN)
        self.branch7x7dbl_1 = _Convolution(below, inner, 1)
        self.branch7x7dbl_2 = _Convolution(inner, inner, COLUMN)
        self.branch7x7dbl_3 = _Convolution(inner, inner, ROW)
        self.branch7x7dbl_4 = _Convolution(inner, inner, COLUMN)
        self.branch7x7dbl_5 = _Convolution(inner, 192, ROW)
        self.branch_pool = _Convolution(below, 192, 1)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        once = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(H)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(H)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        return torch.cat([self.branch1x1(H), once, twice, self.branch_pool(_average(H))], 1)


class _To8(nn.Module):
    """From 17×17 to 8×8."""

    def __init__(self, below: int) -> None:
        super().__init__()
        self.branch3x3_1 = _Convolution(below, 192, 1)
        self.branch3x3_2 = _Convolution(192, 320, 3, stride=2, padding=0)
        self.branch7x7x3_1 = _Convolution(below, 192, 1)
        self.branch7x7x3_2 = _Convolution(192, 192, ROW)
        self.branch7x7x3_3 = _Convolution(192, 192, COLUMN)
        self.branch7x7x3_4 = _Convolution(192, 192, 3, stride=2, padding=0)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        once = self.branch3x3_2(self.branch3x3_1(H))
        twice = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(H))))
        return torch.cat([once, twice, max_pool2d(H, 3, stride=2)], 1)


class _Mixed8(nn.Module):
    """Four branches on 8×8, two of which fork; how the last one pools differs between the two blocks."""

    def __init__(self, below: int, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.pool = pool
        self.branch1x1 = _Convolution(below, 320, 1)
        self.branch3x3_1 = _Convolution(below, 384, 1)
        self.branch3x3_2a = _Convolution(384, 384, (1, 3))
        self.branch3x3_2b = _Convolution(384, 384, (3, 1))
        self.branch3x3dbl_1 = _Convolution(below, 448, 1)
        self.branch3x3dbl_2 = _Convolution(448, 384, 3)
        self.branch3x3dbl_3a = _Convolution(384, 384, (1, 3))
        self.branch3x3dbl_3b = _Convolution(384, 384, (3, 1))
        self.branch_pool = _Convolution(below, 192, 1)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        once = self.branch3x3_1(H)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(H))
        forks = [
            self.branch3x3_2a(once),
            self.branch3x3_2b(once),
            self.branch3x3dbl_3a(twice),
            self.branch3x3dbl_3b(twice),
        ]
        return torch.cat([self.branch1x1(H), *forks, self.branch_pool(self.pool(H))], 1)


def _average(H: Tensor) -> Tensor:
    """The mean of the neighbourhood that lies within the image."""
    return avg_pool2d(H, 3, stride=1, padding=1, count_include_pad=False)


def _largest(H: Tensor) -> Tensor:
    return max_pool2d(H, 3, stride=1, padding=1)
