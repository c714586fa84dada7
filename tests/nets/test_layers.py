"""Layers in the precision of what comes in, and float32 that is float32."""

import math

import pytest
import torch
from torch import nn

from ictrl.nets.layers import LEAK, FromFeature, FromImage, Halve, ToFeature, ToImage, exact_float32, initialise


def test_a_pixel_that_is_nearly_white_can_still_change_in_bfloat16() -> None:
    layer = ToImage(16, 3).eval()
    nn.init.constant_(layer.conv.weight, 0.1)
    H = torch.ones(2, 16, 4, 4, dtype=torch.bfloat16, requires_grad=True)
    X = layer(H)
    assert X.dtype == torch.bfloat16
    assert float(X[0, 0, 4, 4].detach()) == 1  # tanh(4 · 16 · 0.1)
    X[0, 0, 4, 4].backward()
    assert H.grad is not None
    assert float(H.grad.max()) == pytest.approx(0.1 / math.cosh(6.4) ** 2, rel=0.1)


def test_layers_next_to_the_feature_are_convolutions(generator: torch.Generator) -> None:
    """As matrix products they are faster, and the same."""
    to_feature, from_feature = ToFeature(6, 10), FromFeature(10, 6)
    for layer in (to_feature, from_feature):
        initialise(layer, generator)
    H, Z = torch.randn(3, 6, 4, 4, generator=generator), torch.randn(3, 10, generator=generator)
    whole = torch.nn.functional.conv2d(H, to_feature.weight)
    drawn = torch.nn.functional.conv_transpose2d(Z[:, :, None, None], from_feature.weight)
    assert torch.allclose(to_feature(H), whole.flatten(1), atol=1e-6)
    assert torch.allclose(from_feature(Z), drawn, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_give_what_they_are_given(dtype: torch.dtype, generator: torch.Generator) -> None:
    layers = nn.Sequential(FromImage(3, 4), Halve(4, 8), ToFeature(8, 10)).eval()
    initialise(layers, generator)
    features = layers(torch.rand(2, 3, 16, 16, generator=generator).to(dtype))
    assert features.dtype == dtype
    assert all(parameter.dtype == torch.float32 for parameter in layers.parameters())


def test_the_layer_next_to_the_image_leaks(generator: torch.Generator) -> None:
    layer = FromImage(1, 4)
    initialise(layer, generator)
    X = torch.rand(2, 1, 8, 8, generator=generator)
    plain = torch.nn.functional.conv2d(X, layer.weight, stride=2, padding=1)
    assert torch.allclose(layer(X), torch.where(plain > 0, plain, LEAK * plain), atol=1e-6)


@pytest.mark.parametrize("before", [False, True])
def test_float32_is_restored_as_it_was(before: bool) -> None:
    switches = torch.backends.cudnn, torch.backends.cuda.matmul
    found = [switch.allow_tf32 for switch in switches]

    def fail() -> None:
        with exact_float32():
            assert [switch.allow_tf32 for switch in switches] == [False, False]
            raise KeyError

    try:
        for switch in switches:
            switch.allow_tf32 = before
        with pytest.raises(KeyError):
            fail()
        assert [switch.allow_tf32 for switch in switches] == [before, before]
    finally:
        for switch, value in zip(switches, found):
            switch.allow_tf32 = value
