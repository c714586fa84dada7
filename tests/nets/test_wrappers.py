"""What is added around any two networks: pixels as numbers, precision, unit length."""

import pytest
import torch
from torch import Tensor, nn

from ictrl.errors import InputError
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.wrappers import (
    ImageDecoder,
    ImageEncoder,
    check_backbone,
    parameter_count,
    precision_of,
    to_float,
    to_uint8,
)

D = 12


def images(n: int = 5) -> Tensor:
    return torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1


class Foreign(nn.Module):
    """Somebody's encoder, which knows nothing of precision; it remembers what its layer gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, D)
        self.given: list[torch.dtype] = []
        self.seen: list[torch.dtype] = []

    def forward(self, X: Tensor) -> Tensor:
        self.given.append(X.dtype)
        features = self.layer(X.flatten(1))
        self.seen.append(features.dtype)
        return features


def test_every_pixel_value_survives_the_conversion() -> None:
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    X = to_float(images)
    assert (float(X.min()), float(X.max())) == (-1.0, 1.0)
    assert torch.equal(to_uint8(X), images)
    assert torch.equal(images, torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16))  # the input is untouched


def test_pixels_out_of_range_are_clipped() -> None:
    X = torch.tensor([-3.0, -1.0, 0.0, 1.0, 2.0]).view(1, 1, 1, 5)
    assert to_uint8(X).flatten().tolist() == [0, 0, 128, 255, 255]
    assert to_uint8(X.bfloat16()).flatten().tolist() == [0, 0, 128, 255, 255]


def test_parameters_are_counted_over_all_networks() -> None:
    assert parameter_count(nn.Linear(3, 2), nn.BatchNorm2d(5)) == 3 * 2 + 2 + 2 * 5
    assert parameter_count() == 0


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("auto", "cpu", torch.float32),
        ("auto", "cuda", torch.bfloat16),
        ("bfloat16", "cpu", torch.bfloat16),
        ("float32", "cuda", torch.float32),
    ],
)
def test_precision_by_its_name(name: str, device: str, expected: torch.dtype) -> None:
    assert precision_of(name, torch.device(device)) is expected


# Precision


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("foreign", [False, True])
def test_features_are_float32_and_of_unit_length(precision: torch.dtype, foreign: bool) -> None:
    backbone = Foreign() if foreign else Encoder(8, 1, 4, D, torch.Generator().manual_seed(0)).eval()
    encoder = ImageEncoder(backbone, D, precision)
    Z = encoder(images())
    assert Z.dtype == torch.float32
    assert torch.allclose(Z.norm(dim=1), torch.ones(5), atol=1e-5)
    assert encoder.feature_dim == D


def test_a_foreign_backbone_runs_under_autocast_where_half_precision_is_asked_for() -> None:
    backbone = Foreign()
    X = images().bfloat16()  # as a batch comes in that precision
    Z = ImageEncoder(backbone, D, torch.bfloat16)(X)
    assert (backbone.given, backbone.seen) == ([torch.float32], [torch.bfloat16])
    exact = nn.functional.normalize(backbone.layer(X.float().flatten(1)), dim=1)
    assert float((Z - exact).abs().max().detach()) < 0.02
    Z.square().sum().backward()
    assert backbone.layer.weight.grad is not None
    assert backbone.layer.weight.dtype == backbone.layer.weight.grad.dtype == torch.float32


def test_a_foreign_backbone_is_left_alone_in_float32() -> None:
    backbone = Foreign()
    Z = ImageEncoder(backbone, D)(images())
    assert backbone.seen == [torch.float32]
    assert torch.allclose(Z, nn.functional.normalize(backbone.layer(images().flatten(1)), dim=1))


def test_a_backbone_that_casts_itself_gets_the_precision_and_no_autocast() -> None:
    class Casting(Foreign):
        casts = True

        def forward(self, X: Tensor) -> Tensor:
            self.given.append(X.dtype)
            self.seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
            return X.flatten(1)[:, :D]

    backbone = Casting()
    ImageEncoder(backbone, D, torch.bfloat16)(images())
    assert (backbone.given, backbone.seen) == ([torch.bfloat16], [torch.float32])


def test_a_decoder_of_ones_own_draws_in_float32_and_ours_in_its_precision() -> None:
    Z = nn.functional.normalize(torch.randn(3, D, generator=torch.Generator().manual_seed(0)), dim=1)
    foreign = nn.Sequential(nn.Linear(D, 64), nn.Tanh(), nn.Unflatten(1, (1, 8, 8)))
    assert ImageDecoder(foreign, torch.bfloat16)(Z).dtype == torch.float32
    ours = Decoder(8, 1, 4, D, torch.Generator().manual_seed(0)).eval()
    drawn = ImageDecoder(ours, torch.bfloat16)(Z)
    assert drawn.dtype == torch.bfloat16
    assert drawn.shape == (3, 1, 8, 8)
    assert float((drawn.float() - ImageDecoder(ours)(Z)).abs().max().detach()) < 0.02


# Unit length


def test_the_gradient_of_unit_length_is_autograds() -> None:
    class Nothing(nn.Module):
        def forward(self, X: Tensor) -> Tensor:
            return X.flatten(1)

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(7, 1, 2, 3, generator=generator, requires_grad=True)
    dz = torch.randn(7, 6, generator=generator)
    (found,) = torch.autograd.grad(ImageEncoder(Nothing(), 6)(X), X, dz)
    (expected,) = torch.autograd.grad(nn.functional.normalize(X.flatten(1), dim=1), X, dz)
    assert torch.allclose(found, expected, atol=1e-6)
    zeros = ImageEncoder(Nothing(), 6)(torch.zeros(2, 1, 2, 3))
    assert zeros.tolist() == [[0.0] * 6] * 2  # a feature of no length has no direction, and is no NaN


# Networks of the user's own


def test_a_backbone_that_fits_is_taken_and_learns_nothing_from_the_check() -> None:
    backbone = Foreign()
    check_backbone("encoder", backbone, torch.zeros(2, 1, 8, 8), (2, D))
    assert backbone.layer.weight.grad is None


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        (lambda X: X.flatten(1), r"Expected encoder to turn (2, 1, 8, 8) into (2, 12) but got (2, 64): change it, or "),
        (lambda X: (X, X), r"into (2, 12) but got tuple: change it, or the recipe's method.network."),
        (nn.Linear(7, D), r"Expected encoder to take a tensor (2, 1, 8, 8) but it failed: mat1 and mat2 shapes"),
        (lambda: None, r"Expected encoder to take a tensor (2, 1, 8, 8) but it failed: "),
    ],
)
def test_a_backbone_that_does_not_fit_is_refused_in_one_line(gives: nn.Module, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_backbone("encoder", gives, torch.zeros(2, 1, 8, 8), (2, D))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_without_words_is_named_by_its_kind() -> None:
    def silent(X: Tensor) -> Tensor:
        raise ValueError

    with pytest.raises(InputError, match="but it failed: ValueError"):
        check_backbone("decoder", silent, torch.zeros(2, D), (2, 1, 8, 8))


def test_features_and_stages_in_one_pass_are_those_of_two() -> None:
    encoder = ImageEncoder(Encoder(8, 1, 4, 6, torch.Generator().manual_seed(0)).eval(), 6)
    X = images().float() / 127.5 - 1 if images().dtype == torch.uint8 else images()
    Z, stages = encoder.with_stages(X)
    assert torch.equal(Z, encoder(X))
    assert all(torch.equal(one, other) for one, other in zip(stages, encoder.backbone.stages(X), strict=True))  # type: ignore[operator]


def test_an_encoder_without_stages_says_so_where_they_are_needed() -> None:
    with pytest.raises(InputError, match=r"a method stages\(X\).* but Flatten has none"):
        ImageEncoder(nn.Flatten(), 6).with_stages(images())
